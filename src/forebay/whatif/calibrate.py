"""calibrate: whether the emulated allocator, under the recorded settings, does what the recording shows.

Only then its answers for other settings mean anything. Where it does not, the first divergence is named. What the tape does not
say (the memory cap, which bursts were empty_cache) is found here too, from what it does say.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from forebay._core import allocator, emulate
from forebay._core.allocator import Addresses, Limits, Outcome, SegmentAction, Step
from forebay.sources.heap_state import HeapState
from forebay.tape import Kind, Sees, Tape
from forebay.units import size
from forebay.whatif.settings import AllocatorSettings, recorded
from forebay.whatif.steps import Segments, Steps, steps_of, with_bursts

__all__ = ["Calibrated", "calibrate"]

Array = NDArray[Any]
MIB: Final = 2**20
_MOST: Final = 1 << 60  # bytes that no device has: where more is told, the file is damaged
_GRID: Final = 24  # caps tried a round where only the ages of garbage collection tell one cap from another
_ROUNDS: Final = 4


@dataclass(frozen=True, slots=True)
class Calibrated:
    """A device's history, settled, with the settings and limits (bytes) it ran under and how well the emulation follows it.

    `first_divergence` is the tape's row where it first does not, `why` says how. `cap` is what the memory fraction allowed, None
    where nothing shows a cap: one given, or the least that is possible in `cap_range`. `capacity` is what the driver could give,
    None where nothing shows an end of it.
    """

    device: int
    steps: Steps
    settings: AllocatorSettings
    cap: int | None
    cap_range: tuple[int, int] | None
    capacity: int | None
    exact: bool
    first_divergence: int | None
    why: str
    outcome: Outcome

    def limits(self) -> Limits:
        """The limits of the recorded run."""
        return Limits(cap=self.cap, capacity=self.capacity)

    def limit(self) -> int | None:
        """The bytes beyond which requests were refused: the cap, else what the driver could give; None where nothing shows either."""
        return self.cap if self.cap is not None else self.capacity


@dataclass(frozen=True, slots=True)
class _Pressure:
    """What refused requests and retries say of the cap: at least `low`, and at most `high` where they say so."""

    low: int
    high: int | None
    capacity: int | None


def _reserved_before(segments: Segments, rows: Array) -> Array:
    """Reserved bytes before the driver calls that directly precede each of these rows."""
    delta = np.where(segments.made(), 1, -1) * segments.size.astype("i8")
    level = np.concatenate([[0], np.cumsum(delta)])
    return level[np.searchsorted(segments.row, rows)]


def _peak(segments: Segments) -> int:
    delta = np.where(segments.made(), 1, -1) * segments.size.astype("i8")
    return int(np.cumsum(delta).max(initial=0))


def _device_free(tape: Tape, row: int) -> int | None:
    """What the driver had free at a refusal: the capacity row right before it."""
    if row > 0 and int(tape.columns["kind"][row - 1]) == int(Kind.capacity):
        return int(tape.columns["size"][row - 1])
    return None


def _level_of_press(steps: Steps, row: int) -> int:
    """Reserved bytes when the request at this row was first refused: before the run of frees that stands in front of it."""
    at = int(np.searchsorted(steps.segments.row, row))
    back = np.isin(steps.segments.action, (int(SegmentAction.free), int(SegmentAction.unmap)))
    program = steps.row[np.searchsorted(steps.row, row) - 1] if len(steps.row) and row > steps.row.min() else -1
    first = int(np.searchsorted(steps.segments.row, program, "right"))
    while first < at and not back[first]:
        first += 1
    return int(_reserved_before(steps.segments, steps.segments.row[first : first + 1])[0]) if first < at else _now(steps, row)


def _now(steps: Steps, row: int) -> int:
    return int(_reserved_before(steps.segments, np.array([row]))[0])


def _pressure(tape: Tape, steps: Steps, settings: AllocatorSettings) -> _Pressure:
    low, high, capacity = _peak(steps.segments), None, None
    if not 0 <= low < _MOST:
        return _Pressure(0, None, None)
    native = settings.native()
    requests = dict(zip(steps.row.tolist(), zip(steps.step.tolist(), steps.bytes.tolist(), strict=True), strict=True))
    for row in steps.pressed.tolist():
        step, asked = requests[row]
        segment = emulate.segment_size(emulate.rounded_size(asked, native), native)
        if step == int(Step.refused):
            free, level = _device_free(tape, row), _now(steps, row)
            if free is not None and free < segment and 0 <= level + free < _MOST:
                capacity = min(capacity or level + free, level + free)
                continue
            bound = level + segment - 1
        elif settings.gc_threshold:
            bound = int(_level_of_press(steps, row) / settings.gc_threshold)
        else:
            bound = _level_of_press(steps, row) + segment - 1
        if bound < _MOST:
            high = min(high, bound) if high is not None else bound
    return _Pressure(low, high, capacity)


def _addresses(segments: Segments) -> Addresses:
    return Addresses.recorded(segments.address[segments.made()].copy())


def _run(steps: Steps, settings: AllocatorSettings, cap: int | None, capacity: int | None) -> tuple[Steps, Outcome]:
    limits, addresses = Limits(cap=cap, capacity=capacity), _addresses(steps.segments)
    if (steps.step == int(Step.burst)).any():
        found = allocator.flushes(steps.native(), settings.native(), limits, addresses)
        steps = with_bursts(steps, np.array(found, bool))
    return steps, allocator.replay_traced(steps.native(), settings.native(), limits, addresses)


def _segment_divergence(steps: Steps, outcome: Outcome) -> tuple[int, str] | None:
    """The row and the story of the first driver call that differs; None where all are the same."""
    real = steps.segments
    n = min(len(real.row), len(outcome.event_action))
    same = (
        (real.action[:n] == outcome.event_action[:n])
        & (real.address[:n] == outcome.event_address[:n])
        & (real.size[:n] == outcome.event_size[:n])
    )
    at = int(np.argmin(same)) if not same.all() else n
    if at == len(real.row) == len(outcome.event_action):
        return None

    def told(actions: Array, sizes: Array) -> str:
        return f"{SegmentAction(int(actions[at])).name} of {size(int(sizes[at]))}" if at < len(actions) else "nothing more"

    row = int(real.row[at]) if at < len(real.row) else int(steps.row[outcome.event_step[at]])
    emulated = told(outcome.event_action, outcome.event_size)
    return row, f"driver call {at}: recorded {told(real.action, real.size)}, emulated {emulated}"


def _block_divergence(steps: Steps, outcome: Outcome) -> tuple[int, str] | None:
    rows = steps.row[steps.step == int(Step.alloc)]
    real, got = steps.address, outcome.served_at
    if steps.opening or len(rows) != len(real):
        return None
    wrong = np.flatnonzero(real != got)
    if not len(wrong):
        return None
    at = int(wrong[0])
    where = f"0x{int(got[at]):x}" if got[at] else "nowhere"
    return int(rows[at]), f"allocation {at}: recorded at 0x{int(real[at]):x}, emulated {where}"


def _refusal_divergence(steps: Steps, outcome: Outcome) -> tuple[int, str] | None:
    real = np.flatnonzero(steps.step == int(Step.refused))
    want, got = int(real[0]) if len(real) else None, outcome.oom
    if want == got:
        return None
    row = int(steps.row[min(step for step in (want, got) if step is not None)])
    return row, "a request that was refused is served" if got is None or (
        want is not None and want < got
    ) else "a request is refused"


def _divergence(steps: Steps, outcome: Outcome) -> tuple[int, str] | None:
    found = [f(steps, outcome) for f in (_segment_divergence, _block_divergence, _refusal_divergence)]
    return min((f for f in found if f is not None), default=None)


def _grid(low: int, high: int) -> Iterator[int]:
    """Whole MiB from low to high, at most about _GRID of them, evenly spread."""
    first, last = -(-low // MIB), high // MIB
    step = max(1, (last - first) // _GRID)
    yield from (mib * MIB for mib in range(first, last + 1, step))


def _candidates(given: int | None, pressure: _Pressure) -> list[int | None]:
    """Caps that could have been in force, the likeliest first."""
    high = pressure.high
    if high is None or high < pressure.low:
        return [None] if given is None or given < pressure.low else [given, None]
    if given is not None and pressure.low <= given <= high:
        return [given]
    return [pressure.low]


def _calibrated(
    device: int, tape: Tape, steps: Steps, settings: AllocatorSettings, cap: int | None, pressure: _Pressure
) -> Calibrated:
    steps, outcome = _run(steps, settings, cap, pressure.capacity)
    if Sees.BEGINNING in tape.sees:
        found = _divergence(steps, outcome)
    else:
        found = (0, "the history begins in mid-life: in what order the heap came to be that it finds can only be guessed")
    row, why = found or (None, "")
    span = None if cap is None or pressure.high is None else (pressure.low, pressure.high)
    return Calibrated(device, steps, settings, cap, span, pressure.capacity, found is None, row, why, outcome)


def _better(a: Calibrated, b: Calibrated) -> Calibrated:
    """The one that follows the recording longer; the first on a tie."""
    if a.exact or a.first_divergence is None:
        return a
    return b if b.exact or b.first_divergence is None or b.first_divergence > a.first_divergence else a


def calibrate(tape: Tape, device: int = 0, *, cap: int | None = None, before: HeapState | None = None) -> Calibrated:
    """The device's history under its own settings, compared with what the recording shows.

    `cap` (bytes) is a memory cap that the run may have had; it is used where it is possible, else one that is. `before` is the heap
    before the first row.
    """
    told = tape.provenance.get("settings")
    settings = recorded(told if isinstance(told, dict) else None)
    steps = steps_of(tape, device, before)
    pressure = _pressure(tape, steps, settings)
    best: Calibrated | None = None
    for candidate in _candidates(cap, pressure):
        tried = _calibrated(device, tape, steps, settings, candidate, pressure)
        best = tried if best is None else _better(best, tried)
    assert best is not None
    if best.exact or not settings.gc_threshold or pressure.high is None:
        return best
    return _collected(tape, steps, best, pressure)


def _collected(tape: Tape, steps: Steps, best: Calibrated, pressure: _Pressure) -> Calibrated:
    """The cap whose garbage collections follow the recording longest, by ever finer grids."""
    low, high = pressure.low, pressure.high or pressure.low
    for _ in range(_ROUNDS):
        caps = list(_grid(low, high))
        for cap in caps:
            best = _better(best, _calibrated(best.device, tape, steps, best.settings, cap, pressure))
            if best.exact:
                return best
        if len(caps) < 3 or best.cap is None:
            return best
        width = caps[1] - caps[0]
        low, high = max(low, best.cap - width), min(high, best.cap + width)
    return best
