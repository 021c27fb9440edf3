"""What is said beside a verdict: a cap whose raising would help, parts that exceed the whole, and a rule of thumb that is not decided."""

from io import StringIO

from rich.console import Console

from forebay.doctor import diagnose, examined
from forebay.report.doctor_text import doctor
from forebay.sources.log_text import read

GIB = 2**30
LINE = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of {total} of which {free} is "
    "free. {allowed}Of the allocated memory {live} is allocated by PyTorch, and {idle} is reserved by PyTorch but unallocated."
)


def tape(total, free, live, idle, allowed=""):
    return read(LINE.format(total=total, free=free, live=live, idle=idle, allowed=allowed).encode())


def shown(of):
    out = StringIO()
    Console(file=out, width=400).print(doctor([examined("log", of)]))
    return out.getvalue()


def test_a_stated_cap_below_a_card_with_room_is_to_be_raised():
    found = diagnose(tape("139.80 GiB", "120.00 GiB", "12.00 GiB", "7.00 GiB", "20.00 GiB allowed; "))
    assert [(f.name, f.certainty) for f in found.findings][:2] == [
        ("checkerboard-fragmentation", "possible"),
        ("capped-oom", "certain"),
    ]
    assert "or raise torch.cuda.set_per_process_memory_fraction" in found.findings[0].remedy


def test_a_cap_on_a_card_that_is_full_is_not():
    found = diagnose(tape("24.00 GiB", "0 bytes", "12.00 GiB", "7.00 GiB", "20.00 GiB allowed; "))
    assert "raise" not in found.findings[0].remedy


def test_parts_beyond_the_whole_are_said_to_be():
    of = tape("15.99 GiB", "0 bytes", "29.00 GiB", "1.00 GiB")
    found = diagnose(of)
    assert found.verdict == "oversubscribed"
    assert found.ledger["beyond_the_card"] == 30 * GIB - found.ledger["used"]  # 29 + 1 against 15.99
    assert "15.99 GiB of the card: " in shown(of)
    assert "; 14.01 GiB of that is more than the card holds in use" in shown(of)


def test_parts_that_sum_are_not():
    of = tape("15.99 GiB", "1.00 GiB", "13.00 GiB", "1.00 GiB")
    assert "beyond_the_card" not in diagnose(of).ledger
    assert "more than the card" not in shown(of)


def test_the_rule_of_70_percent_is_judged_only_where_the_verdict_is_certain():
    sentinel = diagnose(tape("79.15 GiB", "17179869184.00 GiB", "20.00 GiB", "40.00 GiB"))
    assert sentinel.findings[0].certainty == "possible"
    assert sentinel.why[1] == (
        "in use are 33% of reserved: the rule of 70 % says fragmentation; whether that holds cannot be told here"
    )
    full = diagnose(tape("79.15 GiB", "1.00 GiB", "77.00 GiB", "1.00 GiB"))
    assert full.findings[0].certainty == "certain"
    assert full.why[1].endswith("says no fragmentation, which holds here")
