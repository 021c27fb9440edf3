"""What it is: a program that calls torch.cuda.empty_cache again and again, and then takes from the driver what it just gave back.

Why it matters: every call waits for the device and frees every idle segment; the next step asks the driver for them again. It lowers
what nvidia-smi shows between the calls and costs time in every step.

Instead: not calling it, or every N steps if other processes need the memory in between.
"""

from forebay.doctor.evidence import Evidence
from forebay.doctor.saying import found, sized
from forebay.finding import Finding
from forebay.tape import Sees

NAME = "empty-cache-smell"
NEEDS = frozenset({Sees.ALLOCS, Sees.SEGMENTS})
_LEAST = 3  # calls: one or two at the end of a phase are sensible


def judge(e: Evidence) -> Finding | None:
    """At least three calls that together gave back more than is reserved at any time."""
    if e.run is None or e.run.flushes < _LEAST:
        return None
    steps = e.run.steps
    peak = int(steps.requested_live().max(initial=0))
    if e.run.flushed_bytes <= peak:
        return None
    return found(
        NAME,
        f"{e.run.flushes} calls of empty_cache gave back {sized(e.run.flushed_bytes)} and the program took it from the driver again: "
        f"{e.run.driver_allocs} driver allocations where at most {sized(peak)} are needed at once",
        "remove the calls, or keep one every N steps: the cache is reused, it is not a leak",
        certain=True,
        sites=e.sites(list(e.run.flush_sites)),
        calls=e.run.flushes,
        flushed_bytes=e.run.flushed_bytes,
        driver_allocs=e.run.driver_allocs,
        driver_frees=e.run.driver_frees,
    )
