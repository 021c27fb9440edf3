"""capture_faults: engines that do in their captured step what a capture forbids, or lose what a graph needs. The runtime refuses the call
where it is made; each engine then does without, and serves the right tokens all the same.

Which of them are on offer, and who catches what, is faults.py's table; why a call breaks a capture is capture_law's.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence as Many
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from forebay.demo.captured import CapturedEngine, Step
from forebay.demo.engine import Engine, Issued
from forebay.errors import BadInput, PoolExhausted
from forebay.runtime import Array, Sequence

if TYPE_CHECKING:
    from forebay.demo.scheduler import Running


class _LaunchesInstead(CapturedEngine):
    """Its capture is refused, and it decodes launch by launch."""

    def _capture(self) -> None:
        try:
            super()._capture()
        except (BadInput, PoolExhausted) as refused:
            self.refused = str(refused)

    def decode(self, batch: Many[Running]) -> Issued:
        return Engine.decode(self, batch)


class SyncsInside(_LaunchesInstead):
    """Waits for the step's end as one does while debugging."""

    def _step(self, rows: int) -> Step:
        step = super()._step(rows)
        self.compute.synchronize()
        return step


class WaitsOutside(_LaunchesInstead):
    """Waits for the upload of the weights, which was recorded long before the capture."""

    def _step(self, rows: int) -> Step:
        self.compute.wait(self.uploaded)
        return super()._step(rows)


class AsksInside(_LaunchesInstead):
    """Asks whether the step is done, as an allocator does before it hands freed memory out again."""

    def _step(self, rows: int) -> Step:
        step = super()._step(rows)
        self.compute.record(self.scored).ready()
        return step


class AsksTooMuch(_LaunchesInstead):
    """A workspace that no device of this size has, taken inside the capture."""

    def _step(self, rows: int) -> Step:
        self.activations.alloc(128 * 2**20, self.compute)
        return super()._step(rows)


class CapturesNothing(_LaunchesInstead):
    """The step goes to another stream than the one that captures."""

    def _step(self, rows: int) -> Step:
        inputs = self.activations.alloc(512, self.sample).array(np.int64, 64)
        self.sample.memset(inputs, 0)
        return Step(inputs, inputs)


class PinsMeanwhile(CapturedEngine):
    """While the step is captured in the global mode another thread, which loads data, takes pinned memory from the driver."""

    mode: ClassVar[str] = "global"

    def _step(self, rows: int) -> Step:
        step = super()._step(rows)
        loader = threading.Thread(target=self._load, name="loader")
        loader.start()
        loader.join()
        return step

    def _load(self) -> None:
        try:
            self.device.host_alloc(4096).free()
        except BadInput as refused:
            self.refused = str(refused)


class ReplacesAWeight(CapturedEngine):
    """Once it has served a while a weight is uploaded anew, into another block; the old one is given back. The graphs still mean that."""

    def _replayed(self, batch: Many[Running], places: tuple[int, ...], sequences: Many[Sequence]) -> Array:
        if self.refused is None:
            self._replace(self.layers[0])
        try:
            return super()._replayed(batch, places, sequences)
        except BadInput as refused:
            self.refused = str(refused)
        self.device.synchronize()  # what the graphs still have to do, and the inputs that they still read
        self.graphs.close()
        self._capture()
        return super()._replayed(batch, places, sequences)

    def _replace(self, layer: dict[str, Array]) -> None:
        old = layer["wq"]
        layer["wq"] = self.weights.alloc(old.nbytes, self.compute).array(old.dtype, old.shape)
        self.compute.copy(layer["wq"], old)
        old.buffer.free()
