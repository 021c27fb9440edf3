import json

import jsonschema
import pytest

from forebay import cli
from forebay.report.json import shipped


def bench(capsys, *arguments):
    status = cli.run(["bench", *arguments])
    told = capsys.readouterr()
    return status, told.out, told.err


def test_the_numbers_as_json_are_what_the_schema_says(capsys):
    status, out, err = bench(capsys, "numbers", "--device", "sim", "--rounds", "1", "--format", "json")
    assert (status, err) == (0, "")
    told = json.loads(out)
    jsonschema.validate(told, shipped("bench-numbers"))
    assert told["simulated"] is True
    assert {f["name"]: f["ns"] for f in told["figures"]}["launch"] == 7000


def test_the_numbers_for_people_stand_beside_the_guide_s(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "180")
    status, out, _ = bench(capsys, "--device", "sim", "--rounds", "1")
    assert status == 0
    assert "virtual clock, which goes by a table of costs: no time was measured" in out
    (line,) = [line for line in out.splitlines() if line.startswith("kernel launch")]
    assert line.split()[-8:] == ["5-10", "us", "7", "µs", "7", "µs", "7", "µs"]
    assert "a graph of a decode step saves 9" in out
    (line,) = [line for line in out.splitlines() if line.startswith("not measured: ")]
    assert line.startswith("not measured: the driver's pool")
    assert line.endswith("the driver answered: not supported")


def test_another_table_of_costs_gives_other_numbers(capsys):
    _, out, _ = bench(capsys, "--device", "sim", "--rounds", "1", "--cost", "h200", "--format", "json")
    assert {f["name"]: f["ns"] for f in json.loads(out)["figures"]}["launch"] == 3500


def test_pools_as_json_are_what_the_schema_says(capsys):
    status, out, err = bench(capsys, "pool", "--device", "sim", "--rounds", "1", "--threads", "1", "--format", "json")
    assert (status, err) == (0, "")
    told = json.loads(out)
    jsonschema.validate(told, shipped("bench-pool"))
    assert {row["threads"] for row in told["rows"]} == {1}
    assert {row["ratio"] for row in told["rows"] if row["peer"] == "forebay"} == {1.0}


def test_pools_for_people_name_who_is_not_here(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "180")
    status, out, _ = bench(capsys, "pool", "--device", "sim", "--rounds", "1", "--threads", "2")
    assert status == 0
    assert "the device is simulated, the pool's code is not" in out
    assert out.count("not here: rmm arena (this is a simulated device). To have it: a machine with a CUDA device") == 1
    (line,) = [line for line in out.splitlines() if line.startswith("malloc")]
    assert line.rstrip().endswith(" x")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--device", "cuda"], "no CUDA device"),
        (["nothing"], "'nothing' is not one of"),
        (["--rounds", "0"], "--rounds"),
        (["pool", "--threads", "0"], "--threads"),
    ],
)
def test_what_cannot_be_measured_is_said_in_one_line(capsys, arguments, said):
    status, out, err = bench(capsys, *arguments)
    assert (status, out) == (2, "")
    assert said in err
    assert err.count("\n") == 1
