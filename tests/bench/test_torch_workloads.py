"""PyTorch's workloads in turns: who works when, what is counted, and what is told of a process that computes something else or dies. The
processes are stand-ins that answer as the real ones do."""

import argparse
import importlib
import json
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"

STAND_IN = """
import json, pathlib, sys
setting, log = sys.argv[2], pathlib.Path({log!r})
def say(what): print(json.dumps(what), flush=True)
print("much to complain about " * 10000, file=sys.stderr)
say({{"ready": "a model", "torch": "2.11"}})
rounds = 0
for line in sys.stdin:
    with log.open("a") as out: out.write(setting + " " + line)
    if line.strip() == "end":
        say({{"digest": "other" if setting == "forebay" else "same", "peak_reserved_bytes": 2**20, "driver_allocs": 3, "driver_frees": 1}})
        break
    rounds += 1
    if setting == "max_split_size_mb" and rounds == 2: sys.exit("no memory left")
    say({{"seconds": 100.0 if rounds == 1 else (0.5 if setting == "forebay" else 1.0) * rounds}})
"""


@pytest.fixture
def workloads(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    yield importlib.import_module("torch_workloads")
    for name in ("torch_workloads", "torch_workloads_program"):
        sys.modules.pop(name, None)


@pytest.fixture
def compared(workloads, monkeypatch, tmp_path):
    program = tmp_path / "stand_in.py"
    program.write_text(STAND_IN.format(log=str(tmp_path / "log")))
    monkeypatch.setattr(workloads, "PROGRAM", program)
    settings = ["default", "default, again", "max_split_size_mb", "forebay"]
    result = workloads.compare("train", argparse.Namespace(settings=settings, rounds=3, device="cpu", small=True))
    return result, (tmp_path / "log").read_text().splitlines()


def test_the_order_moves_on_by_one_a_round(compared):
    """Four settings and four rounds, the first of which is not counted; the third setting dies in its second round."""
    _, log = compared
    a, b, c, d = "default", "default, again", "max_split_size_mb", "forebay"
    order = [[a, b, c, d], [b, c, d, a], [d, a, b], [d, a, b]]
    assert [line.removesuffix(" round") for line in log if line.endswith("round")] == [name for turn in order for name in turn]


def test_the_first_round_is_not_counted_and_the_median_is_told(compared):
    """4 steps a round of 2, 3 and 4 seconds: 2, 1.333 and 1 steps a second; forebay's twice as many."""
    rows = {row["setting"]: row for row in compared[0]["rows"]}
    told = rows["default"]
    assert (told["steps_per_s"], told["least"], told["most"], told["speed_to_default"]) == (1.333, 1.0, 2.0, 1.0)
    assert rows["forebay"]["steps_per_s"] == 2.667
    assert rows["forebay"]["speed_to_default"] == pytest.approx(2, abs=1e-3)
    assert compared[0]["steps"] == 16


def test_other_numbers_are_told_and_so_is_a_process_that_died(compared, workloads):
    rows = {row["setting"]: row for row in compared[0]["rows"]}
    assert {name: row.get("same_numbers_as_default") for name, row in rows.items()} == {
        "default": True,
        "default, again": True,
        "max_split_size_mb": None,
        "forebay": False,
    }
    assert rows["max_split_size_mb"]["failed"] == "no memory left"
    text = workloads.shown(compared[0])
    assert text.count("OTHER NUMBERS") == 1
    assert "max_split_size_mb              failed: no memory left" in text


def test_a_workload_that_there_is_not_is_refused(workloads, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["torch_workloads.py", "chess"])
    with pytest.raises(SystemExit) as left:
        workloads.main()
    assert left.value.code == 2
    assert "no workload chess: there are serve, train, resnet" in capsys.readouterr().err


def test_committed_figures_are_of_every_setting(workloads):
    """And of the same numbers as PyTorch's own."""
    result = json.loads((BENCHMARKS / "results/torch_workloads-h200.json").read_text())
    for workload in result["workloads"]:
        assert [row["setting"] for row in workload["rows"]] == workloads.SETTINGS
        assert {row["same_numbers_as_default"] for row in workload["rows"]} == {True}
