"""What it does: finds work on a device's legacy default stream while a blocking stream of that device works too.

Why it matters: whatever is put into the legacy stream comes after all earlier work of the blocking streams, and all their later work
comes after it. Threads with streams of their own run one after another, and no call says why.

Instead: give the work a stream of its own, build with per-thread default streams, or make the other streams non-blocking.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from forebay.contract.rule import Rule, RuleFigures, anywhere, once, sites_of
from forebay.finding import Finding
from forebay.tape import Kind, Sees, StreamClass, Tape
from forebay.views.order import Place, place

NAME, PREVENTS = "legacy-stream", "legacy-stream-serialization"
_WORK = (Kind.launch, Kind.copy, Kind.memset, Kind.host_func, Kind.graph_launch)


class Figures(RuleFigures, frozen=True, kw_only=True):
    """The blocking streams that wait for each other through the legacy stream, by name."""

    blocking_streams: list[str]


def judge(tape: Tape) -> Iterator[Finding]:
    """One finding a place that puts work into a legacy stream."""
    rows = tape.where(*_WORK)
    streams = tape.columns["stream"][rows]
    return once(_finding(place(tape, int(row)), beside) for row, beside in _at_odds(tape, rows, streams))


def _at_odds(tape: Tape, rows: np.ndarray, streams: np.ndarray) -> Iterator[tuple[int, list[str]]]:
    """Rows on the legacy stream of a device on which blocking streams work, with the names of those."""
    used = {int(stream) for stream in np.unique(streams)}
    for legacy in used:
        if tape.sides.streams[legacy].kind is StreamClass.legacy:
            beside = [tape.sides.streams[s].name for s in sorted(used) if _meets(tape, s, legacy)]
            yield from ((int(row), beside) for row in rows[streams == legacy] if beside)


def _meets(tape: Tape, stream: int, legacy: int) -> bool:
    facts = tape.sides.streams[stream]
    same_device = facts.device == tape.sides.streams[legacy].device
    return same_device and facts.kind in (StreamClass.blocking, StreamClass.per_thread)


def _finding(at: Place, beside: list[str]) -> Finding:
    return Finding.of(
        NAME,
        f"{at} waits for {_named(beside)} and holds up their later work",
        severity="error",
        certainty="certain",
        remedy=f"put {at} into a stream of its own, or make {_named(beside)} non-blocking",
        about=[at.kind.name, at.name],
        evidence=Figures(blocking_streams=beside, times=1),
        events=[at.row],
        sites=sites_of(at.stack),
        prevents=PREVENTS,
    )


def _named(streams: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in streams[:4]) + (f" and {len(streams) - 4} more" if len(streams) > 4 else "")


RULE = Rule(NAME, PREVENTS, "error", frozenset({Sees.WORK, Sees.STREAMS}), __doc__, anywhere(judge), Figures)
