"""What it is: the allocator holds enough idle bytes for the request, but in pieces between live blocks, none of them large enough.

Why it matters: memory is free and cannot be used; it gets worse with uptime, and a restart cures it for a while, which hides the cause.

Instead: give the sites that live long a pool of their own, or sizes that fit each other. `forebay whatif` says which of these serves the
request. empty_cache frees nothing here: no segment is wholly idle.
"""

from forebay.doctor.cause import cause_of
from forebay.doctor.evidence import Evidence
from forebay.doctor.saying import found, sized
from forebay.finding import Finding
from forebay.tape import Sees

NAME = "checkerboard-fragmentation"
NEEDS = frozenset[Sees]()
_LOG = "record the heap to be sure: torch.cuda.memory._record_memory_history(), then torch.cuda.memory._dump_snapshot(FILE) at the error"
_HEAP = "`forebay whatif FILE` tells which remedy serves the request: the pinning sites in a pool of their own, or other settings"


def judge(e: Evidence) -> Finding | None:
    """A refusal whose idle bytes lie mostly in partly used segments of the request's own pool and stream."""
    cause = cause_of(e)
    if cause is None or cause.name != NAME:
        return None
    pins = e.census.pins() if e.census is not None else []
    return found(
        NAME,
        f"{sized(e.request)} were refused with {sized(e.idle)} idle inside {sized(e.reserved)} reserved"
        + (f"; the largest free block has {sized(e.largest_free)}" if e.largest_free is not None else ""),
        _HEAP if e.census is not None else _LOG,
        certain=cause.certain,
        events=[e.row] if e.row is not None else [],
        sites=e.sites([pin.site for pin in pins]),
        request_bytes=e.request,
        idle_bytes=e.idle,
        reserved_bytes=e.reserved,
        largest_free_bytes=e.largest_free,
        releasable_bytes=e.releasable,
        pinned_segments=sum(pin.segments for pin in pins[:1]) or None,
        freed_if_gone_bytes=pins[0].freed_alone if pins else None,
    )
