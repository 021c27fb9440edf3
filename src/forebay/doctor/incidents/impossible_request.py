"""What it is: a request that no card can serve: larger than the card itself, or a negative number taken for a size.

Why it matters: it is a mistake of the caller. Memory advice of any kind is beside the point.

Instead: look at the shape at the failing call: an index read as a length, an overflow, a wrong data type.
"""

from forebay.doctor.cause import cause_of
from forebay.doctor.evidence import Evidence
from forebay.doctor.figures import IncidentFigures
from forebay.doctor.saying import found, sized
from forebay.finding import Bytes, Finding
from forebay.tape import Sees

NAME = "impossible-request"
NEEDS = frozenset[Sees]()


class Figures(IncidentFigures, frozen=True, kw_only=True):
    """The request, as a signed number too where it was negative, and the card."""

    request_bytes: Bytes | None = None
    request_signed_bytes: int | None = None
    total_bytes: Bytes | None = None


def judge(e: Evidence) -> Finding | None:
    """A request beyond the card, or one that was negative."""
    cause = cause_of(e)
    if cause is None or cause.name != NAME:
        return None
    asked = (
        f"{e.request_signed:,} bytes, a negative size" if e.request_signed is not None else e.request_beyond or sized(e.request)
    )
    return found(
        NAME,
        f"the program asked for {asked}" + (f" of a card of {sized(e.total)}" if e.total is not None else ""),
        "look at the shape of the tensor at the failing call: it is the program's mistake, not the memory's",
        Figures(request_bytes=e.request, request_signed_bytes=e.request_signed, total_bytes=e.total),
        certain=True,
        events=[e.row] if e.row is not None else [],
    )
