"""region: a named stretch of the program, as a context manager and a decorator. It knows nothing of tapes: whoever wants regions
registers a sink (the runtime, the recorder). Without sinks a region costs a comparison.
"""

from __future__ import annotations

import threading
from contextlib import ContextDecorator
from types import TracebackType
from typing import Protocol

from forebay.errors import BadInput

__all__ = ["Sink", "add_sink", "region", "remove_sink"]


class Sink(Protocol):
    """Whoever wants to know of regions. Both calls come on the region's own thread; neither may raise."""

    def begin(self, name: str, iteration: int | None) -> None:
        """A region was entered."""

    def end(self, name: str, iteration: int | None) -> None:
        """It was left, by whatever way."""


_sinks: tuple[Sink, ...] = ()  # replaced whole, never changed: a region reads it without the lock
_lock = threading.Lock()


def add_sink(sink: Sink) -> None:
    """From now on `sink` hears of every region that is entered. Adding it twice is adding it once."""
    global _sinks
    with _lock:
        if all(other is not sink for other in _sinks):
            _sinks = (*_sinks, sink)


def remove_sink(sink: Sink) -> None:
    """From now on `sink` hears only the ends of regions that it saw begin. Removing an unknown sink does nothing."""
    global _sinks
    with _lock:
        _sinks = tuple(other for other in _sinks if other is not sink)


def _numbers_a_pass(iteration: object) -> bool:
    return type(iteration) is int and 0 <= iteration < 2**32


class region(ContextDecorator):
    """A stretch of the program that the contract, the doctor and the reports call by its name.

    `iteration` numbers the passes of a loop, from 0. Regions nest; the same object may be entered again but not inside itself.
    Raises BadInput for a name that is no str or blank and an iteration that is no number of 32 bits.

    >>> with region("decode", iteration=3):
    ...     pass
    >>> @region("prefill")
    ... def prefill() -> str:
    ...     return "done"
    >>> prefill()
    'done'
    """

    __slots__ = ("_heard", "iteration", "name")

    def __init__(self, name: str, *, iteration: int | None = None) -> None:
        if type(name) is not str or not name.strip() or (iteration is not None and not _numbers_a_pass(iteration)):
            raise BadInput(
                f"region {ascii(name)[:60]}, iteration {ascii(iteration)[:60]}: give a name that shows, and None or 0 to 2**32 - 1"
            )
        self.name, self.iteration = name, iteration
        self._heard: tuple[Sink, ...] = ()

    def _recreate_cm(self) -> region:
        return region(self.name, iteration=self.iteration)

    def __enter__(self) -> region:
        if _sinks:
            self._heard = _sinks
            for sink in self._heard:
                sink.begin(self.name, self.iteration)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._heard:
            heard, self._heard = self._heard, ()
            for sink in reversed(heard):
                sink.end(self.name, self.iteration)
