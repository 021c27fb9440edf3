"""What it is: a CUDA graph capture that broke: a call that a capture does not allow, a stream that was not joined, a wait on work from
outside, another thread's call.

Why it matters: the driver names the error and not the call; what is reported is often only a consequence (901), and an out-of-memory
inside a capture reads like a broken one.

Instead: move the call out of the capture, or run it once before (lazy initialisation, workspaces); fork and join side streams inside;
capture in thread-local mode where other threads call the driver. `forebay explain cudaMalloc` says what a capture makes of that call,
and so on for each.
"""

from __future__ import annotations

from typing import Final

from forebay.doctor.evidence import Evidence
from forebay.doctor.figures import IncidentFigures
from forebay.doctor.saying import found
from forebay.finding import Count, Finding
from forebay.tape import Sees

NAME = "dirty-capture"
NEEDS: frozenset[Sees] = frozenset()
_CURES: Final = {
    900: "move the call out of the capture, or make what is lazy run once before it",
    901: "look at what was called before: CUDA_LAUNCH_BLOCKING does not help, a recording of the calls does",
    902: "let the two captures run apart: no event of one may be waited for in the other",
    903: "end the capture on the stream on which it was begun",
    904: "let the capturing stream wait for an event of each stream that was forked from it, before the end",
    905: "record the event that is waited for inside the capture, or wait before it begins",
    906: "keep the legacy default stream out: make streams non-blocking, or compile with per-thread default streams",
    907: "record the event anew outside before it is queried or waited for",
    908: "end the capture on the thread that began it, or begin it in relaxed mode",
}


class Figures(IncidentFigures, frozen=True, kw_only=True):
    """The error that the driver gave, and the line of a log that tells it."""

    code: Count
    line: Count | None = None


def judge(e: Evidence) -> Finding | None:
    """A capture that the driver gave up."""
    broken = e.capture
    if broken is None:
        return None
    where = f"line {broken.line}: " if broken.line is not None else ""
    return found(
        NAME,
        f"{where}{broken.name} ({broken.code}): {broken.says}",
        _CURES[broken.code],
        Figures(code=broken.code, line=broken.line),
        certain=broken.code != 901,
        events=[broken.row] if broken.row is not None else [],
        sites=e.sites([broken.site]) if broken.site is not None else [],
    )
