"""generated: the files that are written from the code: the pages of docs/reference/ and the shipped JSON Schemas. `make docs` writes
them, a test holds them fresh. What they say stands in docstrings and tables of the package.
"""

import functools
import inspect
import json
from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from itertools import groupby
from pathlib import Path

import click

import forebay
from forebay.calls import CALLS, Call
from forebay.cli import COMMANDS
from forebay.report.json import OUTPUTS
from forebay.report.schema import schema_of
from forebay.report.terms import terms

ROOT = Path(__file__).resolve().parent.parent
HEAD = "<!-- Written by `make docs` from the code: edit it there. -->\n\n"


def table(header: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A Markdown table; a bar inside a cell is escaped."""
    cells = [list(header), *(list(row) for row in rows)]
    lines = ["| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in row) + " |" for row in cells]
    return "\n".join([lines[0], "|" + "---|" * len(cells[0]), *lines[1:]]) + "\n"


def option_rows(command: click.Command) -> Iterator[tuple[str, str]]:
    """Each option of a command: how it is written, what it does."""
    for option in (p for p in command.params if isinstance(p, click.Option)):
        choices = f" {'|'.join(option.type.choices)}" if isinstance(option.type, click.Choice) else ""
        yield f"`{', '.join(option.opts)}{choices}`", option.help or ""


def commands_page() -> str:
    """Every command with its usage, what it does, and its options."""
    parts = ["# Commands\n\nExit status: 0 clean, 1 certain errors, 2 input or usage that cannot be used.\n"]
    for name in sorted(COMMANDS):
        command: click.Command = import_module(f"forebay.cli.{name}").command
        arguments = " ".join(p.make_metavar(click.Context(command)) for p in command.params if isinstance(p, click.Argument))
        parts.append(f"## forebay {name}\n\n`forebay {name} [OPTIONS] {arguments}`\n\n{inspect.cleandoc(command.help or '')}\n")
        parts.append(table(["option", "what it does"], option_rows(command)))
    return "\n".join(parts)


def call_row(call: Call) -> tuple[str, ...]:
    """One line of the page of calls."""
    law = call.inside.name if call.inside == call.beside else f"{call.inside.name}; beside it {call.beside.name}"
    waits = f"{call.waits.value}, {call.when.value}" if call.blocks else "–"
    kind = call.kind.name if call.kind is not None else "–"
    return (
        f"`{call.name}`",
        kind,
        call.stream or call.place.value,
        waits,
        law,
        call.page,
        "yes" if call.certain else "no",
        call.note,
    )


def calls_page() -> str:
    """The whole table of calls."""
    header = [
        "call",
        "row",
        "stream",
        "the host waits for",
        "law in a capture",
        "page of the manual",
        "certain",
    ]
    laws = {law.name: law for call in CALLS.values() for law in (call.inside, call.beside)}
    codes = [
        (name, *(f"{law.own[i] or 'legal'} / {law.other[i] or 'legal'}" for i in range(3)), law.why) for name, law in laws.items()
    ]
    parts = [
        "# Driver and runtime calls\n\n## What a capture makes of a call\n",
        "Each cell: on the capturing thread / on another thread, as CUresult. Measured on one H200 (benchmarks/results/calls-h200.json).\n",
        table(["law", "global", "thread-local", "relaxed", "because it"], codes),
        "## Calls\n",
    ]
    return "\n".join(parts) + "\n" + table([*header, "note"], map(call_row, CALLS.values()))


def terms_page() -> str:
    """What the words of the output mean, without the calls, which have a page of their own."""
    parts = ["# Terms\n\nAlso `forebay explain NAME`.\n"]
    groups = groupby((t for t in terms() if t.group != "driver call"), key=lambda term: term.group)
    for group, members in groups:
        parts.append(f"## {group[0].upper()}{group[1:]}\n")
        parts.append(table(["name", "meaning"], ((f"`{t.name}`", t.text.replace("\n\n", " ")) for t in members)))
    return "\n".join(parts)


def api_page() -> str:
    """The names of the front door: how each is called, what it says of itself, and what it can be asked for."""
    parts = ["# The front door\n\n`import forebay` gives these names; each is loaded when it is first used.\n"]
    for name in forebay.__all__:
        thing = getattr(forebay, name)
        parts.append(f"## forebay.{name}\n\n```python\n{name}{signature_of(thing)}\n```\n\n{prose(thing)}\n")
        if inspect.isclass(thing) and (rows := list(member_rows(thing))):
            parts.append(table(["member", "what it does"], rows))
    return "\n".join(parts)


def prose(thing: object) -> str:
    """A docstring without its examples, which are tested where they stand."""
    return (inspect.getdoc(thing) or "").partition(">>>")[0].strip()


def signature_of(thing: Callable[..., object]) -> str:
    """How it is called, `self` left out; annotations as they are written."""
    found = inspect.signature(thing)
    told = [p.replace(annotation=Written(p.annotation)) for p in found.parameters.values() if p.name != "self"]
    gives = found.empty if inspect.isclass(thing) else Written(found.return_annotation)
    return str(found.replace(parameters=told, return_annotation=gives))


class Written(str):
    """An annotation that shows itself without quotes."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def member_rows(thing: type) -> Iterator[tuple[str, str]]:
    """The public members of a class that say what they do, in alphabetical order: its methods and its figures."""
    for name, member in inspect.getmembers_static(thing):
        if name.startswith("_"):
            continue
        if isinstance(member, property | functools.cached_property):
            told = prose(member.fget if isinstance(member, property) else member.func)
            yield f"`{name}`", told
        elif inspect.isfunction(member) or isinstance(member, staticmethod | classmethod):
            plain = member if inspect.isfunction(member) else member.__func__
            yield f"`{name}{signature_of(getattr(thing, name))}`", prose(plain)


def generated() -> dict[Path, str]:
    """Every generated file with its text."""
    pages = {"commands": commands_page(), "calls": calls_page(), "terms": terms_page(), "api": api_page()}
    files = {ROOT / "docs" / "reference" / f"{name}.md": HEAD + text for name, text in pages.items()}
    schemas = ROOT / "src" / "forebay" / "report" / "schemas"
    return files | {schemas / f"{name}.json": json.dumps(schema_of(name), indent=1) + "\n" for name in OUTPUTS}


if __name__ == "__main__":
    for path, text in generated().items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        print(path.relative_to(ROOT))
