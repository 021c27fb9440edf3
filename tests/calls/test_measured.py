"""The table against what one H200 did (benchmarks/results/calls-h200.json, made by benchmarks/gpu/call_probe.cu)."""

import json
from itertools import product
from pathlib import Path

import pytest

from forebay.calls import CALLS, Condition, Place

RESULTS = Path(__file__).resolve().parents[2] / "benchmarks/results/calls-h200.json"
CASES = json.loads(RESULTS.read_text())["cases"]
STATES = [
    " ".join(words) for words in product(["nonblocking", "blocking"], ["global", "thread_local", "relaxed"], ["same", "other"])
]
INVALIDATED, IMPLICIT, ISOLATION = 901, 906, 905


def measured(case):
    """For each state of the world: the status of the call and of the capture's end."""
    for outcome, states in case["captures"].items():
        status, end = map(int, outcome.split())
        yield from ((state, status, end) for state in (STATES if states == ["all"] else states))


def expected(case, state):
    """What the table says for this state."""
    call, (capture, mode, thread) = CALLS[case["call"]], state.split()
    legacy = call.place is Place.DEFAULT or case["on"].startswith("legacy")
    if legacy and capture == "blocking":
        return IMPLICIT, 0 if "IsCapturing" in call.name else INVALIDATED
    if case["on"] == "capturing, event outside":
        return ISOLATION, INVALIDATED
    takes_part = not legacy and ("capturing" in case["on"] or case["on"] == "captured")
    law = call.inside if takes_part else call.beside
    status = law.code(mode) if thread == "same" else law.code_elsewhere(mode)
    return status, INVALIDATED if status and not law.spares else 0


def test_every_state_of_every_case_was_measured():
    assert len(CASES) >= 100
    assert [case["call"] for case in CASES if sorted(state for state, _, _ in measured(case)) != sorted(STATES)] == []


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['call']} {case['on']}".strip())
def test_a_capture_makes_of_the_call_what_the_table_says(case):
    assert [row for row in measured(case) if row[1:] != expected(case, row[0])] == []


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['call']} {case['on']}".strip())
def test_the_call_waits_for_a_kernel_elsewhere_only_if_the_table_says_device(case):
    call = CALLS[case["call"]]
    whole_device = call.waits.name == "DEVICE"
    assert case["waited"] <= whole_device
    if whole_device and call.when is Condition.ALWAYS:
        assert case["waited"]


def test_what_was_measured_to_wait_is_the_whole_list():
    waited = {case["call"] for case in CASES if case["waited"]}
    assert waited == {
        "cuMemFree",
        "cudaFree",
        "cuArrayDestroy",
        "cuMemFreeHost",
        "cudaFreeHost",
        "cuMemHostUnregister",
        "cuCtxSynchronize",
        "cudaDeviceSynchronize",
        "cuModuleLoadData",
        "cuModuleUnload",
        "cuKernelGetFunction",
    }
