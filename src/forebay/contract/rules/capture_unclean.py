"""What it does: finds calls that broke the capture of a graph: a sync or query, a driver allocation, a wait for an event from outside, a
stream that was not joined, a call of another thread.

Why it matters: the capture fails as a whole, at its end, with an error that does not name the call; often in a run that nobody watches,
after a harmless change of what the step calls.

Instead: move the call before or after the capture, fork and join side streams inside, reserve memory beforehand, and capture in
thread_local mode where other threads use the driver.
"""

from __future__ import annotations

from collections.abc import Iterator

from forebay.capture_law import ENDS
from forebay.contract.rule import Rule, RuleFigures, anywhere, once, sites_of
from forebay.finding import Count, Finding
from forebay.tape import Kind, Sees, Tape
from forebay.views.order import place

NAME, PREVENTS = "capture-unclean", "dirty-capture"
_INVALIDATED = 901


class Figures(RuleFigures, frozen=True, kw_only=True):
    """The number of the error that the driver gave."""

    status: Count


def judge(tape: Tape) -> Iterator[Finding]:
    """One finding a call: the first that broke a capture, and ends that failed for a reason of their own."""
    if not tape.has("status"):
        return iter(())
    statuses = tape.columns["status"]
    broken = (row for row in range(len(tape)) if int(statuses[row]) in ENDS and int(statuses[row]) != _INVALIDATED)
    return once(_finding(tape, row, int(statuses[row])) for row in broken)


def _finding(tape: Tape, row: int, status: int) -> Finding:
    at, law = place(tape, row), ENDS[status]
    ended = at.kind is Kind.capture_end
    return Finding.of(
        NAME,
        f"{at} {law.why} ({status})" if ended else f"{at} breaks a capture: it {law.why} ({status})",
        severity="error",
        certainty="certain",
        remedy=law.instead,
        about=[at.kind.name, at.name, law.name],
        evidence=Figures(status=status, times=1),
        events=[row],
        sites=sites_of(at.stack),
        prevents=PREVENTS,
    )


RULE = Rule(
    NAME,
    PREVENTS,
    "error",
    frozenset({Sees.CAPTURES}),
    __doc__,
    anywhere(judge),
    Figures,
    "a tape of the program's own runtime shows captures; a PyTorch snapshot does not",
)
