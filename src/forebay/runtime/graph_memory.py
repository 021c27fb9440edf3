"""graph_memory: the memory of one graph: allocations during its capture, reused where the capture orders it, held as long as the graph.

It grows from a pool of its own, beforehand or during the capture; no other pool ever gets its bytes while the graph lives.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from forebay._core.pool import Pool as NativePool
from forebay._core.tape import Kind
from forebay.errors import BadInput
from forebay.runtime.buffer import Buffer
from forebay.tape.events import Space

if TYPE_CHECKING:
    from forebay.runtime.capturing import Capture, Points
    from forebay.runtime.device import Device
    from forebay.runtime.stream import Stream

__all__ = ["GraphMemory"]

_ROUND: Final = 512
_SMALLEST: Final = 2**20  # bytes of one growth: the pool takes 2 MiB from the driver for it, and 20 MiB for more than that
_numbers = itertools.count(1 << 17)  # apart from the pools' that programs make


@dataclass(slots=True)
class _Piece:
    """Free bytes of one growth. Whoever takes them must come after `points`."""

    address: int
    nbytes: int
    growth: int  # its begin
    points: Points


@dataclass(frozen=True, slots=True)
class _Taken:
    nbytes: int
    growth: int
    points: Points
    stream: Stream


class GraphMemory:
    """Where a capturing stream's allocations come from. `reserve` bytes are there before the capture begins.

    The native pool's blocks lie on a stream of its own that never gets work: nothing of it ever asks a stream that captures.
    Raises PoolExhausted, DriverError.
    """

    def __init__(self, device: Device, name: str, reserve: int) -> None:
        self.device, self.name = device, name
        self.capture: Capture | None = None  # until it is over
        self._closed = False
        self._growths: dict[int, int] = {}
        self._free: list[_Piece] = []
        self._live: dict[int, _Taken] = {}
        self._streams: dict[int, Stream] = {}  # that graphs were launched on
        self._rows = device.pool_rows(f"graph {name}", None, "graph", Space.device)
        self._side = device.stream(f"memory of graph {name}", kind="nonblocking")
        self._native = NativePool(
            device.domain, f"graph {name}", index=next(_numbers), wait_limit_ns=0, idle_shared=False, of_a_graph=True
        )
        if reserve:
            self._grow(reserve)

    @property
    def reserved(self) -> int:
        """Bytes that the graph holds, as the driver counts."""
        return self._native.gauges().reserved if self._growths else 0

    def holds(self, buffer: Buffer) -> bool:
        """Whether the buffer's bytes are of this memory."""
        return any(begin <= buffer.address < begin + nbytes for begin, nbytes in self._growths.items())

    def alloc(self, nbytes: int, stream: Stream) -> Buffer:
        """A buffer for what `stream`, which takes part in the capture, gets from now on."""
        capture = self.capture
        if capture is None or stream.capture is not capture:
            raise BadInput(f"graph {self.name}: {stream!r} takes no part in its capture; allocate on one that does")
        size = -(-nbytes // _ROUND) * _ROUND
        fitting = [p for p in self._free if p.nbytes >= size and capture.comes_after(p.points, stream)]
        piece = min(fitting, key=lambda p: (p.nbytes, p.address)) if fitting else self._grow(size)
        address = piece.address
        self._live[address] = _Taken(size, piece.growth, piece.points, stream)
        if piece.nbytes == size:
            self._free.remove(piece)
        else:
            piece.address, piece.nbytes = address + size, piece.nbytes - size
        self._rows.captured(Kind.alloc, stream.id, address, size)
        return Buffer(self.device, address, nbytes, self._release)

    def replayed(self, stream: Stream) -> None:
        """A graph that uses it was launched there."""
        self._streams[stream.id] = stream

    def close(self) -> None:
        """Gives everything back, after the launches, once no buffer of it lives."""
        self._closed = True
        if self._live:
            return
        growths, self._growths = self._growths, {}
        for begin in growths:
            for stream in self._streams.values():
                self._native.lend(begin, stream.id, stream.device.domain)
            self._native.free(begin)
        self._free.clear()

    def _grow(self, nbytes: int) -> _Piece:
        size = max(_SMALLEST, -(-nbytes // _ROUND) * _ROUND)
        begin = self._native.alloc(size, self._side.id)
        self._growths[begin] = size
        piece = _Piece(begin, size, begin, {})
        self._free.append(piece)
        return piece

    def _release(self, buffer: Buffer) -> None:
        taken = self._live.pop(buffer.address)
        if self.capture is not None:
            self._give(buffer, taken, self.capture)
        elif self._closed:
            self.close()

    def _give(self, buffer: Buffer, taken: _Taken, capture: Capture) -> None:
        for number, stream in buffer.streams.items():
            if number != taken.stream.id and stream.capture is capture:
                self._rows.captured(Kind.lend, number, buffer.address, taken.nbytes)
        self._rows.captured(Kind.free, taken.stream.id, buffer.address, taken.nbytes)
        points = _later(taken.points, capture.used_until(buffer.streams))
        piece = _Piece(buffer.address, taken.nbytes, taken.growth, points)
        for other in [p for p in self._free if p.growth == piece.growth]:
            if other.points == points and piece.address in (other.address + other.nbytes, other.address - piece.nbytes):
                self._free.remove(other)
                piece = _Piece(min(piece.address, other.address), piece.nbytes + other.nbytes, piece.growth, points)
        self._free.append(piece)

    def __del__(self) -> None:
        self._live.clear()  # whoever held these cannot use them any more
        self.device.quietly(self.close)

    def __repr__(self) -> str:
        return f"GraphMemory({self.name!r}, {self.reserved} bytes)"


def _later(a: Points, b: Points) -> Points:
    return {stream: max(a.get(stream, 0), b.get(stream, 0)) for stream in {*a, *b}}
