"""Each planted fault: what the rules say of a run in which nothing went wrong, and the schedule under which it goes wrong.

FOREBAY_STRESS=1 runs the servers that are only slow under all 200 schedules."""

from __future__ import annotations

import os

import pytest

from forebay.contract import RULES, check
from forebay.demo import faults
from forebay.demo.captured import CapturedEngine
from forebay.demo.engine import Engine
from forebay.demo.faults import DOCTOR, FAULTS
from forebay.demo.server import Served, serve
from forebay.demo.shown import REQUESTS, shown
from forebay.doctor import INCIDENTS
from forebay.finding import Finding
from forebay.runtime import Schedule, recording
from forebay.tape import Kind, Tape

FIFO = Schedule()
SCHEDULES = 200 if os.environ.get("FOREBAY_STRESS") else 20
RACES = ("missing-wait", "cross-stream-use-after-free")
SLOW = ("legacy-stream", "extra-edge")


def judged(engine: type[Engine]) -> tuple[Served, list]:
    with recording() as run:
        served = serve(1, requests=8, engine=engine, schedule=FIFO)
    return served, [finding for finding in check(run.tape).findings if finding.certainty == "certain"]


def lines_with(text: str) -> list[int]:
    """The lines of faults.py that hold a text."""
    with open(faults.__file__) as file:
        return [number for number, line in enumerate(file, 1) if text in line]


def planted_at(finding: Finding) -> list[int]:
    """The lines of faults.py that a finding names."""
    return [site.line for site in finding.sites if site.file == faults.__file__]


def names_of(tape: Tape) -> list[str]:
    """What each launch is called."""
    return [tape.sides.strings[index] for index in tape.columns["name"][tape.where(Kind.launch)]]


@pytest.mark.parametrize("engine", [Engine, CapturedEngine])
def test_the_plain_demo_breaks_no_rule_and_has_no_needless_edge(engine):
    served, certain = judged(engine)
    assert (served.wrong, certain) == ([], [])


@pytest.mark.parametrize("name", RACES)
def test_a_race_gives_the_right_tokens_by_virtual_time_and_is_convicted_all_the_same(name):
    served, certain = judged(FAULTS[name].engine)
    assert served.wrong == []
    assert [finding.name for finding in certain] == [FAULTS[name].rule]


def test_the_finding_of_a_free_names_the_line_that_planted_it():
    _, (finding,) = judged(FAULTS["cross-stream-use-after-free"].engine)
    assert planted_at(finding) == lines_with("free_address(logits")


def test_the_finding_of_a_missing_wait_names_the_launch_that_should_have_waited():
    _, (finding,) = judged(FAULTS["missing-wait"].engine)
    assert planted_at(finding) == lines_with("embed, reads, [x], name=")


@pytest.mark.parametrize("name", SLOW)
def test_a_lost_overlap_is_found_as_its_rule_and_as_nothing_else(name):
    served, certain = judged(FAULTS[name].engine)
    assert served.wrong == []
    assert {finding.name for finding in certain} == {FAULTS[name].rule}


def test_each_copy_of_a_prompt_and_of_a_steps_tokens_is_counted_on_the_legacy_stream():
    """By hand: 40 requests have a prompt each to go up; what goes down is a batch of tokens a prefill and a decode step."""
    with recording() as run:
        served = serve(1, engine=FAULTS["legacy-stream"].engine, schedule=FIFO)
    batches = len(run.tape.where(Kind.launch)[[name == "sample" for name in names_of(run.tape)]])
    times = sorted(finding.evidence["times"] for finding in check(run.tape).findings)
    assert (len(served.expected), times) == (40, [40, batches])


@pytest.mark.parametrize("name", SLOW)
def test_a_lost_overlap_costs_throughput_on_every_seed(name):
    """Virtual time is exact: the work is the plain run's, so what is lost is overlap."""
    for seed in (1, 2):
        plain, broken = (serve(seed, 12, engine=engine, schedule=FIFO) for engine in (CapturedEngine, FAULTS[name].engine))
        assert broken.tokens == plain.tokens
        assert 0.9 < broken.tokens_per_s / plain.tokens_per_s < 0.998


@pytest.mark.parametrize("name", SLOW)
def test_the_tokens_of_a_slow_server_are_right_under_every_schedule(name):
    found = shown(FAULTS[name], 1, SCHEDULES)
    assert (found.schedule, found.tried, found.races) == (None, SCHEDULES, ())
    assert found.expected == serve(1, REQUESTS, schedule=FIFO).expected


@pytest.mark.parametrize("name", RACES)
def test_a_search_finds_the_schedule_that_changes_the_tokens(name):
    found = shown(FAULTS[name], 1)
    assert found.schedule is not None
    assert found.tried <= 200
    assert found.expected == serve(1, REQUESTS, schedule=FIFO).expected
    again = serve(1, REQUESTS, engine=FAULTS[name].engine, schedule=Schedule.parse(str(found.schedule)))
    assert again.tokens == found.answer != found.expected


def test_the_table_names_rules_of_the_contract():
    assert {fault.rule for fault in FAULTS.values() if fault.rule is not None} <= {*RULES}
    assert {fault.incident for fault in FAULTS.values() if fault.caught_by == DOCTOR} <= {incident.name for incident in INCIDENTS}
    assert all(name == fault.name for name, fault in FAULTS.items())
    assert all(RULES[fault.rule].prevents == fault.incident for fault in FAULTS.values() if fault.rule in RULES)
