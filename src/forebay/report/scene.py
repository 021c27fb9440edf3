"""scene: a drawing as plain shapes in pixels: what dag_rows.py and dag_steps.py make, and svg.py writes. It knows no tape."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

__all__ = ["CHAR", "LANE", "LEFT", "TOP", "Arrow", "Band", "Box", "Glyph", "Lane", "Mark", "Scene", "shortened"]

# Pixels. The letters of labels are of one width, so that a label's room is known without a font.
CHAR: Final = 6.7
LEFT: Final = 150.0
TOP: Final = 92.0
LANE: Final = 84.0

Glyph = Literal["record", "wait", "alloc", "free", "lend", "host"]


@dataclass(frozen=True, slots=True)
class Lane:
    """One actor: a stream or a host thread. `y` is the middle of its line."""

    name: str
    says: str
    y: float


@dataclass(frozen=True, slots=True)
class Band:
    """A stretch of the drawing with a name above it: a region, a step."""

    name: str
    x: float
    width: float
    level: int = 0
    says: str = ""


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle with lines of text. `look` are style classes, `rows` the rows of the tape that it stands for."""

    x: float
    y: float
    width: float
    height: float
    look: str
    lines: tuple[str, ...]
    tip: str
    rows: str = ""


@dataclass(frozen=True, slots=True)
class Mark:
    """A small sign on a lane, its label below it."""

    x: float
    y: float
    glyph: Glyph
    look: str
    label: str
    tip: str
    rows: str = ""


@dataclass(frozen=True, slots=True)
class Arrow:
    """From one point to another. Points of one height are joined by an arc above them."""

    start: tuple[float, float]
    end: tuple[float, float]
    look: str
    tip: str
    label: str = ""
    rows: str = ""


@dataclass(frozen=True, slots=True)
class Scene:
    """Everything that is drawn. `notes` are the lines of text below it, each with the style of its first word."""

    title: str
    says: str
    width: float
    lanes: Sequence[Lane]
    bands: Sequence[Band] = ()
    boxes: Sequence[Box] = ()
    marks: Sequence[Mark] = ()
    arrows: Sequence[Arrow] = ()
    axis: str = ""
    ticks: Sequence[tuple[float, str]] = ()
    notes: Sequence[tuple[str, str]] = field(default=())


def shortened(text: str, most: int) -> str:
    """At most so many letters, the middle left out: both ends of a kernel's name tell something.

    >>> shortened("fused_attention_kernel", 12)
    'fused_…ernel'
    """
    if len(text) <= most:
        return text
    tail = (most - 1) // 2
    return f"{text[: most - 1 - tail]}…{text[len(text) - tail :]}"
