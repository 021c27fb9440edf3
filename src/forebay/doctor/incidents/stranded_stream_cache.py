"""What it is: idle memory cached for a stream that hardly uses it, while other streams need memory.

Why it matters: blocks belong to the stream they were allocated on, and no other stream is ever given them. A stream used once, to
initialise or to load, keeps its high-water mark.

Instead: allocate on the stream that will use the memory, use few and lasting streams, or drain such a stream and empty its cache once.
"""

from forebay.doctor.cause import cause_of
from forebay.doctor.evidence import Evidence
from forebay.doctor.figures import IncidentFigures
from forebay.doctor.saying import found, sized
from forebay.finding import Bytes, Finding
from forebay.tape import Sees

NAME = "stranded-stream-cache"
NEEDS = frozenset({Sees.ALLOCS, Sees.SEGMENTS})
_SHARE, _LEAST = 0.2, 32 << 20  # of reserved, and bytes
_THEIRS = "allocate on the stream that uses the memory; drain one-shot streams and call empty_cache once after them"
_OURS = "take it from the pool and on the stream that go on using it; a pool that is done with is to be trimmed, or to give back"


class Figures(IncidentFigures, frozen=True, kw_only=True):
    """What lies idle on other streams, or in other pools that keep it, and beside what."""

    elsewhere_bytes: Bytes
    reserved_bytes: Bytes | None = None
    releasable_bytes: Bytes | None = None
    request_bytes: Bytes | None = None


def judge(e: Evidence) -> Finding | None:
    """A refusal whose idle bytes mostly lie on other streams, or a moment when much of what is reserved does."""
    cause = cause_of(e)
    if e.elsewhere is None or not e.reserved or e.census is None:
        return None
    much = e.elsewhere >= _LEAST and e.elsewhere >= _SHARE * e.reserved
    if not (cause.name == NAME if cause is not None else much):
        return None
    share = max(e.census.by("stream"), key=lambda s: s.releasable + s.stranded)
    name = (
        e.tape.sides.streams[share.index].name
        if e.tape is not None and share.index < len(e.tape.sides.streams)
        else str(share.index)
    )
    where = "other streams" if e.refused else "streams that no longer allocate"
    return found(
        NAME,
        f"{sized(e.elsewhere)} of {sized(e.held.reserved)} reserved lie idle on {where}; stream {name} alone caches "
        f"{sized(share.releasable + share.stranded)}",
        _OURS if e.framework == "forebay" else _THEIRS,
        Figures(
            elsewhere_bytes=e.elsewhere,
            reserved_bytes=e.held.reserved,
            releasable_bytes=e.releasable,
            request_bytes=e.request,
        ),
        certain=True,
        events=[e.row] if e.row is not None else [],
    )
