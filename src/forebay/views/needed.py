"""needed: which waits and syncs hold up a conflicting pair, and which only cost overlap; docs/decisions/0165, statement 8.

The judging is native/order/needed; which pairs conflict is order.py's, what a rule makes of a needless edge contract's.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from forebay._core.order import Need, Needed
from forebay.tape import Flag, Kind, Sees, Tape
from forebay.views.order import Place, place, threads_of, whole_tables

__all__ = ["Edge", "Edges", "Verdict"]

Verdict = Literal["needed", "needless", "idle", "not judged"]
_VERDICTS: Final[dict[Need, Verdict]] = {
    Need.needed: "needed", Need.needless: "needless", Need.idle: "idle", Need.not_judged: "not judged",
}  # fmt: skip
_WORK: Final = (Kind.launch, Kind.copy, Kind.memset, Kind.host_func, Kind.graph_launch)
_SYNCS: Final = (Kind.sync_event, Kind.sync_stream, Kind.sync_device, Kind.query)
# What goes first where effects are equal: a device sync before a stream sync before an event sync before a wait. Before all goes
# what a pool made by itself: nobody can rely on its being asked for again.
_RANK: Final = {Kind.wait: 0, Kind.query: 1, Kind.sync_event: 1, Kind.sync_stream: 2, Kind.sync_device: 3} | dict.fromkeys(
    _WORK, 2
)
_POOL_MADE: Final = 4  # kPoolMadeRank of native/order/needed.hpp
_MOST_PAIRS: Final = 8


@dataclass(frozen=True, slots=True)
class Edge:
    """A unit: the rows of one site that join clocks (one row where the tape shows no sites), and what becomes of it.

    `effect`: how many orderings of two items it alone adds to all the others.
    """

    rows: tuple[int, ...]
    first: Place
    verdict: Verdict
    effect: int
    pool_made: bool  # by a pool's own calls: the program cannot remove it


class Edges:
    """The units of a whole tape, judged as a set: all that are needless or idle can go at once.

    The history must fit in memory: an edge may be needed by the tape's last row.
    """

    def __init__(self, tape: Tape) -> None:
        self._tape = tape
        self._needed = Needed(*whole_tables(tape), threads_of([tape]), Sees.USES in tape.sees)
        for chunk in tape.chunks():
            self._needed.feed(chunk)
        units = list(_units(tape))
        verdicts = self._needed.judge([self._unit(rows) for rows in units])
        self.all = [
            Edge(tuple(rows), place(tape, rows[0]), _VERDICTS[need], effect, _is_pool_made(tape, rows[0]))
            for rows, (need, effect) in zip(units, verdicts, strict=True)
        ]

    @property
    def visits(self) -> int:
        """Steps of the tape that were worked out again so far, over all trials: what the time goes with."""
        return self._needed.visits

    def _unit(self, rows: list[int]) -> tuple[list[int], int, bool]:
        kinds = [Kind(int(self._tape.columns["kind"][row])) for row in rows]
        judged = Sees.HOST_ACCESSES in self._tape.sees or all(kind is Kind.wait for kind in kinds)
        rank = _POOL_MADE if _is_pool_made(self._tape, rows[0]) else max(_RANK[kind] for kind in kinds)
        return rows, rank, judged

    def carries(self, edge: Edge) -> list[tuple[int, int]]:
        """Pairs of rows (a, b), b after a, that nothing but a needed edge orders, those dropped being gone; at most 8."""
        return self._needed.carries(list(edge.rows), _MOST_PAIRS)

    def earlier(self, edge: Edge) -> int | None:
        """The first row that the record of a needed wait could stand before: work that it waits for though no pair needs that."""
        pairs, wait = self.carries(edge), edge.rows[0]
        if len(edge.rows) > 1 or edge.first.kind is not Kind.wait or not 0 < len(pairs) < _MOST_PAIRS:
            return None
        record = _record_of(self._tape, wait)
        return None if record is None else _work_between(self._tape, max(a for a, _ in pairs), record)


def _units(tape: Tape) -> Iterator[list[int]]:
    """The rows that join clocks, those of one site together."""
    flags = tape.columns["flags"] if tape.has("flags") else np.zeros(len(tape), "u4")
    blocking = [row for row in tape.where(*_WORK) if flags[row] & int(Flag.BLOCKING)]
    waits = [row for row in tape.where(Kind.wait, *_SYNCS) if _joins(tape, int(row), int(flags[row]))]
    by_site: dict[tuple[int, bool], list[int]] = defaultdict(list)
    for row in sorted(int(row) for row in (*blocking, *waits)):
        by_site[_site(tape, row), _is_pool_made(tape, row)].append(row)
    yield from by_site.values()


def _is_pool_made(tape: Tape, row: int) -> bool:
    return tape.has("flags") and bool(tape.columns["flags"][row] & int(Flag.POOL_MADE))


def _joins(tape: Tape, row: int, flags: int) -> bool:
    """Whether a wait or sync is an edge that the tape shows whole."""
    if flags & (int(Flag.IMPLIED) | int(Flag.EXTERNAL)):
        return False
    return Kind(int(tape.columns["kind"][row])) is not Kind.query or bool(flags & int(Flag.READY))


def _site(tape: Tape, row: int) -> int:
    """The site of a row; one of its own, below zero, where it has none."""
    site = int(tape.columns["site"][row]) if tape.has("site") else 0
    return site or -row - 1


def _record_of(tape: Tape, wait: int) -> int | None:
    """The record that a wait refers to."""
    kind, ref = tape.columns["kind"][:wait], tape.columns["ref"]
    records = np.flatnonzero((kind == int(Kind.record)) & (ref[:wait] == ref[wait]))
    return int(records[-1]) if len(records) else None


def _work_between(tape: Tape, after: int, record: int) -> int | None:
    """The first work of the record's stream between a row and the record."""
    stream = tape.columns["stream"]
    between = [row for row in tape[:record].where(*_WORK) if row > after and stream[row] == stream[record]]
    return int(between[0]) if between else None
