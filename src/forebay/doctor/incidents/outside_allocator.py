"""What it is: the card is full of memory that this program's allocator does not hold: other processes, contexts, libraries, graphs.

Why it matters: tuning the allocator cannot help, and its own figures look small.

Instead: see who holds it (`nvidia-smi`, `forebay doctor` on the machine), stop or move them; count graph executables and NCCL buffers.
"""

from forebay.doctor.cause import cause_of
from forebay.doctor.evidence import Evidence
from forebay.doctor.figures import IncidentFigures
from forebay.doctor.saying import found, sized
from forebay.finding import Bytes, Finding
from forebay.tape import Sees

NAME = "outside-allocator"
NEEDS = frozenset[Sees]()


class Figures(IncidentFigures, frozen=True, kw_only=True):
    """Who holds the card: this allocator, and all others together, told apart where the artifact does."""

    request_bytes: Bytes | None = None
    total_bytes: Bytes | None = None
    reserved_bytes: Bytes | None = None
    held_by_others_bytes: Bytes
    other_processes_bytes: Bytes | None = None
    outside_pools_bytes: Bytes | None = None


def judge(e: Evidence) -> Finding | None:
    """A refusal on a full card of which others hold at least the request and a quarter of the card."""
    cause = cause_of(e)
    if cause is None or cause.name != NAME:
        return None
    held = (e.total or 0) - (e.free or 0) - (e.held.reserved or 0)
    ours = sized(e.held.reserved)
    return found(
        NAME,
        f"{sized(e.request)} were refused: of {sized(e.total)} this allocator holds {ours}, {sized(held)} is held by others",
        "run `nvidia-smi` to see the processes; stop or move them, and leave room for contexts, libraries and graphs",
        Figures(
            request_bytes=e.request,
            total_bytes=e.total,
            reserved_bytes=e.held.reserved,
            held_by_others_bytes=held,
            other_processes_bytes=e.others,
            outside_pools_bytes=e.outside,
        ),
        certain=cause.certain,
    )
