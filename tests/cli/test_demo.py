from __future__ import annotations

import json
import re
import shlex

import pytest
from click.testing import CliRunner

from forebay.cli import demo
from forebay.cli.check import command as check
from forebay.cli.demo import command
from forebay.demo import faults
from forebay.errors import BadInput
from forebay.tape.file import read


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    out = tmp_path_factory.mktemp("demo")
    return out, CliRunner().invoke(command, ["--out", str(out)])


def test_it_serves_five_seeds_and_ends_well(run):
    _, result = run
    assert result.exit_code == 0, result.output
    assert result.output.count("  equal\n") == 5
    assert "tokens equal to the reference for 5 seeds; no driver call in the steady state" in result.output


def test_it_prints_each_pool_and_each_fault(run):
    _, result = run
    for words in ("weights", "activations", "kv", "staging", "driver-memory-call", "unordered-access", "caught by"):
        assert words in result.output


def test_the_tape_opens(run):
    out, result = run
    (tape,) = out.iterdir()
    assert str(tape) in result.output
    assert len(read(tape)) > 1000


def test_a_broken_rule_is_told_and_ends_with_one(tmp_path):
    result = CliRunner().invoke(command, ["--out", str(tmp_path), "--break", "missing-wait"])
    assert result.exit_code == 1
    assert "with missing-wait broken on purpose: tokens that differ from the reference's" in result.output


@pytest.mark.parametrize(
    ("hold", "says"),
    [("zzz#99", "none has that name"), ("sample#9999", "there were "), ("smaple#0", "there are sample")],
)
def test_a_schedule_that_holds_what_never_runs_is_refused(hold, says, tmp_path):
    result = CliRunner().invoke(command, ["--out", str(tmp_path), "--requests", "4", "--schedule", f"hold {hold}"])
    assert isinstance(result.exception, BadInput)
    assert f"--schedule: {hold} never ran in the first seed" in str(result.exception)
    assert says in str(result.exception)


@pytest.fixture
def one_seed(monkeypatch):
    monkeypatch.setattr(demo, "SEEDS", 1)


def told(out, *options):
    return CliRunner().invoke(command, ["--out", str(out), "--requests", "12", *options])


def checked(out):
    """Exit status, and rule, certainty and planted lines of each finding of the run's tape."""
    result = CliRunner().invoke(check, [str(out / "demo.tape.arrows"), "--format", "json"])
    findings = json.loads(result.output)["findings"]
    lines = [[site["line"] for site in finding["sites"] if site["file"] == faults.__file__] for finding in findings]
    return result.exit_code, [(finding["name"], finding["certainty"], *at) for finding, at in zip(findings, lines, strict=True)]


def line_with(text):
    with open(faults.__file__) as file:
        (line,) = [number for number, line in enumerate(file, 1) if text in line]
    return line


def test_the_plain_demo_passes_its_check_with_no_needless_edge(run):
    out, _ = run
    assert checked(out) == (0, [])


@pytest.mark.parametrize(
    ("fault", "rule", "planted"),
    [
        ("missing-wait", "unordered-access", "embed, reads, [x], name="),
        ("cross-stream-use-after-free", "unordered-free", "free_address(logits"),
    ],
)
def test_check_convicts_a_planted_race_with_its_line_and_the_demo_shows_it_every_time(tmp_path, one_seed, fault, rule, planted):
    result = told(tmp_path, "--break", fault)
    assert checked(tmp_path) == (1, [(rule, "certain", line_with(planted))])
    assert "4 requests of seed 1 get the right tokens by virtual time and wrong ones, every time, by\n" in result.output
    (line,) = re.findall(r"^  forebay demo (--break .*)$", result.output, re.MULTILINE)
    again = CliRunner().invoke(command, ["--out", str(tmp_path), *shlex.split(line)])
    assert again.exit_code == 1
    assert "of 4 requests differ" in again.output


@pytest.mark.parametrize(
    ("fault", "status", "findings"),
    [("legacy-stream", 1, [("legacy-stream", "certain")] * 2), ("extra-edge", 0, [("needless-edge", "certain")])],
)
def test_a_fault_that_only_slows_states_the_throughput_that_is_left(tmp_path, one_seed, fault, status, findings):
    result = told(tmp_path, "--break", fault)
    found_status, found = checked(tmp_path)
    assert (found_status, [finding[:2] for finding in found]) == (status, findings)
    (share,) = re.findall(
        rf"with {fault} broken on purpose: tokens are right; throughput (0\.\d+) of the plain run's", result.output
    )
    speeds = [speed_of(result), speed_of(told(tmp_path))]
    assert float(share) == pytest.approx(speeds[0] / speeds[1], abs=0.001)


def speed_of(result):
    """Tokens a second of the one seed in the printed table."""
    return int(result.output.splitlines()[1].split()[-4].replace(",", ""))


def test_a_line_that_is_no_schedule_is_a_usage_error(tmp_path):
    result = told(tmp_path, "--schedule", "backwards")
    assert isinstance(result.exception, BadInput)
    assert str(result.exception).startswith("--schedule: no such schedule: 'backwards'")
    assert not list(tmp_path.iterdir())


def test_an_unknown_fault_is_a_usage_error(tmp_path):
    result = CliRunner().invoke(command, ["--out", str(tmp_path), "--break", "everything"])
    assert result.exit_code == 2
    assert not list(tmp_path.iterdir())
