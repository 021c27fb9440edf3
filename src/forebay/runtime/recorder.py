"""recorder: what the runtime writes to a tape, and when: `with recording():`. Rows of driver calls are native/driver/taped.hpp's, files
are tape/file.py's.
"""

from __future__ import annotations

import json
import os
import socket
import threading
import weakref
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from forebay._core.tape import Kind, Recorder, note_callers
from forebay.errors import BadInput
from forebay.region import add_sink, remove_sink
from forebay.tape.defines import Raw, join, settled
from forebay.tape.events import Sees
from forebay.tape.rows import Tape, Uses

if TYPE_CHECKING:
    from forebay._core.driver import TapedDriver

__all__ = ["recording", "tape_when_recording"]

# What a program on this runtime cannot hide, as long as it touches pinned memory through `SimDevice.host_access`.
_SEES: Final = frozenset(Sees) - {Sees.RECLAIMS, Sees.SETTINGS, Sees.CAPTURES, Sees.GRAPHS, Sees.CAPACITY}

_lock = threading.Lock()
_drivers: weakref.WeakSet[TapedDriver] = weakref.WeakSet()
_current: recording | None = None


def tape_when_recording(driver: TapedDriver) -> None:
    """From now on every recording hears of this driver's calls, the one that is under way too."""
    with _lock:
        _drivers.add(driver)
        if _current is not None:
            driver.attach(_current.recorder)


class recording:
    """Everything that runs on simulated devices, and every region, from entry to exit, as a tape.

    With a path the rows go to that file as they come, readable after a kill up to the last whole batch; without one they stay in
    memory. `tape` is what was recorded. One recording at a time: entering a second raises BadInput.
    """

    def __init__(self, path: str | os.PathLike[str] | None = None) -> None:
        self.path = None if path is None else os.fspath(path)

    def __enter__(self) -> recording:
        global _current
        with _lock:
            if _current is not None:
                raise BadInput("a recording is under way already: leave it before entering another")
            self.recorder = _recorder(self.path)
            _current = self
            note_callers(_own_files())
            for driver in _drivers:
                driver.attach(self.recorder)
        self._regions = _Regions(self.recorder)
        add_sink(self._regions)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        global _current
        remove_sink(self._regions)
        with _lock:
            _current = None
            note_callers(None)
            for driver in _drivers:
                driver.attach(None)
        self.recorder.close()
        if self.recorder.error and error is None:
            why = f"{os.strerror(self.recorder.error)}; {self.recorder.lost} of {self.recorder.rows} rows are lost"
            raise BadInput(f"{self.path}: {why}: make room, or record to another disk")

    @property
    def tape(self) -> Tape:
        """What was recorded so far."""
        if self.path is not None:
            from forebay.tape.file import read

            self.recorder.flush()
            return read(self.path)
        columns, uses, known, texts = self.recorder.copy()
        columns = {"seq": np.zeros(len(known), "u8")} | columns  # before the first row there is none
        raw = Raw(Tape(columns, uses=None if uses is None else Uses(**uses), known=known), texts)
        return join(list(settled(lambda: [raw], _SEES, _provenance())))


def _recorder(path: str | None) -> Recorder:
    try:
        return Recorder() if path is None else Recorder(path, _metadata())
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror}; name a file that can be written") from None


class _Regions:
    """Regions of the program as rows."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder

    def begin(self, name: str, iteration: int | None) -> None:
        self._write(Kind.region_begin, name, iteration)

    def end(self, name: str, iteration: int | None) -> None:
        self._write(Kind.region_end, name, iteration)

    def _write(self, kind: Kind, name: str, iteration: int | None) -> None:
        values: dict[str, Any] = {"name": self.recorder.string(name), "thread": self.recorder.thread()}
        if iteration is not None:
            values["ref"] = iteration
        self.recorder.write(kind, **values)


def _own_files() -> list[str]:
    """How the names of the files begin whose frames say nothing of the program: this package's, and `region`'s."""
    runtime = os.path.dirname(__file__)
    return [os.path.join(runtime, ""), os.path.join(os.path.dirname(runtime), "region.py")]


def _provenance() -> dict[str, Any]:
    return {"source": "forebay.runtime", "host": socket.gethostname(), "pid": os.getpid()}


def _metadata() -> Sequence[tuple[str, str]]:
    return [("forebay.sees", json.dumps(sorted(_SEES))), ("forebay.provenance", json.dumps(_provenance()))]
