"""bench_text: what was measured, for people: the guide's table, and allocators beside ours. Measuring is bench's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from forebay.units import duration, size

if TYPE_CHECKING:
    from forebay.report.json import BenchNumbers, BenchPool, Pair

__all__ = ["numbers", "pairs"]


def numbers(found: BenchNumbers) -> RenderableType:
    """The guide's column beside what was measured, then what a graph saves."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for name, justify in (("", "left"), ("the guide", "left"), ("here", "right"), ("least", "right"), ("most", "right")):
        table.add_column(name, justify=justify, overflow="fold")  # type: ignore[arg-type]
    for row in found.figures:
        marked = "" if row.clock == "virtual" or not found.simulated else " (real time)"
        cells = [_time(row.ns), _time(row.least_ns), _time(row.most_ns)]
        table.add_row(*map(Text, (row.what + marked, row.guide or "-", *cells)))
    what = f"{found.device}: a call, the median of {found.rounds} rounds; {_clock(simulated=found.simulated)}"
    lines: list[RenderableType] = [Text(what, style="bold"), table]
    if found.graph_saves is not None:
        lines.append(Text(f"a graph of a decode step saves {found.graph_saves:.0%} of its time (the guide: 10-30 %)"))
    return Group(*lines, *(Text(f"not measured: {row.what}: {row.why}") for row in found.figures if row.ns is None))


def pairs(found: BenchPool) -> RenderableType:
    """Every allocator that was there, then those that were not, each once."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for name, justify in (("an allocation and its free", "left"), ("from", "left"), ("threads", "right"), ("a pair", "right"),
                          ("least", "right"), ("most", "right"), ("pairs a second", "right"), ("to ours", "right")):  # fmt: skip
        table.add_column(name, justify=justify)  # type: ignore[arg-type]
    for row in found.rows:
        if row.ns is None:
            continue
        ratio = "-" if row.ratio is None else f"{row.ratio:.2f} x"
        cells = (row.peer, row.language, f"{row.threads}", _time(row.ns), _time(row.least_ns), _time(row.most_ns))
        table.add_row(*map(Text, (*cells, f"{row.pairs_per_s or 0:,.0f}", ratio)))
    where = f"{found.device}: cached blocks of {size(found.bytes)}, a stream a thread, real time, medians"
    if found.simulated:
        where += "; the device is simulated, the pool's code is not"
    return Group(Text(where, style="bold"), table, *map(Text, _absent(found.rows)))


def _absent(rows: Sequence[Pair]) -> Iterator[str]:
    yield from dict.fromkeys(f"not here: {row.peer} ({row.why}). To have it: {row.get}" for row in rows if row.ns is None)


def _clock(*, simulated: bool) -> str:
    return "on the virtual clock, which goes by a table of costs: no time was measured" if simulated else "real time"


def _time(ns: float | None) -> str:
    """Three digits for what is below a microsecond, else as durations are."""
    if ns is None:
        return "-"
    return f"{ns:.0f} ns" if ns < 1000 else duration(round(ns))
