"""relation: whether one work item of a tape is sure to come before another, and which rows make it so.

Races, which need bytes, are order.py's; which edges are needed is needed.py's; what a program meant is contract's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from forebay._core import order as core
from forebay.tape import Tape
from forebay.views.links import WORK
from forebay.views.order import place, threads_of, whole_tables

__all__ = ["Answer", "Item", "Relation"]

Answer = Literal["no", "possible", "certain"]
_ANSWERS: Final[dict[core.Sure, Answer]] = {
    core.Sure.no: "no", core.Sure.possible: "possible", core.Sure.certain: "certain",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Item:
    """Work that runs in a stream: its row, the index of its stream, what that and the work are called (its kind if nothing)."""

    row: int
    lane: int
    stream: str
    name: str


class Relation:
    """The happens-before relation of a whole tape, from edges only; docs/decisions/0165, statements 1 to 5. It must fit in memory."""

    def __init__(self, tape: Tape) -> None:
        self._tape = tape
        self._core = core.Relation(*whole_tables(tape), threads_of([tape]))
        for chunk in tape.chunks():
            self._core.feed(chunk)

    def items(self) -> list[Item]:
        """The work that ran, in the tape's order. Nodes of a capture are not among them: they run at their graph's launch."""
        return [self._item(int(row)) for row in self._tape.where(*WORK) if self._core.item(int(row))]

    def _item(self, row: int) -> Item:
        here = place(self._tape, row)
        return Item(row, int(self._tape.columns["stream"][row]), here.stream or "", here.name or here.kind.name)

    def before(self, a: Item, b: Item) -> Answer:
        """Whether `a` has ended before `b` begins; possible where only an edge that the tape may hide makes it so."""
        return _ANSWERS[self._core.before(a.row, b.row)]

    def joins(self, a: Item, b: Item) -> list[int]:
        """Rows on one way from `a` to `b`, the first on the tape first, at which a stream or thread learns of another: waits, syncs,
        and work that comes after what its thread knows or after the legacy stream."""
        return self._core.way(a.row, b.row)[::-1]
