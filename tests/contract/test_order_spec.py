"""The `[order]` table against what ran, a drawing each; verdicts worked out by hand."""

from pathlib import Path

import pytest

from forebay.contract import Contract, check
from forebay.contract.order_draft import draft
from forebay.contract.order_spec import read_entry
from forebay.finding import Finding
from forebay.tape import parse

TAPES = Path(__file__).parent.parent / "tapes"
TWO = "stream copy nonblocking\nstream compute nonblocking\n"
BEFORE, OVERLAP = "copy.h2d -> compute.attention", "copy.store | compute.mlp"


def broken(text: str, entry: str, regions: dict[str, tuple[str, ...]] | None = None) -> list[Finding]:
    contract = Contract((read_entry("before" if "->" in entry else "overlap", entry),), regions or {})
    return [finding for finding in check(parse(text), contract).findings if finding.name == "order"]


def verdicts(text: str, entry: str) -> list[tuple[str, list[int]]]:
    return [(finding.certainty, finding.events) for finding in broken(text, entry)]


@pytest.mark.parametrize(
    ("middle", "verdict"),
    [
        ("t0 copy record e\nt0 compute wait e", []),
        ("t0 copy sync_stream", []),
        ("t0 copy record e\nt0 sync_event e", []),
        ("t0 sync_device device=0", []),
        ("", [("certain", [0, 1])]),
        ("t0 compute record e\nt0 copy wait e", [("certain", [0, 3])]),
        ("t0 copy record e\nt0 query e", [("certain", [0, 3])]),
        ("t0 gap", [("possible", [0, 2])]),
        ("t0 compute wait e ref=-", [("possible", [0, 2])]),
    ],
)
def test_only_an_edge_orders(middle, verdict):
    assert verdicts(f"{TWO}t0 copy copy h2d 1M\n{middle}\nt0 compute launch attention", BEFORE) == verdict


def test_the_last_piece_of_each_stream_that_was_issued_before_is_asked_about():
    text = "t0 c1 copy h2d 1M\nt0 c2 copy h2d 1M\nt0 c2 record e\nt0 s wait e\nt0 s launch attention"
    assert verdicts("stream c1 nonblocking\nstream c2 nonblocking\nstream s nonblocking\n" + text, "c?.h2d -> s.*") == [
        ("certain", [0, 4])
    ]


def test_a_missing_edge_is_told_in_words_with_both_rows():
    (finding,) = broken(f"{TWO}t0 copy copy h2d 1M\nt0 compute launch attention", BEFORE)
    assert finding.message.startswith(f"`{BEFORE}`: nothing orders copy h2d on `copy` (row 0)")
    assert finding.remedy == "record on `copy` after copy h2d (row 0), wait on `compute` before launch attention (row 1)"


def test_the_rehearsed_iteration_that_lost_its_edge_is_the_one_named():
    (finding,) = broken((TAPES / "rules" / "order.tape").read_text(encoding="utf-8"), BEFORE)
    assert (finding.certainty, finding.events) == ("possible", [7, 8])  # possible: that tape shows no syncs


def test_work_between_two_edges_may_overlap():
    assert verdicts(f"{TWO}t0 copy launch store\nt0 compute launch mlp", OVERLAP) == []


def test_one_free_piece_in_the_step_is_enough():
    text = "t0 compute launch mlp\nt0 compute record e\nt0 copy wait e\nt0 copy launch store\nt0 compute launch mlp"
    assert verdicts(TWO + text, OVERLAP) == []


def test_an_extra_wait_destroys_overlap_and_is_named():
    text = "t0 copy launch store\nt0 copy record e\nt0 compute wait e at s.py:6 f\nt0 compute launch mlp"
    (finding,) = broken(TWO + text, OVERLAP)
    assert (finding.certainty, finding.events, finding.sites[0].line) == ("certain", [0, 3, 2], 6)
    assert finding.remedy.startswith("take out wait on `compute` at s.py:6")


def test_the_legacy_stream_destroys_overlap_and_is_named():
    text = "stream L legacy\nstream copy blocking\nt0 copy launch store\nt0 L launch mlp"
    (finding,) = broken(text, "copy.store | L.mlp")
    assert (finding.certainty, finding.events) == ("certain", [0, 1])
    assert "in between stands the legacy default stream" in finding.message
    assert broken(text.replace("copy blocking", "copy nonblocking"), "copy.store | L.mlp") == []


def test_a_name_that_nothing_has_is_a_finding_with_the_closest_names():
    (finding,) = broken(f"{TWO}t0 copy copy h2d 1M\nt0 compute launch atention", BEFORE)
    assert (finding.certainty, finding.events) == ("certain", [])
    assert "no work that ran is called compute.attention" in finding.message
    assert "compute.atention" in finding.remedy


def test_a_pair_that_never_meets_is_a_finding():
    (finding,) = broken(f"{TWO}t0 compute launch attention\nt0 copy copy h2d 1M", BEFORE)
    assert "no compute.attention was issued after a copy.h2d" in finding.message


def test_only_work_inside_the_region_counts():
    race = "t0 copy copy h2d 1M\nt0 compute launch attention\n"
    fine = "t0 region_begin step 1\nt0 copy copy h2d 1M\nt0 copy sync_stream\nt0 compute launch attention\nt0 region_end step 1"
    assert broken(TWO + race + fine, f"{BEFORE} in decode", {"decode": ("st*",)}) == []
    assert len(broken(TWO + race + fine, BEFORE)) == 1


def test_a_first_table_holds_the_edge_and_the_overlap_of_the_run():
    text = """t0 copy copy h2d 1M
              t0 copy record e
              t0 compute wait e
              t0 compute launch attention
              t0 copy launch store
              t0 compute launch mlp"""
    entries = [str(entry) for entry in draft(parse(TWO + text))]
    assert entries[0] == "copy.h2d -> compute.attention"
    assert entries.count("compute.mlp | copy.*") <= 1
    assert not [f for entry in entries for f in broken(TWO + text, entry)]


@pytest.mark.parametrize("path", sorted(TAPES.glob("*/*.tape")), ids=lambda path: path.stem)
def test_a_run_keeps_the_table_that_was_written_from_it(path):
    tape = parse(path.read_text(encoding="utf-8"))
    contract = Contract(tuple(draft(tape)))
    assert [finding for finding in check(tape, contract).findings if finding.name == "order"] == []
