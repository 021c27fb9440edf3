"""Each fault of memory: what the doctor says of the tape that it leaves, and of that of the sound server."""

from __future__ import annotations

import gc

import pytest

from forebay.demo import memory_faults
from forebay.demo.engine import Engine
from forebay.demo.faults import DOCTOR, FAULTS
from forebay.demo.server import Served, serve
from forebay.doctor import Diagnosis, diagnose
from forebay.runtime import recording

MIB = 2**20
MEMORY = sorted(name for name, fault in FAULTS.items() if fault.caught_by == DOCTOR)


def examined(engine: type[Engine]) -> tuple[Served, Diagnosis]:
    gc.collect()  # what an earlier test left holds memory still, and the recording would not be that of the beginning
    with recording() as run:
        served = serve(1, requests=14, engine=engine)
    return served, diagnose(run.tape)


@pytest.fixture(scope="module")
def found() -> dict[str, tuple[Served, Diagnosis]]:
    return {name: examined(FAULTS[name].engine) for name in MEMORY}


def test_the_sound_server_is_healthy():
    served, diagnosis = examined(Engine)
    assert (served.wrong, diagnosis.verdict, diagnosis.findings, diagnosis.unseen) == ([], None, (), ())


def test_there_are_five():
    assert len(MEMORY) == 5


@pytest.mark.parametrize("name", MEMORY)
def test_a_fault_is_found_by_its_incident_and_the_tokens_are_right(name, found):
    served, diagnosis = found[name]
    assert served.wrong == []
    assert diagnosis.verdict == FAULTS[name].incident
    assert diagnosis.findings[0].certainty == "certain"


def test_the_figures_of_a_refusal_are_those_of_the_pool_that_refused(found):
    pieces = found["checkerboard-fragmentation"][1].findings[0].evidence
    # Nine scratch buffers of 1 MiB between nine records of 0.5 MiB in six segments of 2 MiB: 7.5 MiB idle, at most 1.5 together.
    assert (pieces["request_bytes"], pieces["largest_free_bytes"], pieces["reserved_bytes"]) == (5 * MIB, 3 * MIB // 2, 12 * MIB)
    full = found["capacity-oom"][1].findings[0].evidence
    assert (full["request_bytes"], full["allocated_bytes"], full["total_bytes"]) == (10 * MIB, 50 * MIB, 64 * MIB)
    assert full["free_bytes"] < full["request_bytes"]
    assert found["stranded-stream-cache"][1].findings[0].evidence["elsewhere_bytes"] >= 40 * MIB


@pytest.mark.parametrize("name", ["checkerboard-fragmentation", "empty-cache-smell"])
def test_the_line_that_planted_it_is_named(name, found):
    assert found[name][1].findings[0].sites[0].file == memory_faults.__file__
