"""search: record a program once, ask the order engine what nothing orders, and run it with exactly that the other way round.

Note [What is tried]. In this order, until an answer differs or the budget is spent: the earlier work of every race held back; the
later work of every race; each race's work alone, races spread over the program first; orders drawn from a seed. A hit is then
narrowed to as few held items as still show it. Held work runs as late as it legally can, so whatever may overtake it does: a use is
overtaken by the other use, by the host, or by whoever was given its bytes after a free.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from forebay.runtime import Schedule, SimDevice, recording
from forebay.runtime.schedule import WorkName
from forebay.tape import Kind, Tape
from forebay.views.order import Race, find_races

__all__ = ["Raised", "Searched", "search"]

T = TypeVar("T")

# What the simulated device calls the work of a driver call that is no launch.
_NAMES: Final = {
    "cuMemcpyAsync": "copy", "cuMemcpyHtoDAsync": "upload", "cuMemcpyDtoHAsync": "download",
    "cuMemsetD8Async": "memset", "cuLaunchHostFunc": "host_func",
}  # fmt: skip
_WORK: Final = (Kind.launch, Kind.copy, Kind.memset, Kind.host_func)


@dataclass(frozen=True, slots=True)
class Raised:
    """The answer of a run that ended with an exception."""

    kind: str
    message: str


@dataclass(frozen=True, slots=True)
class Searched(Generic[T]):
    """What a search came to. `expected`: the answer by virtual time; `races`: what nothing orders there; `tried`: schedules run since.

    `schedule` gives `answer`, which differs from `expected`; both are None where no schedule did.
    """

    expected: T | Raised
    races: tuple[Race, ...]
    tried: int
    schedule: Schedule | None = None
    answer: T | Raised | None = None


def search(
    program: Callable[[SimDevice], T],
    make: Callable[[Schedule], SimDevice] = lambda schedule: SimDevice(schedule=schedule),
    *,
    budget: int = 200,
) -> Searched[T]:
    """Runs `program` by virtual time and then under at most `budget` other orders; stops at an answer that differs (by `==`).

    The program gets a device that `make` made for it and must do the same again when the order is the same. An exception is an
    answer too. Raises BadInput while a recording is under way.
    """
    trial = _Trial(program, make, budget)
    with recording() as run:
        expected = trial.run(Schedule())
    races = tuple(find_races(run.tape))
    trial.left = budget
    for schedule in itertools.islice(_schedules(run.tape, races), budget):
        answer = trial.run(schedule)
        if answer != expected:
            least = _narrowed(trial, schedule, expected)
            return Searched(expected, races, budget - trial.left, least, trial.answers[least])
    return Searched(expected, races, budget - trial.left)


class _Trial(Generic[T]):
    """Runs of one program; `left` may still be made."""

    def __init__(self, program: Callable[[SimDevice], T], make: Callable[[Schedule], SimDevice], left: int) -> None:
        self.program, self.make, self.left = program, make, left
        self.answers: dict[Schedule, T | Raised] = {}

    def run(self, schedule: Schedule) -> T | Raised:
        self.left -= 1
        try:
            answer: T | Raised = self.program(self.make(schedule))
        except Exception as error:
            answer = Raised(type(error).__name__, str(error))
        self.answers[schedule] = answer
        return answer


def _schedules(tape: Tape, races: Sequence[Race]) -> Iterator[Schedule]:
    """Note [What is tried]."""
    names = _work_names(tape)
    pairs = [(names.get(race.a.row), names.get(race.b.row)) for race in races]
    firsts, seconds = ({name for name in side if name is not None} for side in zip(*pairs, strict=True)) if pairs else ((), ())
    singles = [name for index in _spread(len(pairs)) for name in pairs[index] if name is not None]
    held = [tuple(sorted(firsts)), tuple(sorted(seconds)), *((name,) for name in singles)]
    yield from (Schedule(held=items) for items in dict.fromkeys(held) if items)
    yield from (Schedule(seed=seed) for seed in itertools.count())


def _work_names(tape: Tape) -> dict[int, WorkName]:
    """The work items of a tape that ran, by row, as a schedule names them."""
    issued: Counter[str] = Counter()
    names = {}
    for row in map(int, tape.where(*_WORK)):
        called = tape.sides.strings[int(tape.columns["name"][row])]
        name = called if int(tape.columns["kind"][row]) == int(Kind.launch) else _NAMES[called]
        if _was_issued(tape, row):
            names[row] = WorkName(name, issued[name])
            issued[name] += 1
    return names


def _was_issued(tape: Tape, row: int) -> bool:
    """Whether the call put anything into its stream: it did not fail, and was no copy of nothing."""
    if tape.has("status") and int(tape.columns["status"][row]) != 0:
        return False
    return int(tape.columns["kind"][row]) not in (Kind.copy, Kind.memset) or int(tape.columns["size"][row]) > 0


def _spread(count: int) -> Iterable[int]:
    """0 to count - 1, neighbours far apart: by the bits of the number read backwards."""
    width = max(count - 1, 0).bit_length()
    return sorted(range(count), key=lambda index: int(f"{index:0{width}b}"[::-1], 2) if width else 0)


def _narrowed(trial: _Trial[T], schedule: Schedule, expected: T | Raised) -> Schedule:
    """Halves what is held for as long as one of the halves still shows it."""
    while len(schedule.held) > 1 and trial.left > 0:
        middle = len(schedule.held) // 2
        halves = [Schedule(held=half) for half in (schedule.held[:middle], schedule.held[middle:])][: trial.left]
        shown = next((half for half in halves if trial.run(half) != expected), None)
        if shown is None:
            return schedule
        schedule = shown
    return schedule
