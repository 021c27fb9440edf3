"""rule: what a rule is, and how its findings are made. The rules themselves are one file each in rules/."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final, Literal, NamedTuple

from forebay.contract.contract_file import Contract
from forebay.finding import Bytes, Count, Figures, Finding, Severity, Site
from forebay.tape import Frame, Sees, Tape
from forebay.views.order import Race

__all__ = ["ADVICE", "Blind", "RaceFigures", "Rule", "RuleFigures", "Verdict", "anywhere", "once", "race_finding", "sites_of"]

# How to let an order rule see. Sources that show uses are the runtime's own tapes and recordings.
ADVICE: Final = "a tape of the program's own runtime shows uses and edges; a PyTorch snapshot and a profiler trace do not"


class RuleFigures(Figures, frozen=True, kw_only=True):
    """Figures of a rule's finding: `times` says how often the same was found."""

    times: Count = 0


class RaceFigures(RuleFigures, frozen=True, kw_only=True):
    """Two touches of the same bytes: the kind of pair, and the bytes."""

    kind: Literal["free", "access", "alloc", "unmap"]
    first_byte: Bytes
    bytes: Bytes


class Rule(NamedTuple):
    """One rule. `page` is its file's docstring: what it does, why it matters, what to do instead. `needs`: what a tape must see, or the
    rule is blind. `prevents`: the incident that following it prevents. `judge` takes a whole tape that sees all that, and the
    contract. `figures`: what the evidence of its findings can hold. `asked`: only where the contract names it."""

    name: str
    prevents: str
    severity: Severity
    needs: frozenset[Sees]
    page: str
    judge: Callable[[Tape, Contract], Iterator[Finding]]
    figures: type[RuleFigures]
    advice: str = ADVICE
    asked: Literal["anywhere", "by the contract"] = "anywhere"


class Blind(NamedTuple):
    """A rule that could not judge a tape, what it lacked, and how to record it."""

    name: str
    needs: list[str]
    advice: str


class Verdict(NamedTuple):
    """What all rules say of one tape."""

    findings: list[Finding]
    blind: list[Blind]


def anywhere(judge: Callable[[Tape], Iterator[Finding]]) -> Callable[[Tape, Contract], Iterator[Finding]]:
    """The judge of a rule that holds whatever the contract says."""
    return lambda tape, _: judge(tape)


def sites_of(*stacks: tuple[Frame, ...]) -> list[Site]:
    """The innermost frame of each stack that is known."""
    return [Site(stack[0].file, stack[0].line, stack[0].function) for stack in stacks if stack]


def race_finding(name: str, prevents: str, race: Race, message: str) -> Finding:
    """A race as a finding of a rule. The remedy is the missing edge, in words."""
    return Finding.of(
        name,
        message,
        severity="error",
        certainty="certain" if race.certain else "possible",
        remedy=race.missing,
        about=[race.kind, race.a.kind.name, race.a.name, str(race.a.stream), race.b.kind.name, race.b.name, str(race.b.stream)],
        evidence=RaceFigures(kind=race.kind, first_byte=race.lo, bytes=race.hi - race.lo, times=1),
        events=[race.a.row, race.b.row],
        sites=sites_of(race.a.stack, race.b.stack),
        prevents=prevents,
    )


def once(findings: Iterable[Finding]) -> Iterator[Finding]:
    """Each fingerprint once: the first finding, or the first certain one, with how many times there were in its evidence."""
    kept: dict[str, Finding] = {}
    times: dict[str, int] = {}
    for finding in findings:
        key = finding.fingerprint
        times[key] = times.get(key, 0) + 1
        if key not in kept or (finding.certainty == "certain" and kept[key].certainty == "possible"):
            kept[key] = finding
    for key, finding in kept.items():
        finding.evidence["times"] = times[key]
        yield finding
