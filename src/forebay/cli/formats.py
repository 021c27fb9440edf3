"""formats: the option --format and the one place where a command prints its result."""

from collections.abc import Callable
from typing import Any

import click
import msgspec

from forebay.report.json import encode

format_option = click.option(
    "--format",
    "style",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="For people, or for programs (a JSON Schema ships with the package).",
)


def show(output: msgspec.Struct, style: str, text: Callable[[Any], None]) -> None:
    """Prints an output as JSON, or hands it to the function that prints it for people."""
    if style == "json":
        click.echo(encode(output))
    else:
        text(output)
