"""explain: `forebay explain NAME`: what a term of the output means. The meanings are report.terms'."""

import textwrap
from itertools import groupby

import click

from forebay.cli.formats import format_option, show
from forebay.report.json import Explained
from forebay.report.terms import find, terms


@click.command("explain")
@click.argument("name", required=False)
@format_option
def command(name: str | None, style: str) -> None:
    """What NAME means: a gauge, an incident, a kind of row, a column, a driver call, an error. Without NAME: the list of them."""
    if name is None:
        _list()
        return
    term = find(name)
    show(Explained(name=term.name, group=term.group, text=term.text), style, _print)


def _print(explained: Explained) -> None:
    click.echo(f"{explained.name} ({explained.group})\n\n{explained.text}")


def _list() -> None:
    for group, members in groupby(terms(), key=lambda term: term.group):
        line = f"{group}: {', '.join(term.name for term in members)}"
        click.echo(textwrap.fill(line, width=110, subsequent_indent="  ", break_on_hyphens=False))  # names have hyphens
