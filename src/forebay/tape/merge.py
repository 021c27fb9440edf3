"""merge: several tapes of one process as one tape. Who they are of is told by their provenance alone.

Note [The rule of merging]. Nothing is guessed. Tapes go together only where each says the same `host` and `pid`. Their rows are put
in one order by `seq`, where every row has one (it is one counter a process), else by `time_ns`, where every row has one and each
tape names the same `clock`; otherwise they are refused, and so is a tape whose own rows stand in another order. Between rows that
are equal the order of the tapes decides. By time nothing is sure across tapes: a row next to another tape's row is flagged OVERLAPS.
Equal strings and stacks are one; threads are one where their tid is, streams where device, context and handle are; pools and
handles never are. What both tapes show is there twice: hand in tapes that show different things.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

import numpy as np

from forebay._core.tape import COLUMNS as NAMES
from forebay.errors import BadInput
from forebay.tape.defines import join
from forebay.tape.events import COLUMNS, Flag, Kind
from forebay.tape.parse import pack_sites
from forebay.tape.rows import Array, Sides, Stream, Tape, Thread, Uses

__all__ = ["merge"]

_NUMBERED: Final = (Kind.region_begin, Kind.region_end)  # their `ref` is an iteration, no handle


def merge(tapes: Sequence[Tape]) -> Tape:
    """One tape of them, see Note [The rule of merging]. Raises BadInput where they cannot be put in one order."""
    for field in ("host", "pid"):
        if len({str(tape.provenance.get(field)) for tape in tapes}) != 1 or field not in tapes[0].provenance:
            raise BadInput(
                f"these tapes do not say that they are of one process: {field} is {[t.provenance.get(field) for t in tapes]}"
            )
    key = _key(tapes)
    tables = _Tables(tapes)
    starts = np.cumsum([0, *map(len, tapes)])
    joined = join([_widened(tables.moved(tape, int(start)), tapes) for tape, start in zip(tapes, starts, strict=False)])
    order = np.argsort(joined.columns[key], kind="stable")
    rows = joined.take(order)
    columns = dict(rows.columns.items())
    if "cause" in columns:
        place = np.empty(len(order), "u8")
        place[order] = np.arange(len(order), dtype="u8")
        columns["cause"] = np.where(rows.knows("cause"), place[np.minimum(columns["cause"], len(order) - 1)], 0).astype("u8")
    if key == "time_ns":
        columns["flags"] = columns["flags"] | _beside(np.repeat(np.arange(len(tapes)), [len(t) for t in tapes])[order])
    provenance = {**{f: tapes[0].provenance[f] for f in ("host", "pid")}, "merged": [dict(tape.provenance) for tape in tapes]}
    sees = frozenset[Any]().union(*(tape.sees for tape in tapes))
    return replace(rows, columns=columns, sides=tables.sides(), sees=sees, provenance=provenance, picked=None)


def _key(tapes: Sequence[Tape]) -> str:
    """The column that puts all rows in one order."""
    clocks = {tape.provenance.get("clock") for tape in tapes}
    for key in ("seq", "time_ns"):
        if not all(tape.knows(key).all() for tape in tapes) or (key == "time_ns" and (len(clocks) > 1 or None in clocks)):
            continue
        for number, tape in enumerate(tapes):
            if len(tape) and np.any(tape.columns[key][1:] < tape.columns[key][:-1]):
                raise BadInput(f"tape {number} does not stand in the order of its own {key}: it cannot be merged")
        return key
    raise BadInput("no common order: not every row has a seq, nor every row a time on one clock that each tape names")


def _beside(tape: Array) -> Array:
    """OVERLAPS for rows next to a row of another tape."""
    change = tape[1:] != tape[:-1]
    near = np.concatenate([[False], change]) | np.concatenate([change, [False]])
    return np.where(near, np.uint32(Flag.OVERLAPS.value), np.uint32(0))


def _widened(tape: Tape, tapes: Sequence[Tape]) -> Tape:
    """With every column that any of the tapes has, and `known` spelt out."""
    names = {name for t in tapes for name in t.columns} | {"flags"}
    known = sum((tape.knows(name).astype("u4") << np.uint32(bit) for bit, name in enumerate(NAMES)), np.zeros(len(tape), "u4"))
    if "flags" not in tape.columns:
        known = known | np.uint32(1 << NAMES.index("flags"))
    zero = {name: np.zeros(len(tape), COLUMNS[name].dtype) for name in names - set(tape.columns)}
    columns = {name: zero[name] if name in zero else tape.columns[name] for name in COLUMNS if name in names}
    none = Uses(np.zeros(len(tape) + 1, "u8"), *(np.zeros(0, kind) for kind in ("u8", "u8", "u1", "u1", "u1")))
    uses = (tape.uses or none) if any(t.uses is not None for t in tapes) else None
    return replace(tape, columns=columns, known=known, uses=uses)


class _Tables:
    """The side tables of all tapes as one, and the new ids of each tape."""

    def __init__(self, tapes: Sequence[Tape]) -> None:
        self._entries: dict[str, list[Any]] = {name: [] for name in ("name", "site", "stream", "pool", "thread")}
        self._index: dict[tuple[str, Hashable], int] = {}
        self._refs = 0
        self._count = 0
        self._id("name", "", "")
        self._id("site", (), ())

    def _id(self, table: str, key: Hashable, entry: Any) -> int:
        """The id of an entry: that of an equal key, else a new one."""
        if (table, key) not in self._index:
            self._index[table, key] = len(self._entries[table])
            self._entries[table].append(entry)
        return self._index[table, key]

    def moved(self, tape: Tape, start: int) -> Tape:
        """The tape with ids of the common tables, and causes counted from row `start`."""
        self._count += 1
        sides, own = tape.sides, self._count
        stacks = [sides.sites.stack(site) for site in range(len(sides.sites))]
        most = int(tape.columns["thread"].max()) + 1 if len(tape) and tape.has("thread") else 0
        threads = [*sides.threads, *[Thread()] * (most - len(sides.threads))]
        ids = {
            "name": [self._id("name", name, name) for name in sides.strings],
            "site": [self._id("site", stack, stack) for stack in stacks],
            "thread": [self._id("thread", _thread_key(t, own, i), t) for i, t in enumerate(threads)],
        }
        moves = {name: partial(_moved, np.array(to)) for name, to in ids.items() if to}
        return self._moved_handles(tape, start, moves, np.array(ids["thread"] or [0]))

    def _moved_handles(self, tape: Tape, start: int, moves: Mapping[str, Callable[[Array], Array]], threads: Array) -> Tape:
        own = self._count
        streams = [
            self._id("stream", _stream_key(s, own, i), replace(s, thread=None if s.thread is None else int(threads[s.thread])))
            for i, s in enumerate(tape.sides.streams)
        ]
        first = len(self._entries["pool"])
        for i, pool in enumerate(tape.sides.pools):
            self._id("pool", (own, i), replace(pool, parent=None if pool.parent is None else pool.parent + first))
        refs, self._refs = self._refs, self._refs + _handles(tape)
        moves = {
            **moves,
            "stream": partial(_moved, np.array(streams or [0])),
            "pool": lambda column: column + first,
            "capture": lambda column: column + refs,
            "ref": lambda column: np.where(np.isin(tape.columns["kind"], _NUMBERED), column, column + refs),
            "cause": lambda column: column - tape.first + start,
        }
        columns = {
            name: np.where(tape.knows(name), moves[name](column), 0).astype(column.dtype) if name in moves else column
            for name, column in tape.columns.items()
        }
        return replace(tape, columns=columns, first=0)

    def sides(self) -> Sides:
        """The tables so far."""
        of = self._entries
        return Sides(of["stream"], of["pool"], of["name"], pack_sites(of["site"]), of["thread"])


def _moved(to: Array, column: Array) -> Array:
    return to[np.minimum(column, len(to) - 1)]


def _thread_key(thread: Thread, own: int, index: int) -> Hashable:
    return thread.tid if thread.tid is not None else (own, index)


def _stream_key(stream: Stream, own: int, index: int) -> Hashable:
    return (own, index) if stream.handle is None else ("handle", stream.device, stream.context, stream.handle)


def _handles(tape: Tape) -> int:
    """One more than the largest handle on the tape."""
    handles = tape.knows("ref") & ~np.isin(tape.columns["kind"], _NUMBERED)
    refs = int(tape.columns["ref"][handles].max()) + 1 if handles.any() else 0
    captures = tape.knows("capture")
    return max(refs, int(tape.columns["capture"][captures].max()) + 1 if captures.any() else 0)
