"""walkback: the heap before a tape's first row. The moves themselves are native/emulate's (history.hpp).

A history usually starts mid-life, and run forwards from an empty heap it would be wrong. What was there follows from what is
there at the end, by undoing the events one by one.
"""

from __future__ import annotations

from dataclasses import dataclass

from forebay.errors import BadInput
from forebay.sources.heap_state import HeapState
from forebay.sources.torch_snapshot import Snapshot
from forebay.tape import Sees, Tape

__all__ = ["Walkback", "walkback"]


@dataclass(frozen=True, slots=True)
class Walkback:
    """The heap before the first row, and how well it is known.

    `misfits`: events that contradict the heap that they met, 0 for a sound history. `exact`: run forwards from `state`, the
    tape ends in the segments and blocks that the file ends with; None where no file says how it ends. `open_tails`: blocks that
    may be larger by an unsplit tail of up to 1 MiB that nothing in the history shows.
    """

    state: HeapState
    misfits: int
    exact: bool | None
    open_tails: int


def walkback(tape: Tape) -> Walkback:
    """What was there before the first row of a whole tape.

    A tape of the program's beginning starts empty. Raises BadInput for any other tape that has no final state to walk back from.
    """
    if isinstance(tape, Snapshot):
        told = tape.provenance
        return Walkback(tape.before, told["misfits"], told["exact"], int(tape.before.blocks["inferred"].sum()))
    if Sees.BEGINNING in tape.sees:
        return Walkback(HeapState(), 0, None, 0)
    raise BadInput("the history starts mid-life and nothing says what the heap was then: record from the first allocation on")
