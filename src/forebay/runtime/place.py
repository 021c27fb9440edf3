"""place: where the program is, in words: the nearest frame that is not this package's runtime."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Final

from forebay.runtime.recorder import own_files

__all__ = ["program_line"]

_OWN: Final = tuple(own_files())


def program_line() -> str:
    """ "file:line" of the program's innermost frame on this thread; "an unknown place" where there is none."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if not frame.f_code.co_filename.startswith(_OWN) and not frame.f_code.co_filename.endswith("contextlib.py"):
            return f"{frame.f_code.co_filename}:{frame.f_lineno}"
        frame = frame.f_back
    return "an unknown place"
