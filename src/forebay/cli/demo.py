"""demo: `forebay demo`: the bundled decode server, its figures, and whether its tokens are those of the reference."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path

import click
import numpy as np

from forebay.cli.progress import progress
from forebay.demo.captured import BUCKETS, CapturedEngine
from forebay.demo.engine import Engine
from forebay.demo.faults import FAULTS, Fault, noticed
from forebay.demo.server import WARM_UP, Served, serve
from forebay.demo.shown import REQUESTS, shown
from forebay.errors import BadInput
from forebay.runtime import Schedule, recording
from forebay.runtime.schedule import WorkName
from forebay.sources import open_artifact
from forebay.tape import Kind, Tape
from forebay.units import duration, size

SEEDS = 5


@click.command("demo")
@click.option(
    "--out", type=click.Path(file_okay=False, path_type=Path), default=Path("out"), show_default=True, help="Where the tape goes."
)
@click.option("--seed", type=click.IntRange(0, 2**31), default=1, show_default=True, help=f"The first of the {SEEDS} seeds.")
@click.option("--requests", type=click.IntRange(1, 1000), default=40, show_default=True, help="Requests that each seed serves.")
@click.option(
    "--schedule", metavar="LINE", help="The order that work runs in: `fifo`, `seed 7`, `hold sample#3`; else by the seed."
)
@click.option("--break", "fault", type=click.Choice(sorted(FAULTS)), help="Plants this fault.")
def command(out: Path, seed: int, requests: int, schedule: str | None, fault: str | None) -> None:
    """A decode server with continuous batching on a simulated device, served for five seeds and checked against a plain reference.

    Exit status 1 if a token differs or a driver call was made in the steady state.
    """
    tape = out / "demo.tape.arrows"
    planted = FAULTS[fault] if fault else None
    order = _schedule(schedule)
    out.mkdir(parents=True, exist_ok=True)
    run = partial(serve, requests=requests, schedule=order)
    runs = _runs(range(seed, seed + SEEDS), tape, partial(run, engine=planted.engine if planted else CapturedEngine))
    if order is not None and order.held:
        _refuse_idle_holds(order.held, open_artifact(tape))
    first = runs[0]
    click.echo(
        f"{'seed':>6}  {'tokens':>6}  {'steps':>5}  {'virtual time':>12}  {'tokens/s':>8}  {'shared':>6}  driver calls  reference"
    )
    for served in runs:
        click.echo(_line(served))
    click.echo(
        "\nshared: tokens of prompts that were found in pages already. driver calls: memory, in the steady state ", nl=False
    )
    click.echo(f"(after step {WARM_UP}).\n\npools of seed {first.seed} at their fullest")
    click.echo("\n".join(_pools(first)))
    click.echo(f"\ntape: {tape} (seed {first.seed}; open it with `forebay show {tape} --as text`)\n")
    if planted is None:
        click.echo(f"{_saved(first, run(first.seed, engine=Engine))}\n")
    lost = _throughputs(first, planted, run)
    click.echo("\n".join(_faults(lost)))
    _verdict(runs, planted, lost)


def _schedule(line: str | None) -> Schedule | None:
    try:
        return None if line is None else Schedule.parse(line)
    except BadInput as error:
        raise BadInput(f"--schedule: {error}") from None


def _refuse_idle_holds(held: Sequence[WorkName], tape: Tape) -> None:
    """Raises BadInput for a work item that was to be held and never was: such a schedule changes nothing."""
    names = tape.columns["name"][tape.where(Kind.launch)]
    ran = {tape.sides.strings[int(name)]: int(count) for name, count in zip(*np.unique(names, return_counts=True), strict=True)}
    ran |= dict.fromkeys(("copy", "upload", "download"), len(tape.where(Kind.copy)))
    for item in held:
        if item.nth < ran.get(item.name, 0):
            continue
        near = ", ".join(difflib.get_close_matches(item.name, ran, 3, 0.4) or sorted(ran)[:3])
        there = (
            f"there were {ran[item.name]:,}, counted from 0" if ran.get(item.name) else f"none has that name; there are {near}"
        )
        raise BadInput(f"--schedule: {item} never ran in the first seed, so nothing held it back: {there}")


def _runs(seeds: Sequence[int], tape: Path, run: Callable[..., Served]) -> list[Served]:
    with progress(f"serving {len(seeds)} seeds") as at:

        def share(index: int, done: int, of: int) -> None:
            at((index + done / of) / len(seeds))

        with recording(tape):
            runs = [run(seeds[0], progress=partial(share, 0))]
        runs += [run(seed, progress=partial(share, index)) for index, seed in enumerate(seeds[1:], 1)]
    return runs


def _throughputs(first: Served, planted: Fault | None, run: Callable[..., Served]) -> dict[str, float]:
    """What is left of the plain run's tokens a second under each fault that only slows, the first seed served once more for each."""
    if planted is not None and not planted.slows:
        return {}
    slow = [planted] if planted else [fault for fault in FAULTS.values() if fault.slows]
    plain = run(first.seed, engine=CapturedEngine) if planted else first
    broken = {fault.name: first if planted else run(first.seed, engine=fault.engine) for fault in slow}
    return {name: served.tokens_per_s / plain.tokens_per_s for name, served in broken.items()}


def _saved(captured: Served, launched: Served) -> str:
    """What it saves to replay a decode step as one graph: the same requests, by an engine that launches kernel by kernel."""
    return (
        f"a decode step is captured once for {', '.join(map(str, BUCKETS))} rows and replayed as one graph (seed {captured.seed}):\n"
        f"  replayed          {round(captured.tokens_per_s):>8,} tokens/s   {duration(round(captured.decode_ns)):>9} of the host a step\n"
        f"  launch by launch  {round(launched.tokens_per_s):>8,} tokens/s   {duration(round(launched.decode_ns)):>9} of the host a step"
    )


def _line(served: Served) -> str:
    speed = round(served.tokens_per_s)
    calls = sum(served.steady_calls.values())
    verdict = f"{len(served.wrong)} of {len(served.expected)} requests differ" if served.wrong else "equal"
    return (
        f"{served.seed:>6}  {served.token_count:>6}  {served.steps:>5}  {duration(served.virtual_ns):>12}  {speed:>8,}"
        f"  {served.shared_tokens:>6}  {calls:>12}  {verdict}"
    )


def _pools(served: Served) -> Iterable[str]:
    columns = ("reserved", "allocated", "requested", "largest free", "hits", "misses")
    yield f"  {'pool':<12}" + "".join(f"{column:>14}" for column in columns)
    for name, figures in served.pools.items():
        cells = (f"{figures[c]:,}" if c in ("hits", "misses") else size(figures[c]) for c in columns)
        yield f"  {name:<12}" + "".join(f"{cell:>14}" for cell in cells)


def _faults(lost: Mapping[str, float]) -> Iterable[str]:
    yield f"{'--break':<28}  {'planted fault':<56}  {'rule':<20}  {'incident':<28}  caught by"
    for fault in FAULTS.values():
        yield f"{fault.name:<28}  {fault.plants:<56}  {fault.rule or '–':<20}  {fault.incident:<28}  {fault.caught_by}" + _slower(
            lost.get(fault.name)
        )


def _slower(share: float | None) -> str:
    return "" if share is None else f"; throughput {share:.3f} of the plain run's"


def _verdict(runs: Sequence[Served], planted: Fault | None, lost: Mapping[str, float]) -> None:
    signs = list(dict.fromkeys(sign for served in runs for sign in noticed(served)))
    if not signs and planted is None:
        click.echo(f"\ntokens equal to the reference for {len(runs)} seeds; no driver call in the steady state")
        return
    if planted is not None and planted.slows and not signs:
        signs = [f"tokens are right{_slower(lost[planted.name])} (seed {runs[0].seed})"]
    broken = f"with {planted.name} broken on purpose: " if planted else ""
    click.echo(f"\n{broken}{'; '.join(signs) or 'nothing was noticed'}")
    if runs[0].refused is not None:
        click.echo(runs[0].refused)
    if planted is not None and planted.races:
        click.echo("\n".join(_race_shown(planted, runs[0].seed)))
    click.get_current_context().exit(1)


def _race_shown(fault: Fault, seed: int) -> Iterable[str]:
    """How to see the race every time."""
    found = shown(fault, seed)
    if found.schedule is None:
        yield f"{REQUESTS} requests of seed {seed} get the same tokens under each of {found.tried} schedules"
        return
    yield f"{REQUESTS} requests of seed {seed} get the right tokens by virtual time and wrong ones, every time, by"
    yield f"  forebay demo --break {fault.name} --seed {seed} --requests {REQUESTS} --schedule '{found.schedule}'"
    yield f"(found by {found.tried} runs)"
