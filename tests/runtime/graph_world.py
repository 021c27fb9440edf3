"""graph_world: a device with two streams and a step to capture, for the suites on graphs."""

import numpy as np

from forebay import Pool, SimDevice

MEMORY_CALLS = ("malloc", "free", "host_alloc", "host_free", "create", "release", "map", "unmap", "set_access")
WAITS = ("stream_sync", "stream_query", "event_sync", "event_query", "device_sync")


def add_one(source, target):
    target[:] = source + 1


def host(stream, buffer):
    out = np.zeros(buffer.nbytes, "u1")
    stream.copy(out, buffer)
    return out.tolist()


class World:
    def __init__(self, seed=None, capacity="64MiB"):
        self.device = SimDevice(capacity, seed=seed)
        self.main, self.side = (self.device.stream(name, kind="nonblocking") for name in ("main", "side"))
        self.pool = Pool(self.device, "p")
        self.x = self.filled(0)

    def filled(self, value):
        buffer = self.pool.alloc(4, self.main)
        self.main.memset(buffer, value)
        return buffer

    def calls(self, names):
        return sum(self.device.driver_calls[name] for name in names)

    def step(self):
        """x + 2 into x, by way of memory that lives only in the capture."""
        between = self.pool.alloc(4, self.main)
        self.main.launch(add_one, [self.x], [between])
        self.main.launch(add_one, [between], [self.x])
        between.free()
