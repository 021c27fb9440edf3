"""tape: what a GPU program did, one event a row. The one schema that sources and the runtime write and everything else reads.

It holds no analysis: folding rows into facts is views'.
"""

from forebay.tape.events import COLUMNS, Extent, Flag, Kind, Mode, Space, StreamClass, fills
from forebay.tape.notation import format_lines, format_tape
from forebay.tape.parse import parse
from forebay.tape.rows import Frame, Pool, Sees, Sides, Sites, Stream, Tape, Thread, Uses

__all__ = [
    "COLUMNS",
    "Extent",
    "Flag",
    "Frame",
    "Kind",
    "Mode",
    "Pool",
    "Sees",
    "Sides",
    "Sites",
    "Space",
    "Stream",
    "StreamClass",
    "Tape",
    "Thread",
    "Uses",
    "fills",
    "format_lines",
    "format_tape",
    "parse",
]
