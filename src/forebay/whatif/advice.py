"""advice: which rows of a what-if table are worth doing, in order, each with the line that does it. Where nothing helps it says so.

A row helps where it holds less than the recorded run by more than its own spread, or serves a request that was refused, under every
order of addresses tried. How rows are found is the other modules' matter.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from forebay.units import size
from forebay.whatif.pytorch_policy import EMPTY_CACHE, LATER, LATER_WAITS, Row

__all__ = ["advice", "best", "helps", "notes"]

_LEAST: Final = 0.01  # of what was reserved: less is no reason to change a program that runs


def helps(row: Row, recorded: Row) -> bool:
    """Whether a row is a remedy, and better than the recorded run by more than what is open about it."""
    if row.oom or not row.remedy:
        return False
    if recorded.oom:
        return row.tried and "run out of memory" not in row.how
    return row.spread_high < recorded.spread_low


def _worth(row: Row, recorded: Row) -> bool:
    return bool(recorded.oom) or recorded.peak_reserved_bytes - row.spread_high >= _LEAST * recorded.peak_reserved_bytes


def _needless(row: Row, before: Sequence[Row]) -> bool:
    """Whether fewer settings, a part of this row's, do as much."""
    mine = set(row.settings.split(","))
    return any(set(other.settings.split(",")) < mine for other in before)


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
    """One line for each row that helps by at least a hundredth, the best first, without those that add settings to a better one; empty
    where none does. Not exact: said so in every line."""
    good = [row for row in rows if helps(row, recorded) and _worth(row, recorded)]
    good.sort(key=lambda row: (row.spread_high, row.settings.count(",")))
    good = [row for at, row in enumerate(good) if not _needless(row, good[:at])]
    doubt = "" if exact else " (the emulation does not follow this recording exactly: a direction, not a figure)"
    return [f"{row.settings}: {_gain(row, recorded)}: {row.how}{doubt}" for row in good]


def notes(rows: Sequence[Row], recorded: Row) -> Iterator[str]:
    """What to know that is no advice: an empty_cache that would not have helped, and how far the figures hang on when waits end."""
    for row in rows:
        if row.settings == EMPTY_CACHE and row.oom:
            yield f"No remedy: {row.how}; the request is refused all the same."
        more = row.peak_reserved_bytes - recorded.peak_reserved_bytes
        if row.settings == LATER_WAITS and more >= _LEAST * recorded.peak_reserved_bytes:
            yield (
                f"Frees of this program wait for other streams, and how long is the GPU's timing, which differs from run to run under "
                f"any setting: every row assumes the recorded waits. If they end {LATER} requests later, the same run reserves "
                f"{size(row.peak_reserved_bytes)} at its peak instead of {size(recorded.peak_reserved_bytes)}."
            )
