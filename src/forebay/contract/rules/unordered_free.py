"""What it does: finds a block that is freed, reclaimed or unmapped before every use of it is sure to be over, and uses after that.

Why it matters: the pool gives the bytes to someone else while the first user still reads or writes them: garbage output once a week, that
nobody can reproduce. A free that is ordered on its owner's stream protects against that stream only.

Instead: record an event after the last use and wait for it on the stream that frees, or lend the block to the stream that uses it
(record_stream), before the free. Before unmapping, let the host see such an event complete.
"""

from __future__ import annotations

from collections.abc import Iterator

from forebay.contract.rule import RaceFigures, Rule, anywhere, once, race_finding
from forebay.contract.rules.stale_graph_pointer import is_stale
from forebay.finding import Finding
from forebay.tape import Sees, Tape
from forebay.views.order import Race, find_races

NAME, PREVENTS = "unordered-free", "cross-stream-use-after-free"


def judge(tape: Tape) -> Iterator[Finding]:
    """One finding a kind of free and use."""
    races = (race for race in find_races(tape) if race.kind in ("free", "unmap") and not is_stale(race))
    return once(race_finding(NAME, PREVENTS, race, _message(race)) for race in races)


def _message(race: Race) -> str:
    if race.a.kind.name in ("free", "unmap", "release", "unpin"):
        return f"{race.b} uses bytes that were given back by {race.a}"
    return f"{race.b} gives back bytes that {race.a} may still use: nothing orders them"


RULE = Rule(
    NAME, PREVENTS, "error", frozenset({Sees.ALLOCS, Sees.WORK, Sees.USES, Sees.EDGES}), __doc__, anywhere(judge), RaceFigures
)
