"""What it is: a program that calls torch.cuda.empty_cache again and again, and then takes from the driver what it just gave back.

Why it matters: every call waits for the device and frees every idle segment; the next step asks the driver for them again. It lowers
what nvidia-smi shows between the calls and costs time in every step.

Instead: not calling it, or every N steps if other processes need the memory in between.
"""

from forebay._core.allocator import Step
from forebay.doctor.evidence import Evidence
from forebay.doctor.figures import IncidentFigures
from forebay.doctor.saying import found, sized
from forebay.finding import Bytes, Count, Finding
from forebay.tape import Sees

NAME = "empty-cache-smell"
NEEDS = frozenset({Sees.ALLOCS, Sees.SEGMENTS})
_LEAST = 3  # calls: one or two at the end of a phase are sensible
_OFTEN, _EACH = 0.1, 0.5  # of the requests, and of a region's rounds: from here on the driver is in every step


class Figures(IncidentFigures, frozen=True, kw_only=True):
    """The calls, what they gave back, what of it was taken again, and the calls of the driver in the run."""

    calls: Count
    flushed_segments: Count
    flushed_bytes: Bytes
    regrown_segments: Count
    regrown_bytes: Bytes
    requests: Count
    driver_allocs: Count
    driver_frees: Count


def judge(e: Evidence) -> Finding | None:
    """At least three calls that together gave back more than is needed at any time, and of which much was taken again. It is an error
    where one request in ten, or every other round of a region, has to go to the driver for it; else its price is told."""
    if e.run is None or e.run.flushes.calls < _LEAST:
        return None
    flushes, steps = e.run.flushes, e.run.steps
    requests = int((steps.step == int(Step.alloc)).sum())
    peak = int(steps.requested_live().max(initial=0))
    if flushes.bytes <= peak or not flushes.regrown_segments:
        return None
    in_rounds = e.rounds is not None and e.rounds.churned >= _EACH * e.rounds.iterations
    often = flushes.regrown_segments >= _OFTEN * requests or in_rounds
    again = f"{flushes.regrown_segments} of them ({sized(flushes.regrown_bytes)})"
    call = "a pool's trim" if e.framework == "forebay" else "empty_cache"
    share = f"{flushes.regrown_segments / max(requests, 1):.1%} of the requests"
    return found(
        NAME,
        f"{flushes.calls} calls of {call} gave {sized(flushes.bytes)} back in {flushes.segments} segments, and {again} were taken "
        f"from the driver again: for {share}, where at most {sized(peak)} are needed at once",
        "remove the calls, or keep one every N steps where others need the memory in between: the cache is reused, it is not a leak",
        Figures(
            calls=flushes.calls,
            flushed_segments=flushes.segments,
            flushed_bytes=flushes.bytes,
            regrown_segments=flushes.regrown_segments,
            regrown_bytes=flushes.regrown_bytes,
            requests=requests,
            driver_allocs=e.run.driver_allocs,
            driver_frees=e.run.driver_frees,
        ),
        certain=flushes.told,
        severity="error" if often else "warning",
        sites=e.sites(list(e.run.flush_sites)),
    )
