"""PyTorch's caching allocator, emulated, fed with histories."""

from collections.abc import Sequence
import enum
from typing import Annotated

import numpy
from numpy.typing import NDArray

import forebay._core.emulate


class Limits:
    """
    Bytes: what the memory fraction allows, what the driver can give, what the device has. None: no limit. `routing_is_capture`: up to torch 2.12 nothing is released for a request to a private pool.
    """

    def __init__(self, *, cap: int | None = None, capacity: int | None = None, device_total: int | None = None, routing_is_capture: bool = True) -> None: ...

class Addresses:
    """Where new segments lie: which of equally large free blocks is lowest."""

    @property
    def name(self) -> str: ...

    @staticmethod
    def recorded(addresses: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> Addresses:
        """The recorded addresses of segment_alloc and segment_map, in order."""

    @staticmethod
    def driver(addresses: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order='C', device='cpu', writable=False)], sizes: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> Addresses:
        """
        As the CUDA driver hands them out, the recorded segments first as long as the replay makes the same.
        """

    @staticmethod
    def descending() -> Addresses: ...

    @staticmethod
    def ascending() -> Addresses: ...

    @staticmethod
    def shuffled(seed: int) -> Addresses: ...

class Step(enum.IntEnum):
    """What the program did: the codes of History's `step`."""

    alloc = 0

    free = 1

    request = 2

    complete = 3

    flush = 4

    refused = 5

    burst = 6

class History:
    """
    What a program asked of its allocator, step by step. Raises ValueError, naming the first step that makes no sense.
    """

    def __init__(self, *, step: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)], handle: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu', writable=False)], place: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu', writable=False)], bytes: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order='C', device='cpu', writable=False)], handles: int, places: Sequence[tuple[int, int]], pools: Sequence[tuple[bool, bool]]) -> None: ...

    def __len__(self) -> int: ...

class Outcome:
    """
    What would have happened. Bytes and counts; arrays are of one length each.
    """

    @property
    def oom(self) -> int | None: ...

    @property
    def steps(self) -> int: ...

    @property
    def reserved(self) -> int: ...

    @property
    def allocated(self) -> int: ...

    @property
    def peak_reserved(self) -> int: ...

    @property
    def peak_allocated(self) -> int: ...

    @property
    def peak_active(self) -> int: ...

    @property
    def peak_requested(self) -> int: ...

    @property
    def driver_allocs(self) -> int: ...

    @property
    def driver_frees(self) -> int: ...

    @property
    def retries(self) -> int: ...

    @property
    def ooms(self) -> int: ...

    @property
    def idle_free(self) -> int: ...

    @property
    def idle_releasable(self) -> int: ...

    @property
    def largest_free(self) -> int: ...

    @property
    def sample_step(self) -> Annotated[NDArray[numpy.uint64], dict(shape=(None,))]: ...

    @property
    def sample_reserved(self) -> Annotated[NDArray[numpy.uint64], dict(shape=(None,))]: ...

    @property
    def sample_allocated(self) -> Annotated[NDArray[numpy.uint64], dict(shape=(None,))]: ...

    @property
    def sample_largest_free(self) -> Annotated[NDArray[numpy.uint64], dict(shape=(None,))]: ...

    @property
    def served_at(self) -> Annotated[NDArray[numpy.uint64], dict(shape=(None,))]: ...

    @property
    def event_step(self) -> Annotated[NDArray[numpy.uint64], dict(shape=(None,))]: ...

    @property
    def event_action(self) -> Annotated[NDArray[numpy.uint8], dict(shape=(None,))]: ...

    @property
    def event_address(self) -> Annotated[NDArray[numpy.uint64], dict(shape=(None,))]: ...

    @property
    def event_size(self) -> Annotated[NDArray[numpy.uint64], dict(shape=(None,))]: ...

class SegmentAction(enum.IntEnum):
    """The codes of Outcome's `event_action`."""

    alloc = 0

    free = 1

    map = 2

    unmap = 3

def replay(history: History, settings: forebay._core.emulate.Settings, limits: Limits, addresses: Addresses, *, samples: int = 256) -> Outcome:
    """
    The history under these settings; `samples` points of it along the way.
    """

def flushes(history: History, settings: forebay._core.emulate.Settings, limits: Limits, addresses: Addresses) -> list[int]:
    """
    Of each burst of the history, in order, whether it was a flush (1) or the next request's own doing (0).
    """

def replay_traced(history: History, settings: forebay._core.emulate.Settings, limits: Limits, addresses: Addresses) -> Outcome:
    """
    The same with every address given out and every segment event, to be compared with a recording.
    """
