"""What it is: the allocator holds enough idle bytes for the request, but in pieces between live blocks, none of them large enough.

Why it matters: memory is free and cannot be used; it gets worse with uptime, and a restart cures it for a while, which hides the cause.

Instead: give the sites that live long a pool of their own, or sizes that fit each other. `forebay whatif` says which of these serves the
request. empty_cache frees nothing here: no segment is wholly idle.
"""

from forebay.doctor.cause import cause_of
from forebay.doctor.evidence import Evidence
from forebay.doctor.figures import IncidentFigures, PinFigures
from forebay.doctor.saying import found, sized, sized_below
from forebay.finding import Bytes, Finding
from forebay.tape import Sees
from forebay.views.census import Pin

NAME = "checkerboard-fragmentation"
NEEDS = frozenset[Sees]()
_LOG = "give the sites that live long a pool of their own, or try expandable_segments:True; empty_cache is no cure"
_SIZES = {"capped-oom", "capacity-oom", "outside-allocator"}  # beside which a few idle bytes in pieces are worth a word
_MOST = 3  # sites that are named
_OURS = "give what stays a pool of its own, apart from what comes and goes: Pool(device, NAME, limit)"
_HEAP = "`forebay whatif FILE` tells which remedy serves the request: the pinning sites in a pool of their own, or other settings"


class Figures(IncidentFigures, frozen=True, kw_only=True):
    """The request, the idle bytes that would have served it together, and the sites whose blocks keep them apart."""

    request_bytes: Bytes | None = None
    idle_bytes: Bytes | None = None
    reserved_bytes: Bytes | None = None
    largest_free_bytes: Bytes | None = None
    releasable_bytes: Bytes | None = None
    pins: tuple[PinFigures, ...] = ()


def judge(e: Evidence) -> Finding | None:
    """A refusal whose idle bytes lie mostly in partly used segments of the request's own pool and stream; a
    warning where they are no more than any program has."""
    cause = cause_of(e)
    ordinary = cause is not None and cause.name in _SIZES and None not in (e.own, e.request) and (e.own or 0) >= (e.request or 0)
    if cause is None or not (cause.name == NAME or ordinary):
        return None
    pins = e.census.pins() if e.census is not None else []
    says = f"{sized(e.request)} were refused with {sized(e.idle)} idle inside {sized(e.reserved)} reserved"
    if e.largest_free is not None:
        says += f"; the largest free block has {sized_below(e.largest_free, e.request)}"
    if ordinary:
        says += "; any program has as much idle in pieces, so this is not the cause"
    return found(
        NAME,
        says,
        _OURS if e.framework == "forebay" else _HEAP if e.census is not None else _LOG,
        Figures(
            request_bytes=e.request,
            idle_bytes=e.idle,
            reserved_bytes=e.reserved,
            largest_free_bytes=e.largest_free,
            releasable_bytes=e.releasable,
            pins=tuple(_pin(e, pin) for pin in pins[:_MOST]),
        ),
        certain=cause.certain,
        severity="warning" if ordinary else "error",
        events=[e.row] if e.row is not None else [],
        sites=e.sites([pin.site for pin in pins]),
    )


def _pin(e: Evidence, pin: Pin) -> PinFigures:
    return PinFigures(site=e.sites([pin.site]), segments=pin.segments, held_bytes=pin.held, freed_if_gone_bytes=pin.freed_alone)
