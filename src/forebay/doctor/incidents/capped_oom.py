"""What it is: the request was refused by a limit of the process (set_per_process_memory_fraction, a pool's maximum), not by the card.

Why it matters: the card still has room. The message of the error names the card's total and misleads.

Instead: raise the limit if the memory is yours to take, or need less.
"""

from forebay.doctor.cause import cause_of
from forebay.doctor.evidence import Evidence
from forebay.doctor.figures import IncidentFigures
from forebay.doctor.saying import found, listed, sized
from forebay.finding import Bytes, Finding
from forebay.tape import Sees

NAME = "capped-oom"
NEEDS = frozenset[Sees]()
_POOL = "the pool's maximum"
_RAISED = {  # by framework; a name of a wording stands for all that begin so
    "pytorch-mps": "PYTORCH_MPS_HIGH_WATERMARK_RATIO (the system has no memory beyond it to spare)",
    "pytorch": "torch.cuda.set_per_process_memory_fraction (or the pool's maximum)",
    "torch_npu": "torch.npu.set_per_process_memory_fraction",
    "forebay": "the pool's limit",
    "rmm": "the pool's maximum_pool_size",
    "cupy": "the memory pool's set_limit",
    "cuda.jl": "JULIA_CUDA_HARD_MEMORY_LIMIT",
    "jax": "XLA_PYTHON_CLIENT_MEM_FRACTION",
    "xla": "XLA_PYTHON_CLIENT_MEM_FRACTION",
    "onnxruntime": "gpu_mem_limit of the CUDA provider",
    "paddle": "FLAGS_gpu_memory_limit_mb",
}
_SHAPES = {"checkerboard-fragmentation", "deferred-frees", "stranded-stream-cache", "graph-pool-hoard"}


class Figures(IncidentFigures, frozen=True, kw_only=True):
    """What was asked for, allowed, reserved, idle in it, and free on the card."""

    request_bytes: Bytes | None = None
    allowed_bytes: Bytes | None = None
    reserved_bytes: Bytes | None = None
    idle_bytes: Bytes | None = None
    free_bytes: Bytes | None = None


def judge(e: Evidence) -> Finding | None:
    """A refusal while the card, as far as it is known, had room; a warning where the idle bytes would have served the request."""
    cause = cause_of(e)
    room = e.request is not None and e.free is not None and e.free >= e.request
    if cause is None or not (cause.name == NAME or (room and cause.name in _SHAPES)):
        return None
    asked = f"{sized(e.request)} were" if e.request is not None else "a request of unknown size was"
    limit = f"a limit of {sized(e.allowed)}" if e.allowed is not None else "a limit that the record does not state"
    return found(
        NAME,
        listed(f"{asked} refused by {limit}", reserved=e.reserved, of_it_idle=e.idle, free_on_the_card=e.free),
        f"raise {next((how for name, how in _RAISED.items() if e.framework.startswith(name)), _POOL)}, or need less at once",
        Figures(
            request_bytes=e.request,
            allowed_bytes=e.allowed,
            reserved_bytes=e.reserved,
            idle_bytes=e.idle,
            free_bytes=e.free,
        ),
        certain=cause.certain or cause.name != NAME,
        severity="error" if cause.name == NAME else "warning",
        events=[e.row] if e.row is not None else [],
    )
