"""memory_faults: engines that handle memory as programs in trouble do. Each leaves a tape on which the doctor finds its incident, and
serves the right tokens all the same: what is refused is done without.

Which of them are on offer, and who catches what, is faults.py's table.
"""

from __future__ import annotations

from typing import Final

from forebay.demo.engine import Engine, Issued, Limits
from forebay.demo.model import Weights
from forebay.demo.scheduler import Running
from forebay.errors import PoolExhausted
from forebay.runtime import Array, Buffer, Pool, SimDevice

MIB: Final = 2**20


class KeepsRecordsAmongScratch(Engine):
    """A record of each request is kept for good, in the pool and beside the scratch of its prompt: between the records the scratch comes
    free in pieces, and the prompt that needs more at once is refused.
    """

    def __init__(self, device: SimDevice, weights: Weights, slots: int, limits: Limits) -> None:
        super().__init__(device, weights, slots, limits)
        self._records: list[Buffer] = []
        self._scratch: list[Buffer] = []

    def prefill(self, running: Running) -> Issued:
        if len(self._records) < 9:
            self._scratch.append(self.activations.alloc(MIB, self.compute))
            self._records.append(self.activations.alloc(MIB // 2, self.compute))
        elif self._scratch:
            for scratch in self._scratch:
                scratch.free()
            self._scratch.clear()
            self._long_prompt()
        return super().prefill(running)

    def _long_prompt(self) -> None:
        try:
            self.activations.alloc(5 * MIB, self.compute).free()
        except PoolExhausted:
            return  # it is computed in parts


class TakesMoreThanTheCard(Engine):
    """A workspace for each slot, from a pool without a limit; all of them together are more than the card has."""

    def __init__(self, device: SimDevice, weights: Weights, slots: int, limits: Limits) -> None:
        super().__init__(device, weights, slots, limits)
        self._workspaces: list[Buffer] = []
        self._with_workspaces(Pool(device, "workspaces"), slots)

    def _with_workspaces(self, pool: Pool, slots: int) -> None:
        try:
            self._workspaces += (pool.alloc(10 * MIB, self.compute) for _ in range(slots))
        except PoolExhausted:
            return  # some slots do without


class ConvertsOnAStreamOfItsOwn(TakesMoreThanTheCard):
    """Weights are converted on a stream that does nothing else, from a pool that keeps what it has: what is left is too little for the
    workspaces, while the larger part of the card lies idle.
    """

    def _with_workspaces(self, pool: Pool, slots: int) -> None:
        self._converter = Pool(self.device, "converter", gives_back=False)
        self._converter.alloc(40 * MIB, self.device.stream("convert")).free()
        super()._with_workspaces(pool, slots)


class EmptiesTheCache(Engine):
    """After every step the pool gives its idle memory back to the driver, and takes it again in the next."""

    def __init__(self, device: SimDevice, weights: Weights, slots: int, limits: Limits) -> None:
        super().__init__(device, weights, slots, limits)
        self._pool = Pool(device, "scratch")

    def prefill(self, running: Running) -> Issued:
        issued = super().prefill(running)
        self._pool.alloc(4 * MIB, self.compute).free()
        self._pool.trim()
        return issued


class KeepsItsLogits(Engine):
    """The logits of every step are kept, for a report that nobody reads."""

    def __init__(self, device: SimDevice, weights: Weights, slots: int, limits: Limits) -> None:
        super().__init__(device, weights, slots, limits)
        self._kept: list[Array] = []

    def _let_go(self, logits: Array) -> None:
        self._kept.append(logits)
