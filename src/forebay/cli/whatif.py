"""whatif: `forebay whatif SNAPSHOT`: a recorded history under other settings and through other pools. The policies are whatif's, the
table report's."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import click

from forebay.cli.artifact import opened
from forebay.cli.formats import format_option, show
from forebay.cli.progress import progress
from forebay.errors import BadInput
from forebay.report import text
from forebay.report.json import Calibration, Row, Spread, WhatIf
from forebay.sources.heap_state import HeapState
from forebay.sources.torch_snapshot import event_of
from forebay.tape import Tape
from forebay.units import parse_size, size
from forebay.views.pool_memory import pool_memory
from forebay.views.walkback import walkback
from forebay.whatif import pytorch_policy
from forebay.whatif.advice import advice
from forebay.whatif.calibrate import calibrate
from forebay.whatif.forebay_policy import Need, through_our_pool
from forebay.whatif.history import History, histories
from forebay.whatif.own_history import is_own
from forebay.whatif.own_policy import UNTRIMMED, OwnTable, own_table
from forebay.whatif.recorded import Recorded, recorded
from forebay.whatif.settings import apply
from forebay.whatif.steps import devices
from forebay.whatif.table import Asked, Table, pytorch_table

_OURS = "forebay"
_COMPARED = ("none", "expandable_segments:True")  # of PyTorch's settings, for a history that is not PyTorch's
_NOTHING = "Nothing here helps by more than what is open."
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
    """What was found: PyTorch's table where its policy was asked for, our row where ours was, of a tape of our own runtime how its pools
    would have done under other settings. `tape` are the rows that were replayed."""

    tape: Tape
    table: Table | None
    ours: Row | None
    own: OwnTable | None
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
    lives long in a pool of its own, and our pool. SNAPSHOT is a PyTorch memory snapshot, plain or compressed, `example:NAME`, one that
    comes with forebay, or `-`. Of a recording of our own runtime its pools are tried grown otherwise, with what stays apart, with sizes in
    buckets, without trims, beside PyTorch's policy.
    """
    theirs = tuple(name for name in settings if name != _OURS)
    for name in theirs:
        apply(name)  # a string that PyTorch refuses is said before the file is read
    everything = not settings and buckets is None and not segregate
    asked = Asked(cap=cap, buckets=0, segregate=("auto",)) if everything else Asked(theirs, cap, buckets, segregate)
    wanted = not settings or bool(theirs) or buckets is not None or bool(segregate)
    with progress(f"reading {snapshot}"):
        tape = opened(snapshot)
    try:
        answer = _answer(tape, asked if wanted else None, cap, ours=not settings or _OURS in settings)
    except BadInput as error:
        raise BadInput(f"{snapshot}: {error}") from None
    show(_output(snapshot, answer), style, _print)


def _answer(tape: Tape, asked: Asked | None, cap: int | None, *, ours: bool) -> _Answer:
    if is_own(tape):
        return _own_answer(tape, asked, cap, ours=ours)
    before = walkback(tape).state
    each, figures = histories(tape, before), Recorded.together(recorded(tape).values())
    start = time.perf_counter()
    with progress(f"replaying {_events(tape):,} events") as advance:
        table = pytorch_table(tape, asked, before, lambda done, total: advance(done / total)) if asked is not None else None
        row = _our_row(tape, each, _limit(tape, before, cap, table), figures) if ours else None
    return _Answer(tape, table, row, None, figures, time.perf_counter() - start)


def _own_answer(tape: Tape, asked: Asked | None, cap: int | None, *, ours: bool) -> _Answer:
    """Of a tape of our own runtime: PyTorch's policy for comparison, then its own pools under other settings."""
    memory, start = pool_memory(tape), time.perf_counter()
    before, figures = walkback(memory).state, Recorded.together(recorded(memory).values())
    own = own_table(tape, cap) if ours else None
    limit = own.recorded.cap_bytes if own is not None and cap is None else cap
    if asked is not None and not asked.settings and asked.segregate == ("auto",):
        asked = Asked(settings=_COMPARED, cap=limit)
    with progress(f"replaying {len(memory):,} events") as advance:
        table = pytorch_table(memory, asked, before, lambda done, total: advance(done / total)) if asked is not None else None
    return _Answer(memory, table, None, own, figures, time.perf_counter() - start)


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


def _event(tape: Tape, row: int | None) -> int | None:
    """A row as the artifact itself counts."""
    return None if row is None else int(tape.picked[row]) if tape.picked is not None else event_of(tape, row)


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
        oom_event=_event(tape, need.oom_row),
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
        oom_event=_event(tape, row.oom_event),
        driver_allocs=row.driver_allocs,
        driver_frees=row.driver_frees,
        spread=Spread(lo=row.spread_low, hi=row.spread_high),
        how=row.how + (_SERVED if row.served and row.tried and not row.oom else ""),
    )


def _calibration(answer: _Answer) -> Calibration | None:
    if answer.own is not None:
        return Calibration(exact=answer.own.exact, first_divergence=None)
    if answer.table is None:
        return None
    return Calibration(exact=answer.table.exact, first_divergence=_event(answer.tape, answer.table.first_divergence))


def _recorded(answer: _Answer) -> dict[str, Any]:
    told: dict[str, Any] = asdict(answer.figures)
    if answer.table is not None and answer.table.cap_range is not None:
        told["cap_at_least_bytes"], told["cap_at_most_bytes"] = answer.table.cap_range
    return told


def _output(snapshot: str, answer: _Answer) -> WhatIf:
    tape, told, table, own = answer.tape, answer.tape.provenance, answer.table, answer.own
    rows = [_their_row(tape, row) for row in table.rows] if table is not None else []
    rows += [_their_row(tape, row) for row in own.rows] if own is not None else []
    return WhatIf(
        source={"file": snapshot, "format": told.get("format"), "settings": told.get("settings"), "misfits": told.get("misfits")},
        events=_events(tape),
        seconds=answer.seconds,
        calibration=_calibration(answer),
        recorded=_recorded(answer),
        rows=[*rows, *([answer.ours] if answer.ours is not None else [])],
        lower_bound_bytes=answer.figures.peak_requested_bytes,
        advice=list(_own_advice(own, answer.figures) if own is not None else _advice(answer)),
    )


def _own_advice(own: OwnTable, figures: Recorded) -> Iterator[str]:
    """What of its pools' settings a program on our own runtime should change."""
    good = advice(own.rows, own.recorded, exact=True)
    yield from good
    if not good:
        yield "No row of its own pools serves the request that was refused." if figures.ooms else _NOTHING
    for row in own.rows:
        calls = row.driver_allocs + row.driver_frees
        if row.settings == UNTRIMMED and not row.oom and calls < own.recorded.driver_allocs + own.recorded.driver_frees:
            yield f"{row.settings}: {calls} driver calls, {size(row.peak_reserved_bytes)} reserved at the peak: {row.how}."
    if not own.exact:
        yield f"Replayed, not quite as recorded: {own.why}: a direction, not a figure."


def _advice(answer: _Answer) -> Iterator[str]:
    tape, table, figures = answer.tape, answer.table, answer.figures
    if figures.peak_allocated_bytes > figures.peak_reserved_bytes:
        yield (
            f"The history contradicts itself: {size(figures.peak_allocated_bytes)} allocated in {size(figures.peak_reserved_bytes)} "
            "that were reserved: it lacks driver rows, so rows compare with each other, and with nothing that was recorded."
        )
    yield from table.advice if table is not None else ()
    ours = list(_ours_told(answer))
    yield from ours
    if table is not None and not table.advice and not ours and any(row.oom for row in table.rows):
        yield ("No row here serves the request that was refused." if figures.ooms else _NOTHING)
    if table is not None:
        yield from table.notes
        if not table.exact:
            yield f"Emulated, not calibrated: {table.why}."
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
    elif less >= peak / 100 and (table is not None or figures.peak_allocated_bytes <= figures.peak_reserved_bytes):
        yield f"forebay's pool holds {size(less)} less at its peak ({100 * less / peak:.1f} %): {how}."


def _print(output: WhatIf) -> None:
    from rich.console import Console

    Console().print(text.whatif(output))
