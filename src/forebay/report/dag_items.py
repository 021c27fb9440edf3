"""dag_items: the rows of a tape as things on lanes, with their labels. Where they lie is dag_place.py's."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from forebay.calls import lookup
from forebay.report.dag_facts import DRAWN, Facts
from forebay.report.scene import CHAR, Glyph, shortened
from forebay.tape import Flag, Kind, format_lines
from forebay.tape.parse import is_header
from forebay.views.links import WORK

__all__ = ["Actor", "Item", "items"]

_LOOKS: Final[Mapping[Kind, str]] = {
    Kind.launch: "launch", Kind.graph_launch: "launch", Kind.copy: "copy", Kind.memset: "memset", Kind.host_func: "host",
}  # fmt: skip
_GLYPHS: Final[Mapping[Kind, Glyph]] = {
    Kind.record: "record", Kind.wait: "wait", Kind.query: "wait", Kind.lend: "lend", Kind.alloc: "alloc", Kind.reserve: "alloc",
    Kind.map: "alloc", Kind.pin: "alloc", Kind.free: "free", Kind.release: "free", Kind.unmap: "free", Kind.unpin: "free",
    Kind.reclaim: "free",
}  # fmt: skip
_ON_HOST: Final = frozenset({Kind.sync_event, Kind.sync_stream, Kind.sync_device, Kind.host_access})
_NAME, _USES = 22, 30  # letters of a label's first and second line

_FAR: Final = re.compile(r"@0x[0-9a-f]+(?=[0-9a-f]{6}\b)")  # of a long address the end tells ranges apart

Actor = tuple[str, int]  # ("thread" or "stream", its index)


@dataclass(frozen=True, slots=True)
class Item:
    """One thing on the lane of one actor: `glyph` is None for a box. Times in nanoseconds, None where the tape does not know them.

    `host` marks what the calling thread spends time in: later rows of that thread come after it.
    """

    row: int
    actor: Actor
    thread: int
    kind: Kind
    glyph: Glyph | None
    look: str
    lines: tuple[str, ...]
    tip: str
    begin: int | None
    end: int | None
    host: bool

    @property
    def width(self) -> float:
        """The room that it needs, in pixels."""
        letters = max(len(self.lines[0]), *(0.9 * len(line) for line in self.lines[1:]), 0)
        return CHAR * letters + (16 if self.glyph is None else 6)


def items(facts: Facts) -> Iterator[Item]:
    """The drawn rows, in order; work that its caller waits for is there twice, on its stream and on the caller's lane."""
    told = _told(facts)
    for row in facts.rows:
        kind = Kind(int(facts.tape.columns["kind"][row]))
        if kind in DRAWN:
            item = _item(facts, row, kind, told[row])
            yield item
            if kind in WORK and (_cell(facts, "flags", row) or 0) & int(Flag.BLOCKING) and item.actor[0] == "stream":
                yield _return(item)


def _told(facts: Facts) -> dict[int, str]:
    """Each row's line in the notation: a name of a block is the same in the drawing and in `show --as text`."""
    lines = (line for line in format_lines(facts.tape[: facts.rows.stop]) if not is_header(line.split(" ", 1)[0]))
    return {row: line for row, line in enumerate(lines) if row in facts.rows}


def _item(facts: Facts, row: int, kind: Kind, told: str) -> Item:
    thread, stream = _cell(facts, "thread", row) or 0, _cell(facts, "stream", row)
    host = kind in _ON_HOST
    actor: Actor = ("thread", thread) if host or stream is None or kind is Kind.query else ("stream", stream)
    column = ("time_ns", "span_ns") if actor[0] == "thread" else ("begin_ns", "end_ns")
    begin, end = (_cell(facts, name, row) for name in column)
    if column[0] == "time_ns" or begin is None:
        begin = _cell(facts, "time_ns", row)
        end = None if begin is None or not host else begin + (_cell(facts, "span_ns", row) or 0)
    glyph = None if kind in WORK or host else _GLYPHS.get(kind, "host")
    return Item(
        row, actor, thread, kind, glyph, _look(facts, row, kind), _labels(kind, told), f"row {row}: {told}", begin, end, host
    )


def _return(work: Item) -> Item:
    lines = (f"waits for {work.kind.name}",)
    look = "host" + (" needless" if "needless" in work.look else "")
    return Item(work.row, ("thread", work.thread), work.thread, work.kind, None, look, lines, work.tip, None, work.end, True)


def _look(facts: Facts, row: int, kind: Kind) -> str:
    base = _LOOKS[kind] if kind in WORK else "host" if kind in _ON_HOST else kind.name
    parts = ["work", base] if kind in WORK else [base]
    parts += ["captured"] if _cell(facts, "capture", row) is not None and kind in WORK else []
    parts += ["needless"] if row in facts.needless_rows else []
    parts += ["race"] if row in facts.racing_rows else []
    return " ".join(parts)


def _labels(kind: Kind, told: str) -> tuple[str, ...]:
    """The words of a line that fit into its shape: what it is called, and which bytes it touches."""
    words = told.split(" at ", 1)[0].split()
    after = words[words.index(kind.name) + 1 :]
    names = [word for word in after if word[0] not in '@+"' and "=" not in word and ":" not in word]
    names = [name for name in names if lookup(name) is None]
    uses = _uses([_FAR.sub("@…", word) for word in after if ":" in word and word[0] in "rwa?"])
    head = names[:1] if kind in WORK and names else [kind.name.replace("_", " "), *names[:2]]
    if kind is Kind.sync_stream:
        head = ["sync", *(word.strip('"') for word in words[: words.index(kind.name)][-1:])]
    first = shortened(" ".join(head), _NAME)
    return (first, uses) if uses else (first,)


def _uses(words: Sequence[str]) -> str:
    """As many of them as fit, and how many do not."""
    fit = [word for i, word in enumerate(words) if i == 0 or len(" ".join(words[: i + 1])) <= _USES]
    return " ".join(fit) + (f" +{len(words) - len(fit)}" if len(fit) < len(words) else "")


def _cell(facts: Facts, column: str, row: int) -> int | None:
    """A value of a row; None where the tape does not know it."""
    tape = facts.tape
    return int(tape.columns[column][row]) if tape.has(column) and tape[row : row + 1].knows(column)[0] else None
