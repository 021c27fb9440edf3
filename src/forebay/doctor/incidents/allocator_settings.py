"""What it is: allocator settings that are ignored, work against each other, or do not fit the program.

Why it matters: a setting that does nothing gives false safety; expandable_segments with max_split_size_mb makes reserved memory grow
without end (pytorch#193400); a garbage collection threshold without a memory fraction is never looked at.

Instead: one setting at a time, checked with `forebay whatif`, read back from a snapshot.
"""

from forebay.doctor.evidence import Evidence
from forebay.doctor.figures import IncidentFigures
from forebay.doctor.saying import found
from forebay.finding import Bytes, Finding
from forebay.tape import Sees
from forebay.whatif.settings import DEFAULTS, AllocatorSettings

NAME = "allocator-settings"
NEEDS = frozenset[Sees]()


class Figures(IncidentFigures, frozen=True, kw_only=True):
    """What was set."""

    max_split_size_bytes: Bytes | None = None
    gc_threshold: float | None = None
    ignored: tuple[str, ...] = ()


def judge(e: Evidence) -> Finding | None:
    """Settings in force that conflict, or that cannot have had an effect."""
    if e.run is None:
        return None
    told = e.run.settings
    if told.grows_without_end:
        return found(
            NAME,
            "expandable_segments and max_split_size_mb are set together: large free ranges are never reused, new pages are mapped instead",
            "keep one of the two; `forebay whatif FILE --settings …` shows which",
            Figures(max_split_size_bytes=told.max_split_size),
            certain=True,
        )
    if told.collects_nothing and not e.run.presses and not e.refused:
        return found(
            NAME,
            f"garbage_collection_threshold:{told.gc_threshold:g} is set, and nothing was collected: it needs a memory fraction below 1",
            "set torch.cuda.set_per_process_memory_fraction as well, or drop the threshold",
            Figures(gc_threshold=told.gc_threshold),
            certain=False,
            severity="warning",
        )
    if e.run.asked is not None and (ignored := _ignored(e.run.asked, told)):
        return found(
            NAME,
            f"the variable asks for {', '.join(ignored)}, and that is not what is in force",
            "set it before the first allocation, by the name that this version reads, and look for a warning that it is not supported",
            Figures(ignored=tuple(ignored)),
            certain=False,
            severity="warning",
        )
    return None


def _ignored(asked: AllocatorSettings, told: AllocatorSettings) -> list[str]:
    """Settings that were asked for and are not in force."""
    pairs = {
        "expandable_segments": (asked.expandable_segments, told.expandable_segments),
        "max_split_size_mb": (asked.max_split_size, told.max_split_size),
        "garbage_collection_threshold": (asked.gc_threshold, told.gc_threshold),
        "roundup_power2_divisions": (asked.roundup_divisions, told.roundup_divisions),
    }
    return [
        name for name, (wanted, got) in pairs.items() if wanted != got and wanted not in (None, 0.0, DEFAULTS.roundup_divisions)
    ]
