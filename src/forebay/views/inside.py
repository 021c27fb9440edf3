"""inside: which rows were issued inside regions of some names. What regions mean to a program is contract's."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from fnmatch import fnmatchcase

import numpy as np
from numpy.typing import NDArray

from forebay.tape import Kind, Tape

__all__ = ["rows_inside"]


def rows_inside(tape: Tape, match: Iterable[str]) -> NDArray[np.bool_]:
    """For each row whether its thread was inside a region whose name one of these globs matches. A region left open lasts to the end."""
    inside = np.zeros(len(tape), bool)
    if not tape.has("name"):
        return inside
    wanted = {i for i, name in enumerate(tape.sides.strings) if any(fnmatchcase(name, glob) for glob in match)}
    threads = tape.columns["thread"] if tape.has("thread") else np.zeros(len(tape), "u2")
    opened: dict[int, list[int]] = defaultdict(list)
    for row in tape.where(Kind.region_begin, Kind.region_end).tolist():
        begins = opened[int(threads[row])]
        if int(tape.columns["name"][row]) not in wanted:
            continue
        if tape.columns["kind"][row] == int(Kind.region_begin):
            begins.append(row)
        elif begins:
            _mark(inside, threads, begins.pop(), row)
    for begins in opened.values():
        for begin in begins:
            _mark(inside, threads, begin, len(tape))
    return inside


def _mark(inside: NDArray[np.bool_], threads: NDArray[np.generic], begin: int, end: int) -> None:
    inside[begin:end] |= threads[begin:end] == threads[begin]
