"""graph: a step captured once and replayed: `with device.capture(stream) as graph:`, and graphs for several sizes of one step.

What a capture refuses is capturing.py's, where its memory comes from graph_memory.py's.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Generic, Self, TypeVar

from forebay import capture_law as law
from forebay._core.driver import CaptureMode
from forebay.errors import BadInput, DriverError
from forebay.runtime.arguments import byte_count, count, title
from forebay.runtime.capturing import Capture, forbid_replay, forbid_unsafe
from forebay.runtime.graph_memory import GraphMemory
from forebay.runtime.place import program_line
from forebay.runtime.stream import ForeignStream, Stream, arrays_of, uses_of

if TYPE_CHECKING:
    from forebay.runtime.buffer import Array, Buffer
    from forebay.runtime.device import Device

__all__ = ["Graph", "GraphCache", "capture"]

_MODES = {"global": CaptureMode(0), "thread_local": CaptureMode.thread_local, "relaxed": CaptureMode.relaxed}

Step = TypeVar("Step")


class Graph:
    """What a capture recorded, to be replayed. Made by `Device.capture`; it holds its memory until `close`, or as long as it lives.

    `nodes` is how many pieces of work one replay does.
    """

    def __init__(self, name: str, device: Device, memory: GraphMemory) -> None:
        self.name, self.device, self.nodes, self.captured_at = name, device, 0, program_line()
        self._memory: GraphMemory | None = memory
        self._executable: int | None = None
        self._baked: dict[Buffer, str] = {}
        self._indexed: list[Array] = []

    @property
    def reserved(self) -> int:
        """Bytes of device memory that the graph holds for itself."""
        return 0 if self._memory is None else self._memory.reserved

    def replay(
        self, stream: Stream | ForeignStream, reads: Sequence[Array | Buffer] = (), writes: Sequence[Array | Buffer] = ()
    ) -> None:
        """Issues all of it to `stream`, after what that was given and after earlier replays. Costs the host about one launch.

        Of memory that its kernels go through by indices (`Stream.launch`, indexed) `reads` and `writes` say what this replay touches.
        Raises BadInput where memory that the capture saw was given back since, naming the block, its free and the capture, and where what
        is touched by index is not said, or lies elsewhere; DriverError.
        """
        if self._executable is None or self._memory is None:
            state = "was closed" if self._memory is None else "is still being captured"
            raise BadInput(f"{self!r} {state}: replay between the end of its capture and `close`")
        stream = self.device.stream_of(stream, repr(self))
        if stream.device is not self.device:
            raise BadInput(f"{self!r} is of device {self.device.index}, {stream!r} is not a stream of it")
        stream.require_open()
        if self.device.machine.captures:
            forbid_replay(stream, f"Graph.replay of `{self.name}`")
        for buffer, used_at in self._baked.items():
            if buffer.freed:
                raise self._stale(buffer, used_at)
        arrays, uses = uses_of(arrays_of(reads), arrays_of(writes))
        self._require_said(arrays)
        for buffer in (*self._baked, *(array.buffer for array in arrays)):
            buffer.streams.setdefault(stream.id, stream)
        self._memory.replayed(stream)
        if uses:
            self.device.machine.taped.uses_of_next_launch(uses)
        with self.device.call() as driver:
            driver.graph_launch(self.device.index, self._executable, stream.handle)

    def close(self) -> None:
        """Destroys it and gives its memory back after its replays; a second call does nothing. Buffers of it that are held keep it."""
        if self.device.machine.captures and self._executable is not None:
            forbid_unsafe(self.device.machine.captures, f"Graph.close of `{self.name}`")
        executable, self._executable = self._executable, None
        memory, self._memory = self._memory, None
        self._baked = {}
        _give_back(self.device, memory, executable)

    def _require_said(self, arrays: Sequence[Array]) -> None:
        if self._indexed and not arrays:
            raise BadInput(f"{self!r} goes through memory by index: say in reads and writes what this replay touches of it")
        for array in arrays:
            if not any(
                i.address <= array.address and array.address + array.nbytes <= i.address + i.nbytes for i in self._indexed
            ):
                raise BadInput(
                    f"{self!r}: no kernel of it goes by index through the {array.nbytes} bytes at {array.address:#x}; give the memory "
                    f"to its launch as indexed, or leave it out here"
                )

    def _stale(self, buffer: Buffer, used_at: str) -> BadInput:
        return BadInput(
            f"{self!r} cannot be replayed: {buffer!r}, which its work uses at {used_at}, was given back at {buffer.freed_at}, and its "
            f"bytes may be another's. Keep what a graph uses as long as the graph, allocate it inside the capture, or capture again"
        )

    def _captured(self, executable: int, capture: Capture) -> None:
        memory = self._memory
        self._executable, self.nodes, self._indexed = executable, capture.nodes, capture.indexed
        self._baked = {buffer: line for buffer, line in capture.baked.items() if memory is None or not memory.holds(buffer)}

    def __del__(self) -> None:
        drop = partial(_give_back, self.device, self._memory, self._executable)
        if self.device.machine.captures:  # a finaliser may run anywhere, and must not fall into one
            self.device.machine.later.append(partial(self.device.quietly, drop))
        else:
            self.device.quietly(drop)

    def __repr__(self) -> str:
        return f"Graph({self.name!r}, captured at {self.captured_at})"


def _give_back(device: Device, memory: GraphMemory | None, executable: int | None) -> None:
    if memory is not None:
        memory.close()
    if executable is not None:
        with device.call() as driver:
            driver.executable_destroy(device.index, executable)


class capture:
    """The block of `Device.capture`. Its arguments are described there."""

    def __init__(self, device: Device, stream: Stream, name: str | None, reserve: int | str, mode: str) -> None:
        if not isinstance(stream, Stream) or stream.device is not device:
            raise BadInput(f"{device!r} cannot capture {stream!r}: give a stream of this device")
        if mode not in _MODES:
            raise BadInput(f"capture mode {mode!r}: there are {', '.join(_MODES)}")
        self.device, self.stream, self.mode = device, stream, mode
        self.name = title(stream.name if name is None else name, "graph name")
        self.reserve = byte_count(reserve, f"graph {self.name}: reserve")

    def __enter__(self) -> Graph:
        stream, what = self.stream, f"Device.capture of `{self.name}`"
        stream.require_open()
        if stream.legacy:
            raise BadInput(f"{what}: the legacy default stream cannot capture; make one with `Device.stream`")
        if stream.capture is not None:
            raise stream.capture.refusal(what, law.NEVER)
        memory = GraphMemory(self.device, self.name, self.reserve)
        self.graph = Graph(self.name, self.device, memory)
        self.memory = memory
        self.capture = Capture(self.name, stream, self.mode, memory)
        self.device.domain.capture_begins(stream.id)
        try:
            with self.device.call() as driver:
                driver.capture_begin(self.device.index, stream.handle, _MODES[self.mode])
        except DriverError:
            self.device.domain.capture_ends(stream.id)
            self.graph.close()
            raise
        memory.capture = stream.capture = self.capture
        self.device.machine.captures.append(self.capture)
        return self.graph

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        try:
            self._finish(error)
        finally:
            self.capture.let_go()
            del self.memory

    def _finish(self, error: BaseException | None) -> None:
        try:
            handle = self._end()
        except DriverError as failed:
            self.graph.close()
            if error is None:
                raise self._explained(failed) from failed
            return
        if error is not None or not self.capture.nodes:
            with self.device.call() as driver:
                driver.graph_destroy(self.device.index, handle)
            self.graph.close()
            if error is None:
                raise self._empty()
            return
        self._instantiate(handle)

    def _end(self) -> int:
        """The graph's handle. Whatever the driver answers, the capture is over for this process."""
        capture, machine = self.capture, self.device.machine
        try:
            with self.device.call() as driver:
                try:
                    return driver.capture_end(self.device.index, self.stream.handle)
                except DriverError as failed:
                    if not failed.sticky:
                        self._discard()
                    raise
        finally:
            machine.captures.remove(capture)
            capture.over, self.memory.capture = True, None
            for stream in capture.streams.values():
                stream.capture = None
                stream.device.domain.capture_ends(stream.id)
            machine.settle()

    def _discard(self) -> None:
        """A call that failed to end the capture may have left it open."""
        driver, index, stream = self.device.driver, self.device.index, self.stream.handle
        with suppress(DriverError):
            if driver.capture_info(index, stream).status.name != "none":
                driver.graph_destroy(index, driver.capture_end(index, stream))

    def _instantiate(self, handle: int) -> None:
        index = self.device.index
        try:
            if self.device.machine.captures:
                forbid_unsafe(self.device.machine.captures, f"the end of the capture of `{self.name}`")
            with self.device.call() as driver:
                executable = driver.graph_instantiate(index, handle)
        except (BadInput, DriverError):
            self.graph.close()
            raise
        finally:
            with self.device.call() as driver:
                driver.graph_destroy(index, handle)
        self.graph._captured(executable, self.capture)

    def _empty(self) -> BadInput:
        went = "" if self.capture.stray is None else f"; the first work meanwhile was {self.capture.stray}, which takes no part"
        return BadInput(f"{self.capture!r} is empty: nothing was issued to {self.stream!r}{went}. Issue its work to that stream")

    def _explained(self, failed: DriverError) -> DriverError:
        end = law.ENDS.get(failed.status)
        if end is None:
            return failed
        who = self.capture.offender
        if end.name == "unjoined":
            who = ", ".join(self.capture.unjoined())
        elif end.name == "invalidated" and who is None:
            who = "a call beside this runtime, by another library or straight to the driver"
        by = "" if who is None else f" by {who}" if end.name == "invalidated" else f": {who}"
        text = f"{self.capture!r} {end.why}{by}; {end.instead}"
        return DriverError(text, call=failed.call, status=failed.status, sticky=failed.sticky)


class GraphCache(Generic[Step]):
    """Graphs of one step at several sizes. A size is padded to the next of `buckets`; its graph is captured when it is first asked for.

    `step(size)` issues the step of that many rows to `stream`, and answers whatever the program needs to fill and to read it. At most
    `cap` graphs live: the one that was not asked for the longest is closed. `reserve` bytes are there before each capture.
    """

    def __init__(
        self,
        stream: Stream,
        step: Callable[[int], Step],
        buckets: Sequence[int],
        *,
        cap: int = 8,
        name: str | None = None,
        reserve: int | str = 0,
        mode: str = "thread_local",
    ) -> None:
        if not isinstance(stream, Stream):
            raise BadInput(f"graphs: {type(stream).__name__} is no stream; give the one that captures and replays the step")
        self.stream, self.name = stream, title(stream.name if name is None else name, "graph name")
        self.buckets = tuple(sorted({count(b, f"graphs of {self.name}: bucket", 1) for b in buckets}))
        if not self.buckets:
            raise BadInput(f"graphs of {self.name}: no bucket; give the sizes that a step is padded to")
        self.cap = count(cap, f"graphs of {self.name}: cap", 1)
        self.captures = 0  # so far
        self._step, self._reserve, self._mode = step, reserve, mode
        self._graphs: OrderedDict[int, tuple[Graph, Step]] = OrderedDict()

    def bucket(self, size: int) -> int:
        """The size that `size` is padded to. Raises BadInput above the largest."""
        size = count(size, f"graphs of {self.name}: size", 1)
        for bucket in self.buckets:
            if size <= bucket:
                return bucket
        raise BadInput(f"graphs of {self.name}: size {size} is above the largest bucket, {self.buckets[-1]}; add one")

    def prepare(self, size: int) -> Step:
        """What `step` answered for the bucket of `size`, capturing its graph where there is none. Raises as a capture does."""
        bucket = self.bucket(size)
        if bucket not in self._graphs:
            while len(self._graphs) >= self.cap:
                self._graphs.popitem(last=False)[1][0].close()
            with capture(self.stream.device, self.stream, f"{self.name}.{bucket}", self._reserve, self._mode) as graph:
                step = self._step(bucket)
            self.captures += 1
            self._graphs[bucket] = graph, step
        self._graphs.move_to_end(bucket)
        return self._graphs[bucket][1]

    def replay(
        self,
        size: int,
        stream: Stream | None = None,
        reads: Sequence[Array | Buffer] = (),
        writes: Sequence[Array | Buffer] = (),
    ) -> Step:
        """Replays the graph for `size` on `stream`, or where it was captured, and answers as `prepare`; `reads` and `writes` are
        Graph.replay's.
        """
        step = self.prepare(size)
        self._graphs[self.bucket(size)][0].replay(self.stream if stream is None else stream, reads, writes)
        return step

    @property
    def graphs(self) -> dict[int, Graph]:
        """Those that live, by bucket, the one asked for last at the end."""
        return {bucket: graph for bucket, (graph, _) in self._graphs.items()}

    def close(self) -> None:
        """Closes every graph."""
        while self._graphs:
            self._graphs.popitem()[1][0].close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
