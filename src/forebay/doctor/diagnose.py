"""diagnose: all incidents held against the evidence of an artifact, the verdict first.

The verdict is the cause of the first refusal, else the gravest error; None where the evidence was there and is healthy;
"cannot-tell" where it was not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from forebay.doctor.cause import cause_of, misleads
from forebay.doctor.evidence import Evidence, from_line, from_tape
from forebay.doctor.incident import INCIDENTS
from forebay.doctor.saying import sized
from forebay.finding import Finding
from forebay.sources.log_text import OutOfMemory
from forebay.tape import Tape

__all__ = ["CANNOT_TELL", "Diagnosis", "diagnose", "diagnose_line"]

CANNOT_TELL: Final = "cannot-tell"
_RECORD: Final = (
    "nothing of the history is there: record it with torch.cuda.memory._record_memory_history(), then "
    "torch.cuda.memory._dump_snapshot(FILE)"
)


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The verdict (an incident's name, None for healthy, "cannot-tell"), what was found, the gravest first, why in sentences, and the
    ledger (bytes of the device's used memory by holder; None: not known)."""

    verdict: str | None
    findings: tuple[Finding, ...]
    why: tuple[str, ...]
    ledger: dict[str, int | None]


def _rank(finding: Finding, cause: str | None) -> tuple[bool, bool, bool]:
    return finding.name != cause, finding.severity != "error", finding.certainty != "certain"


def _ledger(e: Evidence) -> dict[str, int | None]:
    """Five lines that sum to what is used of the device; what the source does not tell apart is None."""
    pending = e.pending if e.pending is not None else None
    cached = None if e.idle is None else e.idle - (pending or 0)
    used = None if e.total is None or e.free is None else e.total - e.free
    rest = None if used is None or e.reserved is None else max(0, used - e.reserved)
    outside = None if rest is None or e.outside is None else min(rest, e.outside)
    return {
        "used": used,
        "other_processes": None if rest is None or outside is None else rest - outside,
        "outside_pools": outside,
        "others_and_outside_together": rest if outside is None else None,
        "cached": cached,
        "pending": pending,
        "live": e.allocated,
    }


def _healthy(e: Evidence) -> str:
    """The gap between reserved and allocated, in figures: cache, not a leak."""
    cached = (e.idle or 0) - (e.pending or 0)
    held = f"{sized(e.reserved)} are reserved, {sized(e.allocated)} live"
    return f"{held}; the {sized(cached)} between are cache, reused as the program goes on"


def _diagnosed(e: Evidence, *, enough: bool) -> Diagnosis:
    cause = cause_of(e)
    found = [finding for incident in INCIDENTS if (finding := incident.judge(e)) is not None]
    found.sort(key=lambda finding: _rank(finding, cause.name if cause else None))
    gravest = found[0].name if found and found[0].severity == "error" else None
    verdict = gravest if gravest is not None or enough else CANNOT_TELL
    why = [found[0].message] if gravest is not None else [_healthy(e) if enough else _RECORD]
    return Diagnosis(verdict, tuple(found), (*why, *filter(None, [misleads(e)])), _ledger(e))


def diagnose(tape: Tape) -> Diagnosis:
    """What a tape with a heap shows. Without a history only what the heap alone says can be told."""
    e = from_tape(tape)
    return _diagnosed(e, enough=e.run is not None)


def diagnose_line(line: OutOfMemory) -> Diagnosis:
    """What one out-of-memory line of a log shows."""
    return _diagnosed(from_line(line), enough=True)
