"""
PyTorch's allocator: its size rules, and heaps along recorded histories.
"""

from collections.abc import Sequence
import enum
from typing import Annotated

import numpy
from numpy.typing import NDArray


class PoolKind(enum.IntEnum):
    """PyTorch's two pools a device."""

    small = 0

    large = 1

class Settings:
    """PyTorch's allocator settings that decide sizes, in bytes."""

    def __init__(self) -> None: ...

    @property
    def max_split_size(self) -> int | None: ...

    @max_split_size.setter
    def max_split_size(self, arg: int | None, /) -> None: ...

    @property
    def large_segment_size(self) -> int: ...

    @large_segment_size.setter
    def large_segment_size(self, arg: int, /) -> None: ...

    @property
    def max_non_split_rounding(self) -> int: ...

    @max_non_split_rounding.setter
    def max_non_split_rounding(self, arg: int, /) -> None: ...

    @property
    def roundup_divisions(self) -> list[int]: ...

    @roundup_divisions.setter
    def roundup_divisions(self, arg: Sequence[int], /) -> None: ...

    @property
    def gc_threshold(self) -> float: ...

    @gc_threshold.setter
    def gc_threshold(self, arg: float, /) -> None: ...

    @property
    def memory_fraction(self) -> float: ...

    @memory_fraction.setter
    def memory_fraction(self, arg: float, /) -> None: ...

    @property
    def expandable_segments(self) -> bool: ...

    @expandable_segments.setter
    def expandable_segments(self, arg: bool, /) -> None: ...

def rounded_size(requested: int, settings: Settings) -> int:
    """Bytes of the block for a request, before any unsplit tail."""

def pool_of(rounded: int) -> PoolKind:
    """Which pool serves a rounded request."""

def segment_size(rounded: int, settings: Settings) -> int:
    """Bytes of the driver segment that a miss takes."""

def page_size(pool: PoolKind, settings: Settings) -> int:
    """Bytes of a page of an expandable segment."""

def may_serve(rounded: int, block: int, settings: Settings) -> bool:
    """Whether a free block may serve a request at all."""

def splits(rounded: int, block: int, pool: PoolKind, expandable: bool, settings: Settings) -> bool:
    """Whether the rest of the block is split off and stays free."""

class Reuse(enum.Enum):
    """When freed bytes may be used again."""

    at_free = 0

    at_reclaim = 1

class Fold:
    """The heap of one device along its rows."""

    def __init__(self, segments: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)], blocks: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)], reuse: Reuse) -> None: ...

    def run(self, kind: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)], address: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order='C', device='cpu', writable=False)], size: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order='C', device='cpu', writable=False)], requested: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order='C', device='cpu', writable=False)], stream: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu', writable=False)], pool: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu', writable=False)], site: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> tuple:
        """
        Bytes reserved, allocated, active and requested after each row, in four arrays.
        """

    def segments(self) -> Annotated[NDArray[numpy.uint8], dict(shape=(None,))]: ...

    def blocks(self) -> Annotated[NDArray[numpy.uint8], dict(shape=(None,))]: ...

    def totals(self) -> dict:
        """
        Levels now and at their peaks, and counts of driver calls, allocs and misfits.
        """

def settle(action: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)], has_owner: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)], address: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order='C', device='cpu', writable=False)], size: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order='C', device='cpu', writable=False)], stream: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu', writable=False)], owner: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu', writable=False)], site: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu', writable=False)], segments: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)], blocks: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)], settings: Settings) -> dict:
    """
    One device's recorded history, settled against the heap it ends with: block sizes with unsplit tails, pools,
    the heap before the first event, events that do not fit, and whether the run forwards ends `exact`.
    """
