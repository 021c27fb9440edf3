"""machine_text: this machine's GPUs for people: who has how much, what can be looked with here, and what is lacking. What is seen is
doctor's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from forebay.doctor.machine import LEDGER, Machine
from forebay.sources.nvml import Gpu
from forebay.units import size

__all__ = ["machine"]

_WORDS: Final = {
    "other_processes": "other processes, and the driver",
    "outside_pools": "this one outside its pools",
    "cached": "cached in its pools",
    "pending": "freed, not reusable yet",
    "live": "live",
}


def machine(found: Machine) -> RenderableType:
    """Each GPU with the ledger of each process, then what forebay can see here and what it lacks, and how to get it."""
    lines: list[RenderableType] = []
    for gpu in found.gpus:
        lines.append(
            Text(f"GPU {gpu.number}, {gpu.name}: {size(gpu.used)} of {size(gpu.total)} used, {size(gpu.free)} free", style="bold")
        )
        lines += map(Text, _processes(gpu, found))
    lines += [Text(f"cannot see: {blind.why}. To see it: {blind.advice}") for blind in found.blind]
    lines += [Text(f"warning: {warning}") for warning in found.warnings]
    table = Table.grid(padding=(0, 1, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for sight in found.sights:
        told = sight.shows if sight.there else f"{sight.shows}: {sight.get}"
        table.add_row(*map(Text, (f"  {sight.name}", "here" if sight.there else "lacks", told)))
    return Group(
        *lines, Text("to look with:"), table, Text("then: forebay doctor FILE (a snapshot, a recording, a log, a folder of them)")
    )


def _processes(gpu: Gpu, found: Machine) -> Iterator[str]:
    if gpu.processes is not None and not gpu.processes:
        yield "  no process that NVML tells of"
    for process in gpu.processes or ():
        ledger = found.ledgers[gpu.number][process.pid]
        yield f"  process {process.pid}: {'how much is not told' if process.used is None else size(process.used)}"
        unknown = [name for name in LEDGER if ledger[name] is None]
        for name in LEDGER:
            value = ledger[name]
            last = f", together {size(ledger['unknown_together'] or 0)}" if unknown and name == unknown[-1] else ""
            yield f"    {_WORDS[name]:<32}{'not known' if value is None else size(value)}{last}"
        if unknown:
            yield "    a snapshot of the process tells them apart"
