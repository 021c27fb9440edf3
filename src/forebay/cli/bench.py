"""bench: `forebay bench [NAME]`: the guide's numbers measured here, and our pool beside the allocators of others. Measuring is bench's."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Final

import click
import msgspec

from forebay.bench import compare, measure
from forebay.bench.pairs import Load
from forebay.cli.formats import format_option, show
from forebay.errors import NotSupported
from forebay.report import bench_text
from forebay.report.json import BenchNumbers, BenchPool

if TYPE_CHECKING:
    from rich.console import RenderableType

    from forebay.runtime import Device

_SIMULATED: Final = "16GiB"
_PAIRS: Final = 20_000


@click.command("bench")
@click.argument("name", type=click.Choice(["numbers", "pool"]), default="numbers")
@click.option("--device", "where", type=click.Choice(["cuda", "sim"]), help="Where to measure; CUDA where there is one.")
@click.option("--cost", type=click.Choice(["guide", "h200"]), default="guide", help="The simulated device's table of costs.")
@click.option("--rounds", type=click.IntRange(1, 1000), default=5, show_default=True, help="How often; the median is told.")
@click.option(
    "--threads", type=click.IntRange(1, 256), multiple=True, default=(1, 8), help="Of `pool`, on so many; can be repeated."
)
@format_option
def command(name: str, where: str | None, cost: str, rounds: int, threads: tuple[int, ...], style: str) -> None:
    """NAME numbers: the guide's table of what calls cost, beside what they cost here. NAME pool: an allocation and its free of a cached
    block through our pool and through every other allocator that is installed; what is not is named.
    """
    device = _device(where, cost)
    if name == "numbers":
        found = msgspec.convert(asdict(measure(device, rounds)), BenchNumbers)
        show(found, style, lambda _: _say(bench_text.numbers(found)))
    else:
        compared = msgspec.convert(asdict(compare(device, threads, Load(pairs=_PAIRS, rounds=rounds))), BenchPool)
        show(compared, style, lambda _: _say(bench_text.pairs(compared)))


def _device(where: str | None, cost: str) -> Device:
    from forebay.runtime import CudaDevice, SimDevice

    if where != "sim":
        try:
            return CudaDevice()
        except NotSupported:
            if where == "cuda":
                raise
    return SimDevice(_SIMULATED, cost=cost)


def _say(what: RenderableType) -> None:
    from rich.console import Console

    Console().print(what)
