"""runtime: what a program is written with: devices, streams, events, buffers. It issues; pools and order are judged elsewhere.

Memory comes from pool.py, what is recorded goes through the drivers of native/driver.
"""

from forebay.runtime.buffer import Array, Buffer
from forebay.runtime.cuda import CudaDevice
from forebay.runtime.device import Device, SimDevice
from forebay.runtime.driver_pool import DriverPool
from forebay.runtime.graph import Graph, GraphCache
from forebay.runtime.paged import PagedPool, Sequence
from forebay.runtime.pinned import PinnedPool
from forebay.runtime.pool import Pool
from forebay.runtime.recorder import recording
from forebay.runtime.schedule import Schedule
from forebay.runtime.stream import Event, Stream

__all__ = [
    "Array",
    "Buffer",
    "CudaDevice",
    "Device",
    "DriverPool",
    "Event",
    "Graph",
    "GraphCache",
    "PagedPool",
    "PinnedPool",
    "Pool",
    "Schedule",
    "Sequence",
    "SimDevice",
    "Stream",
    "recording",
]
