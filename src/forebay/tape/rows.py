"""rows: a tape in memory. Columns are NumPy arrays, slices are views, side tables are shared.

What the columns mean is events.py's; text and files are notation.py's and file.py's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from forebay._core.tape import COLUMNS as NAMES
from forebay.errors import BadInput
from forebay.tape.events import COLUMNS, Extent, Kind, Mode, Sees, Space, StreamClass, fills

__all__ = ["Frame", "Pool", "Sees", "Sides", "Sites", "Stream", "Tape", "Thread", "Uses"]

Array = NDArray[Any]
State = TypeVar("State")
_BIT = {name: bit for bit, name in enumerate(NAMES)}
# Which kinds fill a column, as a table by kind.
_FILLED = {name: np.array([name in fills(kind) for kind in Kind], bool) for name in NAMES}


class Frame(NamedTuple):
    """One line of a stack."""

    file: str
    line: int
    function: str


@dataclass(frozen=True, slots=True)
class Stream:
    """One stream. `handle` is the driver's number for it, None where the source does not say; so are the others."""

    name: str
    handle: int | None = None
    device: int = 0
    context: int | None = None
    kind: StreamClass | None = None
    priority: int | None = None
    thread: int | None = None  # owner of a per-thread default stream


@dataclass(frozen=True, slots=True)
class Pool:
    """One pool. `private` is a framework's id of a private pool; `trusted`: its own edges are not on the tape."""

    name: str
    consumer: str | None = None
    kind: str | None = None  # "small", "large", "segments", "paged", "pinned", ...
    device: int = 0
    space: str = "device"
    parent: int | None = None  # index of the pool it grows from
    private: tuple[int, int] | None = None
    trusted: bool = False


class Thread(NamedTuple):
    """One host thread: its name, "" where nobody gave one, and the operating system's number for it."""

    name: str = ""
    tid: int | None = None


@dataclass(frozen=True, slots=True)
class Sites:
    """Stacks by id: site i is frames[index[offsets[i]:offsets[i + 1]]], the innermost frame first. Site 0 is the empty stack."""

    frames: Sequence[Frame] = ()
    offsets: Array = field(default_factory=lambda: np.zeros(2, "u8"))
    index: Array = field(default_factory=lambda: np.zeros(0, "u4"))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def stack(self, site: int) -> tuple[Frame, ...]:
        """The frames of a site, innermost first."""
        return tuple(self.frames[i] for i in self.index[int(self.offsets[site]) : int(self.offsets[site + 1])])


@dataclass(frozen=True, slots=True)
class Sides:
    """The side tables. String 0 is "", site 0 the empty stack. Threads may be fewer than the column `thread` counts."""

    streams: Sequence[Stream] = ()
    pools: Sequence[Pool] = ()
    strings: Sequence[str] = ("",)
    sites: Sites = field(default_factory=Sites)
    threads: Sequence[Thread] = ()


@dataclass(frozen=True, slots=True)
class Uses:
    """The accesses of work items: row i's are [offsets[i], offsets[i + 1]) of the other arrays (u8 addresses and sizes, u1 codes)."""

    offsets: Array
    address: Array
    size: Array
    mode: Array
    extent: Array
    space: Array


class _Gathered(Mapping[str, Array]):
    """Columns at chosen rows, each gathered when it is first asked for, and kept."""

    def __init__(self, columns: Mapping[str, Array], rows: Array) -> None:
        self._columns, self._rows = columns, rows
        self._gathered: dict[str, Array] = {}

    def __getitem__(self, name: str) -> Array:
        if name not in self._gathered:
            self._gathered[name] = self._columns[name][self._rows]
        return self._gathered[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)

    def __contains__(self, name: object) -> bool:
        return name in self._columns


def _gather_uses(uses: Uses, rows: Array) -> Uses:
    starts, counts = uses.offsets[:-1][rows], np.diff(uses.offsets)[rows]
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype("u8")
    index = np.arange(int(offsets[-1])) + np.repeat(starts.astype("i8") - offsets[:-1].astype("i8"), counts.astype("i8"))
    parts = (part[index] for part in (uses.address, uses.size, uses.mode, uses.extent, uses.space))
    return Uses(offsets, *parts)


def _check_uses(uses: Uses, rows: int) -> None:
    if len(uses.offsets) != rows + 1 or np.any(uses.offsets[1:] < uses.offsets[:-1]) or int(uses.offsets[-1]) > len(uses.address):
        raise BadInput(f"uses: {len(uses.offsets)} offsets that do not rise to {len(uses.address)} accesses of {rows} rows")
    for name, codes, enum in (("mode", uses.mode, Mode), ("extent", uses.extent, Extent), ("space", uses.space, Space)):
        if len(codes) and int(codes.max()) >= len(enum):
            raise BadInput(f"uses: {name} {int(codes.max())} is none of {', '.join(enum.__members__)}")


@dataclass(frozen=True)
class Tape:
    """n events, their side tables, what the source could see, and where it comes from.

    `columns` maps names of COLUMNS to arrays of n; a column that the source cannot fill is absent. `known`, where present, is a
    u4 array of n bit sets (bit i is _core.tape.COLUMNS[i]): a row's value is null where its bit is clear although its kind
    fills the column. Cells of columns that a kind does not fill hold 0 and mean nothing.
    """

    columns: Mapping[str, Array]
    sides: Sides = field(default_factory=Sides)
    sees: frozenset[Sees] = frozenset()
    provenance: Mapping[str, Any] = field(default_factory=dict)
    uses: Uses | None = None
    known: Array | None = None
    first: int = 0  # index of row 0 in the tape that this one is a slice of: what `cause` counts from
    picked: Array | None = None  # where rows were picked: the index of each in the tape that they come from, as `cause` counts

    def __post_init__(self) -> None:
        if isinstance(self.columns, _Gathered):
            return  # checked where they come from
        for name, column in self.columns.items():
            if name not in COLUMNS or column.dtype != COLUMNS[name].dtype or column.shape != (len(self),):
                raise ValueError(
                    f"column {name!r}: expected {len(self)} values of {COLUMNS[name].dtype if name in COLUMNS else 'a known column'}"
                )

    def __len__(self) -> int:
        return len(self.columns["kind"])

    def __getitem__(self, rows: slice) -> Tape:
        """A run of rows as views of the same memory."""
        start, stop, step = rows.indices(len(self))
        if step != 1:
            raise ValueError("a tape is cut into runs of rows: step must be 1")
        uses = self.uses and replace(self.uses, offsets=self.uses.offsets[start : stop + 1])
        known = None if self.known is None else self.known[start:stop]
        columns = {name: column[start:stop] for name, column in self.columns.items()}
        picked = None if self.picked is None else self.picked[start:stop]
        return replace(self, columns=columns, uses=uses, known=known, first=self.first + start, picked=picked)

    def chunks(self, rows: int = 65536) -> Iterator[Tape]:
        """Runs of at most `rows` rows, in order, without copies: what views and rules fold over."""
        for start in range(0, len(self), rows):
            yield self[start : start + rows]

    def take(self, rows: NDArray[np.integer[Any]]) -> Tape:
        """The rows of these indices, in this order. A column is gathered when it is first asked for."""
        uses = self.uses and _gather_uses(self.uses, rows)
        picked = self.first + rows if self.picked is None else self.picked[rows]
        known = None if self.known is None else self.known[rows]
        return replace(self, columns=_Gathered(self.columns, rows), uses=uses, known=known, first=0, picked=picked)

    def fold(self, step: Callable[[State, Tape], State], state: State, rows: int = 65536) -> State:
        """What `step` makes of the state and each chunk in turn; the same over a file is folding `file.open_chunks`."""
        for chunk in self.chunks(rows):
            state = step(state, chunk)
        return state

    def check(self) -> Tape:
        """The tape itself, if its codes and indices mean something and its uses are whole. Raises BadInput naming row and column."""
        if len(self) and int(self.columns["kind"].max()) >= len(Kind):
            raise BadInput(f"row {int(self.columns['kind'].argmax())}: kind {int(self.columns['kind'].max())} is no kind")
        tables: dict[str, Sized] = {
            "name": self.sides.strings,
            "site": self.sides.sites,
            "stream": self.sides.streams,
            "pool": self.sides.pools,
        }
        for name, table in tables.items():
            if name in self.columns:
                bad = np.flatnonzero(self.knows(name) & (self.columns[name] >= len(table)))
                if len(bad):
                    raise BadInput(f"row {bad[0]}: {name} {self.columns[name][bad[0]]} is not in a table of {len(table)}")
        if self.uses is not None:
            _check_uses(self.uses, len(self))
        return self

    def where(self, *kinds: Kind) -> NDArray[np.intp]:
        """Indices of the rows of these kinds, in order."""
        wanted = np.zeros(256, bool)
        wanted[[int(kind) for kind in kinds]] = True
        return np.flatnonzero(wanted[self.columns["kind"]])

    def knows(self, name: str) -> NDArray[np.bool_]:
        """For each row whether the column (or `uses`) holds a value: it is present, the kind fills it, and it is not null."""
        if name == "kind":
            return np.ones(len(self), bool)
        if name not in self.columns and not (name == "uses" and self.uses is not None):
            return np.zeros(len(self), bool)
        filled: NDArray[np.bool_] = _FILLED[name][self.columns["kind"]]
        return filled if self.known is None else filled & (self.known >> _BIT[name] & 1).astype(bool)

    def has(self, name: str) -> bool:
        """Whether the source fills this column at all."""
        return name in self.columns
