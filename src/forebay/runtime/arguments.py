"""arguments: numbers, sizes and names as programs give them, checked before they reach the core. Each refusal is one line of BadInput.

What an argument means is its function's; text of sizes is units.py's.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import DTypeLike

from forebay.errors import BadInput
from forebay.units import parse_size

__all__ = ["MOST", "byte_count", "count", "label", "layout", "nanoseconds", "title"]

MOST: Final = 2**63 - 1  # of bytes, nanoseconds and numbers: what every column and every driver holds
_LONGEST_WAIT: Final = 10**9  # seconds: thirty years, and far below what overflows


def count(value: object, what: str, least: int = 0, most: int = MOST) -> int:
    """`value` as a whole number from `least` to `most`. Raises BadInput, naming `what`."""
    try:
        number = None if isinstance(value, bool) else operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        number = None
    if number is None:
        raise BadInput(f"{what}: {_shown(value)} is no whole number; give one from {least} to {most}")
    if not least <= number <= most:
        raise BadInput(f"{what}: {_shown(number)} is out of range; give a number from {least} to {most}")
    return number


def byte_count(value: object, what: str, least: int = 0) -> int:
    """The same for bytes, given as a number or as text such as "40GiB"."""
    if not isinstance(value, str):
        return count(value, what, least)
    try:
        return count(parse_size(value), what, least)
    except ValueError as error:
        raise BadInput(f"{what}: {error}") from None


def nanoseconds(seconds: object, what: str) -> int:
    """Seconds, whole or not, from 0 to thirty years, in nanoseconds. Raises BadInput, naming `what`."""
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 <= seconds <= _LONGEST_WAIT:
        raise BadInput(f"{what}: {_shown(seconds)} is no time to wait; give seconds from 0 to {_LONGEST_WAIT}")
    return round(seconds * 1e9)


def label(value: object, what: str) -> str:
    """`value` where it is text that can be written to a tape. Raises BadInput, naming `what`."""
    if isinstance(value, str) and (value.isascii() or not any("\ud800" <= c <= "\udfff" for c in value)):
        return value
    raise BadInput(f"{what}: {_shown(value)} is no text that can be written; give a str without lone surrogates")


def title(value: object, what: str) -> str:
    """The same for what a thing goes by in messages, reports and contracts: it must show. Raises BadInput for one that is blank."""
    text = label(value, what)
    if not text.strip():
        raise BadInput(f"{what}: {_shown(text)} is blank; give it a name that a reader of a report can find again")
    return text


def layout(dtype: DTypeLike, shape: object) -> tuple[np.dtype[Any], tuple[int, ...], int]:
    """The dtype, the sides and the bytes of a C-contiguous array. Raises BadInput where there is no such array of plain bytes."""
    try:
        kind = np.dtype(dtype)
    except (TypeError, ValueError):
        raise BadInput(f"dtype {_shown(dtype)}: NumPy knows none of that name") from None
    if kind.hasobject or kind.itemsize == 0:
        raise BadInput(f"dtype {kind}: not of plain bytes; give one of a fixed size without Python objects")
    if not isinstance(shape, Sequence) or isinstance(shape, str):
        shape = (shape,)
    sides = tuple(count(side, "shape") for side in shape)
    return kind, sides, kind.itemsize * math.prod(sides)


def _shown(value: object) -> str:
    text = ascii(value)
    return text if len(text) <= 60 else text[:57] + "..."
