"""What it is: page-locked host memory that costs far more than was asked for, or host memory that ran out under the name of the GPU's.

Why it matters: PyTorch's pinned pool rounds each request up to a power of two, so that 20 GiB pin 32; a failed pin reads like a GPU
out-of-memory, and no GPU setting helps.

Instead: register large buffers exactly (cudaHostRegister), or bound the rounding with pinned_max_round_threshold_mb.
"""

from forebay.doctor.cause import cause_of
from forebay.doctor.evidence import Evidence
from forebay.doctor.figures import IncidentFigures
from forebay.doctor.saying import found, sized
from forebay.finding import Bytes, Finding
from forebay.tape import Sees

NAME = "pinned-overhead"
NEEDS = frozenset[Sees]()
_WASTE, _MUCH = 1.25, 64 << 20  # pinned against requested; bytes of the difference that are worth the verdict


class Figures(IncidentFigures, frozen=True, kw_only=True):
    """The request that failed; or what is pinned, and what was asked for."""

    request_bytes: Bytes | None = None
    pinned_bytes: Bytes | None = None
    requested_bytes: Bytes | None = None


def judge(e: Evidence) -> Finding | None:
    """A call for host memory that failed, or pinned memory a quarter above what was asked for."""
    cause = cause_of(e)
    if cause is not None and cause.name == NAME:
        return found(
            NAME,
            f"{sized(e.request)} of host memory could not be had: this is the machine's memory, not the GPU's",
            "pin less, or register the buffer exactly; look at the machine's free memory and locked-memory limit (ulimit -l)",
            Figures(request_bytes=e.request),
            certain=True,
        )
    if e.pinned is None or not e.pinned_requested or e.pinned < _WASTE * e.pinned_requested:
        return None
    return found(
        NAME,
        f"{sized(e.pinned)} are pinned for {sized(e.pinned_requested)} asked for: requests are rounded up to powers of two",
        "register large buffers exactly, or set pinned_max_round_threshold_mb",
        Figures(pinned_bytes=e.pinned, requested_bytes=e.pinned_requested),
        certain=True,
        severity="error" if e.pinned - e.pinned_requested >= _MUCH else "warning",
    )
