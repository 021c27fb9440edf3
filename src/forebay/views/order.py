"""order: which event is sure to have happened before which, and which touches of the same bytes nothing orders.

Built from edges only (program order, record and wait, host syncs), never from timestamps; docs/decisions/0165. The engine is
native/order; which edges are needed is needed.py's, what a rule makes of a race is contract's.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final, Literal

from forebay._core.order import Engine
from forebay._core.order import Race as Pair
from forebay._core.order import RaceKind as Verdict
from forebay._core.tape import COLUMNS as NAMES
from forebay.tape import Frame, Kind, Sides, Space, StreamClass, Tape, fills

__all__ = [
    "Place",
    "Race",
    "RaceKind",
    "Races",
    "find_races",
    "missing_edge",
    "place",
    "stream_name",
    "tables",
    "threads_of",
    "unordered",
    "whole_tables",
]

RaceKind = Literal["free", "access", "alloc", "unmap"]
_KINDS: Final[dict[Verdict, RaceKind]] = {
    Verdict.free: "free", Verdict.access: "access", Verdict.alloc: "alloc", Verdict.unmap: "unmap",
}  # fmt: skip
_ENDS: Final = (Kind.free, Kind.unmap, Kind.release, Kind.unpin)


@dataclass(frozen=True, slots=True)
class Place:
    """Where one side of a race stands: its row, and what the row says of itself. None where the tape does not."""

    row: int
    kind: Kind
    name: str
    thread: int
    stream: str | None
    stack: tuple[Frame, ...]

    def __str__(self) -> str:
        what = f"{self.kind.name} {self.name}".rstrip()
        where = f" on `{self.stream}`" if self.stream is not None else f" of thread {self.thread}"
        at = f" at {self.stack[0].file}:{self.stack[0].line}" if self.stack else f" (row {self.row})"
        return what + where + at


@dataclass(frozen=True, slots=True)
class Race:
    """Two rows, `a` first on the tape, that touch bytes within [lo, hi) although nothing orders them.

    `kind`: free (a use and the free of its block), access (two uses), alloc (an alloc and a use that does not come after it), unmap
    (a use and the host's taking away of its bytes). `certain`: no edge that the tape may hide could order them.
    """

    a: Place
    b: Place
    lo: int
    hi: int
    kind: RaceKind
    certain: bool

    @property
    def missing(self) -> str:
        """The edge that would order them, in words."""
        return _missing(self)


class Races:
    """Finds races while the chunks of one tape pass. `threads`: how many host threads it is known to have."""

    def __init__(self, sides: Sides, threads: int = 0) -> None:
        self._engine = Engine(*tables(sides), threads)

    def feed(self, chunk: Tape) -> None:
        """The next rows."""
        self._engine.feed(chunk)

    def pairs(self) -> list[Pair]:
        """All pairs of rows so far, in the order of the later one; byte ranges [lo, hi)."""
        return self._engine.races()

    @property
    def pieces(self) -> int:
        """Byte ranges that are told apart now: what memory grows with."""
        return self._engine.pieces


def find_races(tape: Tape) -> Iterator[Race]:
    """The races of a whole tape, in the order of their later row."""
    races = Races(tape.sides, threads_of([tape]))
    for chunk in tape.chunks():
        races.feed(chunk)
    for pair in races.pairs():
        yield Race(place(tape, pair.a), place(tape, pair.b), pair.lo, pair.hi, _KINDS[pair.kind], pair.certain)


def unordered(tape: Tape) -> tuple[int, int]:
    """How many pairs of rows of a whole tape touch the same bytes although nothing orders them, and how many of them for certain."""
    races = Races(tape.sides, threads_of([tape]))
    for chunk in tape.chunks():
        races.feed(chunk)
    pairs = races.pairs()
    return len(pairs), sum(pair.certain for pair in pairs)


def tables(sides: Sides) -> tuple[list[tuple[StreamClass | None, int]], list[tuple[Space, bool]]]:
    """The side tables as the engine takes them: (class, device) a stream, (space, trusted) a pool."""
    streams = [(stream.kind, stream.device) for stream in sides.streams]
    return streams, [(Space[pool.space], pool.trusted) for pool in sides.pools]


def whole_tables(tape: Tape) -> tuple[list[tuple[StreamClass | None, int]], list[tuple[Space, bool]]]:
    """As `tables`, with an entry for every stream of a whole tape, those that its table lacks included."""
    streams, pools = tables(tape.sides)
    if tape.has("stream") and len(tape):
        streams += [(None, 0)] * max(0, int(tape.columns["stream"].max()) + 1 - len(streams))
    return streams, pools


def threads_of(chunks: Iterable[Tape]) -> int:
    """How many host threads act, in as far as their indices tell."""
    columns = [chunk.columns["thread"] for chunk in chunks if chunk.has("thread") and len(chunk)]
    return max((int(column.max()) + 1 for column in columns), default=1)


def place(tape: Tape, row: int) -> Place:
    """What a row of a whole tape says of itself."""
    sides = tape.sides
    name, stream, site = (_cell(tape, column, row) for column in ("name", "stream", "site"))
    return Place(
        row=row,
        kind=Kind(int(tape.columns["kind"][row])),
        name=sides.strings[name] if name is not None else "",
        thread=_cell(tape, "thread", row) or 0,
        stream=stream_name(sides, stream),
        stack=sides.sites.stack(site) if site is not None else (),
    )


def _cell(tape: Tape, column: str, row: int) -> int | None:
    """A value of a row; None where the tape does not know it."""
    if not tape.has(column) or column not in fills(Kind(int(tape.columns["kind"][row]))):
        return None
    if tape.known is not None and not int(tape.known[row]) >> NAMES.index(column) & 1:
        return None
    return int(tape.columns[column][row])


def stream_name(sides: Sides, stream: int | None) -> str | None:
    """What a stream is called; its number where the table lacks it."""
    if stream is None:
        return None
    return sides.streams[stream].name if stream < len(sides.streams) else f"#{stream}"


def _missing(race: Race) -> str:
    if race.kind in ("free", "unmap") and race.a.kind in _ENDS:
        return f"{race.b} comes after the {race.a.kind.name} of its bytes: use it before, or {race.a.kind.name} later"
    return missing_edge(race.a, race.b)


def missing_edge(a: Place, b: Place) -> str:
    """The edge that would order `a` before `b`, in words."""
    if b.stream is None:
        return f"{_known_to_host(a)} in thread {b.thread} before {b}"
    if a.stream is None:
        return f"hand over from thread {a.thread} after {a} to thread {b.thread} before {b}"
    return f"record on `{a.stream}` after {_bare(a)}, wait on `{b.stream}` before {_bare(b)}"


def _known_to_host(a: Place) -> str:
    if a.stream is None:
        return f"hand over from thread {a.thread} after {a},"
    return f"record on `{a.stream}` after {_bare(a)}, synchronise with that event"


def _bare(place: Place) -> str:
    """A place without its stream, which the sentence has named."""
    return str(replace(place, stream=None)).replace(f" of thread {place.thread}", "", 1)
