"""instances: the drivers that the suites run over. Without a GPU the simulated ones and CUDA's over the fake libcuda; `make test-gpu`
names a real libcuda in FOREBAY_LIBCUDA, and they run over that one alone."""

import os
from functools import cache

from fake_cuda.library import FakeCuda
from forebay._core.cuda import CudaDriver
from forebay._core.driver import Driver, FaultyDriver, SimDriver, TapedDriver

MIB = 2**20
CAPACITIES = (256 * MIB, 64 * MIB)
LIBCUDA = os.environ.get("FOREBAY_LIBCUDA")


def sim() -> Driver:
    return SimDriver(list(CAPACITIES))


def sim_seeded() -> Driver:
    return SimDriver(list(CAPACITIES), seed=7)


def sim_wrapped() -> Driver:
    return TapedDriver(FaultyDriver(sim()))


def cuda_on_the_fake() -> Driver:
    return CudaDriver(FakeCuda(*CAPACITIES).path)


def cuda_on_the_gpu() -> Driver:
    _held()
    return CudaDriver(str(LIBCUDA))


@cache
def _held() -> Driver:
    """Keeps the device's context from one test to the next: making it takes a good part of a second."""
    driver = CudaDriver(str(LIBCUDA))
    driver.memory_info(0)
    return driver


SIMULATED = [] if LIBCUDA else [sim, sim_seeded, sim_wrapped]
CUDA = [cuda_on_the_gpu] if LIBCUDA else [cuda_on_the_fake]
DRIVERS = [*SIMULATED, *CUDA]
OF_TWO_DEVICES = [make for make in DRIVERS if make().device_count() > 1] if LIBCUDA else DRIVERS
