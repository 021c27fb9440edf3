"""steps: a tape cut into the steps of its program: iterations where regions number them, else runs that end in a host sync.

What happened in a step is other views'.
"""

from __future__ import annotations

from collections import Counter
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
    """First row and name of each iteration of one region: of those that lie in no other numbered one that with most iterations, the first
    such. A row that begins the iteration under way begins no other."""
    if not tape.has("name") or not tape.has("ref"):
        return {}
    names, refs = tape.columns["name"], tape.columns["ref"]
    named = tape.knows("name")
    outer = [row for row in _outer(tape) if named[row]]
    if not outer:
        return {}
    pairs = dict.fromkeys((int(names[row]), int(refs[row])) for row in outer)
    ((name, _),) = Counter(region for region, _ in pairs).most_common(1)
    cuts, last = dict[int, str](), None
    for row in (row for row in outer if names[row] == name):
        iteration = int(refs[row])
        if iteration != last:
            cuts[row], last = f"{tape.sides.strings[name]} {iteration}", iteration
    return cuts


def _outer(tape: Tape) -> list[int]:
    """Rows that begin a numbered region inside no other one of their thread."""
    rows = tape.where(Kind.region_begin, Kind.region_end)
    rows = rows[tape.knows("ref")[rows]]
    threads = tape.columns["thread"][rows] if tape.has("thread") else np.zeros(len(rows), "u2")
    depth, outer = Counter[int](), []
    for row, thread in zip(rows.tolist(), threads.tolist(), strict=True):
        if tape.columns["kind"][row] == int(Kind.region_begin):
            outer += [row] if depth[thread] == 0 else []
            depth[thread] += 1
        else:
            depth[thread] = max(0, depth[thread] - 1)
    return outer


def _host_syncs(tape: Tape) -> NDArray[np.intp]:
    """Rows at which the host waited."""
    work = tape.where(*WORK)
    flags = tape.columns["flags"][work] if tape.has("flags") else np.zeros(len(work), "u4")
    return np.sort(np.concatenate([tape.where(*_SYNCS), work[(flags & int(Flag.BLOCKING)) != 0]]))
