"""cause: why a request was refused, judged by the state at the refusal: shape (the bytes were there) or size (they were not).

First the request against the card; then the idle bytes inside reserved against the request, cap or no cap. What each cause means and what
to do about it stands in incidents/.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from forebay.doctor.evidence import Evidence
from forebay.units import percent

__all__ = ["Cause", "cause_of", "misleads"]

_NO_CARD: Final = 2**50  # a pebibyte: no card has it
_ORDINARY: Final = 0.1  # of reserved: less lies idle in any program that runs well
_BESIDE_THE_POINT: Final = {
    "impossible-request",
    "oversubscribed",
    "pinned-overhead",
    "unknown",
}  # the share in use says nothing of these
_OUTSIDE_SHARE: Final = 0.25  # of the card: from here on what others hold is worth the verdict


class Cause(NamedTuple):
    """The incident's name, and whether the evidence leaves no other."""

    name: str
    certain: bool


def _shape(e: Evidence, request: int) -> Cause:
    """Where the idle bytes lie; the largest part counts. A line of a log tells at most those that wait apart."""
    parts = {
        "deferred-frees": e.pending,
        "graph-pool-hoard": e.private,
        "stranded-stream-cache": e.elsewhere,
        "checkerboard-fragmentation": e.own,
    }
    if e.own is None:
        waits = e.pending is not None and e.pending >= request
        return Cause("deferred-frees" if waits else "checkerboard-fragmentation", certain=waits)
    known = {name: size for name, size in parts.items() if size is not None}
    name = max(known, key=lambda n: known[n])
    return Cause(name, known[name] >= request)


def _size(e: Evidence, request: int) -> Cause:
    if e.free is not None and e.free >= request:
        return Cause("capped-oom", certain=e.census is not None or e.allowed is not None)
    if e.allowed is not None and e.reserved is not None and e.reserved + request > e.allowed:
        return Cause("capped-oom", certain=e.free is None)
    ours = e.held.reserved
    held = None if None in (e.total, e.free, ours) else (e.total or 0) - (e.free or 0) - (ours or 0)
    if held is not None and e.total and held >= request - (e.free or 0) and held >= _OUTSIDE_SHARE * e.total:
        return Cause("outside-allocator", certain=True)
    told = e.idle is not None or e.reserved == 0  # else the bytes may have been there, in pieces
    return Cause("capacity-oom", certain=told and (e.free is not None or e.total is not None))


def cause_of(e: Evidence) -> Cause | None:
    """Why the request was refused; None where none was."""
    if not e.refused:
        return None
    if e.host_call and (e.request is None or e.request <= _NO_CARD):
        return Cause("pinned-overhead", certain=False)
    if e.pageable and (e.request is None or e.request <= _NO_CARD):
        return Cause("unknown", certain=False)  # the machine's memory, of which the line tells nothing
    if e.request_signed is not None or e.request_beyond is not None:
        return Cause("impossible-request", certain=True)
    if e.total is not None and max(e.allocated or 0, e.peak or 0) > e.total:
        return Cause("oversubscribed", certain=True)
    if e.request is not None and e.request > (e.total if e.total is not None else _NO_CARD):
        return Cause("impossible-request", certain=True)
    if e.longest is not None:
        return Cause("capacity-oom", certain=True)  # a server that says how much of a sequence fits
    if not e.request or (e.reserved is None and e.free is None):
        return Cause("capped-oom" if e.capped else "unknown", certain=False)
    if e.tape is not None and e.reserved is None and e.free is not None and e.free >= e.request and e.allowed is None:
        return Cause("unknown", certain=False)  # room on the card, no limit seen, and nobody knows what the pools held
    idle = e.idle if e.idle is not None else 0
    # Note [A cap that is not printed]: a card with room and no cap would have served the request, however the idle bytes lie. A line
    # that states no cap then has one all the same (pytorch#111363); a heap is judged by its shape, cap or no cap.
    if e.census is None and e.allowed is None and e.free is not None and e.free >= e.request:
        return Cause("capped-oom", certain=False)
    shape = idle >= e.request and idle >= _ORDINARY * (e.reserved or 0)
    if e.private is not None and e.own is None and e.private >= e.request and (not shape or e.private > idle):
        return Cause("graph-pool-hoard", certain=False)
    return _shape(e, e.request) if shape else _size(e, e.request)


def misleads(e: Evidence, *, decided: bool) -> str | None:
    """What "below 70 % in use means fragmentation" says of this moment, and whether that is misleading: told only where the verdict is
    `decided`, certain. None where it says nothing."""
    if not e.reserved or None in (e.allocated, e.idle):
        return None
    found = cause_of(e)
    if found is None or found.name in _BESIDE_THE_POINT:
        return None
    share = (e.allocated or 0) / e.reserved
    shape = found.name == "checkerboard-fragmentation"
    says, verdict = "fragmentation" if share < 0.7 else "no fragmentation", "holds" if shape == (share < 0.7) else "misleads"
    whole = "of reserved" if e.held.reserved in (None, e.reserved) else "of what the pool that refused has reserved"
    rule = f"in use are {percent(share)} {whole}: the rule of 70 % says {says}"
    return f"{rule}, which {verdict} here" if decided else f"{rule}; whether that holds cannot be told here"
