"""advice: which rows of a what-if table are worth doing, in order, each with the line that does it. Where nothing helps it says so.

A row helps where it holds less than the recorded run by more than its own spread, or serves a request that was refused, under every
order of addresses tried. How rows are found is the other modules' matter.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from forebay.units import size
from forebay.whatif.pytorch_policy import Row

__all__ = ["advice", "best", "helps"]


def helps(row: Row, recorded: Row) -> bool:
    """Whether a row is better than the recorded run by more than what is open about it."""
    if row.oom:
        return False
    if recorded.oom:
        return "run out of memory" not in row.how
    return row.spread_high < recorded.spread_low


def best(rows: Iterable[Row]) -> Row | None:
    """The row to show of several that are one remedy tried in variants: none refused, then least at its worst."""
    return min(rows, key=lambda row: (row.oom, row.spread_high if not row.oom else -(row.oom_event or 0)), default=None)


def _gain(row: Row, recorded: Row) -> str:
    less = recorded.peak_reserved_bytes - row.spread_high
    if recorded.oom:
        return f"serves the request that was refused, with {size(row.peak_reserved_bytes)} reserved at the peak"
    open_ = row.spread_high - row.spread_low
    sure = f", give or take {size(open_)}" if open_ else ""
    return f"{size(row.peak_reserved_bytes)} reserved at the peak instead of {size(recorded.peak_reserved_bytes)} (−{size(less)}{sure})"


def advice(rows: Sequence[Row], recorded: Row, *, exact: bool) -> list[str]:
    """One line for each row that helps, the best first; empty where none does. Not exact: said so in every line."""
    good = sorted((row for row in rows if helps(row, recorded)), key=lambda row: row.spread_high)
    doubt = "" if exact else " (the emulation does not follow this recording exactly: a direction, not a figure)"
    return [f"{row.settings}: {_gain(row, recorded)}: {row.how}{doubt}" for row in good]
