"""What it does: finds the launch of a graph whose work uses memory that was given back, or unmapped, since its capture.

Why it matters: a graph keeps the addresses that it was captured with. When the block behind one is freed, every replay reads and writes
what belongs to someone else by then, and no call fails.

Instead: allocate inside the capture, so that the memory is the graph's own; or keep every block that a graph uses as long as the graph, and
copy new inputs into it; or capture again.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import numpy as np

from forebay.contract.rule import RaceFigures, Rule, anywhere, once, race_finding
from forebay.finding import Finding
from forebay.tape import Kind, Sees, Tape
from forebay.views.order import Place, Race, find_races, place

NAME, PREVENTS = "stale-graph-pointer", "stale-graph-pointer"
_REMEDY = "keep what a graph uses as long as the graph, allocate it inside the capture, or capture again"
_ENDS = frozenset({Kind.free, Kind.unmap, Kind.release, Kind.unpin})


def is_stale(race: Race) -> bool:
    """Whether a graph was launched after memory that it uses was gone."""
    return race.kind in ("free", "unmap") and race.b.kind is Kind.graph_launch and race.a.kind in _ENDS


def judge(tape: Tape) -> Iterator[Finding]:
    """One finding a launch's place and the end of a block."""
    if not len(tape.where(Kind.graph_launch)):
        return iter(())
    races = (race for race in find_races(tape) if is_stale(race))
    found = (race_finding(NAME, PREVENTS, race, _message(tape, race)) for race in races)
    return once(msgspec.structs.replace(finding, remedy=_REMEDY) for finding in found)


def _message(tape: Tape, race: Race) -> str:
    begun = _capture_of(tape, race.b.row)
    at = "" if begun is None or not begun.stack else f" at {begun.stack[0].file}:{begun.stack[0].line}"
    where = f", captured{at}," if at else ""
    return f"{race.b}: the graph{where} uses bytes that were given back by {race.a}"


def _capture_of(tape: Tape, launch: int) -> Place | None:
    """The begin of the capture that the launched graph was recorded in, where the tape shows it."""
    refs, captures = tape.columns["ref"], tape.columns.get("capture")
    made = [row for row in tape.where(Kind.graph_instantiate) if row < launch and refs[row] == refs[launch]]
    if not made or captures is None:
        return None
    begun = [row for row in tape.where(Kind.capture_begin) if row < made[-1] and refs[row] == captures[made[-1]]]
    return place(tape, int(np.max(begun))) if begun else None


RULE = Rule(
    NAME,
    PREVENTS,
    "error",
    frozenset({Sees.ALLOCS, Sees.WORK, Sees.USES, Sees.EDGES, Sees.CAPTURES, Sees.GRAPHS}),
    __doc__,
    anywhere(judge),
    RaceFigures,
)
