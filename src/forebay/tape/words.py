"""words: how single values of a tape are written in text and read back: names, sizes, addresses, flags, frames.

What a line means is parse.py's and scope.py's; which words a line gets is notation.py's.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from typing import Final, NamedTuple

from forebay.errors import BadInput
from forebay.tape.events import Flag, Kind
from forebay.tape.rows import Frame
from forebay.units import parse_size

__all__ = [
    "FLAGS",
    "KINDS",
    "Token",
    "address",
    "flag_words",
    "frame_words",
    "frames",
    "no_kind",
    "number",
    "size_word",
    "text",
    "tokens",
    "word",
]

KINDS: Final = {kind.name: kind for kind in Kind}
# The spelling of every flag: single bits, and the values of the small fields.
FLAGS: Final[dict[str, int]] = {flag.name.lower(): flag.value for flag in Flag if flag.name} | {
    word: value << shift
    for shift, words in (
        (12, ("global", "thread_local", "relaxed")),
        (14, ("empty_cache", "retry", "gc", "trim", "destroy")),
        (17, ("from_device", "from_pinned", "from_pageable", "from_managed")),
        (20, ("to_device", "to_pinned", "to_pageable", "to_managed")),
    )
    for value, word in enumerate(words, 1)
}
_FIELDS: Final = (3 << 12, 7 << 14, 7 << 17, 7 << 20)
_SINGLE: Final = {value: word for word, value in FLAGS.items()}

_TOKEN = re.compile(r'(?:"(?:[^"\\]|\\.)*"|[^\s"])+')
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_./-]*")
_PATH = re.compile(r"[A-Za-z0-9_./-]+")
_TIMES: Final = {"": 1, "ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9}
_ALIKE: Final = 0.75  # of 1: one letter in four may differ, so that no stream is taken for a kind
_RESERVED = re.compile(r"at|t\d+")


class Token(NamedTuple):
    """A word of a line, the place where it stands, and the line's number, both from 1."""

    word: str
    column: int
    line: int

    def wrong(self, what: str) -> BadInput:
        """The error that names this place."""
        return BadInput(f"line {self.line}, column {self.column}: {what}")

    def part(self, start: int, stop: int | None = None) -> Token:
        """Some of its letters, in their place."""
        return Token(self.word[start:stop], self.column + start, self.line)


def tokens(line: str, number: int) -> Iterator[Token]:
    """The words of a line up to a comment (a # that no digit follows), quoted ones with their quotes."""
    place = 0
    while place < len(line):
        if line[place].isspace():
            place += 1
            continue
        if line[place] == "#" and not line[place + 1 : place + 2].isdigit():
            return
        match = _TOKEN.match(line, place)
        if match is None:
            raise Token(line[place:], place + 1, number).wrong('a quote is not closed; write \\" for one inside a name')
        yield Token(match[0], place + 1, number)
        place = match.end()


def no_kind(words: Sequence[Token]) -> BadInput:
    """The error of a line without a kind: it names the word that is most like one, and that kind, where there is such a word."""
    told = words[:3]
    for token in told:
        turned = [kind for kind in KINDS if sorted(kind.split("_")) == sorted(token.word.split("_"))]
        if near := turned or get_close_matches(token.word, KINDS, 1, _ALIKE):
            return token.wrong(f"no kind of event is called {token.word}; the nearest is {near[0]}")
    said = told[0].word if len(told) == 1 else f"none of {', '.join(token.word for token in told)} is a kind"
    return told[0].wrong(f"no event in this line: {said}; write [thread] [stream] kind, as in `t0 s1 free A`")


def text(token: Token) -> str:
    """The name that a word stands for."""
    if not token.word.startswith('"'):
        return token.word
    try:
        return str(json.loads(token.word))
    except ValueError:
        raise token.wrong(f"not a quoted name: {token.word}; quote it as JSON does") from None


def word(name: str) -> str:
    """A name as a word: as it is where it cannot be read as anything else, else quoted."""
    if _PLAIN.fullmatch(name) and name not in KINDS and not _RESERVED.fullmatch(name):
        return name
    return json.dumps(name, ensure_ascii=not name.isprintable())


def number(token: Token, *, times: bool = False) -> int:
    """A whole number, hexadecimal with 0x, or a size (4K, 20M); `times`: or a duration (5us) in nanoseconds."""
    if re.fullmatch(r"-?(\d+|0x[0-9a-fA-F]+)", token.word):
        return int(token.word, 0 if "x" in token.word else 10)
    match = re.fullmatch(r"(-?\d+(?:\.\d+)?)(ns|us|ms|s)", token.word)
    if times and match:
        return round(float(match[1]) * _TIMES[match[2]])
    try:
        return parse_size(token.word)
    except ValueError as error:
        raise token.wrong(str(error)) from None


def size_word(count: int) -> str:
    """A size, exactly: in the largest binary unit that divides it.

    >>> size_word(20 << 20), size_word(1536), size_word(1000)
    ('20M', '1536', '1000')
    """
    for unit, step in (("G", 2**30), ("M", 2**20), ("K", 2**10)):
        if count and count % step == 0:
            return f"{count // step}{unit}"
    return str(count)


def address(value: int) -> str:
    """An address as a word."""
    return f"@{value:#x}" if value else "@0"


def flag_words(flags: int) -> list[str] | None:
    """The words of a set of flags; None where it holds bits that no word names."""
    parts = [flags & field for field in _FIELDS if flags & field]
    rest = flags & ~sum(_FIELDS)
    parts += [1 << bit for bit in range(rest.bit_length()) if rest >> bit & 1]
    return [f"+{_SINGLE[part]}" for part in sorted(parts)] if all(part in _SINGLE for part in parts) else None


def frame_words(stack: tuple[Frame, ...]) -> str:
    """A stack: `file:line function`, innermost first, a < before each caller; - for the empty one."""
    lines = (f"{file if _PATH.fullmatch(file) else json.dumps(file)}:{line} {word(name)}" for file, line, name in stack)
    return " < ".join(lines) or "-"


def frames(words: list[Token], at: Token) -> tuple[Frame, ...]:
    """The stack that the words after `at` tell."""
    if [token.word for token in words] == ["-"]:
        return ()
    if len(words) % 3 != 2 or any(token.word != "<" for token in words[2::3]):
        raise at.wrong("not a stack; write: at file.py:12 function < caller.py:3 function")
    return tuple(_frame(words[i], text(words[i + 1])) for i in range(0, len(words), 3))


def _frame(token: Token, function: str) -> Frame:
    file, _, line = token.word.rpartition(":")
    if not file or not line.isdigit():
        raise token.wrong(f"not a place in a file: {token.word}; write file.py:12")
    return Frame(text(token.part(0, len(file))), int(line), function)
