"""show: `forebay show ARTIFACT`: a tape to look at. The notation is tape.notation's; what a file is, the sources know."""

import click

from forebay.sources import open_artifact
from forebay.tape import format_lines


@click.command("show")
@click.argument("artifact", type=click.Path())
@click.option("--as", "style", type=click.Choice(["text"]), default="text", show_default=True, help="What to show it as.")
def command(artifact: str, style: str) -> None:
    """What ARTIFACT tells, one event a line."""
    for line in format_lines(open_artifact(artifact)):
        click.echo(line)
