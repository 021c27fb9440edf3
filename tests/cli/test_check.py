"""`forebay check`: exit status, text and JSON."""

import io
import json
import sys

import jsonschema
import pytest

from forebay.cli import run
from forebay.report.json import shipped
from forebay.tape import file, parse

RACE = "t0 s1 launch k1 w:@0+512\nt0 s2 launch k2 r:@0+512"
ORDERED = "t0 s1 launch k1 w:@0+512\nt0 s1 record e\nt0 s2 wait e\nt0 s2 launch k2 r:@0+512"
NEEDLESS = ORDERED.replace("r:@0", "r:@4096")
POSSIBLE = RACE.replace("w:", "w.hull:")


@pytest.fixture
def checked(tmp_path, capsys):
    def of(text, *options):
        file.write(parse(text), tmp_path / "a.arrow")
        status = run(["check", str(tmp_path / "a.arrow"), *options])
        return status, capsys.readouterr().out

    return of


@pytest.mark.parametrize(
    ("text", "options", "status"),
    [
        (RACE, [], 1),
        (RACE, ["--exit-zero"], 0),
        (ORDERED, [], 0),
        (POSSIBLE, [], 0),
        (NEEDLESS, [], 0),
        (NEEDLESS, ["--error-on-warning"], 1),
    ],
)
def test_only_certain_errors_fail(checked, text, options, status):
    assert checked(text, *options)[0] == status


def test_a_finding_says_what_and_what_instead(checked):
    _, out = checked(RACE)
    assert (
        "error: unordered-access (certain): launch k1 on `s1` (row 0) and launch k2 on `s2` (row 1) touch the same bytes" in out
    )
    assert "instead: record on `s1` after launch k1 (row 0), wait on `s2` before launch k2 (row 1)" in out


def test_the_json_is_as_its_schema_says(checked):
    status, out = checked(RACE, "--format", "json")
    report = json.loads(out)
    jsonschema.validate(report, shipped("report"))
    assert (status, [finding["name"] for finding in report["findings"]]) == (1, ["unordered-access"])


def test_a_run_may_come_on_standard_input(monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(RACE.encode())))
    assert run(["check", "-", "--format", "json"]) == 1
    assert [finding["name"] for finding in json.loads(capsys.readouterr().out)["findings"]] == ["unordered-access"]


def test_a_file_that_is_none_is_one_line_and_status_2(tmp_path, capsys):
    assert run(["check", str(tmp_path / "none")]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
