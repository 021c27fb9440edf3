"""What it is: the request does not fit, because the program needs more memory than the card has.

Why it matters: no allocator setting helps; every hour spent on fragmentation is lost.

Instead: less at once (batch, sequence length, recomputation, offloading, a smaller or quantised model), or a larger card.
"""

from forebay.doctor.cause import cause_of
from forebay.doctor.evidence import Evidence
from forebay.doctor.saying import found, sized
from forebay.finding import Finding
from forebay.tape import Sees

NAME = "capacity-oom"
NEEDS = frozenset[Sees]()


def judge(e: Evidence) -> Finding | None:
    """A refusal with too few idle bytes, the card full, and this program's pools the reason."""
    cause = cause_of(e)
    if cause is None or cause.name != NAME:
        return None
    if e.framework == "vllm":
        says = f"the server wanted {sized(e.request)} for its cache of keys and values, and had {sized(e.free)} for it"
        remedy = (
            "a shorter max_model_len, a higher gpu_memory_utilization, fewer sequences at once, or a smaller or quantised model"
        )
    else:
        says = f"{sized(e.request)} were refused: {sized(e.allocated)} are live, {sized(e.idle)} idle, {sized(e.free)} free on the card"
        remedy = "need less at once: a smaller batch or sequence, recomputation, offloading; settings do not help"
    return found(
        NAME,
        says,
        remedy,
        certain=cause.certain,
        events=[e.row] if e.row is not None else [],
        request_bytes=e.request,
        allocated_bytes=e.allocated,
        idle_bytes=e.idle,
        free_bytes=e.free,
        total_bytes=e.total,
    )
