"""What it is: freed blocks that wait for events of other streams (record_stream) and cannot be used again yet.

Why it matters: it looks like a leak or like fragmentation, and is neither: nobody holds the memory, nobody can have it. The pool polls
the events in order, so that one slow stream keeps all later ones back.

Instead: make the owning stream wait for the last use before the free (an event), and drop record_stream; `forebay whatif` prices it in
the row "frees do not wait".
"""

from forebay.doctor.cause import cause_of
from forebay.doctor.evidence import Evidence
from forebay.doctor.figures import IncidentFigures
from forebay.doctor.saying import found, sized
from forebay.finding import Bytes, Finding
from forebay.tape import Sees

NAME = "deferred-frees"
NEEDS = frozenset[Sees]()
_SHARE, _LEAST = 0.2, 32 << 20  # of reserved, and bytes: below either waiting frees are ordinary


class Figures(IncidentFigures, frozen=True, kw_only=True):
    """What waits, and beside what."""

    pending_bytes: Bytes
    reserved_bytes: Bytes
    allocated_bytes: Bytes | None = None
    request_bytes: Bytes | None = None


def judge(e: Evidence) -> Finding | None:
    """A refusal whose idle bytes mostly wait for events, or a moment when much of what is reserved does."""
    cause = cause_of(e)
    if e.pending is None or not e.reserved:
        return None
    much = e.pending >= _LEAST and e.pending >= _SHARE * e.reserved
    if not (cause.name == NAME if cause is not None else much):
        return None
    waiting = e.census.state.blocks if e.census is not None else None
    sites = [] if waiting is None else list(dict.fromkeys(waiting["site"][waiting["pending"] != 0].tolist()))
    return found(
        NAME,
        f"{sized(e.pending)} of {sized(e.reserved)} reserved are freed and wait for other streams; {sized(e.allocated)} are live",
        "let the block's own stream wait for its last use before the free, instead of record_stream; `forebay whatif` prices it",
        Figures(pending_bytes=e.pending, reserved_bytes=e.reserved, allocated_bytes=e.allocated, request_bytes=e.request),
        certain=True,
        events=[e.row] if e.row is not None else [],
        sites=e.sites(sites),
    )
