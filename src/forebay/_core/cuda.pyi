"""The driver over libcuda."""

from collections.abc import Sequence

import forebay._core.driver


class CudaDriver(forebay._core.driver.Driver):
    """The devices of this machine, through a libcuda found at run time."""

    def __init__(self, library: str = 'libcuda.so.1') -> None:
        """
        `library` is a path, or what the loader looks for. Raises NotSupported, saying what is missing.
        """

    def adopt_stream(self, device: int, stream: int) -> int:
        """
        Lets a stream through that somebody else made; returns its id. Raises DriverError.
        """

    def forget_stream(self, device: int, stream: int) -> None:
        """Before that stream is destroyed."""

    def stay(self, device: int) -> bool:
        """The device's context is this thread's from now on; whether it is."""

    def fault_of(self, device: int) -> forebay._core.driver.Status:
        """Why no call reaches the device any more, or ok."""

def issue(driver: forebay._core.driver.Driver, device: int, stream: int, name: str, uses: list, run: object) -> None:
    """
    Work that `run`, a callable without arguments, issues on the stream's handle. `uses` are (address, size, mode, space), the last two as numbers.
    """

def capsule(address: int, shape: Sequence[int], code: int, bits: int, device: int, owner: object) -> object:
    """Device memory as a DLPack capsule of an unversioned tensor."""
