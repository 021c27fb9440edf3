"""whatif: `forebay whatif SNAPSHOT`: a recorded history through another pool. The policies are whatif's, the table report's."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import asdict

import click

from forebay.cli.formats import format_option, show
from forebay.cli.progress import progress
from forebay.errors import BadInput
from forebay.report import text
from forebay.report.json import Row, Spread, WhatIf
from forebay.sources import open_artifact
from forebay.tape import Tape
from forebay.units import parse_size, size
from forebay.views.walkback import walkback
from forebay.whatif.forebay_policy import Need, through_our_pool
from forebay.whatif.history import History, histories
from forebay.whatif.recorded import Recorded, recorded


def _size(_: click.Context, __: click.Parameter, written: str | None) -> int | None:
    try:
        return None if written is None else parse_size(written)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


@click.command("whatif")
@click.argument("snapshot")
@click.option(
    "--settings",
    multiple=True,
    default=["forebay"],
    show_default=True,
    help="Whose pool: `forebay` is ours, on driver segments.",
)
@click.option(
    "--cap", metavar="SIZE", callback=_size, help="The device's memory, for example 1790MiB. [default: more than is needed]"
)
@format_option
def command(snapshot: str, settings: tuple[str, ...], cap: int | None, style: str) -> None:
    """The recorded history of SNAPSHOT under another policy: peaks, driver calls, the largest free block.

    SNAPSHOT is a PyTorch memory snapshot, plain or compressed, or `example:NAME`, one that comes with forebay.
    """
    for name in settings:
        if name != "forebay":
            raise BadInput(
                f"--settings {name}: this version runs a history through forebay's own pool only; say --settings forebay"
            )
    with progress(f"reading {snapshot}"):
        tape = open_artifact(snapshot)
        devices, figures = _recorded(snapshot, tape)
    start = time.perf_counter()
    with progress(f"replaying {_events(tape):,} events") as advance:
        need = through_our_pool(devices, cap, advance)
    seconds = time.perf_counter() - start
    show(_output(snapshot, tape, figures, _row(need, cap), seconds), style, _print)


def _recorded(snapshot: str, tape: Tape) -> tuple[list[History], Recorded]:
    try:
        return histories(tape, walkback(tape).state), Recorded.together(recorded(tape).values())
    except BadInput as error:
        raise BadInput(f"{snapshot}: {error}") from None


def _events(tape: Tape) -> int:
    """As the artifact counts them; a tape may have rows more."""
    return sum(tape.provenance["events"]) if "events" in tape.provenance else len(tape)


def _row(need: Need, cap: int | None) -> Row:
    return Row(
        policy="forebay",
        settings="forebay",
        cap_bytes=cap,
        peak_reserved_bytes=need.peak_reserved_bytes,
        peak_allocated_bytes=need.peak_allocated_bytes,
        largest_free_bytes=need.largest_free_bytes,
        oom=need.ooms > 0,
        oom_event=need.oom_row,
        driver_allocs=need.driver_allocs,
        driver_frees=need.driver_frees,
        spread=Spread(lo=need.peak_reserved_bytes, hi=need.peak_reserved_bytes),
        how="put forebay's pool behind the program's allocator",
    )


def _output(snapshot: str, tape: Tape, figures: Recorded, row: Row, seconds: float) -> WhatIf:
    told = tape.provenance
    return WhatIf(
        source={"file": snapshot, "format": told.get("format"), "settings": told.get("settings"), "misfits": told.get("misfits")},
        events=_events(tape),
        seconds=seconds,
        calibration=None,
        recorded=asdict(figures),
        rows=[row],
        lower_bound_bytes=figures.peak_requested_bytes,
        advice=list(_advice(tape, figures, row)),
    )


def _advice(tape: Tape, figures: Recorded, row: Row) -> Iterator[str]:
    less = figures.peak_reserved_bytes - row.peak_reserved_bytes
    if less > 0 and not row.oom:
        yield f"forebay's pool holds {size(less)} less at its peak ({100 * less / figures.peak_reserved_bytes:.1f} %)."
    if misfits := tape.provenance.get("misfits"):
        yield f"{misfits} events contradict the heap that they met: take every figure with care."


def _print(output: WhatIf) -> None:
    from rich.console import Console

    Console().print(text.whatif(output))
