from __future__ import annotations

import pytest
from click.testing import CliRunner

from forebay.cli.demo import command
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


def test_an_unknown_fault_is_a_usage_error(tmp_path):
    result = CliRunner().invoke(command, ["--out", str(tmp_path), "--break", "everything"])
    assert result.exit_code == 2
    assert not list(tmp_path.iterdir())
