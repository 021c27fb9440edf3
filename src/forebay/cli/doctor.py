"""doctor: `forebay doctor ARTIFACT…`: which incident each shows, with evidence and remedy. Judging is doctor's, reading sources'."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click

from forebay.cli.formats import format_option, show
from forebay.cli.progress import progress
from forebay.doctor import Diagnosis, diagnose, diagnose_line
from forebay.errors import BadInput
from forebay.report import text
from forebay.report.json import Doctor
from forebay.sources import open_artifact
from forebay.sources.log_text import CaptureError, first

_MOST_LOG: Final = 64 << 20  # bytes of a log that are read from standard input
_NO_FAILURE: Final = "no out-of-memory error and no broken capture in this text: hand over the lines around the first error"


@click.command("doctor")
@click.argument("artifacts", nargs=-1, required=True)
@format_option
@click.pass_context
def command(context: click.Context, artifacts: tuple[str, ...], style: str) -> None:
    """The incident that each ARTIFACT shows: a memory snapshot, a recording, a folder of them; `-` reads a log's text."""
    files = list(_files(artifacts))
    found: list[tuple[str, Diagnosis | CaptureError]] = []
    with progress(f"reading {len(files)} artifacts") as advance:
        for n, name in enumerate(files):
            found.append((name, _log(_standard_input()) if name == "-" else _file(name)))
            advance((n + 1) / len(files))
    show(_output(found), style, lambda output: _print(output, found))
    if any(_bad(diagnosis) for _, diagnosis in found):
        context.exit(1)


def _standard_input() -> bytes:
    if sys.stdin is None:
        raise BadInput("-: standard input is closed: hand over a log's text there, or the name of its file")
    return sys.stdin.buffer.read(_MOST_LOG)


def _bad(diagnosis: Diagnosis | CaptureError) -> bool:
    """Whether an artifact shows something that is certain and an error."""
    if isinstance(diagnosis, CaptureError):
        return True
    return any(f.severity == "error" and f.certainty == "certain" for f in diagnosis.findings)


def _files(artifacts: tuple[str, ...]) -> Iterator[str]:
    for artifact in artifacts:
        path = Path(artifact)
        if not path.is_dir():
            yield artifact
            continue
        inside = sorted(str(file) for file in path.iterdir() if file.is_file())
        if not inside:
            raise BadInput(f"{artifact}: an empty folder")
        yield from inside


def _file(name: str) -> Diagnosis | CaptureError:
    """An artifact of a format that is known, else the text of a log that holds a failure."""
    try:
        return diagnose(open_artifact(name))
    except BadInput:
        path = Path(name)
        if not path.is_file() or path.stat().st_size > _MOST_LOG or first(path.read_bytes().decode("utf-8", "replace")) is None:
            raise
        return _log(path.read_bytes())


def _log(data: bytes) -> Diagnosis | CaptureError:
    found = first(data.decode("utf-8", "replace"))
    if found is None:
        raise BadInput(f"-: {_NO_FAILURE}")
    return found if isinstance(found, CaptureError) else diagnose_line(found)


def _verdict(diagnosis: Diagnosis | CaptureError) -> str | None:
    return "dirty-capture" if isinstance(diagnosis, CaptureError) else diagnosis.verdict


def _output(found: list[tuple[str, Diagnosis | CaptureError]]) -> Doctor:
    verdicts = {name: _verdict(diagnosis) for name, diagnosis in found}
    gravest = next(
        (verdict for verdict in verdicts.values() if verdict not in (None, "cannot-tell")), next(iter(verdicts.values()))
    )
    heaps = [diagnosis for _, diagnosis in found if isinstance(diagnosis, Diagnosis)]
    return Doctor(
        source={"files": [name for name, _ in found], "verdicts": verdicts},
        verdict=gravest,
        why=[line for name, diagnosis in found if len(found) == 1 or verdicts[name] is not None for line in _why(diagnosis)],
        findings=[finding for diagnosis in heaps for finding in diagnosis.findings],
        ledger=dict(heaps[0].ledger) if len(found) == len(heaps) == 1 else {},
    )


def _why(diagnosis: Diagnosis | CaptureError) -> list[str]:
    if isinstance(diagnosis, CaptureError):
        return [f"line {diagnosis.line}: {diagnosis.name} ({diagnosis.code}): {diagnosis.says}"]
    return list(diagnosis.why)


def _print(output: Doctor, found: list[tuple[str, Diagnosis | CaptureError]]) -> None:
    from rich.console import Console

    Console().print(text.doctor(output, {name: _verdict(diagnosis) for name, diagnosis in found}))
