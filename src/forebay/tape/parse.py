"""parse: a tape from text, one event a line. The notation is told in notation.py, what lines leave unsaid in scope.py.

Printing is notation.py's.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final, Generic, TypeVar

import numpy as np

from forebay._core.tape import COLUMNS as NAMES
from forebay.tape.events import COLUMNS, Extent, Kind, Mode, Sees, Space, StreamClass
from forebay.tape.rows import Frame, Pool, Sides, Sites, Stream, Tape, Thread, Uses
from forebay.tape.scope import BLOCKS, EVENTS, FILLS, LATE, Access, Row, Scope, default_stream, derived_columns
from forebay.tape.words import FLAGS, KINDS, Token, frames, no_kind, number, text, tokens

__all__ = ["ALIASES", "MODES", "NUMBERED", "is_header", "pack_sites", "pack_uses", "parse"]

MODES: Final = {"r": Mode.read, "w": Mode.write, "a": Mode.atomic, "?": Mode.unknown}
ALIASES: Final = {"time": "time_ns", "span": "span_ns", "begin": "begin_ns", "end": "end_ns"}
NUMBERED: Final = frozenset({Kind.region_begin, Kind.region_end, Kind.define})  # whose bare number is `ref`
_LIMITS: Final[dict[str, np.iinfo[Any]]] = {name: np.iinfo(column.dtype.name) for name, column in COLUMNS.items()}
_LINKS: Final = frozenset({"ref", "capture"})

Entry = TypeVar("Entry", bound=Hashable)


class _Table(Generic[Entry]):
    """A side table that grows as its entries are met; each is found again by a key."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self._index: dict[Hashable, int] = {}

    def add(self, key: Hashable, entry: Entry) -> None:
        self.entries.append(entry)
        self._index.setdefault(key, len(self.entries) - 1)

    def find(self, key: Hashable, make: Callable[[], Entry]) -> int:
        if key not in self._index:
            self.add(key, make())
        return self._index[key]


@dataclass
class _Line:
    """One event while its words are read. In `said` None is a value that is said to be unknown."""

    kind: Kind
    said: dict[str, int | None] = field(default_factory=dict)
    block: str | None = None
    uses: list[Access] | None = None
    names: int = 0  # operands that are names, so far


def parse(source: str) -> Tape:
    """The tape that a text tells. Raises BadInput with line and column.

    >>> len(parse("t0 s1 alloc A 1M @0"))
    1
    """
    reader = _Reader()
    for at, line in enumerate(source.split("\n"), 1):
        if words := list(tokens(line, at)):
            reader.line(words)
    return reader.tape()


class _Reader:
    """The tables, bindings and rows while a text is read."""

    def __init__(self) -> None:
        self.streams, self.pools, self.strings = _Table[Stream](), _Table[Pool](), _Table[str]()
        self.sites, self.threads = _Table[tuple[Frame, ...]](), list[Thread]()
        self.strings.add("", "")
        self.sites.add((), ())
        self.scope = Scope(self.streams.entries)
        self.lines: list[tuple[_Line, Row]] = []
        self.sees: frozenset[Sees] = frozenset(Sees)
        self.provenance: dict[str, Any] = {}
        self.columns: frozenset[str] | None = None
        self.first = 0

    def line(self, words: list[Token]) -> None:
        header = _HEADERS.get(words[0].word)
        if header is not None:
            header(self, words[0], words[1:])
        else:
            self._event(words)

    def _event(self, words: list[Token]) -> None:
        place = self._kind_place(words)
        if place is None:
            raise no_kind(words)
        line = _Line(KINDS[words[place].word])
        for token in words[:place]:
            self._where(line, token)
        stop = next((i for i, token in enumerate(words) if i > place and token.word == "at"), len(words))
        for token in words[place + 1 : stop]:
            self._operand(line, token)
        if stop < len(words):
            line.said["site"] = self._site(words[stop], words[stop + 1 :])
        self._finish(line, words[place])

    def _kind_place(self, words: list[Token]) -> int | None:
        """Where the kind stands: after a thread and a stream at most. A declared stream may be called as a kind is."""
        place = next((i for i, token in enumerate(words[:3]) if token.word in KINDS), None)
        doubled = place is not None and place < 2 and len(words) > place + 1 and words[place + 1].word in KINDS
        declared = place is not None and words[place].word in (stream.name for stream in self.streams.entries)
        return place + 1 if place is not None and doubled and declared else place

    def _where(self, line: _Line, token: Token) -> None:
        if token.word[0] == "t" and token.word[1:].isdigit():
            line.said["thread"] = int(token.word[1:])
        else:
            line.said["stream"] = self._stream(token)

    def _finish(self, line: _Line, token: Token) -> None:
        row: dict[str, int | None] = {**self.scope.unsaid(line.kind, line.said, line.block, line.uses or ()), **line.said}
        for column, value in line.said.items():
            if value is not None and column not in FILLS[line.kind]:
                raise token.wrong(f"`{line.kind.name}` has no {column}; it has {', '.join(sorted(FILLS[line.kind]))}")
        if line.uses and "uses" not in FILLS[line.kind]:
            raise token.wrong(f"`{line.kind.name}` touches no bytes; uses belong to launches, copies and the like")
        known = self.scope.cut(row, line.kind)
        for column, value in known.items():
            low, high = int(_LIMITS[column].min), int(_LIMITS[column].max)
            if not low <= value <= high:
                raise token.wrong(f"{column} is {value}; it holds {low} to {high}")
        self.lines.append((line, known))
        self.scope.learn(line.kind, known, line.block)

    # -- operands

    def _operand(self, line: _Line, token: Token) -> None:
        word = token.word
        if word[0] == "+":
            self._flag(line, token)
        elif word[0] == "@":
            line.said["address"] = number(token.part(1))
        elif word[0] == "#":
            line.said["ref"] = number(token.part(1))
        elif word[0] in MODES and word[1:2] in (":", "."):
            self._use(line, token)
        elif word[0] != '"' and "=" in word:
            self._value(line, token)
        elif word[0].isdigit():
            line.said["ref" if line.kind in NUMBERED else "size"] = number(token)
        else:
            self._name(line, token)

    def _flag(self, line: _Line, token: Token) -> None:
        if token.word[1:] not in FLAGS:
            raise token.wrong(f"no flag is called {token.word[1:]}; there are {', '.join(FLAGS)}")
        line.said["flags"] = (line.said.get("flags") or 0) | FLAGS[token.word[1:]]

    def _name(self, line: _Line, token: Token) -> None:
        line.names += 1
        if line.names > 1:
            raise token.wrong(f"one name too many: {token.word}; other values are written column=value")
        if line.kind in BLOCKS:
            line.block = text(token)
        elif line.kind in EVENTS:
            line.said["ref"] = self.scope.ref(text(token))
        else:
            line.said["name"] = self._string(token)

    def _value(self, line: _Line, token: Token) -> None:
        name, _, word = token.word.partition("=")
        column, value = ALIASES.get(name, name), token.part(len(name) + 1)
        if column == "uses" and word == "-":
            line.said["uses"] = None
        elif column not in COLUMNS or column == "kind":
            raise token.wrong(f"no column is called {name}; there are {', '.join(c for c in COLUMNS if c != 'kind')}")
        elif not word:
            raise token.wrong(f"no value after {name}=; write {name}=- for an unknown one")
        else:
            line.said[column] = None if word == "-" else self._id(column, value)

    def _id(self, column: str, value: Token) -> int:
        if value.word[0] == "#":
            return number(value.part(1))
        if column in ("name", "stream", "pool"):
            return {"name": self._string, "stream": self._stream, "pool": self._pool}[column](value)
        if column in _LINKS and not value.word[0].isdigit():
            return self.scope.ref(text(value))
        return number(value, times=column in ALIASES.values())

    def _string(self, token: Token) -> int:
        name = text(token)
        return self.strings.find(name, lambda: name)

    def _stream(self, token: Token) -> int:
        if token.word[0] == "#":
            return number(token.part(1))
        name = text(token)
        return self.streams.find(name, lambda: default_stream(name))

    def _pool(self, token: Token) -> int:
        name = text(token)
        return self.pools.find(name, lambda: Pool(name))

    def _site(self, at: Token, words: list[Token]) -> int:
        if len(words) == 1 and words[0].word[0] == "#":
            return number(words[0].part(1))
        stack = frames(words, at)
        return self.sites.find(stack, lambda: stack)

    def _use(self, line: _Line, token: Token) -> None:
        head, colon, _ = token.word.partition(":")
        mode, *marks = head.split(".")
        if not colon or mode not in MODES:
            raise token.wrong(f"not a use: {token.word}; write r:A, w:A[0:4K], a:A, ?:A or w:@0x1000+512")
        address, size, space = self._range(token.part(len(head) + 1))
        extent = Extent.exact
        for mark in marks:
            if mark in Extent.__members__:
                extent = Extent[mark]
            elif mark in Space.__members__:
                space = Space[mark]
            else:
                raise token.wrong(f"no use is marked {mark}; there are {', '.join([*Extent.__members__, *Space.__members__])}")
        if not (0 <= address < 2**64 and 0 <= size < 2**64):
            raise token.wrong(f"not a range of memory: {token.word}")
        line.uses = [*(line.uses or ()), Access(address, size, MODES[mode], extent, space)]

    def _range(self, token: Token) -> tuple[int, int, Space]:
        if token.word.startswith("@"):
            start, plus, _ = token.word.partition("+")
            if not plus:
                raise token.wrong(f"no size after {start}; write {start}+512")
            return number(token.part(1, len(start))), number(token.part(len(start) + 1)), Space.device
        name, bracket, _ = token.word.partition("[")
        block = self.scope.blocks.get(text(token.part(0, len(name))))
        if block is None:
            how = "write its address, @0x1000+512" if name[:1] == "#" else f"`alloc {name} 1M` makes one"
            raise token.wrong(f"no block is called {name}; {how}")
        base = block.row["address"]
        if bracket:
            low, high = self._bounds(token.part(len(name)))
            return base + low, high - low, block.space
        if "size" not in block.row:
            raise token.wrong(f"{name} has no size; write {name}[0:512]")
        return base, block.row["size"], block.space

    def _bounds(self, token: Token) -> tuple[int, int]:
        low, colon, high = token.word[1:-1].partition(":")
        if not token.word.endswith("]") or not colon:
            raise token.wrong(f"not a range: {token.word}; write [4K:8K]")
        start, stop = number(token.part(1, 1 + len(low))), number(token.part(2 + len(low), 2 + len(low) + len(high)))
        if stop < start:
            raise token.wrong(f"a range that ends before it begins: {token.word}")
        return start, stop

    # -- header lines

    def _header_stream(self, at: Token, words: list[Token]) -> None:
        name, values = _entry(at, words, "handle device context priority thread", [*StreamClass.__members__])
        mark, numbers = values.pop("", None), {key: number(token) for key, token in values.items()}
        default = default_stream(name)
        kind = default.kind if mark is None else None if mark.word == "unclassed" else StreamClass[mark.word]
        self.streams.add(name, Stream(name, kind=kind, **{"device": 0, **numbers}))

    def _header_pool(self, at: Token, words: list[Token]) -> None:
        name, values = _entry(at, words, "consumer kind device space parent private", ["trusted"])
        given: dict[str, Any] = {"trusted": values.pop("", None) is not None}
        for key, token in values.items():
            given[key] = text(token) if key in ("consumer", "kind", "space") else token.word
        for key in {"device", "parent"} & set(given):
            given[key] = number(values[key])
        if "private" in given:
            low, _, _ = values["private"].word.partition(",")
            given["private"] = (number(values["private"].part(0, len(low))), number(values["private"].part(len(low) + 1)))
        self.pools.add(name, Pool(name, **given))

    def _header_thread(self, at: Token, words: list[Token]) -> None:
        name, values = _entry(at, words, "tid", [])
        self.threads.append(Thread(name, number(values["tid"]) if "tid" in values else None))

    def _header_string(self, at: Token, words: list[Token]) -> None:
        name, _ = _entry(at, words, "", [])
        self.strings.add(name, name)

    def _header_site(self, at: Token, words: list[Token]) -> None:
        stack = frames(words, at)
        self.sites.add(stack, stack)

    def _header_sees(self, at: Token, words: list[Token]) -> None:
        for token in words:
            if token.word not in [*Sees, "-"]:
                raise token.wrong(f"nothing to see is called {token.word}; there are {', '.join(Sees)}")
        self.sees = frozenset(Sees(token.word) for token in words if token.word != "-")

    def _header_columns(self, at: Token, words: list[Token]) -> None:
        for token in words:
            if token.word not in (*COLUMNS, "uses"):
                raise token.wrong(f"no column is called {token.word}; there are {', '.join(COLUMNS)}, uses")
        self.columns = frozenset(token.word for token in words) | {"kind"}

    def _header_provenance(self, at: Token, words: list[Token]) -> None:
        if len(words) != 2:
            raise at.wrong(
                "provenance is a key and one value as JSON; quote a string twice over, as in `provenance host '\"a\"'`"
            )
        try:
            self.provenance[text(words[0])] = json.loads(text(words[1]) if words[1].word[0] == '"' else words[1].word)
        except ValueError:
            raise words[1].wrong(f"not JSON: {words[1].word}") from None

    def _header_first(self, at: Token, words: list[Token]) -> None:
        if len(words) != 1:
            raise at.wrong("first is the number of rows before this tape's")
        self.first = number(words[0])

    # -- the end

    def tape(self) -> Tape:
        """Everything read so far."""
        columns = self._present()
        rows = [{**self._late(line, columns), **row} for line, row in self.lines]
        kinds = [line.kind for line, _ in self.lines]
        arrays = {name: np.array([row.get(name, 0) for row in rows], COLUMNS[name].dtype) for name in columns - {"kind", "uses"}}
        arrays["kind"] = np.array(kinds, "u1")
        uses = [line.uses or [] for line, _ in self.lines] if "uses" in columns else None
        sides = Sides(
            self.streams.entries, self.pools.entries, self.strings.entries, pack_sites(self.sites.entries), self.threads
        )
        return Tape(
            {name: arrays[name] for name in COLUMNS if name in arrays}, sides, self.sees, self.provenance,
            None if uses is None else pack_uses(uses), self._known(rows, columns), self.first,
        )  # fmt: skip

    def _present(self) -> frozenset[str]:
        if self.columns is not None:
            return self.columns
        known = {column for _, row in self.lines for column in row} - {"device"}
        if any(line.uses for line, _ in self.lines):
            known.add("uses")
        return derived_columns((line.kind for line, _ in self.lines), known)

    @staticmethod
    def _late(line: _Line, columns: frozenset[str]) -> Row:
        return {c: v for c, v in LATE.items() if c in columns and c in FILLS[line.kind] and c not in line.said}

    def _known(self, rows: list[Row], columns: frozenset[str]) -> np.ndarray[Any, np.dtype[np.uint32]] | None:
        sets, complete = [], True
        for (line, _), row in zip(self.lines, rows, strict=True):
            here = {c for c in row if c in columns}
            if "uses" in FILLS[line.kind] and "uses" in columns and "uses" not in line.said:
                here.add("uses")
            complete &= here == FILLS[line.kind] & columns
            sets.append(sum(1 << NAMES.index(column) for column in here))
        return None if complete else np.array(sets, "u4")


def _entry(at: Token, words: list[Token], keys: str, marks: list[str]) -> tuple[str, dict[str, Token]]:
    """The name that a header line defines, and its values by key; the mark, if any, under ""."""
    if not words:
        raise at.wrong(f"a {at.word} needs a name")
    values: dict[str, Token] = {}
    for token in words[1:]:
        key, equals, _ = token.word.partition("=")
        if not equals and (token.word in marks or token.word == "unclassed"):
            values[""] = token
        elif equals and key in keys.split():
            values[key] = token.part(len(key) + 1)
        else:
            raise token.wrong(f"a {at.word} has no {token.word}; it has {', '.join([*marks, *keys.split()]) or 'a name alone'}")
    return text(words[0]), values


_HEADERS: Final = {name.removeprefix("_header_"): header for name, header in vars(_Reader).items() if name.startswith("_header_")}


def is_header(word: str) -> bool:
    """Whether a line that begins with this word is no event but a header line."""
    return word in _HEADERS


def pack_uses(uses: Iterable[list[Access]]) -> Uses:
    """Uses of many rows as arrays, a list a row."""
    rows = list(uses)
    flat = [access for row in rows for access in row]
    offsets = np.cumsum([0, *map(len, rows)]).astype("u8")
    parts = list(zip(*flat, strict=True)) or [()] * 5
    return Uses(offsets, *(np.array(part, kind) for part, kind in zip(parts, ("u8", "u8", "u1", "u1", "u1"), strict=True)))


def pack_sites(stacks: Iterable[tuple[Frame, ...]]) -> Sites:
    """Stacks by id as a table with every frame once."""
    index: dict[Frame, int] = {}
    rows = [[index.setdefault(frame, len(index)) for frame in stack] for stack in stacks]
    offsets = np.cumsum([0, *map(len, rows)]).astype("u8")
    return Sites(list(index), offsets, np.array([i for row in rows for i in row], "u4"))
