"""Each planted fault: what the rules say of a run in which nothing went wrong, and the schedule under which it goes wrong."""

from __future__ import annotations

import pytest

from forebay.adversary import search
from forebay.contract import RULES, check
from forebay.demo import faults
from forebay.demo.engine import Engine
from forebay.demo.faults import DOCTOR, FAULTS
from forebay.demo.server import Served, serve
from forebay.doctor import INCIDENTS
from forebay.runtime import Schedule, SimDevice, recording

FIFO = Schedule()
RACES = ("missing-wait", "cross-stream-use-after-free")
SLOW = ("legacy-stream", "extra-edge")


def judged(engine: type[Engine]) -> tuple[Served, list]:
    with recording() as run:
        served = serve(1, requests=8, engine=engine, schedule=FIFO)
    return served, [finding for finding in check(run.tape).findings if finding.certainty == "certain"]


def test_the_plain_demo_breaks_no_rule_and_has_no_needless_edge():
    served, certain = judged(Engine)
    assert (served.wrong, certain) == ([], [])


@pytest.mark.parametrize("name", RACES)
def test_a_race_gives_the_right_tokens_by_virtual_time_and_is_convicted_all_the_same(name):
    served, certain = judged(FAULTS[name].engine)
    assert served.wrong == []
    assert [finding.name for finding in certain] == [FAULTS[name].rule]


def test_the_finding_of_a_free_names_the_line_that_planted_it():
    _, (finding,) = judged(FAULTS["cross-stream-use-after-free"].engine)
    with open(faults.__file__) as file:
        planted = [number for number, line in enumerate(file, 1) if "free_address(logits" in line]
    assert [site.line for site in finding.sites if site.file == faults.__file__] == planted


@pytest.mark.parametrize("name", SLOW)
def test_a_lost_overlap_is_found_where_it_was_planted_and_the_tokens_are_right(name):
    served, certain = judged(FAULTS[name].engine)
    assert served.wrong == []
    assert FAULTS[name].rule in [finding.name for finding in certain]
    assert served.virtual_ns > judged(Engine)[0].virtual_ns


@pytest.mark.parametrize("name", RACES)
def test_a_search_finds_the_schedule_that_changes_the_tokens(name):
    def tokens(schedule: Schedule) -> dict[int, list[int]]:
        return dict(serve(1, requests=4, engine=FAULTS[name].engine, schedule=schedule).tokens)

    found = search(lambda made: tokens(made.schedule), _Order)
    assert found.schedule is not None
    assert found.tried <= 200
    assert tokens(Schedule.parse(str(found.schedule))) == found.answer != found.expected


class _Order(SimDevice):
    """Stands for the device that the server makes itself."""

    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule


def test_the_table_names_rules_of_the_contract():
    assert {fault.rule for fault in FAULTS.values() if fault.rule is not None} <= {*RULES, "driver-memory-call"}
    assert {fault.incident for fault in FAULTS.values() if fault.caught_by == DOCTOR} <= {incident.name for incident in INCIDENTS}
    assert all(name == fault.name for name, fault in FAULTS.items())
    assert all(RULES[fault.rule].prevents == fault.incident for fault in FAULTS.values() if fault.rule in RULES)
