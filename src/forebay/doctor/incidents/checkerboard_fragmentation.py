"""What it is: the allocator holds enough idle bytes for the request, but in pieces between live blocks, none of them large enough.

Why it matters: memory is free and cannot be used; it gets worse with uptime, and a restart cures it for a while, which hides the cause.

Instead: give the sites that live long a pool of their own, or sizes that fit each other. `forebay whatif` says which of these serves the
request. empty_cache frees nothing here: no segment is wholly idle.
"""

from typing import Any

import msgspec

from forebay.doctor.cause import cause_of
from forebay.doctor.evidence import Evidence
from forebay.doctor.saying import found, sized
from forebay.finding import Finding
from forebay.tape import Sees
from forebay.views.census import Pin

NAME = "checkerboard-fragmentation"
NEEDS = frozenset[Sees]()
_LOG = "give the sites that live long a pool of their own, or try expandable_segments:True; empty_cache is no cure"
_SIZES = {"capped-oom", "capacity-oom", "outside-allocator"}  # beside which a few idle bytes in pieces are worth a word
_MOST = 3  # sites that are named
_OURS = "give what stays a pool of its own, apart from what comes and goes: Pool(device, NAME, limit)"
_HEAP = "`forebay whatif FILE` tells which remedy serves the request: the pinning sites in a pool of their own, or other settings"


def judge(e: Evidence) -> Finding | None:
    """A refusal whose idle bytes lie mostly in partly used segments of the request's own pool and stream; a
    warning where they are no more than any program has."""
    cause = cause_of(e)
    ordinary = cause is not None and cause.name in _SIZES and None not in (e.own, e.request) and (e.own or 0) >= (e.request or 0)
    if cause is None or not (cause.name == NAME or ordinary):
        return None
    pins = e.census.pins() if e.census is not None else []
    return found(
        NAME,
        f"{sized(e.request)} were refused with {sized(e.idle)} idle inside {sized(e.reserved)} reserved"
        + (f"; the largest free block has {sized(e.largest_free)}" if e.largest_free is not None else ""),
        _OURS if e.framework == "forebay" else _HEAP if e.census is not None else _LOG,
        certain=cause.certain,
        severity="warning" if ordinary else "error",
        events=[e.row] if e.row is not None else [],
        sites=e.sites([pin.site for pin in pins]),
        request_bytes=e.request,
        idle_bytes=e.idle,
        reserved_bytes=e.reserved,
        largest_free_bytes=e.largest_free,
        releasable_bytes=e.releasable,
        pins=[_pin(e, pin) for pin in pins[:_MOST]] or None,
    )


def _pin(e: Evidence, pin: Pin) -> dict[str, Any]:
    """A site that keeps partly used segments: its bytes in them, and the free bytes of those in which it is alone."""
    return {
        "site": [msgspec.to_builtins(site) for site in e.sites([pin.site])],
        "segments": pin.segments,
        "held_bytes": pin.held,
        "freed_if_gone_bytes": pin.freed_alone,
    }
