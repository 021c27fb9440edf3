"""log_text: out-of-memory errors and broken graph captures in the text of a log, of every framework that log_formats.py knows.

A figure that the line does not state, or states as a sentinel (2**64 bytes: "not available"), is None, never zero. What the figures mean
is the doctor's.
"""

from __future__ import annotations

import codecs
import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from forebay.errors import BadInput
from forebay.sources.log_formats import CAPTURE_ERRORS, FORMATS, NOT_FAILURES, WRAPPED, Format
from forebay.tape import Kind, Sees, Sides, Tape

__all__ = ["CaptureError", "OutOfMemory", "failure_of", "first", "out_of_memory", "read", "recognises", "scan"]

_UNITS: Final = {"": 1, "b": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40, "p": 2**50, "e": 2**60}
# Most lines of a log are about something else: one cheap look before all the patterns.
_WORTH_A_LOOK: Final = re.compile(r"(?i)memor|alloc|captur|limit:|oom|seq len|buffer|ALLOC_FAILED|legacy stream|\b90[0-8]\b")
_LONGEST_LINE: Final = 20_000  # characters of a line that are looked at
_SENTINEL: Final = 2**63  # bytes from here on are a wrapped or an absent number
_OTHER_PROCESS: Final = re.compile(r"Process (\d{1,12}) has ([-+]?\d[\d.,]{0,30} {0,2}(?:bytes|[KMGT]i?B)) memory in use")
_WORDS: Final = frozenset({"op", "limit_reached", "advice"})
_TYPES: Final = {  # bytes of an element, by TensorFlow's name of its type
    **dict.fromkeys(("bool", "int8", "uint8", "qint8", "quint8"), 1),
    **dict.fromkeys(("half", "bfloat16", "int16", "uint16"), 2),
    **dict.fromkeys(("float", "int32", "uint32", "qint32"), 4),
    **dict.fromkeys(("double", "int64", "uint64", "complex64"), 8),
    "complex128": 16,
}
_RANK: Final = re.compile(r"(?i)\brank[ :=]{0,2}(\d{1,7})\b")
_COUNTS: Final = frozenset({"device", "max_seq_len", "estimated_max_len"})


@dataclass(frozen=True, slots=True)
class OutOfMemory:
    """One out-of-memory error as its framework words it.

    `figures` holds what the line states, by name: `*_bytes` in bytes, `device`, counts, `utilization`, `op`; None for a sentinel.
    `rounding` says to how many bytes each size is rounded (half a unit of its last digit). `other_processes` are pairs of process id and
    bytes. `failed` is False for a line that says itself that it is no failure. `line` counts from 1.
    """

    framework: str
    figures: dict[str, int | float | str | None]
    rounding: dict[str, int]
    other_processes: tuple[tuple[int, int | None], ...] = ()
    failed: bool = True
    line: int = 1
    text: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class CaptureError:
    """A broken stream capture: the driver's error number (900 to 908), its name, what it means. `line` counts from 1."""

    code: int
    name: str
    says: str
    line: int = 1
    text: str = field(default="", repr=False)


def _number(text: str) -> tuple[float, int] | None:
    """A number and how many decimals it shows: decimal points and commas, thousands in commas."""
    if re.fullmatch(r"\d{1,3}(,\d{3})+(\.\d+)?", text):
        text = text.replace(",", "")
    elif text.count(",") == 1 and "." not in text:
        text = text.replace(",", ".")
    if not re.fullmatch(r"[-+]?\d{1,60}(\.\d{0,12})?", text):
        return None
    return float(text), len(text.partition(".")[2])


def _bytes(text: str) -> tuple[int, int] | None:
    """Bytes of a size as printed, and to how many bytes it is rounded."""
    match = re.fullmatch(r"([-+]?[\d.,]+?)[.,]? {0,2}([A-Za-z]*)", text)
    if match is None:
        return None
    unit = _UNITS.get("" if match[2].lower() == "bytes" else match[2][:1].lower())
    digits = match[1].replace(",", "") if unit == 1 and re.fullmatch(r"\d{1,3}(,\d{3})*|\d+", match[1]) else ""
    if digits:
        return int(digits), 0
    number = _number(match[1])
    if number is None or unit is None:
        return None
    value, decimals = number
    return round(value * unit), -(-unit // (2 * 10**decimals)) if unit > 1 else 0


def _figure(name: str, found: str) -> tuple[int | float | str | None, int] | None:
    """What a figure says, and its rounding; None where it is no figure after all (a cut line)."""
    if name in _WORDS:
        return found, 0
    if name in _COUNTS:
        return int(found), 0
    if name == "utilization":
        return float(found), 0
    if name == "tensor":
        return _tensor(found)
    if "/" in found:  # "59.32/79.15 GiB": the first of two numbers that share their unit
        found = found.split("/")[0] + " " + found.rsplit(" ", 1)[-1]
    size = _bytes(found)
    if size is None:
        return None
    value, rounding = size
    if not 0 <= value < _SENTINEL or (name in ("limit_bytes", "total_bytes") and value == 0):
        return None, rounding
    return value, rounding


def _tensor(found: str) -> tuple[int, int] | None:
    """Bytes of a tensor, "[64,256] and type float"; None where nobody knows the type."""
    shape, _, kind = found.partition("] and type ")
    lengths = [int(length) for length in re.findall(r"\d+", shape)]
    size = math.prod(lengths) * _TYPES.get(kind, 0)
    return (size, 0) if 0 < size < _SENTINEL else None


def _beyond(text: str, form: Format) -> str | None:
    """A request of more bytes than any number of 64 bits holds, as it is printed."""
    for pattern in form.figures.get("tried_bytes", ()):
        if (match := pattern.search(text)) and (size := _bytes(match[1])):
            return match[1] if size[0] >= 2**64 else None
    return None


def _wrapped(text: str, form: Format) -> int | None:
    """What a request that is negative, or beyond 2**63 bytes, was before it was taken for an unsigned number."""
    for pattern in form.figures.get("tried_bytes", ()):
        if (match := pattern.search(text)) and (size := _bytes(match[1])):
            return size[0] if size[0] < 0 else size[0] - 2**64 if _SENTINEL <= size[0] < 2**64 else None
    return None


def _read(form: Format, text: str, line: int) -> OutOfMemory:
    figures: dict[str, int | float | str | None] = {}
    rounding: dict[str, int] = {}
    whole = text
    text = text.replace("\n", " ")  # a line that was wrapped reads on
    for name, patterns in form.figures.items():
        found = next((match for pattern in patterns if (match := pattern.search(text))), None)
        told = None if found is None else _figure(name, found[1])
        if told is not None:
            figures[name], rounding[name] = told
    if "tried_bytes" in form.figures:
        figures.setdefault("tried_bytes", None)
        if figures["tried_bytes"] is None and (signed := _wrapped(text, form)) is not None:
            figures["tried_bytes_signed"] = signed
        elif figures["tried_bytes"] is None and (beyond := _beyond(text, form)) is not None:
            figures["tried_beyond"] = beyond
    if "tensor" in figures:
        figures["tensor_bytes"], rounding["tensor_bytes"] = figures.pop("tensor"), rounding.pop("tensor")
    others = []
    for match in _OTHER_PROCESS.finditer(text):
        if (size := _bytes(match[2])) is not None:
            others.append((int(match[1]), size[0] if 0 <= size[0] < _SENTINEL else None))
    failed = not any(pattern.search(text) for pattern in NOT_FAILURES)
    return OutOfMemory(form.framework, figures, rounding, tuple(others), failed, line, whole)


def _recognised(text: str) -> Format | None:
    """The wording of a text: the first of the table, which goes from the particular to the general."""
    return next((form for form in FORMATS if form.recognises.search(text)), None)


def _marks(code: int) -> re.Pattern[str]:
    """What names a capture error: the runtime's name, the driver's, or its number behind a word for error."""
    runtime = CAPTURE_ERRORS[code].name
    driver = re.sub(r"(?<!^)(?=[A-Z])", "_", runtime.removeprefix("cudaError")).upper()
    return re.compile(
        rf"\b(?:{runtime}|CUDA_ERROR_{driver})\b|(?i:cuda|cu)\w{{0,20}}.{{0,40}}(?i:error|failure|code|result)\W{{1,3}}{code}\b"
    )


_CAPTURE_MARKS: Final = {code: _marks(code) for code in CAPTURE_ERRORS}


def _capture(text: str, line: int) -> CaptureError | None:
    for words, code in _CAPTURE_WORDS:
        if words in text or _CAPTURE_MARKS[code].search(text):
            return CaptureError(code, *CAPTURE_ERRORS[code], line, text)
    return None


_CAPTURE_WORDS: Final = (
    ("operation not permitted when stream is capturing", 900),
    ("operation failed due to a previous error during capture", 901),
    ("operation would result in a merge of separate capture sequences", 902),
    ("capture was not ended in the same stream as it began", 903),
    ("capturing stream has unjoined work", 904),
    ("dependency created on uncaptured work in another stream", 905),
    ("operation would make the legacy stream depend on a capturing blocking stream", 906),
    ("operation not permitted on an event last recorded in a capturing stream", 907),
    ("attempt to terminate a thread-local capture sequence from another thread", 908),
)


def out_of_memory(text: str) -> OutOfMemory | None:
    """The out-of-memory error that a text is (one line, or several of one error); None where it is none.

    A line that says itself that it is no failure comes back with `failed` False.
    """
    return next((found for found in scan(text) if isinstance(found, OutOfMemory)), None)


def _continues(form: Format, line: str) -> bool:
    """Whether a line may belong to an error of this wording: it begins none, or one that the same framework adds to it; of a line that a
    terminal wrapped, it begins nothing else either."""
    if form.more == WRAPPED and _A_RECORD.match(line):
        return False
    begun = _recognised(line)
    if begun is form and form.more == WRAPPED:
        return not _A_REFUSAL.search(line)  # what is in brackets tells the wording too, and does not begin it
    return begun is None or (begun.framework == form.framework and begun is not form)


def _window(lines: list[str], at: int, form: Format) -> str:
    last = at
    while last < at + form.more and last + 1 < len(lines) and _continues(form, lines[last + 1]):
        last += 1
    return "\n".join(lines[at : last + 1])


_A_REFUSAL: Final = re.compile(r"out of memory|Tried to allocate")
# How what a program logs next begins: a time, a level, a rank, a stack.
_A_RECORD: Final = re.compile(
    r"\s*(?:\[|\(\w{1,80} pid=|\d{4}[-/]\d|\d{1,2}:\d\d|(?i:info|warn(?:ing)?|error|debug|traceback|epoch|step|file)\b|\w{1,80}Error\b|$)"
)


def scan(text: str) -> Iterator[OutOfMemory | CaptureError]:
    """Every out-of-memory error and broken capture of a log, in the order of its lines."""
    lines = [line[:_LONGEST_LINE].replace("\t", " ") for line in text.split("\n")]
    skip = 0
    for at, line in enumerate(lines):
        if at < skip or not _WORTH_A_LOOK.search(line):
            continue
        # Statistics say their limit and their use on two lines.
        form = _recognised(line) or (_recognised("\n".join(lines[at : at + 2])) if "Limit:" in line else None)
        if form is not None:
            window = _window(lines, at, form)
            skip = at + window.count("\n") + 1
            yield _read(form, window, at + 1)
        elif (broken := _capture(line, at + 1)) is not None:
            yield broken


def first(text: str) -> OutOfMemory | CaptureError | None:
    """The first failure of a log: what comes after it is mostly its consequence. A capture that was only invalidated (901) gives way to
    the error that names the cause, where there is one."""
    failures = [found for found in scan(text) if not isinstance(found, OutOfMemory) or found.failed]
    if failures and isinstance(failures[0], CaptureError) and failures[0].code == 901:
        causes = [f for f in failures if not (isinstance(f, CaptureError) and f.code == 901)]
        return causes[0] if causes else failures[0]
    return failures[0] if failures else None


def recognises(data: bytes) -> bool:
    """Whether this begins as the text of a log may: text that is no JSON document. Lines that are each a JSON object are a log's."""
    if not data or b"\0" in data:
        return False
    head = data.removeprefix(codecs.BOM_UTF8).lstrip()
    if re.match(rb"\[\s*[\[{\"\d\]]", head):
        return False
    if not head.startswith(b"{"):
        return sum(byte < 32 and byte not in b"\t\n\v\f\r\x1b\b" for byte in head) * 100 <= len(head)
    try:
        return isinstance(json.loads(head.partition(b"\n")[0]), dict) and b"\n" in head.strip()
    except ValueError:
        return False


def read(data: bytes) -> Tape:
    """The first failure of a log as a tape: an `oom` row with a `capacity` row before it for each figure in bytes, or a broken capture's
    `capture_end`. `provenance`: the figures as stated, the rank that the line names, how many other lines tell of an
    out-of-memory error, and the first of them. Raises BadInput where the text holds no failure
    that is known."""
    text = data.decode("utf-8", "replace")
    found = first(text)
    if found is None:
        raise BadInput(
            "looks like text, with no out-of-memory error and no broken capture in it: hand over the lines around the first error"
        )
    told: dict[str, Any] = {"format": "log-text", "line": found.line}
    others = [other.line for other in scan(text) if _tells(other) and other.line != found.line]
    if others:
        told["others"], told["other_line"] = len(others), others[0]
    if (rank := _RANK.search(found.text)) is not None:
        told["rank"] = int(rank[1])
    if isinstance(found, CaptureError):
        told |= {"capture_error": found.code, "name": found.name, "says": found.says}
        columns = {"kind": np.array([int(Kind.capture_end)], "u1"), "status": np.array([found.code], "i4")}
        return Tape(columns, sees=frozenset(), provenance=told)
    return _tape(found, told)


def _tells(found: OutOfMemory | CaptureError) -> bool:
    return isinstance(found, OutOfMemory) and found.failed and found.framework != "bfc-statistics"


def failure_of(tape: Tape) -> OutOfMemory | CaptureError:
    """What `read` made the tape of; the line's own text is gone."""
    told = tape.provenance
    if "capture_error" in told:
        return CaptureError(told["capture_error"], told["name"], told["says"], told["line"])
    others = tuple((pid, size) for pid, size in told["other_processes"])
    return OutOfMemory(told["framework"], dict(told["figures"]), dict(told["rounding"]), others, line=told["line"])


def _tape(found: OutOfMemory, told: dict[str, Any]) -> Tape:
    sizes = {name: value for name, value in found.figures.items() if name.endswith("_bytes") and isinstance(value, int)}
    tried = sizes.pop("tried_bytes", 0)
    names = list(sizes)
    device = found.figures.get("device")
    n = len(names) + 1
    columns = {
        "kind": np.array([int(Kind.capacity)] * len(names) + [int(Kind.oom)], "u1"),
        "name": np.array([*range(1, n), 0], "u4"),
        "device": np.full(n, device if isinstance(device, int) and device < 2**15 else 0, "i2"),
        "size": np.array([*sizes.values(), tried], "u8"),
    }
    told |= {
        "framework": found.framework,
        "figures": found.figures,
        "rounding": found.rounding,
        "other_processes": [list(pair) for pair in found.other_processes],
    }
    return Tape(columns, sides=Sides(strings=("", *names)), sees=frozenset({Sees.OOMS, Sees.CAPACITY}), provenance=told)
