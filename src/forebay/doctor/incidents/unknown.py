"""What it is: an out-of-memory error that states too little to be judged.

Why it matters: a guess costs more than a look.

Instead: record the heap: `torch.cuda.memory._record_memory_history()` at the start and `torch.cuda.memory._dump_snapshot(FILE)` at the
error, then `forebay doctor FILE`.
"""

from forebay.doctor.cause import cause_of
from forebay.doctor.evidence import Evidence
from forebay.doctor.figures import IncidentFigures
from forebay.doctor.saying import found, sized
from forebay.finding import Bytes, Finding
from forebay.tape import Sees

NAME = "unknown"
NEEDS = frozenset[Sees]()
_SERVERS = {"sglang", "vllm"}  # which end before anything is refused


class Figures(IncidentFigures, frozen=True, kw_only=True):
    """The request, where it is stated."""

    request_bytes: Bytes | None = None


def judge(e: Evidence) -> Finding | None:
    """A refusal whose figures are not stated."""
    cause = cause_of(e)
    if cause is None or cause.name != NAME:
        return None
    remedy = "look before you change anything: which of the causes it is cannot be told from this"
    if e.pageable:
        remedy = "need less of it at once, or free what other programs hold; no setting of the GPU helps"
    return found(
        NAME,
        _says(e),
        f"the line itself says: {e.advice}" if e.advice is not None else remedy,
        Figures(request_bytes=e.request),
        certain=False,
    )


def _says(e: Evidence) -> str:
    if e.pageable:
        return f"{sized(e.request)} of host memory could not be had: the machine's memory (pageable), not the GPU's, and nothing pinned"
    if e.framework in _SERVERS:
        return "a server counted no room for its cache before it asked for any: nothing was refused by the device"
    if e.request == 0:
        return "a request of 0 bytes was refused: no card is too full for that, and the figures of this error say nothing"
    if e.request is None:
        return "a request was refused; how large it was is not stated"
    return f"{sized(e.request)} were refused; what was free and what was held is not stated"
