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


class Figures(IncidentFigures, frozen=True, kw_only=True):
    """The request, where it is stated."""

    request_bytes: Bytes | None = None


def judge(e: Evidence) -> Finding | None:
    """A refusal whose figures are not stated."""
    cause = cause_of(e)
    if cause is None or cause.name != NAME:
        return None
    return found(
        NAME,
        f"{sized(e.request)} were refused; what was free and what was held is not stated"
        if e.request is not None
        else "a request was refused; how large it was is not stated",
        "look before you change anything: which of the causes it is cannot be told from this",
        Figures(request_bytes=e.request),
        certain=False,
    )
