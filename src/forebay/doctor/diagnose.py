"""diagnose: all incidents held against the evidence of an artifact, the verdict first.

The verdict is the cause of the first refusal, else the gravest error; None where the evidence was there and is healthy;
"cannot-tell" where it was not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

import msgspec

from forebay.doctor.cause import cause_of, misleads
from forebay.doctor.evidence import Evidence
from forebay.doctor.heap_evidence import from_tape
from forebay.doctor.incident import INCIDENTS, Incident
from forebay.doctor.line_evidence import from_line
from forebay.doctor.saying import sized
from forebay.finding import Finding
from forebay.sources.log_text import CaptureError, OutOfMemory, failure_of
from forebay.tape import Sees, Tape
from forebay.views.order import unordered

__all__ = ["CANNOT_TELL", "Diagnosis", "Unseen", "diagnose", "diagnose_line"]

CANNOT_TELL: Final = "cannot-tell"
_RECORD: Final = (
    "record it with torch.cuda.memory._record_memory_history() before the first allocation, then "
    "torch.cuda.memory._dump_snapshot(FILE)"
)
_OURS: Final = "enter forebay.recording(FILE) before the first device is made"


# What is judged without knowing what was there before the first row.
_ALONE: Final = frozenset(
    {"allocator-settings", "dirty-capture", "driver-churn", "impossible-request", "oversubscribed", "pinned-overhead"}
)

_MOST_ORDERED: Final = 200_000  # rows: a second or two of looking for what is not ordered (22,000 of the demo took 0.16 s)

_ROUNDED: Final = 0.01  # what rounding in a line of a log may add


class Unseen(NamedTuple):
    """An incident that could not be judged: what of its needs the artifact lacks, and how to get it."""

    name: str
    needs: tuple[str, ...]
    advice: str


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The verdict (an incident's name, None for healthy, "cannot-tell"), what was found, the gravest first, why in sentences, the
    ledger (bytes of the device's used memory by holder; None: not known), what could not be judged, and the gauges at the moment that was
    judged."""

    verdict: str | None
    findings: tuple[Finding, ...]
    why: tuple[str, ...]
    ledger: dict[str, int | None]
    unseen: tuple[Unseen, ...] = ()
    gauges: dict[str, int | None] = field(default_factory=dict)


def _rank(finding: Finding, cause: str | None) -> tuple[bool, bool, bool]:
    return finding.name != cause, finding.severity != "error", finding.certainty != "certain"


def _ledger(e: Evidence) -> dict[str, int | None]:
    """Five lines that sum to what is used of the device; what the source does not tell apart is None, and stands in a line together.
    Where they are more than that, `beyond_the_card` says by how much."""
    held = e.held
    cached = None if held.idle is None else held.idle - (held.pending or 0)
    used = None if e.total is None or e.free is None else e.total - e.free
    rest = None if used is None or held.reserved is None else max(0, used - held.reserved)
    outside = None if rest is None or e.outside is None else min(rest, e.outside)
    lines = {
        "other_processes": None if rest is None or outside is None else rest - outside,
        "outside_pools": outside,
        "others_and_outside_together": rest if outside is None else None,
        "cached": cached,
        "pending": held.pending,
        "live": held.live,
    }
    untold = None if used is None or None not in lines.values() else used - sum(line or 0 for line in lines.values())
    ledger = {"used": used, **lines, "unknown_together": untold if untold is not None and untold > 0 else None}
    beyond = 0 if used is None else sum(line or 0 for line in lines.values()) - used
    return ledger if used is None or beyond <= _ROUNDED * used else {**ledger, "beyond_the_card": beyond}


def _gauges(e: Evidence) -> dict[str, int | None]:
    held = e.held
    active = None if held.live is None else held.live + (held.pending or 0)
    return {
        "reserved": held.reserved,
        "allocated": held.live,
        "active": active,
        "pending": held.pending,
        "cached": None if held.reserved is None or active is None else held.reserved - active,
        "releasable": e.releasable,
        "stranded": e.census.stranded if e.census is not None else None,
        "largest_free_if_idle": e.largest_free,
    }


def _healthy(e: Evidence) -> str:
    """The gap between reserved and allocated, in figures: cache, not a leak."""
    cached = (e.idle or 0) - (e.pending or 0)
    held = f"{sized(e.reserved)} are reserved, {sized(e.allocated)} live"
    waits = f", {sized(e.pending)} freed and still in use by streams" if e.pending else ""
    return f"{held}{waits}; the {sized(cached)} between are cache, reused as the program goes on"


def _judged(incident: Incident, e: Evidence) -> Finding | None:
    """What an incident says of a device: of which, where there are several; never certain where what was there before is not known."""
    found = incident.judge(e)
    if found is None:
        return None
    doubtful = not e.whole or _contradiction(e) is not None
    if doubtful and found.name not in _ALONE and found.certainty == "certain":
        found = msgspec.structs.replace(found, certainty="possible")
    if e.devices > 1:
        found = msgspec.structs.replace(
            found, message=f"device {e.device}: {found.message}", evidence={"device": e.device, **found.evidence}
        )
    return found


def _contradiction(e: Evidence) -> str | None:
    """What of the figures cannot be true together; None where nothing speaks against them."""
    if e.census is not None and e.census.orphans > 0:
        return f"segments for {sized(e.census.orphans)} of live blocks"
    if None not in (e.peak, e.peak_reserved) and (e.peak or 0) > (1 + _ROUNDED) * (e.peak_reserved or 0):
        return f"how {sized(e.peak)} could be live at one time in {sized(e.peak_reserved)} reserved"
    if e.allocated is not None and e.reserved is not None and e.allocated > (1 + _ROUNDED) * e.reserved:
        return f"how {sized(e.allocated)} can be live in {sized(e.reserved)} reserved"
    if e.free is not None and e.total is not None and e.free > (1 + _ROUNDED) * e.total:
        return f"how {sized(e.free)} can be free of {sized(e.total)}"
    return None


def _unseen(e: Evidence) -> tuple[Unseen, ...]:
    """What could not be judged, and what would let it be."""
    contradiction = _contradiction(e)
    if e.tape is None:
        return (
            (Unseen("ledger", (contradiction,), "its figures contradict each other: record the heap itself"),)
            if contradiction
            else ()
        )
    advice = _OURS if e.framework == "forebay" else _RECORD
    sees = e.tape.sees | {Sees.SEGMENTS} if e.census is not None else e.tape.sees  # a heap without its history
    out = []
    for incident in INCIDENTS:
        lacks: tuple[str, ...] = tuple(sorted(str(need) for need in incident.needs - sees))
        if not lacks and not e.whole and incident.needs:
            lacks = ("beginning",)
        if not lacks and "segments" in incident.needs and contradiction:
            lacks, advice = (contradiction,), "the history lacks rows: take a new one, with a longer ring"
        if lacks:
            out.append(Unseen(incident.name, lacks, advice))
    return tuple(out)


def _diagnosed(each: Sequence[Evidence], tape: Tape | None = None) -> Diagnosis:
    """The verdict over the devices of an artifact, that of the first refusal first."""
    first = each[0]
    cause = cause_of(first)
    found = [finding for e in each for incident in INCIDENTS if (finding := _judged(incident, e)) is not None]
    found.sort(key=lambda finding: _rank(finding, cause.name if cause else None))
    found[:1] = [_with_cap(found[0], found[1:])] if found else []
    unseen = tuple(dict.fromkeys(unseen for e in each for unseen in _unseen(e)))
    gravest = found[0].name if found and found[0].severity == "error" else None
    verdict = gravest if gravest is not None or not unseen else CANNOT_TELL
    if gravest is not None:
        why = [found[0].message]
    elif unseen:
        lacks = ", ".join(dict.fromkeys(need for u in unseen for need in u.needs))
        why = [f"it does not show {lacks}: {unseen[0].advice}"]
    else:
        why = [_healthy(e) if len(each) == 1 else f"device {e.device}: {_healthy(e)}" for e in each]
    decided = bool(found) and found[0].certainty == "certain"
    why += filter(None, [misleads(first, decided=decided), _of_order(tape)])
    return Diagnosis(verdict, tuple(found), tuple(why), _ledger(first), unseen, _gauges(first))


def _with_cap(first: Finding, others: Sequence[Finding]) -> Finding:
    """The verdict, whose remedy names the cap too where a stated one refused for certain what the card had room for."""
    for other in others:
        if other.name == "capped-oom" and other.certainty == "certain" and other.evidence.get("allowed_bytes") is not None:
            return msgspec.structs.replace(
                first, remedy=f"{first.remedy}; or {other.remedy.removesuffix(', or need less at once')}"
            )
    return first


def _of_order(tape: Tape | None) -> str | None:
    """What is to be said of order, which the doctor does not judge; None where the tape shows none, or all of it is sound."""
    if tape is None or not {Sees.WORK, Sees.USES, Sees.EDGES} <= tape.sees:
        return None
    if len(tape) > _MOST_ORDERED:
        return "this judges memory; whether all accesses are ordered `forebay check FILE` tells"
    pairs, certain = unordered(tape)
    if not pairs:
        return None
    told = f"{pairs:,} pairs of accesses" if pairs > 1 else "a pair of accesses"
    return (
        f"this judges memory; order is another matter, and not sound: {told} to the same bytes that nothing orders, {certain:,} for "
        "certain. `forebay check FILE` names them"
    )


def diagnose(tape: Tape) -> Diagnosis:
    """What a tape shows. Without a history only what the heap alone says can be told; of a log what its first failure says."""
    if tape.provenance.get("format") == "log-text":
        found = diagnose_line(failure_of(tape))
        return replace(found, why=(*found.why, *_others(tape)))
    return _diagnosed(from_tape(tape), tape)


def _others(tape: Tape) -> list[str]:
    """What else a log tells, beside its first failure."""
    count, line = tape.provenance.get("others", 0), tape.provenance.get("other_line")
    if not count:
        return []
    if count == 1:
        return [f"and 1 more line of this log tells of memory that ran out: line {line}"]
    return [f"and {count:,} more lines of this log tell of memory that ran out, the first at line {line}"]


def diagnose_line(line: OutOfMemory | CaptureError) -> Diagnosis:
    """What one failure of a log shows. What is not certain ends with the command that would make it so."""
    found = _diagnosed([from_line(line)])
    first = found.findings[0]
    if first.certainty == "certain":
        return found
    remedy = f"{first.remedy}. To be sure: {_surer(line)}"
    return replace(found, findings=(msgspec.structs.replace(first, remedy=remedy), *found.findings[1:]))


def _surer(line: OutOfMemory | CaptureError) -> str:
    if isinstance(line, CaptureError):
        return "run it with CUDA_LOG_FILE=cuda.log (CUDA 13), or look for the first error before this line: `grep -n CUDA LOG | head`"
    if line.framework in ("pinned-host", "tensorflow-host"):
        return "free -g; ulimit -l"
    if from_line(line).pageable:
        return "free -g; ulimit -v"
    if line.framework.startswith(("pytorch", "torch")) and line.framework != "pytorch-mps":
        memory = "torch.npu.memory" if line.framework == "torch_npu" else "torch.cuda.memory"
        return f"{memory}._record_memory_history() at the start, {memory}._dump_snapshot(FILE) at the error, then `forebay doctor FILE`"
    if line.framework == "pytorch-mps":
        return "print(torch.mps.driver_allocated_memory(), torch.mps.current_allocated_memory()) before the failing line"
    return "nvidia-smi --query-compute-apps=pid,used_memory --format=csv -l 1, while it runs up to the error"
