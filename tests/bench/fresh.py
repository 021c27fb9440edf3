"""fresh: a CUDA device over a fake libcuda that nobody used before."""

import gc

from fake_cuda.library import FakeCuda
from forebay.runtime import CudaDevice, cuda


def over_a_fresh_fake(*capacities: int) -> CudaDevice:
    gc.collect()  # what an earlier test left would meet a fresh fake
    cuda._machines.clear()
    return CudaDevice(library=FakeCuda(*capacities).path)
