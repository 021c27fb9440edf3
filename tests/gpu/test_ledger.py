"""The ledger of a process, its lines from the pools and the rest from NVML, against what NVML says of the card. Bytes."""

import os

from conformance.instances import LIBCUDA
from forebay.gauges import LEDGER, ledger
from forebay.runtime import CudaDevice, Pool
from forebay.sources import nvml

MIB, GIB = 2**20, 2**30


def seen():
    """The card, and what NVML says that this process has of it."""
    (card, *_) = nvml.look().gpus
    return card, {process.pid: process.used for process in card.processes}[os.getpid()]


def test_the_lines_of_a_process_with_a_context_a_cache_and_a_graph_sum_to_what_nvml_says():
    device = CudaDevice(library=str(LIBCUDA))
    stream, live, idle = device.stream("s", kind="nonblocking"), Pool(device, "live"), Pool(device, "idle")
    target = device.malloc(512)
    with device.capture(stream) as graph:
        stream.memset(target, 1)
    graph.replay(stream)
    device.synchronize()
    _, without_pools = seen()
    block = live.alloc(10 * MIB, stream)
    idle.alloc(GIB, stream).free()
    device.synchronize()

    card, process = seen()
    told = ledger(card.used, process, [live.gauges(), idle.gauges()])
    assert (told["cached"], told["live"], told["pending"], told["unknown_together"]) == (GIB, 10 * MIB, 0, 0)
    assert abs(told["outside_pools"] - without_pools) <= 2 * MIB  # context, module, graph: measured before the pools had anything
    again, _ = seen()
    assert abs(sum(told[name] for name in LEDGER) - again.used) <= 2 * MIB
    block.free()
