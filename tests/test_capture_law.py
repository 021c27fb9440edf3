"""The laws in words against what an H200 answered to the calls behind them (benchmarks/results/calls-h200.json)."""

import json
from itertools import product
from pathlib import Path

import pytest

from forebay import capture_law as law

RESULTS = Path(__file__).resolve().parents[1] / "benchmarks/results"
CASES = {f"{c['call']} {c['on']}".strip(): c["captures"] for c in json.loads((RESULTS / "calls-h200.json").read_text())["cases"]}
BEHIND = {
    law.UNSAFE: [
        "cuMemAlloc",
        "cuMemFree",
        "cuMemHostAlloc",
        "cuStreamSynchronize other",
        "cuEventQuery outside",
        "cuGraphExecDestroy",
    ],
    law.STREAM: ["cuStreamSynchronize capturing", "cuStreamQuery capturing"],
    law.EVENT: ["cuEventQuery captured", "cuEventSynchronize captured"],
    law.DEVICE: ["cuCtxSynchronize"],
    law.OUTSIDE: ["cuStreamWaitEvent capturing, event outside"],
    law.NEVER: ["cuGraphLaunch capturing"],
}


def measured(case: str, mode: str, thread: str) -> int:
    """What the call answered while a non-blocking stream captured."""
    for outcome, states in CASES[case].items():
        if states == ["all"] or f"nonblocking {mode} {thread}" in states:
            return int(outcome.split()[0])
    raise AssertionError(case)


@pytest.mark.parametrize(
    ("rule", "case"),
    [(rule, case) for rule, cases in BEHIND.items() for case in cases],
    ids=lambda given: getattr(given, "name", given),
)
def test_a_law_says_what_was_measured(rule, case):
    for mode, thread in product(law.CAPTURE_MODES, ("same", "other")):
        assert measured(case, mode, thread) == rule.status * law.breaks(rule, mode, own=thread == "same")


def test_the_legacy_streams_law_is_that_of_a_blocking_capture():
    assert CASES["cudaLaunchKernel legacy"]["906 901"] == [
        f"blocking {mode} {thread}" for mode in law.CAPTURE_MODES for thread in ("same", "other")
    ]
    assert law.LEGACY.status == 906


def test_ends_say_their_own_status_and_other_modes_are_none():
    assert {status: end.status for status, end in law.ENDS.items()} == {status: status for status in range(900, 909)}
    assert {900, 902, 905, 906, 907} <= law.INVALIDATING
    with pytest.raises(KeyError):
        law.breaks(law.UNSAFE, "strict", own=True)
