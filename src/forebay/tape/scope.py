"""scope: what a line of text leaves unsaid, and what the names in it are bound to. Parser and printer share it, which is why
one reads back what the other wrote.

Note [Unsaid]. A line need not say:
  seq       the number of the line's row                      flags     0
  device    that of its stream, else 0                        status    0, where any line says one
  uses      none, where any line says some                    capture   the one that its stream is part of
  address, size, requested, pool of a block that it names     size      of a copy or memset: that of its first use
  address   of a block made without one: the next after all made so far
`column=-` says that the value is unknown.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from forebay.tape.events import COLUMNS, Extent, Kind, Mode, Space, StreamClass, fills
from forebay.tape.rows import Stream

__all__ = ["BLOCKS", "EVENTS", "FILLS", "LATE", "MAKES", "Access", "Block", "Row", "Scope", "default_stream", "derived_columns"]

Row = dict[str, int]  # the known columns of one row

FILLS: Final = {kind: frozenset(fills(kind)) for kind in Kind}
MAKES: Final = frozenset({Kind.alloc, Kind.pin, Kind.reserve, Kind.map})
BLOCKS: Final = MAKES | {Kind.free, Kind.lend, Kind.reclaim, Kind.unpin, Kind.release, Kind.unmap}
EVENTS: Final = frozenset(
    {Kind.record, Kind.wait, Kind.query, Kind.sync_event, Kind.event_destroy, Kind.capture_begin, Kind.capture_end}
    | {Kind.graph_instantiate, Kind.graph_launch, Kind.graph_destroy}
)
LATE: Final = {"status": 0}  # unsaid values that hold only where the column is there at all
_CAPTURED: Final = frozenset(
    {Kind.launch, Kind.copy, Kind.memset, Kind.host_func, Kind.graph_launch, Kind.record, Kind.wait}
    | {Kind.alloc, Kind.free, Kind.lend, Kind.capture_end}
)
_BLOCK_COLUMNS: Final = ("address", "size", "requested", "pool")
_ALIGN: Final = 512


class Access(NamedTuple):
    """One use: bytes [address, address + size)."""

    address: int
    size: int
    mode: Mode
    extent: Extent = Extent.exact
    space: Space = Space.device


class Block(NamedTuple):
    """What a name of memory is bound to: the known columns of the row that made it, and the space of its bytes."""

    row: Mapping[str, int]
    space: Space


def default_stream(name: str) -> Stream:
    """The stream that a first mention makes: `legacy` is the legacy default stream, others are of unknown class."""
    return Stream(name, kind=StreamClass.legacy if name == "legacy" else None)


def derived_columns(kinds: Iterable[Kind], known: Iterable[str]) -> frozenset[str]:
    """The columns that a text without a `columns` line has: the known ones, and those that every line implies."""
    implied = {"kind", "seq", "flags"} | ({"device"} if any("device" in FILLS[kind] for kind in set(kinds)) else set())
    return frozenset(implied | set(known))


@dataclass
class Scope:
    """Bindings so far. `streams` grows while lines are read."""

    streams: Sequence[Stream]
    rows: int = 0
    blocks: dict[str, Block] = field(default_factory=dict)
    refs: dict[str, int] = field(default_factory=dict)
    captured: dict[int, int] = field(default_factory=dict)  # stream -> capture
    events: dict[int, int] = field(default_factory=dict)  # event -> the capture that its latest record is part of
    top: int = 0

    def unsaid(self, kind: Kind, said: Mapping[str, int | None], block: str | None, uses: Sequence[Access]) -> Row:
        """The values of what `said` does not mention (see Note [Unsaid]); columns that the kind does not fill included."""
        stream = said.get("stream")
        row = {"seq": self.rows, "flags": 0, "device": 0}
        if stream is not None and stream < len(self.streams):
            row["device"] = self.streams[stream].device
        if (capture := self._capture(kind, stream, said.get("ref"))) is not None:
            row["capture"] = capture
        if block is not None and kind not in MAKES and block in self.blocks:
            row |= {column: self.blocks[block].row[column] for column in _BLOCK_COLUMNS if column in self.blocks[block].row}
        elif block is not None and kind in MAKES and self.top < 2**63:
            row["address"] = self.top
        if kind in (Kind.copy, Kind.memset) and uses:
            row["size"] = uses[0].size
        return row

    def _capture(self, kind: Kind, stream: int | None, ref: int | None) -> int | None:
        if stream is None or kind not in _CAPTURED:
            return None
        joined = self.events.get(ref) if kind is Kind.wait and ref is not None else None
        return self.captured.get(stream, joined)

    def learn(self, kind: Kind, row: Row, block: str | None) -> None:
        """Takes note of a row that is complete."""
        self.rows += 1
        if kind in MAKES and "address" in row:
            end = row["address"] + row.get("size", 0)
            self.top = max(self.top, -(-end // _ALIGN) * _ALIGN)
            if block is not None:
                self.blocks[block] = Block(row, Space.pinned if kind is Kind.pin else Space.device)
        self._follow_captures(kind, row)

    def _follow_captures(self, kind: Kind, row: Row) -> None:
        stream, ref, capture = row.get("stream"), row.get("ref"), row.get("capture")
        if stream is None:
            return
        if kind is Kind.capture_begin and ref is not None:
            self.captured[stream] = ref
        elif kind is Kind.record and ref is not None:
            self.events.pop(ref, None)
            if capture is not None:
                self.events[ref] = capture
        elif kind is Kind.wait and capture is not None:
            self.captured[stream] = capture
        elif kind is Kind.capture_end and capture is not None:
            self.captured = {s: c for s, c in self.captured.items() if c != capture}
            self.events = {e: c for e, c in self.events.items() if c != capture}

    def ref(self, name: str) -> int:
        """The number of an event, graph or capture: names are counted from 0 as they are met."""
        return self.refs.setdefault(name, len(self.refs))

    def cut(self, row: Mapping[str, int | None], kind: Kind) -> Row:
        """Of a row's values those that are known and that its kind fills."""
        return {c: v for c, v in row.items() if v is not None and c in FILLS[kind] and c in COLUMNS}
