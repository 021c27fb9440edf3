"""tape_text: tapes that people wrote, one event a line. The notation is tape.notation's; this is where such a file is recognised."""

from __future__ import annotations

import codecs
import re
from itertools import islice

from forebay.errors import BadInput
from forebay.tape import Tape, parse
from forebay.tape.parse import is_header
from forebay.tape.words import Token, tokens

__all__ = ["read", "recognises"]

_HEAD = 64 << 10  # bytes that are looked at, and lines of them
_LINES = 32
_ROW = re.compile(r"row (\d+): (\w+ (\d+) .*)")


def recognises(data: bytes) -> bool:
    """Whether this is text that begins as a tape does: its first lines can be read, or most of them could, so that a line in error
    does not make a tape another format.
    """
    head = data[:_HEAD]
    if b"\0" in head:
        return False
    lines = (line for line in head.decode("utf-8-sig", errors="replace").split("\n") if line.split("#", 1)[0].strip())
    first = list(islice(lines, _LINES))
    return bool(first) and (_reads("\n".join(first)) or 2 * sum(map(_is_told, first)) > len(first))


def read(data: bytes) -> Tape:
    """The tape. Raises BadInput with line and column."""
    text = _decoded(data.removeprefix(codecs.BOM_UTF8))
    tape = parse(text)
    try:
        return tape.check()
    except BadInput as error:
        raise _placed(text, str(error)) from None


def _reads(text: str) -> bool:
    try:
        parse(text)
    except BadInput:
        return False
    return True


def _is_told(line: str) -> bool:
    """Whether a line is of a thread, or can be read by itself."""
    return re.match(r"\s*t\d+\s", line) is not None or _reads(line)


def _decoded(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        before = data[: error.start]
        column = len(before.rpartition(b"\n")[2].decode()) + 1
        raise Token("", column, before.count(b"\n") + 1).wrong("not UTF-8 text: save the file as UTF-8") from None


def _placed(text: str, message: str) -> BadInput:
    """What is wrong with a row, said of its line and of the word that holds the number."""
    match = _ROW.match(message)
    if match is None:
        return BadInput(message)
    lines = (list(tokens(line, at)) for at, line in enumerate(text.split("\n"), 1))
    events = (words for words in lines if words and not is_header(words[0].word))
    words = next(islice(events, int(match[1]), None))
    return next((token for token in words if token.word.endswith(f"#{match[3]}")), words[0]).wrong(match[2])
