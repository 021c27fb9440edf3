"""pinned: a pool of pinned host memory, for staging that copies read and write beside the host. Its blocks are pool.py's, from another
source: as large as was asked, rounded up to 512 bytes and never to a power of two.

Note [The host is in no stream]. What is freed in a stream's order may be handed out again in that order, but the host writes to a
pinned block the moment it gets one. So a block comes back only when everything that its streams were given is known complete: it
belongs to a stream that never works, and is lent to those that do.
"""

from __future__ import annotations

from collections.abc import Sequence

from forebay._core.pool import Gauges
from forebay.runtime.arguments import title
from forebay.runtime.buffer import Buffer
from forebay.runtime.debug import Report
from forebay.runtime.device import Device, require_device
from forebay.runtime.pool import Pool
from forebay.tape.events import Space

__all__ = ["PinnedPool"]


class _PinnedBlocks(Pool):
    _space = Space.pinned


class PinnedPool:
    """Pinned memory beside one device. The arguments are Pool's. Its buffers have a host view (`Buffer.numpy`).

    `alloc` gives a buffer that nothing uses any more, host and streams alike. A free never waits: the bytes come back when the
    copies of every stream that used the buffer are complete. Until then the host view must not be touched again. With `debug` the host
    itself fills the canaries and, once the block is nobody's, the poison: also a late write through a host view is found.
    """

    def __init__(
        self,
        device: Device,
        name: str,
        limit: int | str | None = None,
        buckets: Sequence[int] = (),
        consumer: str | None = None,
        *,
        wait_limit: float = 10.0,
        debug: bool | int | str = False,
    ) -> None:
        self.name, self.consumer = title(name, "pool name"), consumer
        self.device = require_device(device, f"pool {name}")
        self._host = device.stream(f"{name} (host)", kind="nonblocking")
        self._blocks = _PinnedBlocks(device, name, limit, buckets, consumer, wait_limit=wait_limit, debug=debug)
        self.free_address, self.lend_address = self._blocks.free_address, self._blocks.lend_address
        self.trim = self._blocks.trim  # () -> bytes given back to the driver; waits as the driver's free does
        self.walk = self._blocks.walk  # () -> None, or ForebayError: a defect of forebay
        self.check = self._blocks.check  # of one made with `debug`, as Pool.check

    def alloc(self, nbytes: int) -> Buffer:
        """A buffer of at least `nbytes`. Raises PoolExhausted, Pending, DriverError as Pool does."""
        return self._blocks.alloc(nbytes, self._host)

    @property
    def reports(self) -> tuple[Report, ...]:
        """Of a pool made with `debug`: every misuse that it found so far."""
        return self._blocks.reports

    def alloc_address(self, nbytes: int) -> int:
        """The same without a buffer: `lend_address` for every stream that uses the block, then `free_address`."""
        return self._blocks.alloc_address(nbytes, self._host)

    def gauges(self) -> Gauges:
        """The figures now (forebay.gauges); bytes whose copies are under way are `pending`."""
        return self._blocks.gauges(self._host)

    def __repr__(self) -> str:
        return f"Pinned{self._blocks!r}"
