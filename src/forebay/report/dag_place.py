"""dag_place: where things lie from left to right: by time where the tape has times, else in the order of its rows, edges respected.

Neither is to scale: a box is as wide as its label. Both keep what is before what. Which thing is on which lane is dag_items.py's.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from forebay.report.dag_items import Actor, Item
from forebay.report.scene import LEFT
from forebay.views.links import WORK

__all__ = ["Key", "Placed", "by_order", "by_time", "has_times", "key"]

Key = tuple[int, Actor]
_GAP, _STEP, _REACH = 10.0, 14.0, 24.0  # pixels: between neighbours, rows, the ends of an edge
_SPAN, _IDLE = 900.0, 60.0  # pixels: what the whole time is given, and at most a stretch in which nothing begins or ends


@dataclass(frozen=True, slots=True)
class Placed:
    """Left and right end of each thing, pixels; of places where the time is known also that, nanoseconds."""

    x: Mapping[Key, tuple[float, float]]
    times: Sequence[tuple[float, int]] = ()


def key(item: Item) -> Key:
    """What names a thing: its row, and the lane, for a row may be on two."""
    return item.row, item.actor


def has_times(things: Sequence[Item]) -> bool:
    """Whether all work that ran has times, so that the drawing can go by them."""
    ran = [item for item in things if item.kind in WORK and item.actor[0] == "stream" and "captured" not in item.look]
    return bool(ran) and all(item.begin is not None and item.end is not None for item in ran)


def by_order(things: Sequence[Item], sources: Mapping[Key, Sequence[Key]]) -> Placed:
    """Each thing as far left as its lane, its edges, its thread's waits and the rows before it allow."""
    x: dict[Key, tuple[float, float]] = {}
    lanes: dict[Actor, float] = defaultdict(lambda: LEFT)
    threads: dict[int, float] = defaultdict(lambda: LEFT)
    before = LEFT
    for item in things:
        reached = [x[source][1] + _REACH for source in sources.get(key(item), ()) if source in x]
        start = max([lanes[item.actor] + _GAP, threads[item.thread] + _GAP, before + _STEP, *reached])
        x[key(item)] = start, start + item.width
        lanes[item.actor], before = start + item.width, start
        if item.host:
            threads[item.thread] = start + item.width
    return Placed(x)


def by_time(things: Sequence[Item], sources: Mapping[Key, Sequence[Key]]) -> Placed:
    """Begins and ends in the order of their times, each as far left as a box's label and its lane allow."""
    spans = _spans(things, sources)
    points = _points(things, spans)
    scale = _SPAN / max(1, points[-1][0] - points[0][0])
    starts: dict[Key, float] = {}
    x: dict[Key, tuple[float, float]] = {}
    lanes: dict[Actor, float] = defaultdict(lambda: LEFT)
    at, clock, times = LEFT, points[0][0], list[tuple[float, int]]()
    for time, begins, item in points:
        at, clock = at + min(_IDLE, (time - clock) * scale), time
        if begins:
            reached = [x[source][1] + _GAP for source in sources.get(key(item), ()) if source in x and not item.host]
            starts[key(item)] = at = max([at, lanes[item.actor] + _GAP, *reached])
            times += [(at, time)] if item.kind in WORK and item.begin is not None else []
        else:
            at = max(at, starts[key(item)] + item.width) if spans[key(item)][0] < time else at
            x[key(item)] = starts[key(item)], max(at, starts[key(item)] + item.width)
            lanes[item.actor] = x[key(item)][1]
    return Placed(x, times)


def _spans(things: Sequence[Item], sources: Mapping[Key, Sequence[Key]]) -> dict[Key, tuple[int, int]]:
    """When each thing is: its own times, never before what its lane (a queue) or its edges put before it."""
    spans: dict[Key, tuple[int, int]] = {}
    lanes: dict[Actor, int] = {}
    first = min(time for item in things for time in (item.begin, item.end) if time is not None)
    for item in things:
        reached = [spans[source][1] for source in sources.get(key(item), ()) if source in spans]
        floor = lanes.get(item.actor, first)
        if item.kind in WORK and item.actor[0] == "stream" and item.begin is not None and item.end is not None:
            begin, end = item.begin, max(item.begin, item.end)
        else:
            begin = max([floor, *([] if item.begin is None else [item.begin]), *([] if item.host else reached)])
            end = max([begin, *([] if item.end is None else [item.end]), *(reached if item.host else [])])
        spans[key(item)] = begin, end
        lanes[item.actor] = max(floor, end)
    return spans


def _points(things: Sequence[Item], spans: Mapping[Key, tuple[int, int]]) -> list[tuple[int, bool, Item]]:
    """Begins and ends in order; at one moment first what ends, then what takes no time, in the order of rows, then what begins."""
    points = []
    for i, item in enumerate(things):
        begin, end = spans[key(item)]
        rank = 1 if begin == end else 2
        points += [((begin, rank, i, 0), True, item), ((end, 1 if begin == end else 0, i, 1), False, item)]
    points.sort(key=lambda point: point[0])
    return [(when[0], begins, item) for when, begins, item in points]
