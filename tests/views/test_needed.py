"""Statement 8 of DESIGN section 2: which waits and syncs are needed. Drawings first, each worked out by hand; then random programs.

FOREBAY_STRESS=1 runs the full count."""

import os
import random
from collections.abc import Callable

import pytest

from forebay.tape import Kind
from forebay.tape.notation import parse
from forebay.views.needed import Edges
from forebay.views.order import Race, find_races
from views.drawings import found
from views.ordered import Ordered, ordered_program
from views.programs import random_program

PROGRAMS = 2_000 if os.environ.get("FOREBAY_STRESS") else 150
STREAMS = "stream s1 nonblocking\nstream s2 nonblocking\nstream s3 nonblocking\n"


def judged(text: str) -> dict[str, str]:
    """The verdict of each edge, by kind and row."""
    return {f"{edge.first.kind.name} {edge.rows[0]}": edge.verdict for edge in Edges(parse(STREAMS + text)).all}


def test_a_wait_that_a_pair_needs():
    assert judged("t0 s1 launch a w:@0+512\nt0 s1 record e\nt0 s2 wait e\nt0 s2 launch b r:@0+512") == {"wait 2": "needed"}


def test_a_wait_between_items_that_share_nothing_is_needless():
    assert judged("t0 s1 launch a w:@0+512\nt0 s1 record e\nt0 s2 wait e\nt0 s2 launch b r:@512+512") == {"wait 2": "needless"}


def test_waits_of_a_stream_for_itself_or_for_nothing_are_idle():
    text = "t0 s1 launch a w:@0+512\nt0 s1 record e\nt0 s1 wait e\nt0 s1 wait never\nt0 s1 launch b r:@0+512"
    assert judged(text) == {"wait 2": "idle", "wait 3": "idle"}


def test_what_a_pool_asked_by_itself_carries_nothing_that_the_program_asked_for_too():
    text = "t0 s1 launch a w:@0+512\nt0 s1 record e\nt0 sync_event e\nt0 query e +ready{}\nt0 s2 launch b r:@0+512"
    assert judged(text.format("")) == {"sync_event 2": "idle", "query 3": "needed"}
    assert judged(text.format(" +pool_made")) == {"sync_event 2": "needed", "query 3": "idle"}


def test_a_wait_before_nothing_is_idle():
    assert judged("t0 s1 launch a w:@0+512\nt0 s1 record e\nt0 s2 wait e") == {"wait 2": "idle"}


def test_of_two_waits_that_each_suffice_one_is_kept():
    text = """t0 s1 launch a w:@0+512
              t0 s1 record e
              t0 s2 wait e
              t0 s1 record f
              t0 s2 wait f
              t0 s2 launch b r:@0+512"""
    assert judged(text) == {"wait 2": "idle", "wait 4": "needed"}


def test_a_device_sync_goes_before_the_wait_that_does_its_work():
    text = """t0 s1 launch a w:@0+512
              t0 s1 record e
              t0 s2 wait e
              t0 sync_device device=0
              t0 s2 launch b r:@0+512"""
    assert judged(text) == {"wait 2": "needed", "sync_device 3": "idle"}


def test_a_host_sync_that_a_host_read_needs():
    text = """t0 s1 copy r:@0+512 w.pinned:@0x100000+512
              t0 s1 sync_stream
              t0 host_access r.pinned:@0x100000+512"""
    assert judged(text) == {"sync_stream 1": "needed"}


def test_without_host_accesses_no_host_sync_is_judged():
    text = "sees work uses edges syncs\nt0 s1 launch a w:@0+512\nt0 s1 sync_stream\nt0 s2 launch b r:@512+512"
    assert judged(text) == {"sync_stream 1": "not judged"}


def test_without_uses_only_what_is_implied_already_can_be_named():
    text = """sees work edges syncs host_accesses
              t0 s1 launch a
              t0 s1 record e
              t0 s2 wait e
              t0 s2 wait e
              t0 s2 launch b"""
    assert judged(text) == {"wait 2": "idle", "wait 3": "not judged"}


def test_an_edge_around_an_incomplete_launch_is_not_judged():
    text = "t0 s1 launch a w:@0+512{}\nt0 s1 record e\nt0 s2 wait e\nt0 s2 launch b r:@512+512{}"
    assert judged(text.format(" +incomplete", "")) == {"wait 2": "not judged"}
    assert judged(text.format("", " +incomplete")) == {"wait 2": "not judged"}
    assert judged(text.format("", "")) == {"wait 2": "needless"}


def test_an_edge_around_an_unknown_use_is_not_judged():
    text = "t0 s1 launch a ?:@0+512\nt0 s1 record e\nt0 s2 wait e\nt0 s2 launch b ?:@0+512"
    assert judged(text) == {"wait 2": "not judged"}


def test_a_wait_that_only_a_free_needs():
    text = """t0 s1 alloc A 512 @0
              t0 s1 record made
              t0 s2 wait made
              t0 s2 launch a w:A
              t0 s2 record e
              t0 s1 wait e
              t0 s1 free A"""
    assert judged(text) == {"wait 2": "needed", "wait 5": "needed"}


def test_a_sync_that_only_an_unmap_needs():
    assert judged("t0 s1 launch a w:@0+512\nt0 s1 sync_stream\nt0 unmap @0 2M") == {"sync_stream 1": "needed"}


def test_all_rows_of_one_site_are_one_unit():
    step = "t0 s1 launch a w:@{0}+512\nt0 s1 record e\nt0 s2 wait e at engine.py:7 step\nt0 s2 launch b r:@{1}+512\n"
    edges = Edges(parse(STREAMS + step.format(0, 4096) + step.format(512, 512) + step.format(1024, 8192))).all
    assert [(edge.rows, edge.verdict) for edge in edges] == [((2, 6, 10), "needed")]


def test_the_pairs_that_an_edge_carries_and_how_early_its_record_could_stand():
    text = """t0 s1 launch a w:@0+512
              t0 s1 launch c w:@4096+512
              t0 s1 record e
              t0 s2 wait e
              t0 s2 launch b r:@0+512"""
    edges = Edges(parse(STREAMS + text))
    (edge,) = edges.all
    assert edges.carries(edge) == [(0, 4)]
    assert edges.earlier(edge) == 1


def double_buffer(steps: int, every: int, *, own_compute: bool = False) -> str:
    """Uploads into one of two buffers while the other is computed on, and a download with a sync every so many steps.

    `own_compute`: each fourth upload also waits for the compute that it should overlap."""
    lines = ["stream up nonblocking", "stream compute nonblocking"]
    for step in range(steps):
        buffer, out = f"@{4096 * (step % 2)}+4096", f"@{(1 << 16) + 4096 * step}+4096"
        lines += [f"t0 up wait done{step % 2}"] if step >= 2 else []
        if own_compute and step % 4 == 3:
            lines += ["t0 compute record mine", "t0 up wait mine at engine.py:9 extra"]
        lines += [f"t0 up copy w:{buffer} r.pinned:@{(1 << 20) + 4096 * step}+4096", "t0 up record full", "t0 compute wait full"]
        lines += [f"t0 compute launch k{step} r:{buffer} w:{out}", f"t0 compute record done{step % 2}"]
        if step % every == every - 1:
            host = f"@{(1 << 24) + 4096 * step}+4096"
            lines += [f"t0 compute copy r:{out} w.pinned:{host}", "t0 compute sync_stream", f"t0 host_access r.pinned:{host}"]
    return "\n".join(lines)


@pytest.mark.parametrize("every", [1, 4])
def test_double_buffering_is_silent(every: int):
    tape = parse(double_buffer(16, every))
    assert list(find_races(tape)) == []
    assert [edge for edge in Edges(tape).all if edge.verdict == "needless"] == []


def test_a_copy_that_waits_for_its_own_steps_compute_and_no_other():
    tape = parse(double_buffer(16, 4, own_compute=True))
    needless = [edge for edge in Edges(tape).all if edge.verdict == "needless"]
    assert [str(edge.first) for edge in needless] == ["wait on `up` at engine.py:9"]


# How long it takes: in steps of the tape that are worked out again, never in seconds.


def synced(steps: int, streams: str, items: Callable[[int], int], read: int) -> str:
    """A device sync a step, after so many items over some streams. Each `read`-th is needed; 0: none."""
    lines, done = [f"stream {s} nonblocking" for s in streams], 0
    for step in range(steps):
        for i in range(items(step)):
            lines.append(f"t0 {streams[i % len(streams)]} launch k w:@{512 * done}+512")
            done += 1
        lines.append("t0 sync_device device=0")
        if read and step % read == read - 1:
            lines.append(f"t0 {streams[-1]} launch r r:@{512 * (done - items(step))}+512")
    return "\n".join(lines)


SYNCED = {
    "one stream, nothing needed": ("a", lambda step: 1, 0),
    "nothing needed, all syncs alike": ("ab", lambda step: 4, 0),
    "nothing needed, later syncs order more": ("ab", lambda step: 2 + step // 100, 0),
    "nothing needed, no two alike": ("abc", lambda step: 2 + step * 7919 % 8, 0),
    "each third needed": ("ab", lambda step: 2 + step * 7919 % 8, 3),
    "each needed": ("ab", lambda step: 3, 1),
}


@pytest.mark.parametrize("case", SYNCED)
def test_judging_a_sync_a_step_takes_as_many_visits_a_row_however_long_the_tape(case):
    visits = []
    for steps in (250, 1000):
        tape = parse(synced(steps, *SYNCED[case]))
        visits.append(Edges(tape).visits / len(tape))
    assert visits[1] < 10
    assert visits[1] < 2 * visits[0]


# Random programs.


def without(program: Ordered, rows: set[int]) -> str:
    """The program without some edges: a blocking copy stays, but does not block."""
    lines = [line.replace(" +blocking", "") if "+blocking" in line else None for line in program.lines]
    kept = [lines[i] if i in rows else line for i, line in enumerate(program.lines)]
    return "\n".join([*program.header, *(line for line in kept if line is not None)])


@pytest.mark.parametrize("seeds", [range(i, PROGRAMS, 5) for i in range(5)])
def test_what_can_go_goes_and_what_is_needed_is_needed(seeds: range):
    dice, counts = random.Random(7), {"needed": 0, "needless": 0, "idle": 0}
    for seed in seeds:
        program = ordered_program(seed)
        assert found(program.text()) == [], f"seed {seed}"
        edges = Edges(parse(program.text())).all
        droppable = {row for edge in edges if edge.verdict in ("needless", "idle") for row in edge.rows}
        assert found(without(program, droppable)) == [], f"seed {seed}: all that can go"
        assert found(without(program, {row for row in droppable if dice.random() < 0.5})) == [], f"seed {seed}: a part of it"
        for edge in edges:
            counts[edge.verdict] += 1
            if edge.verdict == "needed":
                assert found(without(program, droppable | set(edge.rows))) != [], f"seed {seed}: {edge}"
    assert min(counts.values()) > len(seeds) // 5, counts


def hide(text: str, dice: random.Random) -> str:
    """The program as it looks when a tenth of the launches show no uses."""
    lines = text.split("\n")
    return "\n".join(
        f"{line.split(' r:')[0].split(' w:')[0]} +incomplete" if " launch " in line and dice.random() < 0.1 else line
        for line in lines
    )


def test_hidden_uses_make_no_needed_edge_needless():
    dice = random.Random(11)
    for seed in range(PROGRAMS):
        program = ordered_program(seed)
        edges = Edges(parse(hide(program.text(), dice))).all
        droppable = {row for edge in edges if edge.verdict in ("needless", "idle") for row in edge.rows}
        assert found(without(program, droppable)) == [], f"seed {seed}"


def test_hidden_uses_make_no_certain_finding_that_the_full_program_lacks():
    """A finding is a pair of accesses, or a free or unmapping that comes too early."""
    dice, certain = random.Random(13), 0
    for seed in range(2 * PROGRAMS):
        text = random_program(seed)
        full = {_identity(race) for race in find_races(parse(text))}
        hidden = [race for race in find_races(parse(hide(text, dice))) if race.certain]
        certain += len(hidden)
        assert {_identity(race) for race in hidden} <= full, f"seed {seed}"
    assert certain > PROGRAMS // 2


def _identity(race: Race) -> tuple[str, int, int]:
    return race.kind, -1 if race.b.kind in (Kind.free, Kind.unmap) else race.a.row, race.b.row
