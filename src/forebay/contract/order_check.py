"""order_check: a run against the entries of `[order]`: the edges that are missing, and the orders that are too many. What an entry says
is order_spec's, how a breach reads the rule's (rules/order.py).

before: each piece of `right` comes after every piece of `left` that was issued before it. overlap: each piece of `left` is free of some
piece of `right` of the same step (docs/decisions/0056).
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from forebay.contract.order_spec import Entry, Pattern
from forebay.finding import Certainty
from forebay.tape import Flag, Kind, Sees, Tape
from forebay.views.inside import rows_inside
from forebay.views.links import WORK
from forebay.views.relation import Answer, Item, Relation
from forebay.views.steps import find_steps

__all__ = ["Breach", "Ordered", "Run", "Unmatched", "breaches"]


class Breach(NamedTuple):
    """Two pieces of work that stand otherwise than an entry says: `a`, first on the tape, is not before `b`, or is although it must not."""

    entry: Entry
    a: Item
    b: Item
    certainty: Certainty


class Unmatched(NamedTuple):
    """An entry of which there was nothing to judge: a name that no work has, or None where both ran and never met."""

    entry: Entry
    absent: Pattern | None


Ordered = list[Item]
_CERTAIN: Final[frozenset[Answer]] = frozenset({"certain"})
_ORDERED: Final[frozenset[Answer]] = frozenset({"certain", "possible"})


class Run:
    """What ran, as entries are judged on it: its work, in the tape's order, and what orders it."""

    def __init__(self, tape: Tape, regions: Mapping[str, tuple[str, ...]] | None = None) -> None:
        self.tape, self.relation = tape, Relation(tape)
        self.items: Ordered = self.relation.items()
        self.step = find_steps(tape).of
        self._inside = {name: rows_inside(tape, match) for name, match in (regions or {}).items()}
        gaps = tape.where(Kind.gap)
        self._whole_until = int(gaps[0]) if len(gaps) else len(tape)
        self._syncs = Sees.SYNCS in tape.sees
        self.joints = _joints(tape)

    def of(self, pattern: Pattern, region: str | None) -> Ordered:
        """The work that a name means."""
        inside = None if region is None else self._inside[region]
        return [item for item in self.items if (inside is None or inside[item.row]) and pattern.matches(item)]

    def sure(self, later: Item, *, of_absence: bool = False) -> bool:
        """Whether the tape shows enough for a certain word on what happened up to here. That an edge is absent, only syncs show."""
        overlaps = self.tape.has("flags") and int(self.tape.columns["flags"][later.row]) & int(Flag.OVERLAPS)
        return later.row < self._whole_until and not overlaps and (self._syncs or not of_absence)


def _joints(tape: Tape) -> frozenset[int]:
    """Rows that are written to join: waits, syncs, ready queries, and work that the host waits for."""
    rows = tape.where(Kind.wait, Kind.sync_event, Kind.sync_stream, Kind.sync_device, Kind.query)
    blocking = tape.where(*WORK) if tape.has("flags") else rows[:0]
    blocking = blocking[tape.columns["flags"][blocking] & int(Flag.BLOCKING) != 0] if len(blocking) else blocking
    return frozenset(rows.tolist()) | frozenset(blocking.tolist())


def breaches(run: Run, entry: Entry) -> Iterator[Breach | Unmatched]:
    """Where a run does not keep an entry, in the tape's order."""
    left, right = (run.of(pattern, entry.region) for pattern in (entry.left, entry.right))
    if not left or not right:
        yield Unmatched(entry, entry.left if not left else entry.right)
    elif entry.intent == "before":
        yield from _not_before(run, entry, left, right)
    else:
        yield from _not_free(run, entry, left, right)


def _not_before(run: Run, entry: Entry, left: Ordered, right: Ordered) -> Iterator[Breach | Unmatched]:
    """Of each stream only the last piece of `left` is asked about: those before it are ordered with it."""
    latest: dict[int, Item] = {}
    pending, met = iter(left), False
    a: Item | None = next(pending, None)
    for b in right:
        while a is not None and a.row < b.row:
            latest[a.lane] = a
            a = next(pending, None)
        for last in latest.values():
            met = True
            answer = run.relation.before(last, b)
            if answer != "certain":
                certain = answer == "no" and run.sure(b, of_absence=True)
                yield Breach(entry, last, b, "certain" if certain else "possible")
    if not met:
        yield Unmatched(entry, None)


def _not_free(run: Run, entry: Entry, left: Ordered, right: Ordered) -> Iterator[Breach | Unmatched]:
    lanes: dict[int, dict[int, Ordered]] = defaultdict(lambda: defaultdict(list))  # step, stream
    for b in right:
        lanes[int(run.step[b.row])][b.lane].append(b)
    met = False
    for a in left:
        others = [lane for index, lane in lanes[int(run.step[a.row])].items() if index != a.lane]
        met |= bool(others)
        found = [c for lane in others if (c := _blocker(run, a, lane, _ORDERED)) is not None]
        if others and len(found) == len(others):
            known = all(_blocker(run, a, lane, _CERTAIN) is not None for lane in others)
            nearest = min(found, key=lambda b: abs(b.row - a.row))
            first, second = sorted((a, nearest), key=lambda item: item.row)
            yield Breach(entry, first, second, "certain" if known and run.sure(second) else "possible")
    if not met:
        yield Unmatched(entry, None)


def _blocker(run: Run, a: Item, lane: Ordered, orders: frozenset[Answer]) -> Item | None:
    """A piece of another stream that is ordered with `a`, where all of them are; None where one is free. What comes before `a` stands first
    in the stream, what comes after it last: only the first piece that does not come before can be free."""
    place = bisect_left(lane, True, key=lambda b: run.relation.before(b, a) not in orders)
    if place == len(lane):
        return lane[-1]
    following = lane[place]
    return following if run.relation.before(a, following) in orders else None
