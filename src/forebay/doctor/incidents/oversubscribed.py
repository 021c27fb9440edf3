"""What it is: more is allocated than the card has: the driver (Windows, WSL) puts the rest into host memory.

Why it matters: work goes on at a fraction of its speed, and figures of use mean nothing.

Instead: need less, or turn the fallback to system memory off in the driver, so that it fails where it is too large.
"""

from forebay.doctor.cause import cause_of
from forebay.doctor.evidence import Evidence
from forebay.doctor.figures import IncidentFigures
from forebay.doctor.saying import found, sized
from forebay.finding import Bytes, Finding
from forebay.tape import Sees

NAME = "oversubscribed"
NEEDS = frozenset[Sees]()


class Figures(IncidentFigures, frozen=True, kw_only=True):
    """What is allocated, and what the card has."""

    allocated_bytes: Bytes
    total_bytes: Bytes | None = None
    request_bytes: Bytes | None = None


def judge(e: Evidence) -> Finding | None:
    """More allocated than the card's total."""
    cause = cause_of(e)
    if cause is None or cause.name != NAME:
        return None
    return found(
        NAME,
        f"{sized(max(e.allocated or 0, e.peak or 0))} are allocated on a card of {sized(e.total)}: the rest lies in host memory",
        "need less at once; set the driver's system memory fallback to off to be told earlier",
        Figures(allocated_bytes=max(e.allocated or 0, e.peak or 0), total_bytes=e.total, request_bytes=e.request),
        certain=True,
    )
