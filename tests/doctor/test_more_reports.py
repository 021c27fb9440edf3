"""Reports of the field that are about what a program does over and over, and settings that are not what was asked for."""

import lzma
import pickle

import pytest

from corpus import artifacts
from forebay.doctor import diagnose, diagnose_line, with_remedies
from forebay.sources import open_bytes
from forebay.sources.log_text import out_of_memory
from forebay.tape import parse

MIB, GIB = 2**20, 2**30


def text(*lines):
    return parse("\n".join(lines))


def test_a6_arenas_that_each_keep_their_peak_grow_in_steps_and_stop_and_are_no_leak():
    """Two arenas; every tenth request has a new largest shape until the fourth; nothing stays live."""
    lines = ["sees allocs segments beginning regions iterations"]
    held, at = {}, 0x100000000
    for n in range(200):
        arena, shape = n % 2 + 1, min(n // 20, 4)
        size = 32 << shape
        lines.append(f"t0 region_begin serve {n}")
        if held.get(arena, (0, 0))[0] < size:
            at += 0x100000000
            held[arena] = (size, at)
            lines.append(f"t0 s{arena} reserve {size}M @{at:#x}")
        lines.append(f"t0 s{arena} alloc B{n} {size}M @{held[arena][1]:#x} requested={size}M")
        lines += [f"t0 s{arena} free B{n}", f"t0 region_end serve {n}"]
    assert diagnose(text(*lines)).findings == ()


@pytest.mark.parametrize(("threshold", "verdict"), [(0, "driver-churn"), (1 << 40, None)])
def test_b8_a_release_threshold_of_zero_goes_to_the_driver_in_every_round(threshold, verdict):
    lines = ["sees allocs segments beginning regions iterations syncs"]
    for n in range(20):
        lines.append(f"t0 region_begin query {n}")
        if threshold == 0 or n == 0:
            lines.append("t0 s1 reserve 64M @0x100000000")
        lines += [f"t0 s1 alloc B{n} 60M @0x100000000 requested=60M", f"t0 s1 free B{n}", "t0 sync_stream s1"]
        if threshold == 0:
            lines.append("t0 s1 release 64M @0x100000000")
        lines.append(f"t0 region_end query {n}")
    found = diagnose(text(*lines))
    assert found.verdict == verdict
    if verdict is not None:
        assert found.findings[0].evidence == {"rounds": 10, "calls": 20}  # of the later half


def test_d8_what_record_stream_costs_is_priced_against_frees_that_do_not_wait():
    """Each layer's buffer of 40 MiB is lent to a collective that the host sees complete eight layers later."""
    lines, segment = ["sees allocs segments reclaims sites ooms beginning"], 0x100000000
    for n in range(60):
        at = segment + (n % 9) * 0x10000000
        if n >= 9:
            lines.append(f"t0 s1 reclaim T{n - 9}")
        if n < 9:
            lines.append(f"t0 s1 reserve 40M @{at:#x} at fsdp.py:7 layer")
        lines += [f"t0 s1 alloc T{n} 40M @{at:#x} requested=40M at fsdp.py:7 layer", f"t0 s1 free T{n} at fsdp.py:9 layer"]
    tape = text(*lines)
    found = diagnose(tape)
    assert (found.verdict, found.findings[0].evidence["pending_bytes"]) == ("deferred-frees", 8 * 40 * MIB)  # the ninth is live
    (finding, *_) = with_remedies(found, tape).findings
    remedies = {remedy["name"]: remedy for remedy in finding.evidence["remedies"]}
    cure = remedies["recorded, frees do not wait"]
    assert (cure["before_bytes"], cure["after_bytes"], cure["helps"]) == (9 * 40 * MIB, 40 * MIB, True)
    assert finding.remedy.startswith("1. recorded, frees do not wait: 40 MiB reserved at the peak instead of 360 MiB")


def test_e9_executables_of_graphs_are_outside_of_the_pools():
    """0.31 GiB reserved, and 8.6 GiB of the card used by the process."""
    line = (
        "CUDA out of memory. Tried to allocate 512.00 MiB. GPU 0 has a total capacity of 8.80 GiB of which 200.00 MiB is free. Including "
        "non-PyTorch memory, this process has 8.60 GiB memory in use. Of the allocated memory 225.28 MiB is allocated by PyTorch, and "
        "92.16 MiB is reserved by PyTorch but unallocated."
    )
    found = diagnose_line(out_of_memory(line))
    assert found.verdict == "outside-allocator"
    assert found.ledger["outside_pools"] == pytest.approx(8.29 * GIB, abs=0.01 * GIB)
    assert found.findings[0].evidence["outside_pools_bytes"] == pytest.approx(8.29 * GIB, abs=0.01 * GIB)


@pytest.mark.parametrize(
    ("line", "asks"),
    [
        (
            "RMM failure at:<path>/pool_memory_resource.hpp:196: Maximum pool size exceeded",
            "a request of unknown size was refused",
        ),
        (
            "bfc_arena.cc:342 AllocateRawInternal Available memory of 1024 is smaller than requested bytes of 4194304",
            "4 MiB were refused",
        ),
    ],
)
def test_a_limit_that_gives_no_figure_is_a_limit_all_the_same(line, asks):
    found = diagnose_line(out_of_memory(f"MemoryError: std::bad_alloc: out_of_memory: {line}" if "RMM" in line else line))
    assert (found.verdict, found.findings[0].certainty) == ("capped-oom", "possible")
    assert found.findings[0].message == f"{asks} by a limit that the record does not state"


@pytest.mark.parametrize("path", artifacts("incidents", "steady_healthy-1.pickle.xz"), ids=lambda path: path.name)
@pytest.mark.parametrize(
    ("asks", "says"), [("expandable_segments:True", "expandable_segments"), ("max_split_size_mb:64", "max_split_size_mb")]
)
def test_b3_a_setting_that_is_asked_for_and_not_in_force_is_told(path, asks, says):
    data = pickle.loads(lzma.decompress(path.read_bytes()))
    assert diagnose(open_bytes("as recorded", pickle.dumps(data))).findings == ()
    data["allocator_settings"]["PYTORCH_CUDA_ALLOC_CONF"] = asks
    found = diagnose(open_bytes("asked", pickle.dumps(data)))
    (finding,) = found.findings
    assert (found.verdict, finding.name, finding.severity, finding.certainty) == (
        None,
        "allocator-settings",
        "warning",
        "possible",
    )
    assert finding.evidence == {"ignored": [says]}
