"""Calibration: recordings replayed under their own settings, and what tapes say of caps and of empty_cache."""

import json
from pathlib import Path

import pytest

from corpus import artifacts
from forebay.sources import open_artifact
from forebay.tape import parse
from forebay.units import size
from forebay.whatif.calibrate import calibrate
from forebay.whatif.pytorch_policy import asked, replayed

MIB = 2**20
RECORDINGS = [path for path in artifacts("recordings", "*.pickle.xz") if "truncated" not in path.name]
INCIDENTS = artifacts("incidents", "*.pickle.xz")


def truth(path: Path) -> dict:
    return json.loads(path.with_name(path.name.removesuffix(".pickle.xz") + ".json").read_text())


@pytest.mark.parametrize("path", RECORDINGS + INCIDENTS, ids=lambda path: path.name.removesuffix(".pickle.xz"))
def test_a_recording_under_its_own_settings_comes_out_as_recorded(path):
    found, told = calibrate(open_artifact(path)), truth(path)
    assert (found.exact, found.first_divergence, found.why) == (True, None, "")
    stats = told["stats"]
    assert found.outcome.peak_reserved == stats["reserved_bytes.all.peak"]
    assert found.outcome.peak_allocated == stats["allocated_bytes.all.peak"]
    assert found.outcome.driver_allocs == stats["num_device_alloc"]
    assert (found.outcome.oom is not None) == (told["oom"] is not None)
    if cap := told.get("cap_mb"):
        assert found.cap_range is None or found.cap_range[0] <= cap * MIB <= found.cap_range[1]


def predictions():
    for before in RECORDINGS:
        if before.name in ("train-default.pickle.xz", "mixed-default.pickle.xz"):
            workload = before.name.split("-")[0]
            yield from ((before, after) for after in RECORDINGS if after.name.startswith(workload))


@pytest.mark.parametrize(("before", "after"), list(predictions()), ids=lambda path: path.name.removesuffix(".pickle.xz"))
def test_one_recording_predicts_the_other_settings_to_the_byte(before, after):
    told = truth(after)
    found = calibrate(open_artifact(before))
    [row] = replayed([found], asked([found], [told["conf"]], [told["cap_mb"] * MIB or None]))
    assert row.peak_reserved_bytes == told["stats"]["reserved_bytes.all.peak"], size(row.peak_reserved_bytes)
    assert row.peak_allocated_bytes == told["stats"]["allocated_bytes.all.peak"]
    assert (row.driver_allocs, row.driver_frees) == (told["stats"]["num_device_alloc"], told["stats"].get("num_device_free", 0))
    assert row.oom == (told["oom"] is not None)
    assert row.spread_high - row.spread_low <= 0.02 * row.peak_reserved_bytes


def orders_from_the_start(workload):
    """Recordings that show no segment of their own, and what the others of their workload measured."""
    growing = [p for p in RECORDINGS if p.name == f"{workload}-expandable_segments_True.pickle.xz"]
    return [(before, after) for before in growing for after in RECORDINGS if after.name.startswith(workload)]


@pytest.mark.parametrize(
    ("before", "after"),
    [*orders_from_the_start("train"), *orders_from_the_start("mixed")],
    ids=lambda path: path.name.removesuffix(".pickle.xz"),
)
def test_where_no_segment_was_recorded_the_truth_is_within_the_spread(before, after):
    told = truth(after)
    found = calibrate(open_artifact(before))
    [row] = replayed([found], asked([found], [told["conf"]], [told["cap_mb"] * MIB or None]))
    assert row.spread_low <= told["stats"]["reserved_bytes.all.peak"] <= row.spread_high
    assert row.spread_high - row.spread_low <= 0.02 * row.peak_reserved_bytes
    assert row.oom == (told["oom"] is not None)


CAPPED = """
sees allocs segments sites ooms beginning
provenance settings {}
t0 s1 reserve 40M @0x100000000 at a.py:1 f
t0 s1 alloc A 40M @0x100000000 requested=40M at a.py:1 f
t0 s1 free A at a.py:1 f
t0 s1 release 40M @0x100000000 at a.py:2 g
t0 s1 reserve 60M @0x200000000 at a.py:2 g
t0 s1 alloc B 60M @0x200000000 requested=60M at a.py:2 g
"""


def test_a_request_that_gave_memory_back_bounds_the_cap():
    found = calibrate(parse(CAPPED))
    assert (found.exact, found.why) == (True, "")
    assert found.cap_range == (60 * MIB, 100 * MIB - 1)


def test_memory_given_back_under_another_stack_was_empty_cache():
    found = calibrate(
        parse(CAPPED.replace("release 40M @0x100000000 at a.py:2 g", "release 40M @0x100000000 at cuda.py:9 empty_cache"))
    )
    assert (found.exact, found.cap) == (True, None)
    assert found.outcome.driver_frees == 1


def test_without_stacks_a_cap_given_tells_a_retry_from_empty_cache():
    tape = parse(CAPPED.replace("sites ", "").replace(" at a.py:1 f", "").replace(" at a.py:2 g", ""))
    assert calibrate(tape).outcome.retries == 0
    assert calibrate(tape, cap=80 * MIB).outcome.retries == 1


def test_the_first_divergence_is_named():
    wrong = CAPPED.replace("reserve 60M", "reserve 62M")
    found = calibrate(parse(wrong))
    assert (found.exact, found.first_divergence) == (False, 4)
    assert found.why == "driver call 2: recorded alloc of 62 MiB, emulated alloc of 60 MiB"


def test_a_block_elsewhere_is_a_divergence():
    found = calibrate(parse(CAPPED.replace("alloc B 60M @0x200000000", "alloc B 60M @0x200100000")))
    assert (found.exact, found.first_divergence) == (False, 5)


def test_a_history_that_begins_in_mid_life_is_never_exact():
    assert not calibrate(parse(CAPPED.replace(" beginning", ""))).exact


def test_a_refusal_with_the_card_full_bounds_the_capacity_not_the_cap():
    text = """
    sees allocs segments sites ooms beginning capacity
    t0 s1 reserve 40M @0x100000000
    t0 s1 alloc A 40M @0x100000000 requested=40M
    t0 capacity device_free 6M
    t0 s1 oom 20M
    """
    found = calibrate(parse(text))
    assert (found.cap, found.capacity, found.exact) == (None, 46 * MIB, True)
