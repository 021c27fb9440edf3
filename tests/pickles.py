"""pickles: what Python's own unpickler makes of a snapshot when it refuses every class. The oracle of the native reader."""

import io
import lzma
import pickle
from pathlib import Path


class Refused(Exception):
    """The pickle names something that would be imported."""


class RefusingUnpickler(pickle.Unpickler):
    """Builds plain values only."""

    def find_class(self, module, name):
        raise Refused(f"{module}.{name}")

    def persistent_load(self, pid):
        raise Refused(str(pid))


def plain(data: bytes):
    """The value of a pickle, by the oracle."""
    return RefusingUnpickler(io.BytesIO(data)).load()


def bytes_of(path: Path) -> bytes:
    """A snapshot's pickle, unpacked."""
    return lzma.decompress(path.read_bytes())


class _SlowUnpickler(pickle._Unpickler):
    """The one written in Python: a memo index of 2**32 costs it nothing, as it does the one in C."""

    def find_class(self, module, name):
        raise Refused(f"{module}.{name}")


def plain_slowly(data: bytes):
    """The value of a hostile pickle, by an oracle that it cannot make allocate."""
    return _SlowUnpickler(io.BytesIO(data)).load()
