"""What calls and pools cost."""

from collections.abc import Sequence

import forebay._core.driver


class Number:
    """One figure: nanoseconds of a call, one sample a round."""

    @property
    def name(self) -> str: ...

    @property
    def on_host_clock(self) -> bool: ...

    @property
    def samples(self) -> list[float]: ...

    @property
    def calls(self) -> int:
        """Timed, over all samples."""

    @property
    def status(self) -> str: ...

def numbers(driver: forebay._core.driver.Driver, device: int, rounds: int) -> list[Number]:
    """
    What single calls cost, on a simulated driver or libcuda's. Raises DriverError where none can be made.
    """

DECODE_KERNELS: int = 300

def pool_pairs(driver: forebay._core.driver.Driver, device: int, *, bytes: int, threads: int, pairs: int, rounds: int) -> list[float]:
    """
    Wall nanoseconds of an allocation and its free through our pool, one sample a round.
    """

def driver_pool_pairs(driver: forebay._core.driver.Driver, device: int, *, bytes: int, threads: int, pairs: int, rounds: int) -> list[float]:
    """The same through DriverPool."""

def c_pairs(driver: forebay._core.driver.Driver, alloc: int, free: int, device: int, streams: Sequence[int], *, bytes: int, pairs: int, rounds: int) -> list[float]:
    """
    The same through two C functions, given by their addresses, with the interface of a pluggable allocator; a thread a stream. Empty where an allocation failed.
    """

def libc_pairs(*, bytes: int, threads: int, pairs: int, rounds: int) -> list[float]:
    """malloc and free, to compare with."""
