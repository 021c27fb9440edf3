"""links: which row each wait and sync looks back at, as pairs of rows; docs/decisions/0165, statements 3 and 4.

What follows from them (who is ordered with whom) is order.py's, which of them are needed needed.py's.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from forebay.tape import Flag, Kind, Tape

__all__ = ["WORK", "Link", "find_links"]

WORK: Final = frozenset({Kind.launch, Kind.copy, Kind.memset, Kind.host_func, Kind.graph_launch})
_OF_EVENT: Final = frozenset({Kind.wait, Kind.sync_event, Kind.query})
_QUEUED: Final = WORK | {Kind.record, Kind.wait}


class Link(NamedTuple):
    """An edge into row `after` from row `before`; they are the same row where the host waits for the work that it issues."""

    before: int
    after: int


def find_links(tape: Tape) -> Iterator[Link]:
    """The edges that rows make, in the order of their later row: record to wait, event sync or ready query; the last thing put into a
    stream to the sync of it, one a stream to a device sync; blocking work to its own return.

    Program order is left out. Events never recorded, and queries that were not ready, make none.
    """
    seen = _Seen(tape)
    kinds = {int(kind): kind for kind in Kind}
    for row, code in enumerate(tape.columns["kind"].tolist()):
        yield from seen.row(row, kinds[code])


class _Seen:
    """Where each event was recorded last and what each stream was given last, so far."""

    def __init__(self, tape: Tape) -> None:
        self._cells = {name: tape.columns[name].tolist() for name in ("ref", "stream", "flags", "device") if tape.has(name)}
        self._known = {name: tape.knows(name).tolist() for name in self._cells}
        self._records: dict[int, int] = {}
        self._last: dict[int, int] = {}  # stream -> row
        self._devices = [stream.device for stream in tape.sides.streams]

    def row(self, row: int, kind: Kind) -> Iterator[Link]:
        ref, stream, flags = self._cell("ref", row), self._cell("stream", row), self._cell("flags", row) or 0
        if kind is not Kind.query or flags & int(Flag.READY):
            yield from self._back(row, kind, ref, stream)
        if kind in WORK and flags & int(Flag.BLOCKING):
            yield Link(row, row)
        if kind is Kind.record and ref is not None:
            self._records[ref] = row
        elif kind is Kind.event_destroy and ref is not None:
            self._records.pop(ref, None)
        if kind in _QUEUED and stream is not None:
            self._last[stream] = row

    def _back(self, row: int, kind: Kind, ref: int | None, stream: int | None) -> Iterator[Link]:
        if kind in _OF_EVENT and ref is not None:
            before = self._records.get(ref)
        elif kind in (Kind.sync_stream, Kind.query) and stream is not None:
            before = self._last.get(stream)
        elif kind is Kind.sync_device:
            device = self._cell("device", row) or 0
            yield from (Link(last, row) for stream, last in self._last.items() if self._device(stream) == device)
            return
        else:
            return
        if before is not None:
            yield Link(before, row)

    def _device(self, stream: int) -> int:
        return self._devices[stream] if stream < len(self._devices) else 0

    def _cell(self, name: str, row: int) -> int | None:
        if name not in self._cells or not self._known[name][row]:
            return None
        value: int = self._cells[name][row]
        return value
