"""Remedies: what the what-if says of the labelled recordings, and what is advised of it."""

import pytest

from corpus import artifacts
from forebay.doctor import diagnose, with_remedies
from forebay.sources import open_artifact
from forebay.tape import parse

MIB = 2**20
FILES = {path.name.split("-")[0]: path for path in artifacts("incidents", "*.pickle.xz")}
pytestmark = pytest.mark.skipif(not FILES, reason="no corpus")


def priced(name):
    tape = open_artifact(FILES[name])
    return with_remedies(diagnose(tape), tape).findings[0]


def tried(finding):
    return {remedy["name"]: remedy for remedy in finding.evidence["remedies"]}


def test_a_checkerboard_is_cured_by_a_pool_and_not_by_empty_cache():
    finding = priced("checkerboard_oom")
    remedies = tried(finding)
    assert remedies["forebay's pool"]["helps"]
    assert remedies["forebay's pool"]["oom"] is False
    assert not remedies["none"]["helps"]
    assert remedies["none"]["oom"] is True
    assert [r["helps"] for r in finding.evidence["remedies"]] == sorted(
        (r["helps"] for r in finding.evidence["remedies"]), reverse=True
    )
    assert "\nNo remedy: torch.cuda.empty_cache() right before the request that was refused gives nothing back" in finding.remedy
    (pin, *_) = finding.evidence["pins"]
    # All that is live lies in the segments that the one site pins: what is reserved would come free with it.
    assert pin["freed_if_gone_bytes"] == finding.evidence["reserved_bytes"]
    assert pin["held_bytes"] == finding.evidence["reserved_bytes"] - finding.evidence["idle_bytes"]


def test_empty_cache_is_priced_in_driver_calls_and_bytes():
    finding = priced("empty_cache_loop")
    without = tried(finding)["no empty_cache"]
    # Without the calls every segment is made once: as many driver allocations as there are segments at the peak of the cache.
    assert (without["driver_calls_before"], without["driver_calls_after"]) == (394, 9)
    assert without["after_bytes"] > without["before_bytes"]
    assert finding.remedy.count("\n") == 0
    assert "9 driver calls instead of 394" in finding.remedy


def test_frees_that_do_not_wait_come_first_where_they_are_the_matter():
    assert priced("deferred_frees").remedy.startswith(
        "1. recorded, frees do not wait: 180 MiB reserved at the peak instead of 1.31 GiB"
    )


def test_a_stream_of_its_own_is_priced_against_one_stream():
    finding = priced("stranded_stream")
    assert finding.remedy.startswith("1. one stream: ")
    names = [line.split(": ")[0] for line in finding.remedy.split("\n")]
    assert not any("," in name for name in names)  # no settings beyond those that do as much alone


def test_where_nothing_helps_it_says_how_many_were_tried():
    finding = priced("capacity_oom")
    assert not any(remedy["helps"] for remedy in finding.evidence["remedies"])
    assert "settings and pools tried on this history none helps" in finding.remedy


@pytest.mark.parametrize("name", ["leak", "steady_healthy"])
def test_what_no_policy_cures_is_left_as_it_is(name):
    tape = open_artifact(FILES[name])
    found = diagnose(tape)
    assert with_remedies(found, tape) is found


def test_a_history_that_begins_in_the_middle_is_not_priced():
    tape = parse(
        "sees allocs segments ooms\nt0 s1 reserve 20M @0x1000000\nt0 s1 alloc A 5M @0x1000000\nt0 s1 free A\nt0 s2 oom 10M\n"
    )
    found = diagnose(tape)
    assert found.findings
    assert with_remedies(found, tape) is found
