"""steps: a tape cut into the steps of its program: iterations where regions number them, else runs that end in a host sync.

What happened in a step is other views'.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from forebay.tape import Flag, Kind, Tape
from forebay.views.links import WORK

__all__ = ["Steps", "find_steps"]

_SYNCS = (Kind.sync_event, Kind.sync_stream, Kind.sync_device)


@dataclass(frozen=True, slots=True)
class Steps:
    """`of`: each row's step, an int array that never falls. `names`: what each step is called."""

    of: NDArray[np.intp]
    names: tuple[str, ...]


def find_steps(tape: Tape) -> Steps:
    """The steps of a whole tape, at least one. Rows before the first numbered region are a step of their own."""
    cuts = _iterations(tape)
    if not cuts:
        ends = [0, *(int(row) + 1 for row in _host_syncs(tape) if row + 1 < len(tape))]
        cuts = {row: f"run {i}" for i, row in enumerate(ends, 1)}
    elif 0 not in cuts:
        cuts = {0: "before", **cuts}
    starts = np.zeros(len(tape), np.intp)
    starts[[row for row in cuts if 0 < row < len(tape)]] = 1
    return Steps(np.cumsum(starts), tuple(cuts.values()))


def _iterations(tape: Tape) -> dict[int, str]:
    """First row and name of each iteration of the first region that has any; a row that begins the iteration under way begins no other."""
    if not tape.has("name"):
        return {}
    begins = tape.where(Kind.region_begin)
    numbered = begins[tape.knows("ref")[begins] & tape.knows("name")[begins]]
    if not len(numbered):
        return {}
    name, cuts, last = int(tape.columns["name"][numbered[0]]), dict[int, str](), None
    for row in numbered[tape.columns["name"][numbered] == name].tolist():
        iteration = int(tape.columns["ref"][row])
        if iteration != last:
            cuts[row], last = f"{tape.sides.strings[name]} {iteration}", iteration
    return cuts


def _host_syncs(tape: Tape) -> NDArray[np.intp]:
    """Rows at which the host waited."""
    work = tape.where(*WORK)
    flags = tape.columns["flags"][work] if tape.has("flags") else np.zeros(len(work), "u4")
    return np.sort(np.concatenate([tape.where(*_SYNCS), work[(flags & int(Flag.BLOCKING)) != 0]]))
