"""captured: the engine whose decode step is captured once for each size of batch and replayed: one launch of a graph, where engine.py
launches kernel by kernel.

What the graph's kernels compute is kernels.py's. The choice of tokens stays outside: `sample` works while the next step is prepared.
"""

from __future__ import annotations

from collections.abc import Sequence as Many
from dataclasses import dataclass
from functools import partial
from itertools import cycle
from math import prod
from typing import TYPE_CHECKING, ClassVar, Final

import numpy as np

from forebay.demo import kernels
from forebay.demo.engine import KERNEL_NS, PAGE_TOKENS, Engine, Issued, Limits
from forebay.demo.model import Weights
from forebay.runtime import Array, GraphCache, Sequence, SimDevice

if TYPE_CHECKING:
    from forebay.demo.scheduler import Running

BUCKETS: Final = (4, 8, 12)  # rows that a batch is padded to; the largest is as many as a server has slots


@dataclass(frozen=True, slots=True)
class Step:
    """What a replay reads and writes beside memory that is always there: its inputs, int64 (rows, columns), and its logits."""

    inputs: Array
    logits: Array


class CapturedEngine(Engine):
    """The same server, with a graph for each bucket of batch sizes, captured before the first request."""

    mode: ClassVar[str] = "thread_local"  # of its captures

    def __init__(self, device: SimDevice, weights: Weights, slots: int, limits: Limits) -> None:
        super().__init__(device, weights, slots, limits)
        self._columns = kernels.TABLE + -(-self.shape.places // PAGE_TOKENS)
        shape = (self.kv.pages, PAGE_TOKENS, self.shape.layers, 2, self.shape.width)
        self.all_pages = self.kv.storage().array(np.int32, shape)
        inputs = (BUCKETS[-1], self._columns)
        self._places = cycle([self.staging.alloc(prod(inputs) * 8).array(np.int64, inputs) for _ in range(2)])
        self.graphs = GraphCache(self.compute, self._step, BUCKETS, cap=len(BUCKETS), name="decode", mode=self.mode)
        self._capture()

    def decode(self, batch: Many[Running]) -> Issued:
        places, sequences = self._grown(batch)
        logits = self._replayed(batch, places, sequences)
        return self._handed_over(self._sample(logits[: len(batch)], batch), batch)

    def _replayed(self, batch: Many[Running], places: tuple[int, ...], sequences: Many[Sequence]) -> Array:
        """The logits of a step: its inputs go up, and once the tokens that it is fed are there its graph runs."""
        self.compute.copy(self.graphs.prepare(len(batch)).inputs, self._staged_inputs(batch, sequences))
        self.compute.wait(self.sampled)
        reads, writes = self._read(places, sequences), self._written(places, sequences)
        return self.graphs.replay(len(batch), reads=reads, writes=writes).logits

    def _capture(self) -> None:
        for bucket in BUCKETS:
            self.graphs.prepare(bucket)

    def _step(self, rows: int) -> Step:
        """Issues a step of so many rows, to be captured. Its memory is the graph's: what is freed here is used again within it."""
        inputs = self._rows(rows, self._columns)
        x, query, mixed = self._rows(rows), self._rows(rows), self._rows(rows)
        self._launch("decode.embed", kernels.embed_step, [inputs, self.embedding, self.place, self.last], [x])
        for index, layer in enumerate(self.layers):
            self._through_pages(
                "decode.project", partial(kernels.project_step, index), [inputs, x, layer["wq"], layer["wk"], layer["wv"]], query
            )
            attend = partial(kernels.attend_step, index, self.shape.heads)
            self._through_pages("decode.attend", attend, [inputs, query], mixed)
            self._launch("decode.close", kernels.close_layer, [mixed, layer["wo"], layer["up"], layer["down"]], [x])
        for scratch in (query, mixed):
            scratch.buffer.free()
        logits = self._rows(rows, self.shape.vocabulary)
        self._launch("decode.score", kernels.score, [x, self.embedding], [logits])
        x.buffer.free()
        return Step(inputs, logits)

    def _through_pages(self, name: str, kernel: partial[None], reads: Many[Array], write: Array) -> None:
        self.compute.launch(kernel, reads, [write], indexed=[self.all_pages], name=name, cost_ns=KERNEL_NS["decode"])

    def _staged_inputs(self, batch: Many[Running], sequences: Many[Sequence]) -> Array:
        """A row of each request, and of nothing where the batch is padded (Note [Inputs of a step]), in pinned memory. There are two
        places for them: a server reads the tokens of a step before it issues the one after the next.
        """
        inputs = next(self._places)[: self.graphs.bucket(len(batch))]
        rows = inputs.buffer.numpy(np.int64, inputs.shape)
        rows[:] = 0
        for row, running, sequence in zip(rows, batch, sequences, strict=False):
            table = sequence.table
            row[kernels.PLACE], row[kernels.SLOT] = running.place, running.slot
            row[kernels.TABLE : kernels.TABLE + len(table)] = table
        self.device.host_access(writes=[inputs])
        return inputs

    def _read(self, places: Many[int], sequences: Many[Sequence]) -> list[Array]:
        """What attention reads: each request's pages as far as they are written."""
        return [page for sequence, at in zip(sequences, places, strict=True) for page in self._pages(sequence, at + 1)]

    def _written(self, places: Many[int], sequences: Many[Sequence]) -> list[Array]:
        """The cells of each request's next token, one a layer."""
        layers = range(self.shape.layers)
        return [self._cell(sequence, at, layer) for sequence, at in zip(sequences, places, strict=True) for layer in layers]
