"""dag_facts: what the views say of one tape, gathered once for the drawings of it. It finds out nothing itself."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Final

from forebay.tape import Kind, Stream, Tape
from forebay.views.links import WORK, Link, find_links
from forebay.views.needed import Edge, Edges
from forebay.views.order import Race, find_races

__all__ = ["DRAWN", "Facts"]

_SYNCS: Final = (Kind.sync_event, Kind.sync_stream, Kind.sync_device, Kind.query)
_MEMORY: Final = (
    Kind.reserve,
    Kind.release,
    Kind.map,
    Kind.unmap,
    Kind.pin,
    Kind.unpin,
    Kind.alloc,
    Kind.free,
    Kind.lend,
    Kind.reclaim,
)
DRAWN: Final = frozenset(
    {*WORK, *_SYNCS, *_MEMORY, Kind.record, Kind.wait, Kind.host_access, Kind.capture_begin, Kind.capture_end, Kind.oom}
)
_NOTED: Final = 8


class Facts:
    """One tape, the rows of it that are to be drawn, and what the views say of it. The whole tape is judged, whatever is drawn."""

    def __init__(self, tape: Tape, rows: range) -> None:
        self.tape, self.rows = tape, rows
        self.races: list[Race] = list(find_races(tape))
        self.needless: list[Edge] = [edge for edge in Edges(tape).all if edge.verdict == "needless" and not edge.pool_made]
        self.links: list[Link] = list(find_links(tape))

    @cached_property
    def needless_rows(self) -> frozenset[int]:
        """Every row that joins clocks for nothing."""
        return frozenset(row for edge in self.needless for row in edge.rows)

    @cached_property
    def racing_rows(self) -> frozenset[int]:
        """Every row that is one side of a race."""
        return frozenset(row for race in self.races for row in (race.a.row, race.b.row))

    @property
    def summary(self) -> str:
        """The figures in one line."""
        span = (
            f"rows {self.rows.start}:{self.rows.stop} of {len(self.tape):,}"
            if len(self.rows) < len(self.tape)
            else f"{len(self.tape):,} rows"
        )
        waits = sum(len(edge.rows) for edge in self.needless)
        return f"{span}, {_count(len(self.races), 'race')}, {_count(waits, 'needless edge')}"

    def notes(self) -> Iterator[tuple[str, str]]:
        """The findings in words, as (style, line): races first, at most eight of either."""
        for i, race in enumerate(self.races[:_NOTED], 1):
            sure = "certain" if race.certain else "possible"
            rows = f" (rows {race.a.row} and {race.b.row})" if race.a.stack or race.b.stack else ""
            yield "race", f"race {i} ({sure}): {race.a} and {race.b}{rows}: the same bytes, no order"
            yield "", f"    missing: {race.missing}"
        yield from _more(len(self.races) - _NOTED, "race")
        for edge in self.needless[:_NOTED]:
            times = f"row {edge.rows[0]}" if len(edge.rows) == 1 else f"{len(edge.rows)} rows from {edge.rows[0]} on"
            yield "needless", f"needless ({times}): {edge.first}: no two uses of the same bytes need it, and it holds work back."
        yield from _more(len(self.needless) - _NOTED, "needless edge")


def stream_says(stream: Stream) -> str:
    """What a stream is, in a few words."""
    kind = stream.kind.name.replace("_", "-") if stream.kind is not None else "stream"
    return f"{kind}, device {stream.device}" if stream.device else kind


def _more(count: int, what: str) -> Iterator[tuple[str, str]]:
    if count > 0:
        yield "", f"… and {_count(count, f'more {what}')}"


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}" + ("" if number == 1 else "s")
