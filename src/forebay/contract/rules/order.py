"""What it does: holds a run against the DAG that the contract's `[order]` table says was meant: edges that are missing, and orders
between work that must be able to overlap.

Why it matters: garbage tokens once a week are a missing edge; a slow pipeline is an extra one. Other rules know what the accesses need,
only the program knows what it meant, and neither tests nor token checks see the difference.

Instead: record on the stream of the first after it, wait on the stream of the second before it; take out the wait or sync that keeps two
apart. `forebay check RUN --write-order` writes a first table from a run.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from typing import Literal

from forebay.contract.contract_file import Contract
from forebay.contract.order_check import Breach, Run, Unmatched, breaches
from forebay.contract.order_spec import Pattern
from forebay.contract.rule import Rule, RuleFigures, once, sites_of
from forebay.finding import Certainty, Finding, Site
from forebay.tape import Sees, StreamClass, Tape
from forebay.views.order import Place, missing_edge, place

NAME, PREVENTS = "order", "lost-overlap"
ADVICE = "work and edges are in tapes of the program's own runtime and in recordings; a PyTorch snapshot shows neither"


class Figures(RuleFigures, frozen=True, kw_only=True):
    """The entry of the contract, and what it asks for."""

    entry: str
    intent: Literal["before", "overlap"]


def judge(tape: Tape, contract: Contract) -> Iterator[Finding]:
    """One finding an entry and pair of sites."""
    run = Run(tape, contract.regions)
    for entry in contract.order:
        yield from once(_finding(run, breach) for breach in breaches(run, entry))


def _finding(run: Run, breach: Breach | Unmatched) -> Finding:
    if isinstance(breach, Unmatched):
        return _unmatched(run, breach)
    a, b = place(run.tape, breach.a.row), place(run.tape, breach.b.row)
    if breach.entry.intent == "before":
        return _broken(breach, [a, b], f"nothing orders {a} before {b}", missing_edge(a, b))
    joints = [place(run.tape, row) for row in _joints(run, breach)]
    through = ", ".join(map(str, joints)) or _unwritten(run, breach)
    what = f"{a} cannot overlap with {b}, nor with its like in this step: in between stands {through}"
    remedy = f"take out {through}, or let it wait for less" if joints else "use non-blocking streams for work that is to overlap"
    return _broken(breach, [a, b, *joints], what, remedy)


def _broken(breach: Breach, places: list[Place], what: str, remedy: str) -> Finding:
    about = [str(breach.entry), *(str(p.name or p.kind.name) for p in places[:2])]
    sites = sites_of(*(p.stack for p in places))
    evidence = Figures(entry=str(breach.entry), intent=breach.entry.intent, times=1)
    return _of(f"`{breach.entry}`: {what}", breach.certainty, remedy, about, evidence, [p.row for p in places], sites)


def _unmatched(run: Run, found: Unmatched) -> Finding:
    entry = found.entry
    if found.absent is not None:
        what, remedy = f"no work that ran is called {found.absent}", _closest(run, found.absent)
    elif entry.intent == "before":
        what, remedy = f"no {entry.right} was issued after a {entry.left}", f"issue {entry.left} first, or turn the entry round"
    else:
        what, remedy = (
            f"no {entry.left} ran in one step with a {entry.right} of another stream",
            "use two streams, or drop the entry",
        )
    evidence = Figures(entry=str(entry), intent=entry.intent, times=1)
    return _of(f"`{entry}`: {what}", "certain", remedy, [str(entry)], evidence, [], [])


def _of(
    message: str,
    certainty: Certainty,
    remedy: str,
    about: list[str],
    evidence: Figures,
    events: list[int],
    sites: list[Site],
) -> Finding:
    return Finding.of(
        NAME,
        message,
        severity="error",
        certainty=certainty,
        remedy=remedy,
        about=about,
        evidence=evidence,
        events=events,
        sites=sites,
        prevents=PREVENTS,
    )


def _closest(run: Run, absent: Pattern) -> str:
    ran = sorted({f"{item.stream}.{item.name}" for item in run.items})
    close = difflib.get_close_matches(str(absent), ran, 3, 0.4) or ran[:3]
    return f"correct the name; there ran {', '.join(close)}" if close else "record a run that does this work"


def _joints(run: Run, breach: Breach) -> list[int]:
    """The waits and syncs between the two, blocking work among them."""
    return [row for row in run.relation.joins(breach.a, breach.b) if row in run.joints]


def _unwritten(run: Run, breach: Breach) -> str:
    """What orders two pieces of work although no wait or sync stands between them."""
    streams = run.tape.sides.streams
    lanes = [item.lane for item in (breach.a, breach.b)]
    if any(stream.kind is StreamClass.legacy for stream in streams) and len(set(lanes)) > 1:
        return "the legacy default stream"
    return "that launches of one graph come after one another"


RULE = Rule(NAME, PREVENTS, "error", frozenset({Sees.WORK, Sees.EDGES}), __doc__, judge, Figures, ADVICE, "by the contract")
