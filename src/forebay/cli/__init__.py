"""cli: the command `forebay`. One file a command, loaded when it is asked for; what a command finds out is other rooms' work.

Exit status: 0 clean, 1 certain errors, 2 input or usage that cannot be used: then one line on standard error, never a traceback.
A command is `forebay.cli.NAME` with a click command called `command`, and one line in COMMANDS.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from io import TextIOWrapper
from typing import Final

import click

from forebay import __version__
from forebay.errors import ForebayError

COMMANDS: Final[dict[str, str]] = {
    "bench": "the guide's numbers measured here, and our pool beside the allocators of others",
    "check": "the rules on what ran: races, needless edges, the legacy stream",
    "demo": "the bundled decode server on a simulated device, checked against a plain reference",
    "doctor": "which incident a snapshot, a recording or a log shows, and what to do",
    "explain": "what a term means: a rule, a gauge, a kind of row, a driver call, an error",
    "show": "what a file tells: as text, as a drawing, as an Arrow file",
    "whatif": "a recorded history through another pool",
}


class _Commands(click.Group):
    """The commands of COMMANDS, imported one at a time."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = import_module(f"forebay.cli.{cmd_name}").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(sorted(COMMANDS.items()))


@click.group(cls=_Commands, invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="forebay", message="%(prog)s %(version)s")
@click.pass_context
def forebay(ctx: click.Context) -> None:
    """Pools and a DAG: the runtime layer of a GPU program, its contract for CI, and a doctor for whoever is on call."""
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


def one_line(error: BaseException) -> str:
    """What went wrong in one line of text, whatever the message holds.

    >>> one_line(FileNotFoundError(2, "No such file or directory", "a.pickle"))
    'a.pickle: No such file or directory'
    """
    if isinstance(error, OSError) and error.strerror:
        text = f"{os.fsdecode(error.filename)}: {error.strerror}" if error.filename is not None else error.strerror
    elif isinstance(error, click.UsageError) and error.ctx is not None:
        text = f"{error.format_message()} See `{error.ctx.command_path} --help`."
    elif isinstance(error, click.ClickException):
        text = error.format_message()
    else:
        text = str(error)
    return "".join(c if c.isprintable() else "?" for c in " ".join(text.split()))


def run(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line and returns its exit status. Only defects of forebay itself leave as exceptions."""
    try:
        if sys.stdout is None:
            return _fail("standard output is closed: nothing can be told")
        status = _invoke(list(sys.argv[1:] if arguments is None else arguments))
        sys.stdout.flush()
        return status
    except BrokenPipeError:
        _drop_output()
        return _fail("whoever read the output went away")
    except (KeyboardInterrupt, click.Abort):
        return _fail("interrupted")
    except MemoryError:
        return _fail("not enough memory")
    except (ForebayError, OSError, click.ClickException) as error:
        _flushed()
        return _fail(one_line(error))


def _invoke(arguments: list[str]) -> int:
    """What click's own `main` does, less its handling of errors: that would end a broken pipe with status 1 and no word."""
    try:
        with forebay.make_context("forebay", arguments) as context:
            forebay.invoke(context)
    except click.exceptions.Exit as leave:
        return leave.exit_code
    return 0


def _fail(line: str) -> int:
    click.echo(f"forebay: {line}", err=True)
    return 2


def _drop_output() -> None:
    """Lets the interpreter flush what is left of standard output into nothing, or it would complain at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _flushed() -> None:
    """What was printed before an error goes out, where it can: a full disk is told once, not again at the end."""
    try:
        sys.stdout.flush()
    except OSError:
        _drop_output()


def _legible() -> None:
    """What a stream's encoding cannot hold (a file name that is no text, a sign on an ASCII terminal) is written as an escape."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def main() -> None:
    """The command line of this process; the entry point that the package installs is `forebay.__main__`'s."""
    _legible()
    sys.exit(run())
