"""artifact: the tape that an argument of a command names: a file, `example:NAME`, or `-`, what comes on standard input. Formats are
sources'."""

from __future__ import annotations

import sys

from forebay.errors import BadInput
from forebay.sources import open_artifact, open_bytes
from forebay.tape import Tape

__all__ = ["STDIN", "opened"]

STDIN = "-"
_MOST = 1 << 30  # bytes that are read from standard input


def opened(name: str) -> Tape:
    """The tape of an argument. Raises BadInput, one line that begins with the argument."""
    if name != STDIN:
        return open_artifact(name)
    if sys.stdin is None:
        raise BadInput(f"{STDIN}: standard input is closed: hand over an artifact there, or the name of its file")
    data = sys.stdin.buffer.read(_MOST + 1)
    if len(data) > _MOST:
        raise BadInput(f"{STDIN}: more than {_MOST:,} bytes on standard input: hand over the name of the file")
    return open_bytes(STDIN, data)
