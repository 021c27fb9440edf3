"""line_evidence: the evidence in one out-of-memory line of a log: what it states, and what follows from that by arithmetic.

A tape's evidence is heap_evidence.py's.
"""

from __future__ import annotations

from forebay.doctor.evidence import Broken, Evidence, Held, Longest, outside_pools
from forebay.sources.log_text import CaptureError, OutOfMemory

__all__ = ["from_line"]


def from_line(found: OutOfMemory | CaptureError) -> Evidence:
    """The evidence in one failure of a log."""
    if isinstance(found, CaptureError):
        return Evidence(capture=Broken(found.code, found.name, found.says, line=found.line))
    return _out_of_memory(found)


def _out_of_memory(found: OutOfMemory) -> Evidence:
    """What a line states. A process that is shown by its number only (in a container) is this one where its bytes are
    nearest to what the allocator holds."""

    def stated(name: str) -> int | None:
        value = found.figures.get(name)
        return value if isinstance(value, int) else None

    allocated, idle, active = stated("allocated_bytes"), stated("reserved_unallocated_bytes"), stated("active_bytes")
    pending = max(0, active - allocated) if active is not None and allocated is not None else None
    reserved = _first(stated("reserved_total_bytes"), stated("pool_current_bytes"), stated("allocator_bytes"))
    if reserved is None and stated("limit_bytes") is not None:
        reserved = stated("allocated_so_far_bytes")  # CuPy's pool, against the limit that it names
    # Metal counts what others of the process took from it beside the allocator's own: held, and not idle.
    beside = _first(idle, stated("other_bytes"))
    if reserved is None and allocated is not None and beside is not None:
        reserved = allocated + beside
    if idle is None and reserved is not None and allocated is not None and stated("other_bytes") is None:
        idle = max(0, reserved - allocated)
    others, process = _processes(found, reserved)
    total, used, beyond = stated("total_bytes"), stated("used_bytes"), stated("exceeded_bytes")
    rest = total - used if total is not None and used is not None and beyond is None else None
    if reserved is None and found.framework == "vllm":
        reserved = 0  # it refused before it had taken anything
    return Evidence(
        device=stated("device") or 0,
        framework=found.framework,
        refused=True,
        # A compiler says what it needs in all, a server what it wants for its cache: what is beyond is the request.
        request=_first(stated("tried_bytes"), stated("tensor_bytes"), beyond, stated("desired_bytes"), stated("kv_needed_bytes")),
        request_signed=stated("tried_bytes_signed"),
        free=_first(stated("free_bytes"), rest, stated("kv_available_bytes"), 0 if beyond is not None else None),
        total=total if beyond is None else None,
        allowed=_first(stated("allowed_bytes"), stated("limit_bytes"), stated("pool_max_bytes")),
        reserved=reserved,
        allocated=allocated,
        idle=idle,
        pending=pending,
        held=Held(reserved, allocated, idle, pending),
        private=stated("private_pool_bytes"),
        others=others,
        outside=outside_pools(process, reserved),
        capped="limit_reached" in found.figures,
        longest=None if (fits := stated("estimated_max_len")) is None else Longest(fits, stated("max_seq_len")),
        host_call=found.framework in ("pinned-host", "tensorflow-host"),
        pageable=found.framework == "pytorch-cpu" or (found.framework == "torch7" and stated("tried_bytes") is not None),
        request_beyond=beyond_all if isinstance(beyond_all := found.figures.get("tried_beyond"), str) else None,
        advice=advice if isinstance(advice := found.figures.get("advice"), str) else None,
    )


def _first(*values: int | None) -> int | None:
    return next((value for value in values if value is not None), None)


def _processes(found: OutOfMemory, reserved: int | None) -> tuple[int | None, int | None]:
    """Bytes of other processes together, and of this one."""
    process = found.figures.get("process_bytes")
    told = [size for _, size in found.other_processes if size is not None]
    if isinstance(process, int):
        return sum(told), process
    if "process_bytes" in found.figures or not told or reserved is None:
        return (sum(told) if told else None), None
    mine = min(told, key=lambda size: abs(size - reserved))
    return sum(told) - mine, mine
