"""dag_rows: the drawing of few rows: each is a box or a mark on its lane, each edge an arrow."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from forebay.report.dag_facts import Facts, stream_says
from forebay.report.dag_items import Actor, Item, items
from forebay.report.dag_place import Key, Placed, by_order, by_time, has_times, key
from forebay.report.scene import LANE, LEFT, TOP, Arrow, Band, Box, Lane, Mark, Scene, shortened
from forebay.tape import Kind, Sides
from forebay.units import duration

__all__ = ["lane_of", "scene"]

_TALL = 38.0
_BY_ORDER = "left to right: the order of the calls, not time; a thing lies right of what it is sure to come after"
_BY_TIME = "left to right: time, not to scale; widths are those of the labels"


def scene(facts: Facts, name: str) -> Scene:
    """Every drawn row of the facts' range."""
    things = list(items(facts))
    sources = _sources(facts, things)
    timed = has_times(things)
    placed = (by_time if timed else by_order)(things, sources)
    lanes = _lanes(facts, things)
    width = max((right for _, right in placed.x.values()), default=LEFT) + 40
    return Scene(
        title=f"{name}: {facts.summary}",
        says=f"A lane for each host thread and stream. {' '.join(note for _, note in facts.notes()) or 'No race, no needless edge.'}",
        width=width,
        lanes=list(lanes.values()),
        bands=list(_bands(facts, things, placed, width)),
        boxes=[_box(item, placed, lanes) for item in things if item.glyph is None],
        marks=[_mark(item, placed, lanes) for item in things if item.glyph is not None],
        arrows=[*_edges(facts, sources, placed, lanes), *_races(facts, things, placed, lanes)],
        axis=_BY_TIME if timed else _BY_ORDER,
        ticks=list(_ticks(placed)),
        notes=list(facts.notes()),
    )


def lane_of(actor: Actor, sides: Sides, y: float) -> Lane:
    """The lane of a thread or stream."""
    what, index = actor
    if what == "thread":
        name = sides.threads[index].name if index < len(sides.threads) else ""
        return Lane(shortened(name or f"thread {index}", 15), "host thread", y)
    if index < len(sides.streams):
        return Lane(shortened(sides.streams[index].name, 15), stream_says(sides.streams[index]), y)
    return Lane(f"stream {index}", "stream", y)


def _lanes(facts: Facts, things: Sequence[Item]) -> dict[Actor, Lane]:
    actors = sorted({item.actor for item in things}, key=lambda actor: (actor[0] != "thread", actor[1]))
    return {actor: lane_of(actor, facts.tape.sides, TOP + LANE * (i + 0.5)) for i, actor in enumerate(actors)}


def _sources(facts: Facts, things: Sequence[Item]) -> dict[Key, list[Key]]:
    """The things that each thing's edges come from."""
    first: dict[int, Key] = {}
    last: dict[int, Key] = {}
    for item in things:
        first.setdefault(item.row, key(item))
        last[item.row] = key(item)
    found: dict[Key, list[Key]] = defaultdict(list)
    for before, after in facts.links:
        if before in first and after in last:
            found[last[after]].append(first[before])
    return found


def _box(item: Item, placed: Placed, lanes: Mapping[Actor, Lane]) -> Box:
    left, right = placed.x[key(item)]
    return Box(left, lanes[item.actor].y - _TALL / 2, right - left, _TALL, item.look, item.lines, item.tip, str(item.row))


def _mark(item: Item, placed: Placed, lanes: Mapping[Actor, Lane]) -> Mark:
    left, right = placed.x[key(item)]
    assert item.glyph is not None
    return Mark((left + right) / 2, lanes[item.actor].y, item.glyph, item.look, item.lines[0], item.tip, str(item.row))


def _edges(facts: Facts, sources: Mapping[Key, Sequence[Key]], placed: Placed, lanes: Mapping[Actor, Lane]) -> Iterator[Arrow]:
    for target, froms in sources.items():
        for source in froms:
            needless = target[0] in facts.needless_rows
            (_, x0), (x1, _) = _ends(facts, source, placed), _ends(facts, target, placed)
            start, end = (x0, lanes[source[1]].y), (x1, lanes[target[1]].y)
            tip = f"row {target[0]} comes after row {source[0]}" + (", and nothing needs that" if needless else "")
            yield Arrow(start, end, "needless" if needless else "", tip, "needless" if needless else "", str(target[0]))


def _ends(facts: Facts, thing: Key, placed: Placed) -> tuple[float, float]:
    """Where an edge touches a thing: a box at its sides, a mark near its middle."""
    left, right = placed.x[thing]
    if Kind(int(facts.tape.columns["kind"][thing[0]])) in (Kind.record, Kind.wait, Kind.query):
        return (left + right) / 2 - 6, (left + right) / 2 + 6
    return left, right


def _races(facts: Facts, things: Sequence[Item], placed: Placed, lanes: Mapping[Actor, Lane]) -> Iterator[Arrow]:
    first = {item.row: item for item in reversed(things)}
    into: dict[int, list[int]] = defaultdict(list)
    for i, race in enumerate(facts.races, 1):
        into[race.b.row].append(i)
    for race in facts.races:
        if race.a.row in first and race.b.row in first:
            a, b = first[race.a.row], first[race.b.row]
            (ax, ay), (bx, by) = _middle(a, placed, lanes), _middle(b, placed, lanes)
            down = (by > ay) - (by < ay)
            start, end = (ax, ay + _edge_of(a, down)), (bx, by + _edge_of(b, -down))
            names = into.pop(race.b.row, [])  # the first arrow into a row bears the numbers of all, lest labels hide each other
            label = f"race {', '.join(map(str, names))}" if names else ""
            yield Arrow(start, end, "race", f"missing: {race.missing}", label, f"{race.a.row} {race.b.row}")


def _middle(item: Item, placed: Placed, lanes: Mapping[Actor, Lane]) -> tuple[float, float]:
    left, right = placed.x[key(item)]
    return (left + right) / 2, lanes[item.actor].y


def _edge_of(item: Item, side: int) -> float:
    """How far from its lane a thing ends, upwards (-1) or downwards (1): a mark has its label below it."""
    if item.glyph is None:
        return side * _TALL / 2
    return 26.0 if side > 0 else side * 9.0


def _bands(facts: Facts, things: Sequence[Item], placed: Placed, width: float) -> Iterator[Band]:
    """Regions as bands: from their first thing to their last, outer ones above inner ones, three levels at most."""
    tape, open_rows, stretches = facts.tape, list[int](), list[tuple[int, int, int]]()
    for row in tape.where(Kind.region_begin, Kind.region_end).tolist():
        if Kind(int(tape.columns["kind"][row])) is Kind.region_begin:
            open_rows.append(row)
        elif open_rows:
            begin = open_rows.pop()
            stretches.append((begin, row, len(open_rows)))
    for begin, end, level in sorted(stretches):
        inside = [placed.x[key(item)] for item in things if begin < item.row < end]
        if inside and level < 2 and tape.has("name"):
            left, right = min(x for x, _ in inside) - 5, max(x for _, x in inside) + 5
            number = f" {tape.columns['ref'][begin]}" if tape.has("ref") and tape[begin : begin + 1].knows("ref")[0] else ""
            yield Band(f"{tape.sides.strings[tape.columns['name'][begin]]}{number}", left, min(right, width) - left, level)


def _ticks(placed: Placed) -> Iterator[tuple[float, str]]:
    """Times, where there is room for them."""
    last, first = -1e9, placed.times[0][1] if placed.times else 0
    for x, time in placed.times:
        if x - last >= 90:
            last = x
            yield x, f"+{duration(time - first)}" if time > first else f"{duration(time)}" if time else "0"
