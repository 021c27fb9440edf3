"""What it is: private pools (CUDA graphs, MemPools) that hold much more than lives in them.

Why it matters: a private pool keeps its high-water mark. Its idle memory is not given to anybody else and not returned at an
out-of-memory, so one graph a shape adds up.

Instead: capture fewer shapes (bucket and pad), the largest first, and share one pool among graphs that never run at once; drop graphs
that are not replayed.
"""

from forebay.doctor.cause import cause_of
from forebay.doctor.evidence import Evidence
from forebay.doctor.figures import IncidentFigures
from forebay.doctor.saying import found, sized
from forebay.finding import Bytes, Count, Finding
from forebay.tape import Sees

NAME = "graph-pool-hoard"
NEEDS = frozenset({Sees.SEGMENTS})
_SHARE, _LEAST = 0.2, 32 << 20  # of reserved, and bytes


class Figures(IncidentFigures, frozen=True, kw_only=True):
    """What private pools hold, idle and live, and how many they are."""

    private_idle_bytes: Bytes
    private_live_bytes: Bytes | None = None
    reserved_bytes: Bytes
    private_pools: Count | None = None
    request_bytes: Bytes | None = None


def judge(e: Evidence) -> Finding | None:
    """A refusal whose idle bytes mostly lie in private pools, or a moment when much of what is reserved does."""
    cause = cause_of(e)
    if e.private is None or not e.reserved:
        return None
    much = e.own is not None and e.private >= _LEAST and e.private >= _SHARE * e.reserved
    if not (cause.name == NAME if cause is not None else much):
        return None
    pools = len({p.private for p in e.tape.sides.pools if p.private is not None}) if e.tape is not None else None
    return found(
        NAME,
        f"{sized(e.private)} of {sized(e.reserved)} reserved lie idle in private pools"
        + (f" ({pools} of them, {sized(e.private_live)} live)" if pools else ""),
        "share one pool among graphs that never run at once, capture the largest shape first, and drop graphs that are not replayed",
        Figures(
            private_idle_bytes=e.private,
            private_live_bytes=e.private_live,
            reserved_bytes=e.reserved,
            private_pools=pools,
            request_bytes=e.request,
        ),
        certain=e.own is not None,
        events=[e.row] if e.row is not None else [],
    )
