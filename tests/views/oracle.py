"""oracle: the pairs of DESIGN section 2 by brute force, for small tapes.

The happens-before graph is written out, a node a row, and closed transitively as sets of predecessors (bits of an integer). There are no
clocks and no intervals: bytes are atoms between all the boundaries on the tape, and every pair of touches of an atom is looked at.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from forebay._core.tape import COLUMNS as NAMES
from forebay.tape import Extent, Flag, Kind, Mode, Space, StreamClass, Tape, fills

WORK = (Kind.launch, Kind.copy, Kind.memset, Kind.host_func)


@dataclass
class Row:
    """One row: the values that it knows, and its uses as (address, end, mode, extent, space)."""

    index: int
    kind: Kind
    values: dict[str, int]
    uses: list[tuple[int, int, Mode, Extent, Space]]

    def has(self, flag: Flag) -> bool:
        return bool(self.values.get("flags", 0) & flag)

    @property
    def thread(self) -> int:
        return self.values.get("thread", 0)


def rows_of(tape: Tape) -> list[Row]:
    """The rows of a tape as plain values."""
    return [Row(i, Kind(int(kind)), _values(tape, i), _uses(tape, i)) for i, kind in enumerate(tape.columns["kind"])]


def _values(tape: Tape, i: int) -> dict[str, int]:
    known = -1 if tape.known is None else int(tape.known[i])
    filled = [c for c in fills(Kind(int(tape.columns["kind"][i]))) if tape.has(c) and known >> NAMES.index(c) & 1]
    return {column: int(tape.columns[column][i]) for column in filled}


def _uses(tape: Tape, i: int) -> list[tuple[int, int, Mode, Extent, Space]]:
    if tape.uses is None:
        return []
    u = tape.uses
    return [
        (int(u.address[k]), int(u.address[k] + u.size[k]), Mode(int(u.mode[k])), Extent(int(u.extent[k])), Space(int(u.space[k])))
        for k in range(int(u.offsets[i]), int(u.offsets[i + 1]))
    ]


@dataclass
class Graph:
    """Nodes in tape order; `before[n]` is the set of nodes that happen before n, as bits. `one`: all host threads are one."""

    tape: Tape
    one: bool
    before: list[int] = field(default_factory=list)
    last: dict[int, int] = field(default_factory=dict)  # stream -> its last node
    host: dict[int, int] = field(default_factory=dict)  # thread -> its last node
    event: dict[int, int] = field(default_factory=dict)  # event -> its latest record

    def node(self, after: Iterable[int | None]) -> int:
        reach = 0
        for n in after:
            if n is not None:
                reach |= self.before[n] | 1 << n
        self.before.append(reach)
        return len(self.before) - 1

    def thread(self, row: Row) -> int:
        return 0 if self.one else row.thread

    def device(self, stream: int) -> int:
        return self.tape.sides.streams[stream].device

    def blocking(self, stream: int) -> bool:
        kind = self.tape.sides.streams[stream].kind
        return kind in (StreamClass.blocking, StreamClass.per_thread) or (kind is None and self.one)

    def place(self, stream: int) -> list[int | None]:
        """What an item put into a stream now comes after, but for its thread's doings."""
        same = [s for s in self.last if self.device(s) == self.device(stream)]
        nodes = [self.last.get(stream)]
        if self.tape.sides.streams[stream].kind is StreamClass.legacy:
            nodes += [self.last[s] for s in same if self.blocking(s)]
        elif self.blocking(stream):
            nodes += [self.last[s] for s in same if self.tape.sides.streams[s].kind is StreamClass.legacy]
        return nodes

    def put(self, row: Row, more: Iterable[int | None] = ()) -> int:
        stream = row.values["stream"]
        self.last[stream] = self.node([*self.place(stream), self.host.get(self.thread(row)), *more])
        return self.last[stream]

    def on_host(self, row: Row, after: Iterable[int | None] = ()) -> int:
        thread = self.thread(row)
        self.host[thread] = self.node([self.host.get(thread), *after])
        return self.host[thread]

    def ordered(self, a: int, b: int) -> bool:
        return bool(self.before[b] >> a & 1)


@dataclass
class Written:
    """A tape's graph: for each row its nodes. `host_read`: where the caller read a pageable source."""

    graph: Graph
    node: dict[int, int] = field(default_factory=dict)
    host_read: dict[int, int] = field(default_factory=dict)
    place: dict[int, int] = field(default_factory=dict)  # of allocs: what an item there would come after
    complete_before: dict[int, int] = field(default_factory=dict)  # what incomplete items came after, by row


def write(tape: Tape, rows: list[Row], *, one: bool) -> Written:
    """The graph of the tape."""
    w = Written(Graph(tape, one))
    lent: dict[int, list[int]] = defaultdict(list)
    incomplete = 0
    for row in rows:
        w.complete_before[row.index] = incomplete
        _write_row(w, row, lent)
        if row.kind in WORK and row.has(Flag.INCOMPLETE):
            incomplete |= w.graph.before[w.node[row.index]]
    return w


def _write_row(w: Written, row: Row, lent: dict[int, list[int]]) -> None:
    g, kind, stream = w.graph, row.kind, row.values.get("stream", 0)
    if kind in WORK:
        _write_work(w, row)
    elif kind is Kind.host_access:
        w.node[row.index] = g.on_host(row)
    elif kind is Kind.record:
        g.event[row.values["ref"]] = g.put(row)
    elif kind is Kind.wait:
        g.put(row, [g.event.get(row.values["ref"])])
    elif kind is Kind.event_destroy:
        g.event.pop(row.values["ref"], None)
    elif kind in (Kind.sync_event, Kind.sync_stream, Kind.sync_device, Kind.query):
        _write_sync(g, row)
    elif kind is Kind.alloc:
        w.place[row.index] = g.node([*g.place(stream), g.host.get(g.thread(row))])
        w.node[row.index] = g.last[stream] = g.node([g.last.get(stream)])
        lent[row.values["address"]] = []
    elif kind is Kind.lend:
        lent[row.values["address"]].append(stream)
    elif kind is Kind.free:
        places = [n for s in (stream, *lent[row.values["address"]]) for n in g.place(s)]
        w.node[row.index] = g.node([*places, g.host.get(g.thread(row))])
    elif kind is Kind.unmap:
        w.node[row.index] = g.node([g.host.get(g.thread(row))])


def _write_work(w: Written, row: Row) -> None:
    g = w.graph
    if row.kind is Kind.copy and any(space is Space.pageable and mode is Mode.read for _, _, mode, _, space in row.uses):
        w.host_read[row.index] = g.on_host(row)
    w.node[row.index] = g.put(row)
    if row.has(Flag.BLOCKING):
        g.on_host(row, [w.node[row.index]])


def _write_sync(g: Graph, row: Row) -> None:
    if row.kind is Kind.query and not row.has(Flag.READY):
        return
    if row.kind is Kind.sync_device:
        known: list[int | None] = [n for s, n in g.last.items() if g.device(s) == row.values["device"]]
    elif "ref" in row.values:
        known = [g.event.get(row.values["ref"])]
    else:
        known = g.place(row.values["stream"])
    g.on_host(row, known)


@dataclass(frozen=True)
class Touch:
    """A use of bytes [lo, hi) by a node."""

    row: int
    node: int
    one: int  # its node in the graph of threads as one
    lo: int
    hi: int
    mode: Mode
    hull: bool


def stands_for(later: Touch, earlier: Touch) -> bool:
    """Statement 7's "c writes or a reads", with atomics, unknown uses and hulls kept apart."""
    return (later.mode is Mode.write or later.mode is earlier.mode) and not (later.hull and not earlier.hull)


def clash(a: Mode, b: Mode) -> str | None:
    """Whether two unordered uses are a finding: None, possible or certain."""
    modes = {a, b}
    if Mode.unknown in modes:
        return "possible" if modes & {Mode.write, Mode.atomic} else None
    return None if modes in ({Mode.read}, {Mode.atomic}) else "certain"


@dataclass
class Life:
    """A block: its alloc, its free and an unmapping, as rows; None where there is none."""

    alloc: int
    lo: int
    hi: int
    stream: int
    pool: int | None
    trusted: bool
    free: int | None = None
    free_stream: int = 0


def lives(tape: Tape, rows: list[Row]) -> list[Life]:
    """All blocks of the tape."""
    made: list[Life] = []
    for row in rows:
        v = row.values
        if row.kind is Kind.alloc:
            pool = v.get("pool")
            trusted = row.has(Flag.TRUSTED) or (pool is not None and tape.sides.pools[pool].trusted)
            made.append(Life(row.index, v["address"], v["address"] + v["size"], v["stream"], pool, trusted))
        elif row.kind is Kind.free:
            life = next(m for m in reversed(made) if m.lo == v["address"] and m.free is None)
            life.free, life.free_stream = row.index, v["stream"]
    return made


def touches(rows: list[Row], apart: Written, one: Written) -> Iterator[Touch]:
    """Every use on the tape."""
    for row in rows:
        for lo, hi, mode, extent, space in row.uses:
            by_host = row.kind is Kind.copy and space is Space.pageable and mode is Mode.read
            node, other = ((w.host_read if by_host else w.node)[row.index] for w in (apart, one))
            yield Touch(row.index, node, other, lo, hi, mode, extent is Extent.hull)
