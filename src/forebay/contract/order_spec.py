"""order_spec: the entries of the contract's `[order]` table, read from text. Whether a run keeps them is order_check's.

    before  = ["copy.h2d -> compute.attention"]
    overlap = ["kv.store | compute.* in decode"]

A name is a glob for streams, a dot, a glob for work (what a launch is called; `copy`, `memset` where it is called nothing). The first dot
parts them. `in NAME` counts only work issued inside the contract's `[regions.NAME]`.
"""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final, Literal

from forebay.errors import BadInput
from forebay.views.relation import Item

__all__ = ["SIGNS", "Entry", "Intent", "Pattern", "exactly", "read_entry"]

Intent = Literal["before", "overlap"]
SIGNS: Final[dict[Intent, str]] = {"before": "->", "overlap": "|"}
_SAMPLES: Final[dict[Intent, str]] = {"before": "copy.h2d -> compute.attention", "overlap": "kv.store | compute.*"}


@dataclass(frozen=True, slots=True)
class Pattern:
    """Work of streams that are called so."""

    stream: str
    work: str

    def __str__(self) -> str:
        return f"{self.stream}.{self.work}"

    def matches(self, item: Item) -> bool:
        """Whether the work is meant."""
        return fnmatchcase(item.stream, self.stream) and fnmatchcase(item.name, self.work)


@dataclass(frozen=True, slots=True)
class Entry:
    """before: `left` ends before `right` begins. overlap: nothing orders the two. `region`: the contract's region that both are of."""

    intent: Intent
    left: Pattern
    right: Pattern
    region: str | None = None

    def __str__(self) -> str:
        text = f"{self.left} {SIGNS[self.intent]} {self.right}"
        return text if self.region is None else f"{text} in {self.region}"


def exactly(item: Item) -> Pattern:
    """The pattern of the work that is called as this is; characters that an entry cannot hold match as `?`."""
    return Pattern(_literal(item.stream).replace(".", "?"), _literal(item.name))


def read_entry(intent: Intent, text: str) -> Entry:
    """The entry that a text is. Raises BadInput with its column, from 1.

    >>> read_entry("before", "copy.h2d -> compute.attention in decode").right
    Pattern(stream='compute', work='attention')
    """
    sign = f" {SIGNS[intent]} "
    at = text.find(sign)
    if at < 0:
        raise BadInput(f"column {len(text) + 1}: no `{sign.strip()}` between two names; write {_SAMPLES[intent]!r}")
    start = at + len(sign)
    if (again := text.find(sign, start)) >= 0:
        raise BadInput(f"column {again + 2}: a second `{sign.strip()}`; write one entry a pair")
    right, said, region = text[start:].partition(" in ")
    if said and not region.strip():
        raise BadInput(
            f"column {len(text) + 1}: no region after `in`; write `in decode`, where [regions.decode] is in the contract"
        )
    return Entry(intent, _pattern(text[:at], 0), _pattern(right, start), region.strip() if said else None)


def _pattern(text: str, offset: int) -> Pattern:
    word = text.strip()
    column = offset + len(text) - len(text.lstrip()) + 1
    stream, dot, work = word.partition(".")
    if not (stream and dot and work):
        raise BadInput(f"column {column}: {word!r} is not STREAM.WORK; write copy.h2d, compute.* or *.attention")
    if any(character.isspace() for character in stream):
        raise BadInput(f"column {column}: {stream!r} is not a stream; a `?` stands for a space in a stream's name")
    return Pattern(stream, work)


def _literal(name: str) -> str:
    safe = "".join(character if character.isprintable() and character not in '|>"' else "?" for character in name)
    return safe.replace("[", "[[]").replace("*", "[*]").replace(" ", "?")
