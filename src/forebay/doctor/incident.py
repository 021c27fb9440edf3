"""incident: the table of incidents. Each is a file under incidents/ with its page (the docstring), its name and its judgement."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import ModuleType
from typing import Final, NamedTuple

from forebay.doctor.evidence import Evidence
from forebay.doctor.figures import IncidentFigures
from forebay.doctor.incidents import (
    allocator_settings,
    capacity_oom,
    capped_oom,
    checkerboard_fragmentation,
    deferred_frees,
    dirty_capture,
    driver_churn,
    empty_cache_smell,
    graph_pool_hoard,
    impossible_request,
    memory_growth,
    outside_allocator,
    oversubscribed,
    pinned_overhead,
    stranded_stream_cache,
    unknown,
)
from forebay.finding import Finding
from forebay.tape import Sees

__all__ = ["INCIDENTS", "Incident"]


class Incident(NamedTuple):
    """What can be told from the evidence: its name, its page for people, its judgement (None: not this), what a tape must see for it to
    be judged where nothing was refused, and what its evidence can hold."""

    name: str
    page: str
    judge: Callable[[Evidence], Finding | None]
    needs: frozenset[Sees]
    figures: type[IncidentFigures]


def _incident(module: ModuleType) -> Incident:
    return Incident(module.NAME, inspect.getdoc(module) or "", module.judge, module.NEEDS, module.Figures)


# In the order in which they are shown where nothing else ranks them: causes of a refusal first.
INCIDENTS: Final = tuple(
    map(
        _incident,
        (
            impossible_request,
            oversubscribed,
            checkerboard_fragmentation,
            deferred_frees,
            stranded_stream_cache,
            graph_pool_hoard,
            capped_oom,
            outside_allocator,
            capacity_oom,
            pinned_overhead,
            dirty_capture,
            memory_growth,
            empty_cache_smell,
            driver_churn,
            allocator_settings,
            unknown,
        ),
    )
)
