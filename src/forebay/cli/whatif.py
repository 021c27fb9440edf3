"""whatif: `forebay whatif SNAPSHOT`: a recorded history under other settings and through other pools. The policies are whatif's, the
table report's."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import click

from forebay.cli.formats import format_option, show
from forebay.cli.progress import progress
from forebay.errors import BadInput
from forebay.report import text
from forebay.report.json import Calibration, Row, Spread, WhatIf
from forebay.sources import open_artifact
from forebay.sources.heap_state import HeapState
from forebay.sources.torch_snapshot import event_of
from forebay.tape import Tape
from forebay.units import parse_size, size
from forebay.views.walkback import walkback
from forebay.whatif import pytorch_policy
from forebay.whatif.calibrate import calibrate
from forebay.whatif.forebay_policy import Need, through_our_pool
from forebay.whatif.history import History, histories
from forebay.whatif.recorded import Recorded, recorded
from forebay.whatif.settings import apply
from forebay.whatif.steps import devices
from forebay.whatif.table import Asked, Table, pytorch_table

_OURS = "forebay"
_SERVED = "; it serves the request that was refused"
_MOVED = "; idle frames are unmapped where they lie and mapped where the request goes"
_MOST_CAP = 1 << 50  # bytes: more than any device has


def _size(_: click.Context, __: click.Parameter, written: str | None) -> int | None:
    try:
        cap = None if written is None else parse_size(written)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None
    if cap is not None and not 0 < cap <= _MOST_CAP:
        raise click.BadParameter(
            f"expected a cap from 1 byte to {size(_MOST_CAP)}, got {written}; without --cap it is the recorded one"
        )
    return cap


def _buckets(_: click.Context, __: click.Parameter, written: str | None) -> int | None:
    if written is None or written == "auto":
        return None if written is None else 0
    if not written.isdecimal() or not 1 <= int(written[:9]) <= 4096:
        raise click.BadParameter(f"expected a number of sizes from 1 to 4096, or auto, got {written!r}")
    return int(written)


@dataclass(frozen=True, slots=True)
class _Answer:
    """What was found: PyTorch's table where its policy was asked for, our row where ours was."""

    table: Table | None
    ours: Row | None
    figures: Recorded
    seconds: float


@click.command("whatif")
@click.argument("snapshot")
@click.option(
    "--settings",
    multiple=True,
    metavar="S",
    help="PyTorch's settings as in PYTORCH_ALLOC_CONF (`none`: its defaults), or `forebay`: our pool. Repeatable. [default: a curated set]",
)
@click.option("--buckets", metavar="N|auto", callback=_buckets, help="Also: request sizes rounded up to N fitted sizes.")
@click.option("--segregate", multiple=True, metavar="auto|GLOB=POOL", help="Also: call sites in pools of their own. Repeatable.")
@click.option("--cap", metavar="SIZE", callback=_size, help="The memory cap, for example 1790MiB. [default: the recorded run's]")
@format_option
def command(
    snapshot: str, settings: tuple[str, ...], buckets: int | None, segregate: tuple[str, ...], cap: int | None, style: str
) -> None:
    """The recorded history of SNAPSHOT under other policies: peaks, driver calls, out of memory or not, and what is worth doing.

    Without --settings, --buckets and --segregate everything is tried: a curated set of settings, several numbers of buckets, what
    lives long in a pool of its own, and our pool. SNAPSHOT is a PyTorch memory snapshot, plain or compressed, or `example:NAME`, one
    that comes with forebay.
    """
    theirs = tuple(name for name in settings if name != _OURS)
    for name in theirs:
        apply(name)  # a string that PyTorch refuses is said before the file is read
    everything = not settings and buckets is None and not segregate
    asked = Asked(cap=cap, buckets=0, segregate=("auto",)) if everything else Asked(theirs, cap, buckets, segregate)
    wanted = not settings or bool(theirs) or buckets is not None or bool(segregate)
    with progress(f"reading {snapshot}"):
        tape = open_artifact(snapshot)
    try:
        answer = _answer(tape, asked if wanted else None, cap, ours=not settings or _OURS in settings)
    except BadInput as error:
        raise BadInput(f"{snapshot}: {error}") from None
    show(_output(snapshot, tape, answer), style, _print)


def _answer(tape: Tape, asked: Asked | None, cap: int | None, *, ours: bool) -> _Answer:
    before = walkback(tape).state
    each, figures = histories(tape, before), Recorded.together(recorded(tape).values())
    start = time.perf_counter()
    with progress(f"replaying {_events(tape):,} events") as advance:
        table = pytorch_table(tape, asked, before, lambda done, total: advance(done / total)) if asked is not None else None
        row = _our_row(tape, each, _limit(tape, before, cap, table), figures) if ours else None
    return _Answer(table, row, figures, time.perf_counter() - start)


def _limit(tape: Tape, before: HeapState, cap: int | None, table: Table | None) -> int | None:
    """The cap to run under: the one asked for, else the recorded one, or what the driver had to give, as far as the history shows it."""
    if cap is not None or table is not None:
        return cap if cap is not None or table is None else table.recorded.cap_bytes
    found = [calibrate(tape, device, before=before) for device in devices(tape)]
    return found[0].limit() if len(found) == 1 else None


def _our_row(tape: Tape, each: list[History], cap: int | None, figures: Recorded) -> Row:
    need = through_our_pool(each, cap, lambda share: None)
    tried = cap is not None or not figures.ooms
    served = figures.ooms and tried and not need.ooms
    how = f"put forebay's pool, growing by {need.growth}, behind the program's allocator"
    if need.growth == "frames":
        how += f"; its {need.driver_allocs:,} growths map frames of 2 MiB in {need.driver_calls:,} calls to the driver"
    if served:
        how += (_MOVED if need.driver_frees else "") + _SERVED
    return _row(tape, need, cap, how, tried=tried)


def _events(tape: Tape) -> int:
    """As the artifact counts them; a tape may have rows more."""
    return sum(tape.provenance["events"]) if "events" in tape.provenance else len(tape)


def _row(tape: Tape, need: Need, cap: int | None, how: str, *, tried: bool) -> Row:
    return Row(
        policy="forebay",
        settings=_OURS,
        cap_bytes=cap,
        peak_reserved_bytes=need.peak_reserved_bytes,
        peak_allocated_bytes=need.peak_allocated_bytes,
        peak_active_bytes=need.peak_active_bytes,
        largest_free_bytes=need.largest_free_bytes,
        oom=need.ooms > 0 if tried or need.ooms else None,
        oom_event=None if need.oom_row is None else event_of(tape, need.oom_row),
        driver_allocs=need.driver_allocs,
        driver_frees=need.driver_frees,
        spread=Spread(lo=need.peak_reserved_bytes, hi=need.peak_reserved_bytes),
        how=how,
    )


def _their_row(tape: Tape, row: pytorch_policy.Row) -> Row:
    return Row(
        policy=row.policy,
        settings=row.settings,
        cap_bytes=row.cap_bytes,
        peak_reserved_bytes=row.peak_reserved_bytes,
        peak_allocated_bytes=row.peak_allocated_bytes,
        peak_active_bytes=row.peak_active_bytes,
        largest_free_bytes=row.largest_free_bytes,
        oom=row.oom if row.oom or row.tried else None,
        oom_event=None if row.oom_event is None else event_of(tape, row.oom_event),
        driver_allocs=row.driver_allocs,
        driver_frees=row.driver_frees,
        spread=Spread(lo=row.spread_low, hi=row.spread_high),
        how=row.how + (_SERVED if row.served and row.tried and not row.oom else ""),
    )


def _calibration(tape: Tape, table: Table) -> Calibration:
    row = table.first_divergence
    return Calibration(exact=table.exact, first_divergence=None if row is None else event_of(tape, row))


def _recorded(answer: _Answer) -> dict[str, Any]:
    told: dict[str, Any] = asdict(answer.figures)
    if answer.table is not None and answer.table.cap_range is not None:
        told["cap_at_least_bytes"], told["cap_at_most_bytes"] = answer.table.cap_range
    return told


def _output(snapshot: str, tape: Tape, answer: _Answer) -> WhatIf:
    told, table = tape.provenance, answer.table
    rows = [_their_row(tape, row) for row in table.rows] if table is not None else []
    return WhatIf(
        source={"file": snapshot, "format": told.get("format"), "settings": told.get("settings"), "misfits": told.get("misfits")},
        events=_events(tape),
        seconds=answer.seconds,
        calibration=_calibration(tape, table) if table is not None else None,
        recorded=_recorded(answer),
        rows=[*rows, *([answer.ours] if answer.ours is not None else [])],
        lower_bound_bytes=answer.figures.peak_requested_bytes,
        advice=[*(table.advice if table is not None else ()), *_advice(tape, answer)],
    )


def _advice(tape: Tape, answer: _Answer) -> Iterator[str]:
    table, figures = answer.table, answer.figures
    ours = list(_ours_told(answer))
    yield from ours
    if table is not None and not table.advice and not ours and any(row.oom for row in table.rows):
        yield (
            "No row here serves the request that was refused."
            if figures.ooms
            else "Nothing here helps by more than what is open."
        )
    if table is not None:
        yield from table.notes
        if not table.exact:
            yield f"Emulated, not calibrated: {table.why}."
    if figures.peak_allocated_bytes > figures.peak_reserved_bytes:
        yield (
            f"The history contradicts itself: {size(figures.peak_allocated_bytes)} allocated in {size(figures.peak_reserved_bytes)} "
            "that were reserved: it lacks driver rows, so take no figure of what was recorded for a comparison."
        )
    if misfits := tape.provenance.get("misfits"):
        yield f"{misfits} events contradict the heap that they met: take every figure with care."


def _ours_told(answer: _Answer) -> Iterator[str]:
    """Our pool's row against the recorded run; where that began before the history, against the same history through its own policy."""
    figures, ours, table = answer.figures, answer.ours, answer.table
    if ours is None or ours.oom:
        return
    how = ours.how.removesuffix(_SERVED)
    peak = figures.peak_reserved_bytes if table is None or table.exact else table.recorded.peak_reserved_bytes
    less = peak - ours.peak_reserved_bytes
    if figures.ooms and ours.oom is False:
        yield f"forebay's pool serves the request that was refused, with {size(ours.peak_reserved_bytes)} at its peak: {how}."
    elif less >= peak / 100 and figures.peak_allocated_bytes <= figures.peak_reserved_bytes:
        yield f"forebay's pool holds {size(less)} less at its peak ({100 * less / peak:.1f} %): {how}."


def _print(output: WhatIf) -> None:
    from rich.console import Console

    Console().print(text.whatif(output))
