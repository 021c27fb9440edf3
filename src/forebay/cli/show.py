"""show: `forebay show ARTIFACT`: a tape to look at: as text, as a drawing, as a file for other programs.

The notation is tape.notation's, the drawing report.dag's, the file tape.file's; what a file is, the sources know.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

import click

from forebay.cli.artifact import opened
from forebay.cli.progress import progress
from forebay.errors import BadInput
from forebay.tape import Tape, format_lines

_LINES = 4096  # written at a time


@click.command("show")
@click.argument("artifact", type=click.Path())
@click.option("--as", "style", type=click.Choice(["text", "dag", "arrow"]), default="text", show_default=True,
              help="One event a line; an SVG drawing of the order, its races and its needless edges; an Arrow file.")  # fmt: skip
@click.option("--rows", metavar="A:B", help="Only rows A to B, the last left out; either may be missing. [default: all]")
@click.option("-o", "--output", type=click.Path(), help="Where to write it. [default: standard output]")
def command(artifact: str, style: str, rows: str | None, output: str | None) -> None:
    """What ARTIFACT tells. A drawing judges the whole tape, whatever rows it shows."""
    if style == "arrow" and output is None:
        raise click.UsageError("--as arrow writes a file: name it with -o FILE.arrow.")
    with progress(f"reading {artifact}"):
        tape = opened(artifact)
    span = None if rows is None else _span(rows, len(tape))
    if style == "arrow":
        _write_arrow(tape if span is None else tape[span.start : span.stop], str(output))
    elif style == "dag":
        _put([_drawing(tape, artifact, span)], output)
    else:
        _put(_lines(tape if span is None else tape[span.start : span.stop]), output)


def _span(said: str, rows: int) -> range:
    """The rows that A:B means, cut to those there are."""
    match = re.fullmatch(r"(\d*):(\d*)", said)
    if match is None:
        raise BadInput(f"--rows {said[:40]}: not a range of rows; write A:B, as in --rows 100:200")
    start, stop = int(match[1] or 0), min(int(match[2] or rows), rows)
    if start >= stop:
        raise BadInput(
            f"--rows {said[:40]}: holds none of the rows 0 to {rows - 1}" if rows else f"--rows {said[:40]}: the tape is empty"
        )
    return range(start, stop)


def _drawing(tape: Tape, artifact: str, span: range | None) -> str:
    from forebay.report import dag

    with progress("drawing"):
        try:
            return dag.draw(tape, Path(artifact).name, span)
        except BadInput as error:
            raise BadInput(f"{artifact}: {error}") from None


def _write_arrow(tape: Tape, output: str) -> None:
    from forebay.tape import file

    file.write(tape, output)


def _lines(tape: Tape) -> Iterator[str]:
    """The text in pieces of many lines, each made when it is asked for."""
    lines = format_lines(tape)
    while some := list(islice(lines, _LINES)):
        yield "".join(f"{line}\n" for line in some)


def _put(pieces: Iterable[str], output: str | None) -> None:
    """Writes text to standard output, or to a file that is there whole or not at all."""
    if output is None:
        for piece in pieces:
            sys.stdout.write(piece)
        return
    part = Path(output).with_name(f".{Path(output).name}.{os.getpid()}")
    try:
        with part.open("x", encoding="utf-8") as file:
            file.writelines(pieces)
        part.replace(output)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
