"""What it does: finds two accesses to the same bytes, at least one a write, that no edge orders; and a block used on a stream that did
not wait for the stream that allocated it.

Why it matters: the result depends on which stream the hardware happens to run first. It is right in every test and wrong under load.

Instead: record an event after the first access and wait for it on the other stream before the second. For the host: synchronise with
that event before it touches the bytes.
"""

from __future__ import annotations

from collections.abc import Iterator

from forebay.contract.rule import RaceFigures, Rule, anywhere, once, race_finding
from forebay.finding import Finding
from forebay.tape import Sees, Tape
from forebay.views.order import Race, find_races

NAME, PREVENTS = "unordered-access", "cross-stream-use-after-free"


def judge(tape: Tape) -> Iterator[Finding]:
    """One finding a kind of pair. What a free that came too early let happen is unordered-free's."""
    races = list(find_races(tape))
    freed = {race.a.row: race.b.row for race in races if race.kind == "free"}
    own = (race for race in races if race.kind in ("access", "alloc") and freed.get(race.a.row, race.b.row) >= race.b.row)
    return once(race_finding(NAME, PREVENTS, race, _message(race)) for race in own)


def _message(race: Race) -> str:
    if race.kind == "alloc":
        return f"{race.b} uses a block without being ordered after {race.a}"
    return f"{race.a} and {race.b} touch the same bytes: nothing orders them"


RULE = Rule(NAME, PREVENTS, "error", frozenset({Sees.WORK, Sees.USES, Sees.EDGES}), __doc__, anywhere(judge), RaceFigures)
