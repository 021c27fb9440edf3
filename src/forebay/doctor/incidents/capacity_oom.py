"""What it is: the request does not fit, because the program needs more memory than the card has.

Why it matters: no allocator setting helps; every hour spent on fragmentation is lost.

Instead: less at once (batch, sequence length, recomputation, offloading, a smaller or quantised model), or a larger card.
"""

from forebay.doctor.cause import cause_of
from forebay.doctor.evidence import Evidence
from forebay.doctor.figures import IncidentFigures
from forebay.doctor.saying import found, listed, sized
from forebay.finding import Bytes, Count, Finding
from forebay.tape import Sees

NAME = "capacity-oom"
NEEDS = frozenset[Sees]()


class Figures(IncidentFigures, frozen=True, kw_only=True):
    """What was asked for, live, idle and free, of how much. Of a server: the length of a sequence that it was to serve, and the longest
    that it says would fit."""

    request_bytes: Bytes | None = None
    allocated_bytes: Bytes | None = None
    idle_bytes: Bytes | None = None
    free_bytes: Bytes | None = None
    total_bytes: Bytes | None = None
    max_seq_len: Count | None = None
    estimated_max_len: Count | None = None


def judge(e: Evidence) -> Finding | None:
    """A refusal with too few idle bytes, the card full, and this program's pools the reason."""
    cause = cause_of(e)
    if cause is None or cause.name != NAME:
        return None
    if e.framework == "vllm":
        says = (
            f"the server wanted {sized(e.request)} for its cache of keys and values, and had {sized(e.free)} for it"
            if e.request is not None
            else "the server has too little for its cache of keys and values"
        )
        if e.longest is not None:
            says += f"; it estimates that sequences of {e.longest.fits:,} fit" + (
                f", not of {e.longest.asked:,}" if e.longest.asked is not None else ""
            )
        length = f"max_model_len={e.longest.fits}" if e.longest is not None else "a shorter max_model_len"
        remedy = f"{length}, a higher gpu_memory_utilization, fewer sequences at once, or a smaller or quantised model"
    else:
        says = listed(f"{sized(e.request)} were refused", live=e.allocated, idle=e.idle, free_on_the_card=e.free)
        remedy = "need less at once: a smaller batch or sequence, recomputation, offloading; settings do not help"
    return found(
        NAME,
        says,
        remedy,
        Figures(
            request_bytes=e.request,
            allocated_bytes=e.allocated,
            idle_bytes=e.idle,
            free_bytes=e.free,
            total_bytes=e.total,
            max_seq_len=e.longest.asked if e.longest is not None else None,
            estimated_max_len=e.longest.fits if e.longest is not None else None,
        ),
        certain=cause.certain,
        events=[e.row] if e.row is not None else [],
    )
