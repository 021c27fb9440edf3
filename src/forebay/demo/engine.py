"""engine: the server's work as launches on three streams: prompts up and tokens down on `copy`, the transformer on `compute`, the
choice of tokens on `sample`, joined by events. Weights, activations, pages and staging memory come from pools of their own.

Which request runs when is scheduler.py's, what a launch computes kernels.py's, a decode step as one graph captured.py's. It never waits
for the device.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence as Many
from dataclasses import dataclass, fields
from functools import partial
from math import prod
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from forebay.demo import kernels
from forebay.demo.model import Shape, Weights
from forebay.runtime import Array, Buffer, PagedPool, PinnedPool, Pool, Sequence, SimDevice

if TYPE_CHECKING:
    from forebay.demo.scheduler import Running

PAGE_TOKENS = 16
_ITEM = 8  # bytes of a number in fixed point
_CELL = np.dtype(np.int32)  # of a page

# Note [What a kernel of the demo takes]. Of a decode step, a few rows at a time, less than launching it costs the host in the guide's
# table (5 to 10 us): such a step is bound by launches. The kernels of a prompt take the cost table's 10 us.
KERNEL_NS = {"decode": 4_000}


@dataclass(frozen=True, slots=True)
class Limits:
    """Bytes that each pool may take."""

    weights: str = "8MiB"
    activations: str = "16MiB"
    kv: str = "512KiB"
    staging: str = "8MiB"


@dataclass(frozen=True, slots=True)
class Issued:
    """Tokens that the device was asked for: whose they are, and where the host will find them."""

    rows: tuple[Running, ...]
    tokens: Buffer


class Engine:
    """One server's memory and streams on a device. Creating it uploads the weights."""

    def __init__(self, device: SimDevice, weights: Weights, slots: int, limits: Limits) -> None:
        self.device, self.shape = device, weights.shape
        self.copy, self.compute, self.sample = (device.stream(name) for name in ("copy", "compute", "sample"))
        self.upload = self.copy  # of prompts
        self.uploaded, self.scored, self.sampled = device.event(), device.event(), device.event()
        self.weights = Pool(device, "weights", limits.weights)
        self.activations = Pool(device, "activations", limits.activations)
        self.staging = PinnedPool(device, "staging", limits.staging)
        self.kv = PagedPool(
            device, "kv", limits.kv, page_bytes=_page_bytes(weights.shape), page_tokens=PAGE_TOKENS, wait_limit=0.0
        )
        self.embedding, self.place, self.noise = (
            self._upload(matrix) for matrix in (weights.embed, weights.place, weights.noise)
        )
        self.layers = [{f.name: self._upload(getattr(layer, f.name)) for f in fields(layer)} for layer in weights.layers]
        self.last = self.activations.alloc(slots * _ITEM, self.sample).array(np.int64, slots)
        self.compute.wait(self.copy.record(self.uploaded))
        self.sample.wait(self.uploaded)
        self.pools = (self.weights, self.activations, self.kv, self.staging)
        self.shared_tokens = 0  # of prompts, found in pages that others wrote
        self.refused: str | None = None  # what the runtime said of a step that cannot be captured
        self._sequences: dict[int, Sequence] = {}

    def prefill(self, running: Running) -> Issued:
        """Asks for the first token of a request: every row of its prompt that is not found in the pages already."""
        prompt = running.request.prompt
        sequence = self._sequences[running.request.number] = self.kv.open(self.compute, prompt[:-1])
        start = sequence.written
        self.shared_tokens += start
        sequence.grow(len(prompt) - start, self.compute)
        places = tuple(range(start, len(prompt)))
        tokens = self._uploaded_tokens(prompt[start:])
        x = self._rows(len(places))
        self._launch(
            "prefill.embed",
            partial(kernels.embed, places),
            [tokens.array(np.int64, len(places)), self.embedding, self.place],
            [x],
        )
        tokens.free()
        self._transform("prefill", x, places, [sequence] * len(places))
        sequence.commit(prompt[start:], self.compute)
        return self._choose("prefill", x, [running])

    def decode(self, batch: Many[Running]) -> Issued:
        """Asks for one token more of each request; what it is fed is the token that was sampled last, known to the host or not."""
        places, sequences = self._grown(batch)
        x = self._rows(len(batch))
        cells = [self.last[running.slot : running.slot + 1] for running in batch]
        self._feed(partial(kernels.embed_last, places), [self.embedding, self.place, *cells], x)
        self._transform("decode", x, places, sequences)
        return self._choose("decode", x, batch)

    def tokens_of(self, issued: Issued) -> list[int]:
        """The tokens, one a row. The caller has waited for an event that was recorded on `copy` after they were asked for."""
        self.device.host_access(reads=[issued.tokens])
        tokens = [int(token) for token in issued.tokens.numpy(np.int64)]
        issued.tokens.free()
        return tokens

    def commit(self, running: Running, token: int) -> None:
        """The token was fed: its keys and values are written, and the host knows now what it was."""
        self._sequences[running.request.number].commit([token], self.compute)

    def finish(self, running: Running) -> None:
        """Gives the request's pages back, after whatever the device was asked to do with them."""
        self._sequences.pop(running.request.number).finish()

    def _grown(self, batch: Many[Running]) -> tuple[tuple[int, ...], list[Sequence]]:
        """Where the next token of each request stands, and its pages, with room for it."""
        sequences = [self._sequences[running.request.number] for running in batch]
        for sequence in sequences:
            sequence.grow(1, self.compute)
        return tuple(running.place for running in batch), sequences

    def _feed(self, embed: Callable[..., object], reads: Many[Array], x: Array) -> None:
        """Begins a step with the tokens that were sampled last, once they are there."""
        self.compute.wait(self.sampled)
        self._launch("decode.embed", embed, reads, [x])

    def _let_go(self, logits: Array) -> None:
        logits.buffer.free()

    def _transform(self, phase: str, x: Array, places: tuple[int, ...], sequences: Many[Sequence]) -> None:
        query, mixed = self._rows(len(places)), self._rows(len(places))
        rows, pages = self._tables(places, sequences)
        for index, layer in enumerate(self.layers):
            cells = [self._cell(sequence, at, index) for sequence, at in zip(sequences, places, strict=True)]
            self._launch(f"{phase}.project", kernels.project, [x, layer["wq"], layer["wk"], layer["wv"]], [query, *cells])
            attend = partial(kernels.attend, rows, index, self.shape.heads)
            self._launch(f"{phase}.attend", attend, [query, *pages], [mixed])
            self._launch(f"{phase}.close", kernels.close_layer, [mixed, layer["wo"], layer["up"], layer["down"]], [x])
        query.buffer.free()
        mixed.buffer.free()

    def _choose(self, phase: str, x: Array, batch: Many[Running]) -> Issued:
        logits = self._rows(len(batch), self.shape.vocabulary)
        self._launch(f"{phase}.score", kernels.score, [x, self.embedding], [logits])
        x.buffer.free()
        tokens = self._sample(logits, batch)
        self._let_go(logits)
        return self._handed_over(tokens, batch)

    def _sample(self, logits: Array, batch: Many[Running]) -> Buffer:
        """The next token of each request, on `sample`."""
        self.sample.wait(self.compute.record(self.scored))
        tokens = self.activations.alloc(len(batch) * _ITEM, self.sample)
        noises = tuple(17 * running.request.number + running.place for running in batch)
        cells = [self.last[running.slot : running.slot + 1] for running in batch]
        chosen = tokens.array(np.int64, len(batch))
        self.sample.launch(partial(kernels.sample, noises), [logits, self.noise], [chosen, *cells], name="sample")
        return tokens

    def _handed_over(self, tokens: Buffer, batch: Many[Running]) -> Issued:
        """The tokens on their way to the host."""
        self.copy.wait(self.sample.record(self.sampled))
        staged = self.staging.alloc(len(batch) * _ITEM)
        self.copy.copy(staged, tokens)
        tokens.free()
        for running in batch:
            running.issued += 1
        return Issued(tuple(batch), staged)

    def _launch(self, name: str, kernel: Callable[..., object], reads: Many[Array], writes: Many[Array]) -> None:
        self.compute.launch(kernel, reads, writes, name=name, cost_ns=KERNEL_NS.get(name.partition(".")[0]))

    def _tables(self, places: tuple[int, ...], sequences: Many[Sequence]) -> tuple[kernels.Rows, list[Array]]:
        """What attention reads: each sequence's pages up to the furthest of its rows, and which of them are whose."""
        furthest: dict[Sequence, int] = {}
        for sequence, at in zip(sequences, places, strict=True):
            furthest[sequence] = max(at, furthest.get(sequence, 0))
        first: dict[Sequence, int] = {}
        pages: list[Array] = []
        for sequence, at in furthest.items():
            first[sequence] = len(pages)
            pages += self._pages(sequence, at + 1)
        begins = (first[sequence] for sequence in sequences)
        tables = tuple(tuple(range(begin, begin + at // PAGE_TOKENS + 1)) for begin, at in zip(begins, places, strict=True))
        return kernels.Rows(places, tables), pages

    def _pages(self, sequence: Sequence, tokens: int) -> list[Array]:
        """The pages of its first tokens, the last as far as they reach."""
        shape = (self.shape.layers, 2, self.shape.width)
        filled = (min(PAGE_TOKENS, tokens - begin) for begin in range(0, tokens, PAGE_TOKENS))
        return [sequence.page(index, _CELL, (slots, *shape)) for index, slots in enumerate(filled)]

    def _cell(self, sequence: Sequence, at: int, layer: int) -> Array:
        """Where the key and the value of one token in one layer lie."""
        page, slot = divmod(at, PAGE_TOKENS)
        cell = (2, self.shape.width)
        return sequence.page(page, _CELL, cell, (slot * self.shape.layers + layer) * prod(cell) * _CELL.itemsize)

    def _rows(self, rows: int, width: int | None = None) -> Array:
        """Scratch for `compute`, (rows, width) numbers."""
        shape = (rows, width or self.shape.width)
        return self.activations.alloc(prod(shape) * _ITEM, self.compute).array(np.int64, shape)

    def _upload(self, matrix: NDArray[np.int64]) -> Array:
        """A weight, by way of staging memory."""
        staged = self._staged(matrix)
        weight = self.weights.alloc(matrix.nbytes, self.copy).array(np.int64, matrix.shape)
        self.copy.copy(weight, staged)
        staged.free()
        return weight

    def _uploaded_tokens(self, tokens: Many[int]) -> Buffer:
        staged = self._staged(np.array(tokens, np.int64))
        there = self.activations.alloc(staged.nbytes, self.upload)
        self.upload.copy(there, staged)
        staged.free()
        self.compute.wait(self.upload.record(self.uploaded))
        return there

    def _staged(self, matrix: NDArray[np.int64]) -> Buffer:
        """The matrix in pinned memory."""
        staged = self.staging.alloc(matrix.nbytes)
        staged.numpy(np.int64, matrix.shape)[:] = matrix
        self.device.host_access(writes=[staged])
        return staged


def _page_bytes(shape: Shape) -> int:
    return PAGE_TOKENS * shape.layers * 2 * shape.width * _CELL.itemsize
