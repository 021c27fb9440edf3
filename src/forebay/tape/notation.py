r"""notation: a tape as text, one event a line: tests, docs, bug reports and `forebay show` all use it.

    # a comment, up to the end of its line
    stream s1 nonblocking priority=-1
    t0 s1 alloc A 1M @0x1000
    t0 s1 launch k1 w:A r:A[4K:8K] at file.py:12 f < caller.py:3 g
    t0 s1 record e
    t0 s2 wait e
    t0 s1 free A +trusted time=5us

An event is [thread] [stream] kind, then in any order: one name (a block for memory kinds; an event, graph or capture for kinds
with such a handle; else the string of the column `name`), a size, @address, uses, +flags, column=value (- for unknown, #n for an
id by number), and last `at` with a stack. A use is mode[.extent][.space]:range, modes r w a(tomic) ?(unknown), ranges A, A[4K:8K]
or @0x1000+512. Durations may carry ns, us, ms, s; `time span begin end` stand for the columns with _ns. Names that are not plain
words are quoted as in JSON.

Header lines: `stream pool thread string site` make the next entry of a side table (streams, pools, strings and sites are also made
by their first mention); `sees` says what the source shows (without it: everything), `columns` what is not absent (without it: what
is mentioned), `provenance KEY JSON`, `first N`.
"""

from __future__ import annotations

import json
from bisect import bisect_right, insort
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np

from forebay._core.tape import COLUMNS as NAMES
from forebay.tape.events import COLUMNS, Extent, Kind, Mode, Sees, Space
from forebay.tape.parse import ALIASES, MODES, NUMBERED, parse
from forebay.tape.rows import Pool, Stream, Tape, Thread
from forebay.tape.scope import BLOCKS, EVENTS, FILLS, LATE, MAKES, Access, Row, Scope, default_stream, derived_columns
from forebay.tape.words import address, flag_words, frame_words, size_word, word

__all__ = ["format_lines", "format_tape", "parse"]

_LETTER: Final = {mode: letter for letter, mode in MODES.items()}
_ALIAS: Final = {column: alias for alias, column in ALIASES.items()}
_SIZES: Final = frozenset({"size", "requested"})


def format_tape(tape: Tape) -> str:
    """The tape as text; `parse` makes the same tape of it.

    >>> print(format_tape(parse('t0 s1 alloc A 1M @0')), end="")
    t0 s1 alloc A 1M @0
    """
    return "".join(f"{line}\n" for line in format_lines(tape))


def format_lines(tape: Tape) -> Iterator[str]:
    """The lines of `format_tape`, one by one: header lines, then an event a line."""
    yield from _header(tape)
    yield from _Writer(tape).lines()


def _header(tape: Tape) -> Iterator[str]:
    if tape.sees != frozenset(Sees):
        yield " ".join(["sees", *(sorted(tape.sees) or "-")])
    for key, value in tape.provenance.items():
        yield f"provenance {word(key)} {json.dumps(json.dumps(value))}"
    if tape.first:
        yield f"first {tape.first}"
    present = frozenset(tape.columns) | ({"uses"} if tape.uses is not None else set())
    if present != _derived(tape):
        yield " ".join(["columns", *(name for name in ["kind", *NAMES] if name in present)])
    sides = tape.sides
    yield from (_thread(thread) for thread in sides.threads)
    if any(s != default_stream(s.name) for s in sides.streams) or not _is_met(tape, "stream", [s.name for s in sides.streams], 0):
        yield from (_stream(stream) for stream in sides.streams)
    if any(p != Pool(p.name) for p in sides.pools) or not _is_met(tape, "pool", [p.name for p in sides.pools], 0):
        yield from (_pool(pool) for pool in sides.pools)
    if not _is_met(tape, "name", sides.strings, 1):
        yield from (f"string {word(name)}" for name in sides.strings[1:])
    stacks = [sides.sites.stack(site) for site in range(len(sides.sites))]
    if not _is_met(tape, "site", stacks, 1):
        yield from (f"site {frame_words(stack)}" for stack in stacks[1:])


def _is_met(tape: Tape, column: str, entries: Sequence[Hashable], first: int) -> bool:
    """Whether reading the rows would make this side table by itself: each entry once, in the order of its first mention."""
    if len(set(entries)) != len(entries):
        return False
    values = tape.columns[column][tape.knows(column)] if tape.has(column) else np.zeros(0, "u4")
    ids, at = np.unique(values, return_index=True)
    met = ids[np.argsort(at)]
    return bool(np.array_equal(met[met >= first], np.arange(first, len(entries))))


def _derived(tape: Tape) -> frozenset[str]:
    known = [
        name
        for name, values in tape.columns.items()
        if name != "device" and np.any(tape.knows(name) & ((values != LATE[name]) if name in LATE else True))
    ]
    used = np.diff(tape.uses.offsets) > 0 if tape.uses is not None else np.zeros(len(tape), bool)
    if tape.uses is not None:
        used &= tape.knows("uses")
    known += ["uses"] if used.any() else []
    # What a reader concludes from other words (scope.py, Note [Unsaid]) is known to it.
    known += ["size"] if used[tape.where(Kind.copy, Kind.memset)].any() else []
    known += ["capture"] if len(tape.where(Kind.capture_begin)) else []
    return derived_columns([Kind(kind) for kind in np.unique(tape.columns["kind"])], known)


def _values(pairs: Iterable[tuple[str, object]]) -> list[str]:
    return [f"{key}={value}" for key, value in pairs if value is not None]


def _thread(thread: Thread) -> str:
    return " ".join(["thread", word(thread.name), *_values([("tid", thread.tid)])])


def _stream(stream: Stream) -> str:
    kind = (
        [stream.kind.name] if stream.kind is not None else ["unclassed"] if default_stream(stream.name).kind is not None else []
    )
    numbers = [(key, getattr(stream, key)) for key in ("handle", "context", "priority", "thread")]
    return " ".join(["stream", word(stream.name), *kind, *_values([("device", stream.device or None), *numbers])])


def _pool(pool: Pool) -> str:
    words = [(key, None if getattr(pool, key) is None else word(getattr(pool, key))) for key in ("consumer", "kind")]
    space = None if pool.space == "device" else word(pool.space)
    private = None if pool.private is None else f"{pool.private[0]},{pool.private[1]}"
    rest = [("device", pool.device or None), ("space", space), ("parent", pool.parent), ("private", private)]
    return " ".join(["pool", word(pool.name), *_values([*words, *rest]), *(["trusted"] if pool.trusted else [])])


class _Writer:
    """The event lines of one tape, with the bindings that a reader has at each of them."""

    def __init__(self, tape: Tape) -> None:
        self.tape, self.scope = tape, Scope(tape.sides.streams)
        self.columns = frozenset(tape.columns) | ({"uses"} if tape.uses is not None else set())
        self.late = {column: value for column, value in LATE.items() if column in self.columns}
        self.named: dict[int, str] = {}  # address -> the latest block that begins there
        self.starts: list[int] = []
        self.made = 0
        self.ids = {
            "stream": _first_index(stream.name for stream in tape.sides.streams),
            "pool": _first_index(pool.name for pool in tape.sides.pools),
            "name": _first_index(tape.sides.strings),
        }

    def lines(self) -> Iterator[str]:
        """One line a row."""
        for chunk in self.tape.chunks(4096):
            values = {name: column.tolist() for name, column in chunk.columns.items()}
            knows = {name: chunk.knows(name).tolist() for name in self.columns}
            for i, kind in enumerate(values["kind"]):
                row = {name: column[i] for name, column in values.items() if knows[name][i] and name != "kind"}
                uses = _accesses(chunk, i) if "uses" in self.columns and knows["uses"][i] else None
                yield self._event(Kind(kind), row, uses)

    def _event(self, kind: Kind, row: Row, uses: list[Access] | None) -> str:
        words, said, block = self._operands(kind, row)
        words += [self._use(access) for access in uses or ()]
        unsaid = {**self.late, **self.scope.unsaid(kind, said, block, uses or ())}
        words += self._flags(kind, row, said)
        told = self.scope.cut({**unsaid, **said}, kind)
        for column in COLUMNS:
            if column in self.columns and column in FILLS[kind] and told.get(column) != row.get(column) and column != "site":
                words.append(f"{_ALIAS.get(column, column)}={self._value(column, row.get(column))}")
        if "uses" in self.columns and "uses" in FILLS[kind] and uses is None:
            words.append("uses=-")
        if "site" in row:
            words.append(f"at {self._site(row['site'])}")
        self.scope.learn(kind, row, block)
        return " ".join(words)

    def _operands(self, kind: Kind, row: Row) -> tuple[list[str], dict[str, int | None], str | None]:
        said: dict[str, int | None] = {c: row[c] for c in ("thread", "stream") if c in row}
        words = [f"t{row['thread']}"] if "thread" in row else []
        words += [self._id("stream", row["stream"])] if "stream" in row else []
        words.append(kind.name)
        if kind in BLOCKS:
            return words, said, self._block(kind, row, words, said)
        if "name" in row and kind not in EVENTS and (name := self._id("name", row["name"]))[0] != "#":
            words.append(name)
            said["name"] = row["name"]
        if "ref" in row and kind in EVENTS | NUMBERED:
            words.append(self._ref(row["ref"]) if kind in EVENTS else str(row["ref"]))
            said["ref"] = row["ref"]
        if "size" in row and kind in (Kind.oom, Kind.capacity, Kind.gap):
            words.append(size_word(row["size"]))
            said["size"] = row["size"]
        return words, said, None

    def _block(self, kind: Kind, row: Row, words: list[str], said: dict[str, int | None]) -> str | None:
        """The words for memory: a name where one is made or bound to this address, what the name does not tell otherwise."""
        at = row.get("address")
        if kind in MAKES and at is not None:
            name = self._new_name(at)
        elif at is not None and at in self.named:
            words.append(self.named[at])
            return self.named[at]
        else:
            name = None
        words += [name] if name is not None else []
        words += [size_word(row["size"])] if "size" in row else []
        words += [address(at)] if at is not None else []
        said |= {column: row[column] for column in ("address", "size") if column in row}
        return name

    def _new_name(self, at: int) -> str:
        if at not in self.named:
            insort(self.starts, at)
        self.named[at], self.made = _letters(self.made), self.made + 1
        return self.named[at]

    def _use(self, access: Access) -> str:
        start, block, space = self._block_of(access)
        marks = [_LETTER[Mode(access.mode)]]
        marks += [Extent(access.extent).name] if access.extent != Extent.exact else []
        marks += [Space(access.space).name] if access.space != space else []
        head = ".".join(marks)
        if block is None:
            return f"{head}:{address(access.address)}+{size_word(access.size)}"
        low, size = access.address - start, self.scope.blocks[block].row["size"]
        return f"{head}:{block}" + (
            "" if (low, access.size) == (0, size) else f"[{size_word(low)}:{size_word(low + access.size)}]"
        )

    def _block_of(self, access: Access) -> tuple[int, str | None, Space]:
        """Where the block that holds these bytes begins, its name if any, and the space that its name implies."""
        place = bisect_right(self.starts, access.address)
        start = self.starts[place - 1] if place else 0
        block = self.scope.blocks.get(self.named.get(start, ""))
        if block is None or access.address + access.size > start + block.row.get("size", -1):
            return 0, None, Space.device
        return start, self.named[start], block.space

    def _flags(self, kind: Kind, row: Row, said: dict[str, int | None]) -> list[str]:
        words = flag_words(row.get("flags", 0))
        if words:
            said["flags"] = row["flags"]
        return words or []

    def _ref(self, ref: int) -> str:
        """A name where a reader would give it this number, else the number."""
        name = f"e{ref}"
        if self.scope.refs.get(name, len(self.scope.refs)) != ref:
            return f"#{ref}"
        self.scope.ref(name)
        return name

    def _id(self, column: str, value: int) -> str:
        names = self.ids[column]
        return word(names[value]) if value in names else f"#{value}"

    def _site(self, site: int) -> str:
        sites = self.tape.sides.sites
        return frame_words(sites.stack(site)) if site in self.sites else f"#{site}"

    def _value(self, column: str, value: int | None) -> str:
        if value is None:
            return "-"
        if column in self.ids:
            return self._id(column, value)
        if column in ("address", "flags"):
            return f"{value:#x}"
        return size_word(value) if column in _SIZES else str(value)

    @property
    def sites(self) -> Mapping[int, Any]:
        """The sites that their own stacks name: the first of each."""
        if not hasattr(self, "_sites"):
            table = self.tape.sides.sites
            self._sites = _first_index(table.stack(site) for site in range(len(table)))
        return self._sites


def _first_index(entries: Iterable[Hashable]) -> dict[int, Any]:
    """The entries by index, of equal ones the first alone."""
    first: dict[Hashable, int] = {}
    for index, entry in enumerate(entries):
        first.setdefault(entry, index)
    return {index: entry for entry, index in first.items()}


def _letters(count: int) -> str:
    """A, B, … Z, AA, AB, …"""
    name = ""
    while count >= 0:
        count, letter = divmod(count, 26)
        name, count = chr(65 + letter) + name, count - 1
    return name


def _accesses(tape: Tape, row: int) -> list[Access]:
    uses = tape.uses
    assert uses is not None
    at = slice(int(uses.offsets[row]), int(uses.offsets[row + 1]))
    parts = (part[at].tolist() for part in (uses.address, uses.size, uses.mode, uses.extent, uses.space))
    return [Access(a, s, Mode(m), Extent(e), Space(p)) for a, s, m, e, p in zip(*parts, strict=True)]
