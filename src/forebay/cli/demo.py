"""demo: `forebay demo`: the bundled decode server, its figures, and whether its tokens are those of the reference."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path

import click

from forebay.cli.progress import progress
from forebay.demo.engine import Engine
from forebay.demo.faults import FAULTS, noticed
from forebay.demo.server import WARM_UP, Served, serve
from forebay.runtime import recording
from forebay.units import duration, size

SEEDS = 5


@click.command("demo")
@click.option(
    "--out", type=click.Path(file_okay=False, path_type=Path), default=Path("out"), show_default=True, help="Where the tape goes."
)
@click.option("--seed", type=click.IntRange(0, 2**31), default=1, show_default=True, help=f"The first of the {SEEDS} seeds.")
@click.option("--break", "fault", type=click.Choice(sorted(FAULTS)), help="Plants this fault.")
def command(out: Path, seed: int, fault: str | None) -> None:
    """A decode server with continuous batching on a simulated device, served for five seeds and checked against a plain reference.

    Exit status 1 if a token differs or a driver call was made in the steady state.
    """
    engine = FAULTS[fault].engine if fault else Engine
    tape = out / "demo.tape.arrows"
    out.mkdir(parents=True, exist_ok=True)
    runs = _runs(range(seed, seed + SEEDS), tape, engine)
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
    click.echo("\n".join(_faults()))
    _verdict(runs, fault)


def _runs(seeds: Sequence[int], tape: Path, engine: type[Engine]) -> list[Served]:
    with progress(f"serving {len(seeds)} seeds") as at:

        def share(index: int, done: int, of: int) -> None:
            at((index + done / of) / len(seeds))

        with recording(tape):
            runs = [serve(seeds[0], progress=partial(share, 0), engine=engine)]
        runs += [serve(seed, progress=partial(share, index), engine=engine) for index, seed in enumerate(seeds[1:], 1)]
    return runs


def _line(served: Served) -> str:
    speed = round(served.token_count * 1e9 / served.virtual_ns)
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


def _faults() -> Iterable[str]:
    yield f"{'--break':<28}  {'planted fault':<56}  {'rule':<20}  {'incident':<28}  caught by"
    for fault in FAULTS.values():
        yield f"{fault.name:<28}  {fault.plants:<56}  {fault.rule or '–':<20}  {fault.incident:<28}  {fault.caught_by}"


def _verdict(runs: Sequence[Served], fault: str | None) -> None:
    signs = list(dict.fromkeys(sign for served in runs for sign in noticed(served)))
    if not signs and fault is None:
        click.echo(f"\ntokens equal to the reference for {len(runs)} seeds; no driver call in the steady state")
        return
    broken = f"with {fault} broken on purpose: " if fault else ""
    click.echo(f"\n{broken}{'; '.join(signs) or 'nothing was noticed'}")
    click.get_current_context().exit(1)
