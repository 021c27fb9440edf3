"""The rehearsal: whatever each rule, incident and source needs is in the schema, and there on a hand-written tape of it."""

from pathlib import Path

import pytest

from forebay.tape import Kind, Sees, file, fills, format_tape, parse
from forebay.tape.events import COLUMNS, PROMISES
from tape.arbitrary import story

TAPES = sorted((Path(__file__).parent.parent / "tapes").glob("*/*.tape"))
RULES = """driver-memory-call unordered-free unordered-access device-sync hidden-sync legacy-stream capture-unclean stale-graph-pointer
    unsegregated-alloc pool-gauge order needless-edge"""
INCIDENTS = """checkerboard-fragmentation hidden-sync cross-stream-use-after-free empty-cache-smell dirty-capture capacity-oom capped-oom
    deferred-frees stranded-stream-cache driver-churn graph-pool-hoard memory-growth outside-allocator allocator-settings
    pinned-overhead impossible-request oversubscribed stale-graph-pointer launch-bound legacy-stream-serialization lost-overlap
    fake-async-copy unknown"""
SOURCES = "torch_snapshot log_text kineto nsys rmm_log recording runtime"


def name_of(path):
    return f"{path.parent.name}/{path.stem}"


def tape_of(path):
    return parse(path.read_text(encoding="utf-8"))


def test_each_rule_incident_and_source_has_its_tape():
    have = {group: {path.stem for path in TAPES if path.parent.name == group} for group in ("rules", "incidents", "sources")}
    assert have == {"rules": set(RULES.split()), "incidents": set(INCIDENTS.split()), "sources": set(SOURCES.split())}
    assert len([path for path in TAPES if path.parent.name == "controls"]) == 3


@pytest.mark.parametrize("path", TAPES, ids=name_of)
def test_a_tape_begins_with_its_story(path):
    first = path.read_text(encoding="utf-8").split("\n")[0]
    assert first.startswith("# ")
    assert len(first) > 40


@pytest.mark.parametrize("path", TAPES, ids=name_of)
def test_what_a_tape_says_it_sees_is_there(path):
    tape = tape_of(path).check()
    for sees in tape.sees:
        promise = PROMISES[sees]
        of_kind = [Kind(kind) in promise.kinds for kind in tape.columns["kind"]]
        assert any(of_kind) or not promise.kinds, f"{sees}: no row of {promise.kinds}"
        for column in promise.columns:
            known = tape.knows(column)
            assert any(k and (o or not promise.kinds) for k, o in zip(known, of_kind, strict=True)), (
                f"{sees}: {column} is never known"
            )
        for field in promise.sides:
            table, name = field.split(".")
            side = getattr(tape.sides, table)
            assert any(getattr(entry, name) is not None for entry in side) if name != "frames" else side.frames, (
                f"{sees}: {field}"
            )


@pytest.mark.parametrize("path", TAPES, ids=name_of)
def test_a_tape_survives_text_and_file(path, tmp_path):
    tape = tape_of(path)
    assert story(parse(format_tape(tape))) == story(tape)
    file.write(tape, tmp_path / "a.arrow")
    assert story(file.read(tmp_path / "a.arrow")) == story(tape)


@pytest.mark.parametrize("sees", Sees)
def test_what_is_promised_is_a_column_that_its_kinds_fill(sees):
    promise = PROMISES[sees]
    assert promise.columns <= {*COLUMNS, "uses"}
    for column in promise.columns:
        assert any(column in fills(kind) for kind in promise.kinds or Kind)
