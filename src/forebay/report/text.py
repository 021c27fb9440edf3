"""text: outputs for people, as rich renderables. What they say is json.py's; where they are printed is cli's."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePath

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from forebay.report.json import Row, WhatIf
from forebay.units import size

__all__ = ["whatif"]

_TITLES = ("reserved", "±", "above", "allocated", "active", "calls", "OOM")
_ACTIVE = _TITLES.index("active")


def whatif(output: WhatIf) -> RenderableType:
    """The recorded figures (peaks, the driver's allocations and frees) and those of each policy, a line each, and what follows."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("", min_width=14, overflow="fold")
    waits = _any_waits(output)
    for title in (*_TITLES[:_ACTIVE], *_TITLES[_ACTIVE if waits else _ACTIVE + 1 :]):
        table.add_column(title, justify="right", no_wrap=title != "OOM", min_width=5 if title == "OOM" else None)

    def add(name: RenderableType, cells: Iterator[str]) -> None:
        told = list(cells)
        table.add_row(name, *told[:_ACTIVE], *told[_ACTIVE if waits else _ACTIVE + 1 :])

    own = any(row.policy == "forebay" and row.settings != "forebay" for row in output.rows)
    add("recorded", _recorded(output))
    cap: int | None = None
    for row in output.rows:
        if row.cap_bytes != cap and (cap := row.cap_bytes) is not None:
            table.add_row(Text(f"under a cap of {_mib(cap)}", style="dim"))
        add(_title(row, own=own), _cells(row, output.lower_bound_bytes))
    return Group(*_headlines(output), table, *(Text(f"• {advice}") for advice in output.advice or _nothing(output)))


def _any_waits(output: WhatIf) -> bool:
    """Whether freed bytes ever waited: else active is allocated, and a column too many."""
    pairs = [(output.recorded.get("peak_allocated_bytes"), output.recorded.get("peak_active_bytes"))]
    return any(a != b for a, b in [*pairs, *((r.peak_allocated_bytes, r.peak_active_bytes) for r in output.rows)])


def _nothing(output: WhatIf) -> list[str]:
    return ["Nothing here helps by more than what is open about it."] if output.calibration is not None else []


def _headlines(output: WhatIf) -> Iterator[Text]:
    name = PurePath(str(output.source.get("file", "this history"))).name
    policies = f"{len(output.rows)} {'policy' if len(output.rows) == 1 else 'policies'}"
    yield Text(f"{name}: {output.events:,} events under {policies} in {output.seconds:.2f} s", style="bold")
    if output.calibration is not None:
        exact, where = output.calibration.exact, output.calibration.first_divergence
        calibrated = (
            "the emulation does what the recording shows"
            if exact
            else f"the emulation differs from event {where:,} on"
            if where
            else "the emulation cannot be held against the recording from its beginning"
        )
        yield Text(f"{calibrated}; any allocator needs at least {_mib(output.lower_bound_bytes)}")


def _title(row: Row, *, own: bool) -> str:
    """A row's name; beside a program's own pools PyTorch's policy says whose it is."""
    if row.policy == "forebay":
        return "forebay's pool" if row.settings == "forebay" else f"own pools, {row.settings}"
    return f"PyTorch, {row.settings or 'none'}" if own else row.settings or "none"


def _mib(count: int) -> str:
    """One unit for all of a table, so that its rows compare at a glance."""
    return f"{count / 2**20:,.0f} MiB" if count >= 2**20 or not count else size(count)


def _bytes(count: int | None) -> str:
    return "not known" if count is None else _mib(count)


def _count(count: int | None) -> str:
    return "not known" if count is None else f"{count:,}"


def _above(peak: int | None, least: int) -> str:
    """How far a peak lies above what any allocator needs; nothing where it cannot: another history, or one that contradicts itself."""
    if peak is None or not least:
        return "not known"
    return f"{100 * (peak - least) / least:+.1f} %" if peak >= least else "–"


def _recorded(output: WhatIf) -> Iterator[str]:
    told = output.recorded
    yield _bytes(told.get("peak_reserved_bytes"))
    yield ""
    yield _above(told.get("peak_reserved_bytes"), output.lower_bound_bytes)
    yield _bytes(told.get("peak_allocated_bytes"))
    yield _bytes(told.get("peak_active_bytes"))
    yield f"{_count(told.get('driver_allocs'))} + {_count(told.get('driver_frees'))}"
    yield _times(told.get("ooms"))


def _cells(row: Row, least: int) -> Iterator[str]:
    yield _mib(row.peak_reserved_bytes)
    yield _mib(row.spread.hi - row.spread.lo) if row.spread.hi > row.spread.lo else ""
    yield _above(row.peak_reserved_bytes, least)
    yield _mib(row.peak_allocated_bytes)
    yield _mib(row.peak_active_bytes)
    yield f"{row.driver_allocs:,} + {row.driver_frees:,}"
    yield _oom(row)


def _times(count: int | None) -> str:
    return {None: "not known", 0: "no", 1: "once"}.get(count, f"{count} times")


def _oom(row: Row) -> str:
    if not row.oom:
        return "no" if row.oom is not None else "not tried"
    return "yes" if row.oom_event is None else f"event {row.oom_event:,}"
