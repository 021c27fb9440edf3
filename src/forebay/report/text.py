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


def whatif(output: WhatIf) -> RenderableType:
    """The recorded figures beside those of each policy, a column each, and what follows from them."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("")
    for title in ("recorded", *(_title(row) for row in output.rows)):
        table.add_column(title, justify="right")
    for line in _lines(output):
        table.add_row(*line)
    return Group(_headline(output), table, *(Text(f"• {advice}") for advice in output.advice))


def _headline(output: WhatIf) -> Text:
    name = PurePath(str(output.source.get("file", "this history"))).name
    rate = f"{output.events / output.seconds / 1e6:.1f} M events/s" if output.seconds > 0 else "at once"
    return Text(f"{name}: {output.events:,} events replayed in {output.seconds:.2f} s ({rate})", style="bold")


def _title(row: Row) -> str:
    return "forebay's pool" if row.policy == "forebay" else row.settings or "PyTorch's defaults"


def _bytes(count: int | None) -> str:
    return "not known" if count is None else size(count)


def _count(count: int | None) -> str:
    return "not known" if count is None else f"{count:,}"


def _lines(output: WhatIf) -> Iterator[tuple[str, ...]]:
    recorded, rows = output.recorded, output.rows
    yield "peak allocated", _bytes(recorded.get("peak_allocated_bytes")), *(size(r.peak_allocated_bytes) for r in rows)
    yield "peak reserved", _bytes(recorded.get("peak_reserved_bytes")), *(size(r.peak_reserved_bytes) for r in rows)
    yield "  above what any policy needs", *_excess(output)
    yield (
        "largest free block, at the end",
        _bytes(recorded.get("largest_free_bytes")),
        *(size(r.largest_free_bytes) for r in rows),
    )
    yield "driver allocations", _count(recorded.get("driver_allocs")), *(_count(r.driver_allocs) for r in rows)
    yield "driver frees", _count(recorded.get("driver_frees")), *(_count(r.driver_frees) for r in rows)
    yield "out of memory", _times(recorded.get("ooms")), *(_oom(r) for r in rows)


def _excess(output: WhatIf) -> Iterator[str]:
    least = output.lower_bound_bytes
    for peak in (output.recorded.get("peak_reserved_bytes"), *(row.peak_reserved_bytes for row in output.rows)):
        yield "not known" if peak is None or not least else f"{100 * (peak - least) / least:+.1f} %"


def _times(count: int | None) -> str:
    return {None: "not known", 0: "no", 1: "once"}.get(count, f"{count} times")


def _oom(row: Row) -> str:
    if not row.oom:
        return "no"
    return "yes" if row.oom_event is None else f"at event {row.oom_event:,}"
