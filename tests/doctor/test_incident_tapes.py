"""The hand-written tape of each incident of memory gets the incident's name, and the figures of its story."""

from pathlib import Path

import pytest

from forebay.doctor import diagnose
from forebay.sources import open_artifact

TAPES = Path(__file__).parent.parent / "tapes"
MIB, GIB = 2**20, 2**30
# Of two rounds nobody can say that memory grows, of one call that it is a habit: these two need a longer story (test_diagnose.py).
SHORT = {"memory-growth", "empty-cache-smell"}
MEMORY = """allocator-settings capacity-oom capped-oom checkerboard-fragmentation deferred-frees dirty-capture driver-churn graph-pool-hoard
    impossible-request memory-growth empty-cache-smell outside-allocator oversubscribed pinned-overhead stranded-stream-cache unknown"""


def found(name):
    return diagnose(open_artifact(TAPES / "incidents" / f"{name}.tape"))


@pytest.mark.parametrize("name", sorted(set(MEMORY.split()) - SHORT))
def test_an_incident_is_found_on_its_tape(name):
    assert found(name).verdict == name


@pytest.mark.parametrize("name", sorted(SHORT))
def test_too_short_a_story_is_neither_convicted_nor_healthy(name):
    assert found(name).verdict == "cannot-tell"


@pytest.mark.parametrize("path", sorted((TAPES / "controls").glob("*.tape")), ids=lambda path: path.stem)
def test_a_control_stays_silent(path):
    assert diagnose(open_artifact(path)).findings == ()


def test_without_the_beginning_a_heap_is_never_certain():
    diagnosis = found("stranded-stream-cache")
    assert diagnosis.findings[0].certainty == "possible"
    assert {unseen.needs for unseen in diagnosis.unseen} == {("beginning",)}


def test_the_figures_are_those_of_the_story():
    pieces = found("checkerboard-fragmentation").findings[0].evidence
    assert (pieces["idle_bytes"], pieces["largest_free_bytes"], pieces["request_bytes"]) == (70 * MIB, 30 * MIB, 40 * MIB)
    assert found("pinned-overhead").findings[0].evidence == {"pinned_bytes": 256 * MIB, "requested_bytes": 132608 * 2**10}
    assert found("oversubscribed").findings[0].evidence["allocated_bytes"] == 17 * GIB
    others = found("outside-allocator").findings[0].evidence
    assert (others["held_by_others_bytes"], others["outside_pools_bytes"]) == (14 * GIB - 2 * MIB, 12 * GIB - 2 * MIB)
    broken = found("dirty-capture").findings[0]
    assert (broken.evidence["code"], broken.events) == (900, [2])
    assert [(site.file, site.line) for site in broken.sites] == [("run.py", 12)]
    churned = found("driver-churn").findings[0].evidence
    assert churned == {"calls": 4, "rounds": 2}
