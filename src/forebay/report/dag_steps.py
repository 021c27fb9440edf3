"""dag_steps: the drawing of many rows: a column a step, a box for what one actor does in it, an arrow for all edges between two boxes.

Steps that look alike share a column. The number of shapes is bounded, whatever the number of rows. What a step is, views say.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final

import numpy as np

from forebay.calls import lookup
from forebay.report.dag_facts import DRAWN, Facts
from forebay.report.dag_items import Actor
from forebay.report.dag_rows import lane_of
from forebay.report.scene import CHAR, LANE, LEFT, TOP, Arrow, Band, Box, Lane, Scene, shortened
from forebay.tape import Kind
from forebay.views.links import WORK
from forebay.views.steps import Steps, find_steps

__all__ = ["scene"]

_MOST_COLUMNS: Final = 12
_MOST_LANES: Final = 24
_MOST_ARROWS: Final = 160
_BOX, _GAP, _TALL = 156.0, 34.0, 58.0  # pixels: a cell, the room between columns, its height
_LETTERS: Final = int((_BOX - 8) / CHAR)  # of a line in a cell
_ON_HOST: Final = (Kind.sync_event, Kind.sync_stream, Kind.sync_device, Kind.query, Kind.host_access)
_REST: Final = ("stream", -2)  # the lane of all actors beyond the first
_PLURALS: Final = {
    Kind.launch: "launches", Kind.graph_launch: "graph launches", Kind.copy: "copies", Kind.query: "queries",
    Kind.host_access: "host accesses", Kind.stream_destroy: "streams destroyed",
}  # fmt: skip
# What a cell tells of beside its work, in this order; of memory only how much was taken and given back.
_TOLD: Final = (
    *_ON_HOST, Kind.record, Kind.wait, Kind.alloc, Kind.free, Kind.reserve, Kind.release, Kind.map, Kind.unmap, Kind.pin, Kind.unpin,
)  # fmt: skip

Cell = tuple[int, Actor]  # a column and a lane


@dataclass(frozen=True, slots=True)
class _Column:
    """Steps [first, last] drawn as one. `alike`: each of them does the same, and figures are those of one."""

    first: int
    last: int
    alike: bool

    @property
    def steps(self) -> int:
        return self.last - self.first + 1


@dataclass(frozen=True, slots=True)
class _Grid:
    """What is where: the cell of each drawn row, and for each cell its rows, and the kinds and names in it, counted."""

    columns: Sequence[_Column]
    lanes: Sequence[Actor]
    of: Mapping[int, Cell]
    rows: Mapping[Cell, Sequence[int]]
    kinds: Mapping[Cell, Counter[Kind]]
    names: Mapping[Cell, Counter[str]]


def scene(facts: Facts, name: str) -> Scene:
    """The facts' range of rows, step by step."""
    steps = find_steps(facts.tape)
    grid = _grid(facts, steps)
    lanes = {actor: _lane(facts, actor, i) for i, actor in enumerate(grid.lanes)}
    arrows = [*_races(facts, grid, lanes), *_edges(facts, grid, lanes)]
    left_out = len(arrows) - _MOST_ARROWS
    missing = [("", f"… {left_out:,} more arrows are not drawn")] if left_out > 0 else []
    return Scene(
        title=f"{name}: {facts.summary}",
        says=f"A column for each step, a lane for each host thread and stream. {' '.join(note for _, note in facts.notes())}",
        width=_x(len(grid.columns)) + 10,
        lanes=list(lanes.values()),
        bands=[_band(column, i, steps.names) for i, column in enumerate(grid.columns)],
        boxes=[_box(facts, grid, cell, lanes[cell[1]].y) for cell in grid.kinds],
        arrows=arrows[:_MOST_ARROWS],
        axis="a column is a step, or several that do the same; an arrow stands for all edges between two boxes; "
        "`--rows A:B` draws some rows one by one",
        notes=[*facts.notes(), *missing],
    )


# -- what is where


def _grid(facts: Facts, steps: Steps) -> _Grid:
    actors = _actors(facts)
    lanes = _lanes(actors.values())
    shown = set(lanes)
    columns = _columns(facts, steps, actors)
    starts = np.array([column.first for column in columns])
    of: dict[int, Cell] = {}
    rows: dict[Cell, list[int]] = {}
    kinds: dict[Cell, Counter[Kind]] = {}
    names: dict[Cell, Counter[str]] = {}
    for row, actor in actors.items():
        cell = int(np.searchsorted(starts, steps.of[row], "right")) - 1, actor if actor in shown else _REST
        of[row] = cell
        rows.setdefault(cell, []).append(row)
        kinds.setdefault(cell, Counter())[Kind(int(facts.tape.columns["kind"][row]))] += 1
        if label := _name(facts, row):
            names.setdefault(cell, Counter())[label] += 1
    return _Grid(columns, lanes, of, rows, kinds, names)


def _actors(facts: Facts) -> dict[int, Actor]:
    """The actor of each drawn row."""
    tape, rows = facts.tape, slice(facts.rows.start, facts.rows.stop)
    kinds, known = tape.columns["kind"][rows].tolist(), tape.knows("stream")[rows].tolist()
    blank = np.zeros(len(facts.rows), "u4")
    streams, threads = ((tape.columns[name][rows] if tape.has(name) else blank).tolist() for name in ("stream", "thread"))
    drawn, on_host = {int(kind) for kind in DRAWN}, {int(kind) for kind in _ON_HOST}
    return {
        facts.rows.start + i: ("stream", streams[i]) if known[i] and kind not in on_host else ("thread", threads[i])
        for i, kind in enumerate(kinds)
        if kind in drawn
    }


def _lanes(actors: Iterable[Actor]) -> list[Actor]:
    """Threads, then streams; where there are too many, those that do most, and one lane for all others."""
    tally = Counter(actors)
    most = {actor for actor, _ in tally.most_common(_MOST_LANES)}
    lanes = sorted(most, key=lambda actor: (actor[0] != "thread", actor[1]))
    return lanes + ([_REST] if len(tally) > len(most) else [])


def _columns(facts: Facts, steps: Steps, actors: Mapping[int, Actor]) -> list[_Column]:
    """Neighbouring steps that do the same as one; if that leaves too many, as many neighbours together as it takes."""
    does: dict[int, Counter[tuple[Actor, int, bool, bool]]] = {}
    kinds, of = facts.tape.columns["kind"].tolist(), steps.of.tolist()
    for row, actor in actors.items():
        what = actor, kinds[row], row in facts.racing_rows, row in facts.needless_rows
        does.setdefault(of[row], Counter())[what] += 1
    runs = [_Column(run[0], run[-1], alike=True) for run in _equal_runs(does)]
    bad = facts.racing_rows | facts.needless_rows
    return _few(runs, {int(steps.of[row]) for row in bad})


def _equal_runs(does: Mapping[int, Counter[Any]]) -> Iterator[list[int]]:
    for _, run in groupby(does, key=lambda step: frozenset(does[step].items())):
        yield list(run)


def _few(runs: Sequence[_Column], bad: set[int]) -> list[_Column]:
    """At most `_MOST_COLUMNS`: the runs with a finding stay alone, where these are not too many themselves, others go together."""
    if len(runs) <= _MOST_COLUMNS:
        return list(runs)
    stretches = [
        list(stretch) for _, stretch in groupby(runs, key=lambda run: not bad.isdisjoint(range(run.first, run.last + 1)))
    ]
    room = _MOST_COLUMNS - len(stretches)
    if room < _MOST_COLUMNS // 3:
        stretches, room = [list(runs)], _MOST_COLUMNS - 1
    each = -(-len(runs) // room)
    return [_together(stretch[i : i + each]) for stretch in stretches for i in range(0, len(stretch), each)]


def _together(runs: Sequence[_Column]) -> _Column:
    return _Column(runs[0].first, runs[-1].last, alike=len(runs) == 1)


def _name(facts: Facts, row: int) -> str:
    """The name of a work item, "" where it has none but that of the call."""
    tape = facts.tape
    if Kind(int(tape.columns["kind"][row])) not in WORK or not tape.has("name"):
        return ""
    name = tape.sides.strings[int(tape.columns["name"][row])]
    return "" if lookup(name) else name


# -- how it looks


def _x(column: int) -> float:
    return LEFT + 10 + column * (_BOX + _GAP)


def _lane(facts: Facts, actor: Actor, index: int) -> Lane:
    y = TOP + LANE * (index + 0.5)
    return Lane("others", "further actors", y) if actor == _REST else lane_of(actor, facts.tape.sides, y)


def _band(column: _Column, index: int, names: Sequence[str]) -> Band:
    name, says = names[column.first], ""
    if column.steps > 1:
        (what, _, _), (other, _, number) = name.rpartition(" "), names[column.last].rpartition(" ")
        name = f"{name} … {number if what == other else names[column.last]}"
        says = f"{column.steps:,} alike: each does" if column.alike else f"{column.steps:,} together do"
    return Band(shortened(name, 26), _x(index) - 8, _BOX + 16, 0, says)


def _box(facts: Facts, grid: _Grid, cell: Cell, y: float) -> Box:
    column = grid.columns[cell[0]]
    by = column.steps if column.alike else 1
    lines = [shortened(line, _LETTERS) for line in _lines(grid.kinds[cell], grid.names.get(cell, Counter()), by)]
    rows = grid.rows[cell]
    tip = f"rows {rows[0]} to {rows[-1]}: " + ", ".join(
        f"{count:,} {kind.name}" for kind, count in grid.kinds[cell].most_common()
    )
    return Box(_x(cell[0]), y - _TALL / 2, _BOX, _TALL, _look(facts, grid.kinds[cell], rows), tuple(lines), tip)


def _look(facts: Facts, kinds: Counter[Kind], rows: Sequence[int]) -> str:
    """A cell looks as the work that it has most of."""
    work = Counter({kind: count for kind, count in kinds.items() if kind in WORK})
    main = work.most_common(1)[0][0].name if work else "host"
    looks = ["cell", "launch" if main == "graph_launch" else "host" if main == "host_func" else main]
    return " ".join([*looks, *(["race"] if not facts.racing_rows.isdisjoint(rows) else [])])


def _lines(kinds: Counter[Kind], names: Counter[str], by: int) -> Iterator[str]:
    """What a cell says: its work, the commonest names, then all else."""
    if work := [_counted(kind, count // by) for kind, count in kinds.most_common() if kind in WORK]:
        yield ", ".join(work)
    if names:
        more = f" +{len(names) - 1} names" if len(names) > 1 else ""
        (name, count), *_ = names.most_common(1)
        yield f"{shortened(name, 18 - len(more))}{f' ×{count // by}' if count > by else ''}{more}"
    rest = [_counted(kind, -(-kinds[kind] // by)) for kind in _TOLD if kinds[kind]]
    yield from _wrapped(rest)[: 1 if work else 3]


def _wrapped(words: Sequence[str]) -> list[str]:
    """Lines of as many words as fit into a cell."""
    lines: list[str] = []
    for word in words:
        if lines and len(lines[-1]) + 2 + len(word) <= _LETTERS:
            lines[-1] += f", {word}"
        else:
            lines.append(word)
    return lines


def _counted(kind: Kind, count: int) -> str:
    name = kind.name.replace("sync_", "").replace("_", " ")
    name = f"{name} sync" if kind.name.startswith("sync_") else name
    return f"{count:,} {_PLURALS.get(kind, name + 's') if count != 1 else name}"


def _edges(facts: Facts, grid: _Grid, lanes: Mapping[Actor, Lane]) -> Iterator[Arrow]:
    """An arrow for the edges between two cells of different lanes, needless ones apart."""
    tally: Counter[tuple[Cell, Cell, bool]] = Counter()
    for before, after in facts.links:
        if before in grid.of and after in grid.of:
            source, target = grid.of[before], grid.of[after]
            if source[1] != target[1] or after in facts.needless_rows:
                tally[source, target, after in facts.needless_rows] += 1
    for (source, target, needless), count in sorted(tally.items(), key=lambda entry: (not entry[0][2], -entry[1], entry[0])):
        by = grid.columns[source[0]].steps if grid.columns[source[0]].alike else 1
        times = f"×{count // by}" if count > by else ""
        tip = f"{count:,} edges" + (" that nothing needs" if needless else "")
        yield _arrow(
            source, target, lanes, "needless" if needless else "", tip, f"needless {times}".strip() if needless else times
        )


def _races(facts: Facts, grid: _Grid, lanes: Mapping[Actor, Lane]) -> Iterator[Arrow]:
    tally: dict[tuple[Cell, Cell], list[int]] = {}
    for i, race in enumerate(facts.races):
        if race.a.row in grid.of and race.b.row in grid.of:
            tally.setdefault((grid.of[race.a.row], grid.of[race.b.row]), []).append(i)
    for (a, b), found in tally.items():
        first = facts.races[found[0]]
        label = f"race {found[0] + 1}" if len(found) == 1 else f"{len(found):,} races"
        yield _arrow(a, b, lanes, "race", f"rows {first.a.row} and {first.b.row}: missing: {first.missing}", label)


def _arrow(source: Cell, target: Cell, lanes: Mapping[Actor, Lane], look: str, tip: str, label: str) -> Arrow:
    """From box to box; within one column from edge to edge, beside each other by style so that none hides another."""
    up = lanes[source[1]].y > lanes[target[1]].y
    shift = {"race": 0.5, "needless": 0.74}.get(look, 0.27 if up else 0.06)
    (x0, y0), (x1, y1) = ((_x(cell[0]) + _BOX * shift, lanes[cell[1]].y) for cell in (source, target))
    down = (y1 > y0) - (y1 < y0)
    return Arrow((x0, y0 + down * _TALL / 2), (x1, y1 - down * _TALL / 2), look, tip, label)
