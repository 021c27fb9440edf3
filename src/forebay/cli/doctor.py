"""doctor: `forebay doctor ARTIFACT…`: which incident each shows, with evidence and remedy. Judging is doctor's, reading sources'."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from forebay.cli.artifact import STDIN, opened
from forebay.cli.formats import format_option, show
from forebay.cli.progress import progress
from forebay.doctor import Examined, examined, gravest, is_priced, odd_one, trends, with_remedies
from forebay.doctor.diagnose import CANNOT_TELL
from forebay.doctor.machine import as_json, machine
from forebay.errors import BadInput
from forebay.report.doctor_text import doctor
from forebay.report.json import Blind, Doctor
from forebay.report.machine_text import machine as machine_text
from forebay.sources import nvml, open_artifact
from forebay.tape import Tape

if TYPE_CHECKING:
    from rich.console import RenderableType

_FEW: Final = 3  # artifacts that are read by this process alone


@click.command("doctor")
@click.argument("artifacts", nargs=-1)
@format_option
@click.pass_context
def command(context: click.Context, artifacts: tuple[str, ...], style: str) -> None:
    """The incident that each ARTIFACT shows: a memory snapshot, a recording, a log, a folder of them; `-` reads standard input.

    Without ARTIFACT: this machine's GPUs, who has their memory, and what there is to look with.
    """
    if not artifacts:
        _machine(style)
        return
    named, inside = _files(artifacts)
    piped = opened(STDIN) if STDIN in named else None  # comes once, and is looked at twice
    with progress(f"reading {len(named) + len(inside)} artifacts") as advance:
        each, unread = _read(named, inside, piped, advance)
    odd = odd_one(each)
    each = [_priced(one, piped) if one is odd else one for one in each]
    show(_output(each, unread), style, lambda _: _say(doctor(each, unread)))
    if any(f.severity == "error" and f.certainty == "certain" for one in each for f in one.diagnosis.findings):
        context.exit(1)


def _machine(style: str) -> None:
    found = machine(nvml.look(), os.environ)
    why = [f"cannot see: {blind.why}" for blind in found.blind] or [f"{len(found.gpus)} GPUs, nothing recorded of any program"]
    output = Doctor(
        source={"machine": as_json(found)},
        verdict=CANNOT_TELL,
        why=why,
        findings=[],
        blind=[Blind("machine", [blind.why], blind.advice) for blind in found.blind],
    )
    show(output, style, lambda _: _say(machine_text(found)))


def _say(what: RenderableType) -> None:
    from rich.console import Console

    Console().print(what)


def _files(artifacts: Sequence[str]) -> tuple[list[str], list[str]]:
    """What was named, and what lies in the folders that were."""
    named, inside = [], []
    for artifact in artifacts:
        path = Path(artifact)
        if not path.is_dir():
            named.append(artifact)
            continue
        files = sorted(str(file) for file in path.iterdir() if file.is_file() and not file.name.startswith("."))
        if not files:
            raise BadInput(f"{artifact}: an empty folder")
        inside += files
    return named, inside


def _examined(name: str) -> Examined:
    return examined(name, open_artifact(name))


def _attempted(name: str) -> Examined | str:
    try:
        return _examined(name)
    except BadInput as error:
        return str(error)


def _read(
    named: Sequence[str], inside: Sequence[str], piped: Tape | None, advance: Callable[[float], None]
) -> tuple[list[Examined], list[str]]:
    """All that could be read, and why what else lies in the folders could not. Raises BadInput for a file that was named itself."""
    each: list[Examined] = []
    unread: list[str] = []
    total = len(named) + len(inside)
    for done, name in enumerate(named, 1):
        each.append(_examined(name) if piped is None or name != STDIN else examined(name, piped))
        advance(done / total)
    for done, found in enumerate(_in_parallel(inside), 1):
        if isinstance(found, str):
            unread.append(found)
        else:
            each.append(found)
        advance((len(named) + done) / total)
    if not each:
        raise BadInput(unread[0])
    return each, unread


def _in_parallel(names: Sequence[str]) -> Iterator[Examined | str]:
    if len(names) <= _FEW:
        yield from map(_attempted, names)
        return
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        yield from pool.map(_attempted, names, chunksize=max(1, len(names) // (4 * (os.cpu_count() or 1))))


def _priced(one: Examined, piped: Tape | None) -> Examined:
    """The same with what would have helped, from its history."""
    if not is_priced(one.diagnosis):
        return one
    tape = piped if piped is not None and one.name == STDIN else open_artifact(one.name)
    return replace(one, diagnosis=with_remedies(one.diagnosis, tape))


def _output(each: Sequence[Examined], unread: Sequence[str]) -> Doctor:
    single = len(each) == 1
    odd = odd_one(each)
    blind = dict.fromkeys(unseen for one in each for unseen in one.diagnosis.unseen)
    ranks = {one.name: one.rank for one in each if one.rank is not None}
    found = trends(each)
    return Doctor(
        source={
            "files": [one.name for one in each],
            "verdicts": {one.name: one.verdict for one in each},
            **({"ranks": ranks} if ranks else {}),
            **({"trends": [trend._asdict() for trend in found]} if found else {}),
            **({"unread": list(unread)} if unread else {}),
        },
        verdict=gravest(each),
        why=[*odd.diagnosis.why, *map(str, found)],
        findings=[finding for one in (odd, *(one for one in each if one is not odd)) for finding in one.diagnosis.findings],
        blind=[Blind(unseen.name, list(unseen.needs), unseen.advice) for unseen in blind],
        gauges=dict(odd.diagnosis.gauges) if single else {},
        ledger=dict(odd.diagnosis.ledger) if single else {},
    )
