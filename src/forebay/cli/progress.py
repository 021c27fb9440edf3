"""progress: what is going on, on standard error, for work that takes longer than a second. Results go to standard output elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Timer
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress

_PATIENCE = 1.0  # seconds


class _Bar:
    """A bar on a terminal, from the moment that `show` is called; elsewhere nothing, since a line there would be read as an error."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._share: float | None = None
        self._bar: Progress | None = None

    def at(self, share: float) -> None:
        """So much of the work is done, 0 to 1."""
        self._share = share
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], completed=share, total=1.0)

    def show(self) -> None:
        if sys.stderr is None or not sys.stderr.isatty():
            return
        from rich.console import Console
        from rich.progress import Progress

        bar = Progress(console=Console(stderr=True), transient=True)
        bar.add_task(self._what, total=None)
        bar.start()
        self._bar = bar
        if self._share is not None:
            self.at(self._share)

    def hide(self) -> None:
        if self._bar is not None:
            self._bar.stop()


@contextmanager
def progress(what: str) -> Iterator[Callable[[float], None]]:
    """While the block runs: says what is done, once it has taken a second. Yields a function that takes the share that is done."""
    bar = _Bar(what)
    timer = Timer(_PATIENCE, bar.show)
    timer.daemon = True
    timer.start()
    try:
        yield bar.at
    finally:
        timer.cancel()
        timer.join()
        bar.hide()
