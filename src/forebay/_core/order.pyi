"""Which event is sure to have happened before which."""

from collections.abc import Sequence
import enum

import forebay._core.tape


class RaceKind(enum.Enum):
    """What two rows do that nothing orders."""

    free = 0

    access = 1

    alloc = 2

    unmap = 3

class Race:
    """
    Rows a and b, a first on the tape, touch bytes within [lo, hi), unordered.
    """

    @property
    def a(self) -> int: ...

    @property
    def b(self) -> int: ...

    @property
    def lo(self) -> int: ...

    @property
    def hi(self) -> int: ...

    @property
    def kind(self) -> RaceKind: ...

    @property
    def certain(self) -> bool: ...

class Need(enum.Enum):
    """What becomes of a unit of edges."""

    needed = 0

    needless = 1

    idle = 2

    not_judged = 3

class Needed:
    """Which waits and syncs of a tape are needed."""

    def __init__(self, streams: Sequence[tuple[forebay._core.tape.StreamClass | None, int]], pools: Sequence[tuple[forebay._core.tape.Space, bool]], threads: int, uses: bool) -> None:
        """
        Tables as for Engine, holding every stream of the tape; how many threads it has; whether it shows uses.
        """

    def feed(self, tape: object) -> None:
        """The next rows."""

    def judge(self, units: Sequence[tuple[Sequence[int], int, bool]]) -> list[tuple[Need, int]]:
        """
        Of units as (rows, rank, judged): (need, orderings that it alone adds) each. Once only.
        """

    @property
    def visits(self) -> int:
        """Steps that were worked out again, over all trials."""

    def carries(self, rows: Sequence[int], most: int) -> list[tuple[int, int]]:
        """Pairs of rows that nothing but these rows and what is dropped orders."""

class Sure(enum.Enum):
    """Whether one row is before another."""

    no = 0

    possible = 1

    certain = 2

class Relation:
    """Which work items of a tape are before which others."""

    def __init__(self, streams: Sequence[tuple[forebay._core.tape.StreamClass | None, int]], pools: Sequence[tuple[forebay._core.tape.Space, bool]], threads: int) -> None:
        """As for Needed."""

    def feed(self, tape: object) -> None:
        """The next rows."""

    def before(self, a: int, b: int) -> Sure:
        """Whether row a is before row b."""

    def item(self, row: int) -> bool:
        """Whether the row is an item that runs."""

    def way(self, a: int, b: int) -> list[int]:
        """
        Rows on one way from a to b, b first, at which order comes in from another stream or thread.
        """

class Engine:
    """Finds races while the chunks of a tape pass."""

    def __init__(self, streams: Sequence[tuple[forebay._core.tape.StreamClass | None, int]], pools: Sequence[tuple[forebay._core.tape.Space, bool]], threads: int) -> None:
        """
        Streams as (class or None, device), pools as (space, trusted), in the order of their tables; the number of host threads that the tape is known to have.
        """

    def feed(self, tape: object) -> None:
        """The next rows."""

    def races(self) -> list[Race]:
        """All pairs so far, in the order of their later row."""

    @property
    def pieces(self) -> int:
        """Byte ranges that are told apart now."""
