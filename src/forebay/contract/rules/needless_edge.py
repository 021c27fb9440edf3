"""What it does: finds waits and syncs that no pair of conflicting accesses needs, although they keep work from overlapping. They are
judged as a set: all that are named can go at once.

Why it matters: the pipeline is slow and nothing is wrong. A wait that nothing needs is an overlap lost.

Instead: remove it, or record earlier. Nothing is said of edges around launches whose accesses the tape does not show in full.
"""

from __future__ import annotations

from collections.abc import Iterator

from forebay.contract.rule import Rule, RuleFigures, anywhere, once, sites_of
from forebay.finding import Count, Finding
from forebay.tape import Sees, Tape
from forebay.views.needed import Edge, Edges

NAME, PREVENTS = "needless-edge", "lost-overlap"


class Figures(RuleFigures, frozen=True, kw_only=True):
    """How many rows the edge stands in, and how many pairs of items it keeps from overlapping."""

    rows: Count
    orderings: Count


def judge(tape: Tape) -> Iterator[Finding]:
    """One finding a site, or a kind of edge on one stream where sites are not known. Of a pool's own edges none: nobody can remove them."""
    return once(_finding(edge) for edge in Edges(tape).all if edge.verdict == "needless" and not edge.pool_made)


def _finding(edge: Edge) -> Finding:
    return Finding.of(
        NAME,
        f"{edge.first} orders nothing that needs it, and keeps {edge.effect} pairs of items from overlapping",
        severity="warning",
        certainty="certain",
        remedy=f"remove {edge.first}",
        about=[edge.first.kind.name, str(edge.first.stream)],
        evidence=Figures(rows=len(edge.rows), orderings=edge.effect, times=1),
        events=edge.rows[:8],
        sites=sites_of(edge.first.stack),
        prevents=PREVENTS,
    )


RULE = Rule(
    NAME, PREVENTS, "warning", frozenset({Sees.WORK, Sees.USES, Sees.EDGES, Sees.SYNCS}), __doc__, anywhere(judge), Figures
)
