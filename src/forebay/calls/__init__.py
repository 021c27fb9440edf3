"""calls: what each call of the CUDA driver and runtime is on a tape, and what it does to the host. Facts only, in one table.

Which captures those facts break is capture_law's; reading calls out of a trace is the sources'.

>>> free = lookup("cudaFree_v3020")
>>> free.kind.name, free.waits.value, free.implied, free.inside.code("global")
('release', 'the device', True, 900)
>>> lookup("cudaMemcpyAsync_ptsz").default.name
'per_thread'
"""

import re
from dataclasses import replace
from typing import Final

from forebay._core.tape import StreamClass
from forebay.calls.entry import Call, Condition, Law, Place, Waits
from forebay.calls.graphs import GRAPHS
from forebay.calls.memory import MEMORY
from forebay.calls.ordering import ORDERING
from forebay.calls.work import WORK

__all__ = ["CALLS", "Call", "Condition", "Law", "Place", "Waits", "lookup", "stem"]

CALLS: Final[dict[str, Call]] = {call.name: call for call in (*MEMORY, *WORK, *ORDERING, *GRAPHS)}

# Traces name entry points: cudaMalloc_v3020, cuMemAlloc_v2, cudaMemcpyAsync_ptsz, cudaMemcpy_v3020_ptds, cuStreamWaitEvent_ptsz.
_SUFFIXES = re.compile(r"(?:_v\d+|_ptsz|_ptds)+$")


def stem(name: str) -> str:
    """A call's name without the version and stream suffixes of its entry point.

    >>> stem("cuMemAlloc_v2"), stem("cudaLaunchKernel_ptsz_v7000"), stem("cudaMalloc")
    ('cuMemAlloc', 'cudaLaunchKernel', 'cudaMalloc')
    """
    return _SUFFIXES.sub("", name)


def lookup(name: str) -> Call | None:
    """The facts on a call by the name of any of its entry points; None where the table does not have it.

    An entry point that ends in _ptds or _ptsz takes the calling thread's default stream for handle 0.
    """
    call = CALLS.get(stem(name))
    if call is not None and re.search(r"_pt[sd][zs]", name):
        return replace(call, default=StreamClass.per_thread)
    return call
