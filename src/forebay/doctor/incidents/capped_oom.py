"""What it is: the request was refused by a limit of the process (set_per_process_memory_fraction, a pool's maximum), not by the card.

Why it matters: the card still has room. The message of the error names the card's total and misleads.

Instead: raise the limit if the memory is yours to take, or need less.
"""

from forebay.doctor.cause import cause_of
from forebay.doctor.evidence import Evidence
from forebay.doctor.saying import found, sized
from forebay.finding import Finding
from forebay.tape import Sees

NAME = "capped-oom"
NEEDS = frozenset[Sees]()
_ORDINARY = "torch.cuda.set_per_process_memory_fraction (or the pool's maximum)"
_RAISED = {"pytorch-mps": "PYTORCH_MPS_HIGH_WATERMARK_RATIO (the system has no memory beyond it to spare)"}
_SHAPES = {"checkerboard-fragmentation", "deferred-frees", "stranded-stream-cache", "graph-pool-hoard"}


def judge(e: Evidence) -> Finding | None:
    """A refusal while the card, as far as it is known, had room; a warning where the idle bytes would have served the request."""
    cause = cause_of(e)
    room = e.request is not None and e.free is not None and e.free >= e.request
    if cause is None or not (cause.name == NAME or (room and cause.name in _SHAPES)):
        return None
    limit = f"a limit of {sized(e.allowed)}" if e.allowed is not None else "a limit that the record does not state"
    return found(
        NAME,
        f"{sized(e.request)} were refused by {limit}: {sized(e.reserved)} were reserved, {sized(e.idle)} of it idle, and the card had "
        f"{sized(e.free)} free",
        f"raise {_RAISED.get(e.framework, _ORDINARY)}, or need less at once",
        certain=cause.certain or cause.name != NAME,
        severity="error" if cause.name == NAME else "warning",
        events=[e.row] if e.row is not None else [],
        request_bytes=e.request,
        allowed_bytes=e.allowed,
        reserved_bytes=e.reserved,
        idle_bytes=e.idle,
        free_bytes=e.free,
    )
