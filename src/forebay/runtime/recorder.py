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
from forebay.errors import BadInput, DriverError
from forebay.region import add_sink, remove_sink
from forebay.runtime.arguments import label
from forebay.tape.defines import Raw, join, settled
from forebay.tape.events import Sees
from forebay.tape.rows import Tape, Uses

if TYPE_CHECKING:
    from forebay._core.driver import TapedDriver

__all__ = ["own_files", "recording", "tape_when_recording"]

# What a program on this runtime cannot hide, as long as it touches pinned memory through `Device.host_access`.
# The beginning only where no device of which it has rows held memory when it was entered. Not every reclaim: of a block that no other
# stream used there is no row.
_BLIND: Final = {Sees.RECLAIMS, Sees.SETTINGS, Sees.CAPACITY, Sees.BEGINNING}
_SEES: Final = frozenset(Sees) - _BLIND
# And beside a real device, where other libraries call the driver too and nobody knows when the device works.
_BLIND_BESIDE_OTHERS: Final = frozenset({Sees.WORK_TIMES, Sees.DRIVER_CALLS, Sees.SYNCS, Sees.QUERIES})

_lock = threading.Lock()
_drivers: weakref.WeakSet[TapedDriver] = weakref.WeakSet()
_shared: weakref.WeakSet[TapedDriver] = weakref.WeakSet()  # drivers that other libraries call too
_current: recording | None = None


def tape_when_recording(driver: TapedDriver) -> None:
    """From now on every recording hears of this driver's calls, the one that is under way too."""
    with _lock:
        _drivers.add(driver)
        if _current is not None:
            driver.attach(_current.recorder)


def tape_shared_when_recording(driver: TapedDriver) -> None:
    """The same for a driver that other libraries call too: recordings see less from now on. Raises BadInput during one, which has
    promised more already."""
    with _lock:
        if _current is not None and not _current.sees.isdisjoint(_BLIND_BESIDE_OTHERS):
            raise BadInput("a recording is under way that began without a CUDA device: make the device before the recording")
        _shared.add(driver)
    tape_when_recording(driver)


class recording:
    """Everything that runs on the runtime's devices, and every region, from entry to exit, as a tape.

    With a path the rows go to that file as they come, readable after a kill up to the last whole batch; leaving turns it into a
    closed file, whole or not at all. Without one they stay in memory. `tape` is what was recorded. One recording at a time, and each
    object once: else BadInput.
    """

    def __init__(self, path: str | os.PathLike[str] | None = None) -> None:
        self.path = None if path is None else _path(path)
        self.sees = _SEES  # what the tape will show whatever happens, settled when the recording is entered
        self._recorder: Recorder | None = None

    @property
    def recorder(self) -> Recorder:
        """The native recorder, for rows of one's own. Raises BadInput before the recording was entered."""
        if self._recorder is None:
            raise BadInput("the recording was never entered: `with recording() as run:` comes first")
        return self._recorder

    def __enter__(self) -> recording:
        global _current
        with _lock:
            if _current is not None:
                raise BadInput("a recording is under way already: leave it before entering another")
            if self._recorder is not None:
                raise BadInput("this recording is over: make another one for more")
            held = {driver: len(_shared) > 0 or _holds_memory(driver) for driver in _drivers}
            self.sees = _SEES if len(_shared) > 0 or any(held.values()) else _SEES | {Sees.BEGINNING}
            if len(_shared) > 0:
                self.sees -= _BLIND_BESIDE_OTHERS
            self._recorder = _recorder(self.path, self.sees)
            _current = self
            note_callers(own_files())
            for driver, mid_life in held.items():
                driver.attach(self.recorder, mid_life)
        self._regions = _Regions(self.recorder)
        add_sink(self._regions)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        global _current
        recorder = self.recorder
        with _lock:
            if _current is not self:
                raise BadInput("this recording is not under way: it was left before")
            remove_sink(self._regions)
            _current = None
            note_callers(None)
            for driver in _drivers:
                driver.attach(None)
        recorder.close()
        try:
            self._close_file(recorder)
        except BadInput:
            if error is None:
                raise

    def _close_file(self, recorder: Recorder) -> None:
        if recorder.error:
            why = f"{os.strerror(recorder.error)}; {recorder.lost} of {recorder.rows} rows are lost"
            raise BadInput(f"{self.path}: {why}: make room, or record to another disk")
        if self.path is None or not os.path.isfile(self.path):  # what is read while it is written stays a stream
            return
        from forebay.tape.file import compact

        try:
            compact(self.path, os.path.realpath(self.path), self._seen() - self.sees)
        except OSError as failed:
            why = f"{failed.strerror or failed}: it stays the stream that was recorded, whole and readable"
            raise BadInput(f"{self.path}: no room to close it: {why}; make room and `compact` it") from None

    def _seen(self) -> frozenset[Sees]:
        """What its rows show so far: the beginning too, where devices that held memory told nothing."""
        return self.sees if len(_shared) > 0 or self.recorder.mid_life else self.sees | {Sees.BEGINNING}

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
        return join(list(settled(lambda: [raw], self._seen(), _provenance())))


def _path(path: str | os.PathLike[str]) -> str:
    try:
        name = label(os.fsdecode(path), "recording")
    except TypeError:
        raise BadInput(f"recording to {type(path).__name__}: name a file, or nothing to record into memory") from None
    if "\0" in name:
        raise BadInput(f"recording to {name!r}: no file's name has a zero byte")
    return name


def _recorder(path: str | None, sees: frozenset[Sees]) -> Recorder:
    try:
        return Recorder() if path is None else Recorder(path, _metadata(sees))
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror}; name a file that can be written") from None


def _holds_memory(driver: TapedDriver) -> bool:
    """Whether something was taken from one of its devices; of one that is lost nobody knows."""
    try:
        info = [driver.memory_info(device) for device in range(driver.device_count())]
    except DriverError:
        return True
    return any(at.free_bytes < at.total_bytes for at in info)


class _Regions:
    """Regions of the program as rows."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder

    def begin(self, name: str, iteration: int | None) -> None:
        self._write(Kind.region_begin, name, iteration)

    def end(self, name: str, iteration: int | None) -> None:
        self._write(Kind.region_end, name, iteration)

    def _write(self, kind: Kind, name: str, iteration: int | None) -> None:
        text = name.encode("utf-8", "backslashreplace").decode()  # a lone surrogate is in no tape
        values: dict[str, Any] = {"name": self.recorder.string(text), "thread": self.recorder.thread()}
        if iteration is not None:
            values["ref"] = iteration
        self.recorder.write(kind, **values)


def own_files() -> list[str]:
    """How the names of the files begin whose frames say nothing of the program: this package's, and `region`'s."""
    runtime = os.path.dirname(__file__)
    return [os.path.join(runtime, ""), os.path.join(os.path.dirname(runtime), "region.py")]


def _provenance() -> dict[str, Any]:
    return {"source": "forebay.runtime", "host": socket.gethostname(), "pid": os.getpid()}


def _metadata(sees: frozenset[Sees]) -> Sequence[tuple[str, str]]:
    return [("forebay.sees", json.dumps(sorted(sees))), ("forebay.provenance", json.dumps(_provenance()))]
