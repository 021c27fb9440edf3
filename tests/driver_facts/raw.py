"""raw: libcuda as it is, called through ctypes: the fake one, or with FOREBAY_LIBCUDA a real one. Facts are stated over this, with none of
our code between. Codes are CUresult numbers.
"""

import contextlib
import ctypes
import threading
from collections.abc import Iterator

from conformance.instances import LIBCUDA, MIB
from fake_cuda.library import FakeCuda

GRANULE = 2 * MIB
OK, INVALID, NOT_INITIALIZED, NO_CONTEXT, NOT_READY = 0, 1, 3, 201, 600
UNSUPPORTED, INVALIDATED, UNJOINED, ISOLATION, IMPLICIT, CAPTURED_EVENT = 900, 901, 904, 905, 906, 907
NOT_SUPPORTED = 801
GLOBAL, THREAD_LOCAL, RELAXED = 0, 1, 2
BLOCKING, NONBLOCKING = 0, 1
LEGACY = 1

_SPIN = b"""
.version 7.0
.target sm_70
.address_size 64
.visible .entry spin(.param .u64 ns) {
  .reg .u64 %t<4>;
  .reg .pred %p;
  ld.param.u64 %t0, [ns];
  mov.u64 %t1, %globaltimer;
again:
  mov.u64 %t2, %globaltimer;
  sub.u64 %t3, %t2, %t1;
  setp.lt.u64 %p, %t3, %t0;
  @%p bra again;
  ret;
}
.visible .entry poke(.param .u64 address) {
  .reg .u64 %a;
  .reg .u32 %v;
  ld.param.u64 %a, [address];
  mov.u32 %v, 1;
  st.global.u32 [%a], %v;
  ret;
}
"""


class _FrameKind(ctypes.Structure):
    _fields_ = (
        ("type", ctypes.c_int),
        ("exported", ctypes.c_int),
        ("where", ctypes.c_int),
        ("device", ctypes.c_int),
        ("windows", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
    )


class _Access(ctypes.Structure):
    _fields_ = (("where", ctypes.c_int), ("device", ctypes.c_int), ("rights", ctypes.c_int))


FRAME, ACCESS = _FrameKind(1, 0, 1, 0, None, 0), _Access(1, 0, 3)

HostFunction = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class Raw:
    """One device's context is current on the thread that made it. Numbers are 64 bits wide unless ctypes says else."""

    def __init__(self) -> None:
        self.fake = None if LIBCUDA else FakeCuda(512 * MIB)
        self.path = LIBCUDA or self.fake.path
        self.lib = ctypes.CDLL(self.path)
        self.context = ctypes.c_void_p()
        assert self.call("cuInit", ctypes.c_uint(0)) == OK
        assert self.call("cuDevicePrimaryCtxRetain", ctypes.byref(self.context), ctypes.c_int(0)) == OK
        self.enter()
        self._spin = self._poke = None

    def call(self, name: str, *arguments: object) -> int:
        wide = [ctypes.c_uint64(a) if isinstance(a, int) else a for a in arguments]
        return int(getattr(self.lib, name)(*wide))

    def made(self, name: str, *arguments: object) -> int:
        """What the function puts into its first argument; it must succeed."""
        out = ctypes.c_uint64()
        code = self.call(name, ctypes.byref(out), *arguments)
        assert code == OK, f"{name} answered {code}"
        return out.value

    def made_second(self, name: str, argument: object) -> int:
        """The same where the result comes second."""
        out = ctypes.c_uint64()
        code = self.call(name, argument, ctypes.byref(out))
        assert code == OK, f"{name} answered {code}"
        return out.value

    def enter(self) -> None:
        assert self.call("cuCtxPushCurrent_v2", self.context) == OK

    def leave(self) -> None:
        assert self.call("cuCtxPopCurrent_v2", ctypes.byref(ctypes.c_void_p())) == OK

    def on_thread(self, call, *, context: bool = True) -> int:
        """`call()` on another thread."""
        answers = []

        def run() -> None:
            if context:
                self.enter()
            answers.append(call())
            if context:
                self.leave()

        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
        return answers[0]

    # ---- things to state facts about

    def malloc(self, nbytes: int) -> int:
        return self.made("cuMemAlloc_v2", nbytes)

    def pinned(self, nbytes: int) -> int:
        return self.made("cuMemHostAlloc", nbytes, ctypes.c_uint(0))

    def range(self, nbytes: int) -> int:
        return self.made("cuMemAddressReserve", nbytes, 0, 0, 0)

    def frame(self, nbytes: int) -> int:
        return self.made("cuMemCreate", nbytes, ctypes.byref(FRAME), 0)

    def map(self, address: int, nbytes: int, frame: int, offset: int = 0) -> int:
        return self.call("cuMemMap", address, nbytes, offset, frame, 0)

    def open(self, address: int, nbytes: int) -> int:
        return self.call("cuMemSetAccess", address, nbytes, ctypes.byref(ACCESS), 1)

    def mapped(self, nbytes: int) -> int:
        """A range with one frame mapped and opened."""
        address, frame = self.range(nbytes), self.frame(nbytes)
        assert (self.map(address, nbytes, frame), self.open(address, nbytes)) == (OK, OK)
        assert self.call("cuMemRelease", frame) == OK
        return address

    def stream(self, kind: int = NONBLOCKING) -> int:
        return self.made("cuStreamCreateWithPriority", ctypes.c_uint(kind), ctypes.c_int(0))

    def event(self) -> int:
        return self.made("cuEventCreate", ctypes.c_uint(2))

    def free_bytes(self) -> int:
        total = ctypes.c_uint64()
        return self.made("cuMemGetInfo_v2", ctypes.byref(total))

    def read(self, address: int, nbytes: int) -> bytes:
        out = ctypes.create_string_buffer(nbytes)
        assert self.call("cuMemcpyDtoHAsync_v2", out, address, nbytes, LEGACY) == OK
        assert self.call("cuStreamSynchronize", LEGACY) == OK
        return out.raw

    def busy(self, stream: int, ns: int) -> None:
        """The stream works for so long."""
        if self.fake is not None:
            self.fake.busy(stream, ns)
            return
        self._kernels()
        self._launch(self._spin, ns, stream)

    def poke(self, address: int, stream: int) -> int:
        """A kernel that writes four bytes. Of a GPU alone: the fake has no kernels."""
        self._kernels()
        return self._launch(self._poke, address, stream)

    def _kernels(self) -> None:
        if self._spin is None:
            module = ctypes.c_uint64(self.made("cuModuleLoadData", ctypes.c_char_p(_SPIN)))
            self._spin = self.made("cuModuleGetFunction", module, ctypes.c_char_p(b"spin"))
            self._poke = self.made("cuModuleGetFunction", module, ctypes.c_char_p(b"poke"))

    def _launch(self, function: int, value: int, stream: int) -> int:
        one, none = ctypes.c_uint(1), ctypes.c_uint(0)
        parameters = (ctypes.c_void_p * 1)(ctypes.cast(ctypes.pointer(ctypes.c_uint64(value)), ctypes.c_void_p))
        return self.call("cuLaunchKernel", function, one, one, one, one, one, one, none, stream, parameters, None)

    # ---- captures

    @contextlib.contextmanager
    def capture(self, mode: int, kind: int = NONBLOCKING) -> Iterator["Captured"]:
        """A capture with one node. Where it ends, `ended` is what the end came to."""
        captured = Captured(self.stream(kind))
        assert self.call("cuStreamBeginCapture_v2", captured.stream, ctypes.c_int(mode)) == OK
        try:
            yield captured
        finally:
            graph = ctypes.c_void_p()
            captured.ended = self.call("cuStreamEndCapture", captured.stream, ctypes.byref(graph))
            if graph.value:
                self.call("cuGraphDestroy", graph)
            self.call("cuStreamDestroy_v2", captured.stream)


class Captured:
    def __init__(self, stream: int) -> None:
        self.stream = stream
        self.ended = -1
