"""doctor_text: what the doctor found, for a tired person: the verdict, why, what to do, what not to do, and who holds the memory.

Which of several artifacts is the odd one is doctor's to say.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import PurePath
from typing import Any, Final

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from forebay.doctor import Examined, gravest, odd_one, trends
from forebay.finding import Finding
from forebay.units import size

__all__ = ["doctor"]

_MOST_NAMES: Final = 8  # artifacts of one verdict that are named
_MOST_ALSO: Final = 4
_SOUND: Final = "healthy, as to memory"
_NOT: Final = "No remedy: "
_LEDGER: Final = {
    "other_processes": "other processes",
    "outside_pools": "this process outside its pools",
    "others_and_outside_together": "others, and this process outside its pools",
    "cached": "cached",
    "pending": "freed, not reusable yet",
    "unknown_together": "not told apart",
    "live": "live",
}


def doctor(each: Sequence[Examined], unread: Sequence[str] = ()) -> RenderableType:
    """One artifact in full; of several a line a verdict, with its ranks or names, then the odd one in full."""
    odd = odd_one(each)
    lines = [Text(f"verdict: {gravest(each) or _SOUND}", style="bold")]
    if len(each) > 1 or unread:
        lines += map(Text, _counted(each))
        lines += [Text(f"  {trend}") for trend in trends(each)]
        lines += [Text(f"  not read: {why}", style="dim") for why in unread[:_MOST_NAMES]]
        if odd.verdict is None:
            return Group(*lines)
        lines.append(Text(f"\n{odd.name}: {odd.verdict}", style="bold"))
    table = Table.grid(padding=(0, 1, 0, 0))
    table.add_column(no_wrap=True, min_width=5)
    table.add_column(overflow="fold")
    for label, line in _in_full(odd):
        table.add_row(f"{label}:" if label else "", Text(line))
    return Group(*lines, table)


def _counted(each: Sequence[Examined]) -> Iterator[str]:
    by_verdict: dict[str | None, list[Examined]] = {}
    for one in each:
        by_verdict.setdefault(one.verdict, []).append(one)
    for verdict, those in sorted(by_verdict.items(), key=lambda entry: -len(entry[1])):
        ranked = [one.rank for one in those if one.rank is not None]
        who = f": ranks {_ranges(ranked)}" if len(ranked) == len(those) else ""
        if not who and verdict is not None:
            names = [PurePath(one.name).name for one in those]
            more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
            who = ": " + ", ".join(names[:_MOST_NAMES]) + more
        yield f"  {len(those)} × {verdict or 'healthy'}{who}"


def _ranges(numbers: Sequence[int]) -> str:
    """Ranks as people write them.

    >>> _ranges([4, 1, 2, 3, 9])
    '1-4, 9'
    """
    runs: list[list[int]] = []
    for number in sorted(set(numbers)):
        if runs and number == runs[-1][-1] + 1:
            runs[-1][1:] = [number]
        else:
            runs.append([number])
    return ", ".join("-".join(map(str, run)) for run in runs)


def _in_full(one: Examined) -> Iterator[tuple[str, str]]:
    """The lines of an artifact, each with its label; none where it goes on with the one before."""
    diagnosis = one.diagnosis
    first = diagnosis.findings[0] if diagnosis.findings else None
    yield from _labelled("why", diagnosis.why)
    if first is not None:
        yield from _found(first)
    for other in diagnosis.findings[1:][:_MOST_ALSO]:
        yield "also", f"{other.name} ({other.severity}, {other.certainty}): {other.message}"
    told = [f"{words} {size(value)}" for name, words in _LEDGER.items() if (value := diagnosis.ledger.get(name)) is not None]
    if told and diagnosis.ledger.get("used") is not None:
        beyond = diagnosis.ledger.get("beyond_the_card")
        more = f"; {size(beyond)} of that is more than the card holds in use" if beyond else ""
        yield "used", f"{size(diagnosis.ledger['used'] or 0)} of the card: {', '.join(told)}{more}"
    if diagnosis.unseen and diagnosis.verdict is not None:
        names = ", ".join(dict.fromkeys(unseen.name for unseen in diagnosis.unseen))
        yield "blind", f"{names}: it does not show {', '.join(diagnosis.unseen[0].needs)}"
    if first is not None:
        yield "more", first.docs


def _labelled(label: str, lines: Iterable[str]) -> Iterator[tuple[str, str]]:
    yield from ((label if n == 0 else "", line) for n, line in enumerate(lines))


def _found(finding: Finding) -> Iterator[tuple[str, str]]:
    if finding.severity == "error" and finding.certainty == "possible":
        yield "", "possible, not certain"
    if finding.severity == "warning":
        yield "", f"{finding.name} ({finding.certainty}): {finding.message}"
    lines = finding.remedy.split("\n")
    yield from _labelled("do", (line for line in lines if not line.startswith(_NOT)))
    yield from _labelled("not", (line.removeprefix(_NOT) for line in lines if line.startswith(_NOT)))
    pins = {_place(pin): _held(pin) for pin in finding.evidence.get("pins") or ()}
    places = (f"{site.file}:{site.line} {site.function}" for site in finding.sites)
    yield from _labelled("at", (f"{place}{pins.get(place, '')}" for place in places))


def _place(pin: dict[str, Any]) -> str:
    return next((f"{site['file']}:{site['line']} {site['function']}" for site in pin["site"]), "")


def _held(pin: dict[str, Any]) -> str:
    return (
        f": holds {size(pin['held_bytes'])} in {pin['segments']} partly used segments; {size(pin['freed_if_gone_bytes'])} would come free "
        "if it went"
    )
