"""dag: the order of a tape as a drawing: `forebay show --as dag`. Every row where there are few, steps where there are many.

What is ordered, racing or needless is views'; where shapes lie is dag_rows.py's and dag_steps.py's, SVG svg.py's.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from forebay.errors import BadInput
from forebay.report import dag_rows, dag_steps
from forebay.report.dag_facts import DRAWN, Facts
from forebay.report.svg import svg
from forebay.tape import Kind, Tape
from forebay.views.links import WORK

__all__ = ["draw"]

_MOST_ROWS: Final = 120  # drawn rows that a person can follow one by one; above it, steps
_MOST_SEEN: Final = 2_000_000  # rows of a tape: a drawing of more takes minutes
_ORDER: Final = (*WORK, Kind.wait, Kind.host_access, Kind.sync_stream, Kind.sync_device, Kind.sync_event)


def draw(tape: Tape, name: str, rows: range | None = None) -> str:
    """An SVG drawing of a whole tape, or of a range of its rows; `name` is its title. The whole tape is judged in either case.

    Raises BadInput for a tape that shows no work, and for one of more than two million rows.
    """
    if not len(tape.where(*_ORDER)):
        raise BadInput(
            "shows no work and no waits, so there is no order to draw: use --as text, or hand over a recording or a trace"
        )
    if len(tape) > _MOST_SEEN:
        raise BadInput(
            f"{len(tape):,} rows; a drawing is made of {_MOST_SEEN:,} at most: cut it with --as arrow --rows A:B first"
        )
    facts = Facts(tape, range(len(tape)) if rows is None else rows)
    drawn = np.isin(tape.columns["kind"][facts.rows.start : facts.rows.stop], [int(kind) for kind in DRAWN])
    make = dag_rows.scene if int(drawn.sum()) <= _MOST_ROWS else dag_steps.scene
    return svg(make(facts, name))
