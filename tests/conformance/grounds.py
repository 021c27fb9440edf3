"""grounds: a device for the pools of a world, and what lies below every call of theirs that can fail: bytes, busy streams, the device's
own account, and the faults. One a driver; the scenarios are pool_scenarios.py's.
"""

import gc
from contextlib import suppress
from typing import Protocol

from fake_cuda.library import FakeCuda
from forebay._core.driver import Status
from forebay.errors import DriverError
from forebay.runtime import CudaDevice, SimDevice
from forebay.runtime.cuda import _CudaMachine
from forebay.runtime.device import Device

MIB = 2**20
CAPACITY = 96 * MIB


class Ground(Protocol):
    device: Device
    captures: bool  # whether streams can capture here
    wait_limit: float  # seconds that a pool waits here for what never ends

    def fill(self, stream: int, address: int, value: int, nbytes: int) -> None: ...
    def read(self, address: int, nbytes: int) -> bytes: ...
    def busy(self, stream: int, ns: int) -> None: ...
    def settle(self) -> None: ...
    def account(self) -> dict[str, int]: ...

    def end_capture(self, stream: int) -> None:
        """Ends, below, what a device that the pools have lost could not end."""
        ...

    @property
    def calls(self) -> int:
        """Calls so far, each of which a plan could have struck."""
        ...

    def done_all_the_same(self) -> bool:
        """Whether the call that failed last had done its work: it met the error on its way out."""
        ...

    def plan(self, nth: int, status: str, *, clean_up: bool = False) -> None:
        """The `nth` call from now fails so; with `clean_up` the nth of those that give back."""
        ...

    def plans_left(self) -> int: ...
    def forget_plans(self) -> None: ...


class SimGround:
    """The simulated device; calls of the port fail."""

    captures = True
    wait_limit = 0.01
    CLEAN_UP = ("free", "unmap", "release", "release_range", "event_destroy", "host_free", "stream_destroy")

    def __init__(self) -> None:
        self.device = SimDevice(CAPACITY)
        self.sim, self._faulty = self.device.sim, self.device.machine.faulty

    def fill(self, stream: int, address: int, value: int, nbytes: int) -> None:
        self.sim.memset(0, address, value, nbytes, stream)

    def read(self, address: int, nbytes: int) -> bytes:
        out = bytearray(nbytes)
        self.sim.download(0, out, address, 1)
        return bytes(out)

    def busy(self, stream: int, ns: int) -> None:
        self.sim.launch(0, stream, "busy", ns, [], lambda memory: True)

    def settle(self) -> None:
        self.sim.device_sync(0)

    def end_capture(self, stream: int) -> None:
        if self.sim.stream_capturing(0, stream):
            with suppress(DriverError):
                self.sim.graph_destroy(0, self.sim.capture_end(0, stream))

    def account(self) -> dict[str, int]:
        account = self.sim.account(0)
        return {name: getattr(account, name) for name in dir(account) if not name.startswith("_")}

    @property
    def calls(self) -> int:
        return sum(self.device.driver_calls.values())

    def done_all_the_same(self) -> bool:
        return False

    def plan(self, nth: int, status: str, *, clean_up: bool = False) -> None:
        self.device.fail(self.CLEAN_UP if clean_up else None, nth=nth, status=status)

    def plans_left(self) -> int:
        return self._faulty.plans_left()

    def forget_plans(self) -> None:
        self._faulty.forget_plans()


def _drop_what_the_last_world_left() -> None:
    """libcuda is the process's: handles of a world that nobody holds any more must go before their numbers come back."""
    gc.collect()


class FakeGround:
    """CUDA's driver over the fake libcuda; calls of libcuda fail, those too that a call of the port makes on the way."""

    captures = False
    wait_limit = 0.0005  # of real time
    CLEAN_UP = "cuMemFree cuMemUnmap cuMemRelease cuMemAddressFree cuEventDestroy cuMemFreeHost cuStreamDestroy"

    def __init__(self) -> None:
        _drop_what_the_last_world_left()
        self.fake = FakeCuda(CAPACITY)
        self.device = CudaDevice.__new__(CudaDevice)
        self.device._enter(_CudaMachine(self.fake.path), 0)

    def fill(self, stream: int, address: int, value: int, nbytes: int) -> None:
        self.fake.fill(stream, address, value, nbytes)

    def read(self, address: int, nbytes: int) -> bytes:
        return self.fake.read(address, nbytes)

    def busy(self, stream: int, ns: int) -> None:
        self.fake.busy(stream, ns)

    def end_capture(self, stream: int) -> None:
        pass

    def settle(self) -> None:
        self.fake.settle()

    def account(self) -> dict[str, int]:
        return self.fake.account()

    @property
    def calls(self) -> int:
        return self.fake.calls

    def done_all_the_same(self) -> bool:
        return self.fake.struck in ("cuCtxPopCurrent", "cuThreadExchangeStreamCaptureMode")

    def plan(self, nth: int, status: str, *, clean_up: bool = False) -> None:
        self.fake.plan(self.CLEAN_UP if clean_up else "", nth, int(Status[status]))

    def plans_left(self) -> int:
        return self.fake.plans_left()

    def forget_plans(self) -> None:
        self.fake.forget_plans()
