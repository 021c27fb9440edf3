"""page_model: what a paged pool must do on one stream, in plain lists and dictionaries: no lists of free pages by stream, no epochs,
no hashes. Blocks are numbered by the model, so only who shares with whom can be compared, not which page it is.
"""

from __future__ import annotations

import random
from collections import Counter, OrderedDict

import numpy as np

from forebay.errors import PoolExhausted
from forebay.runtime import PagedPool, Sequence, Stream


class Full(Exception):
    """There are not as many blocks as were asked for."""


class Held:
    """One sequence of the model."""

    def __init__(self) -> None:
        self.blocks: list[int] = []
        self.room = self.written = 0
        self.tail: list[int] = []
        self.last: int | None = 0  # content number of the block before the tail; None: it could not be told apart


class PlainPages:
    """`count` blocks of `step` tokens, taken and given back as the pool promises: kept ones last, the oldest first."""

    def __init__(self, count: int, step: int) -> None:
        self.step, self.never_kept = step, count
        self.holders: Counter[int] = Counter()
        self.filled: dict[int, int] = {}
        self.kept: OrderedDict[int, None] = OrderedDict()  # free blocks whose content can be found, the oldest first
        self.found: dict[tuple[int, tuple[int, ...]], int] = {}  # (content before, tokens) -> block
        self.content: dict[int, tuple[int, tuple[int, tuple[int, ...]]]] = {}  # block -> (content, its key)
        self.numbers = self.contents = 0

    def open(self, tokens: list[int]) -> Held:
        held = Held()
        while len(tokens) - held.room >= self.step:
            key = (held.last or 0, tuple(tokens[held.room : held.room + self.step]))
            if key not in self.found:
                break
            block = self.found[key]
            self.kept.pop(block, None)
            self.holders[block] += 1
            self.filled[block] = self.step
            held.blocks.append(block)
            held.last = self.content[block][0]
            held.room = held.written = held.room + self.step
        return held

    def grow(self, held: Held, tokens: int) -> None:
        room = held.room + tokens
        blocks = -(-room // self.step)
        copies = bool(tokens and held.room % self.step and self.holders[held.blocks[-1]] > 1)
        if blocks - len(held.blocks) + copies > self.never_kept + len(self.kept):
            raise Full
        if copies:
            shared = held.blocks[-1]
            held.blocks[-1] = self._take()
            self.filled[held.blocks[-1]] = held.room % self.step
            self._drop(shared)
        held.blocks += [self._take() for _ in range(blocks - len(held.blocks))]
        for index in range(held.room // self.step, blocks):
            block = held.blocks[index]
            self.filled[block] = max(self.filled.get(block, 0), min(self.step, room - index * self.step))
        held.room = room

    def commit(self, held: Held, tokens: list[int]) -> None:
        held.tail += tokens
        held.written += len(tokens)
        while len(held.tail) >= self.step:
            block = held.blocks[(held.written - len(held.tail)) // self.step]
            key = (held.last or 0, tuple(held.tail[: self.step]))
            del held.tail[: self.step]
            if key not in self.found:
                self.contents += 1
                self.found[key], self.content[block] = block, (self.contents, key)
            held.last = self.content[self.found[key]][0]

    def fork(self, held: Held) -> Held:
        twin = Held()
        twin.blocks, twin.tail, twin.last = list(held.blocks), list(held.tail), held.last
        twin.room = twin.written = held.room
        self.holders.update(twin.blocks)
        return twin

    def finish(self, held: Held) -> None:
        for block in reversed(held.blocks):
            self._drop(block)

    @property
    def live(self) -> int:
        return sum(count > 0 for count in self.holders.values())

    @property
    def asked(self) -> int:
        """Tokens asked for in live blocks."""
        return sum(self.filled[block] for block, count in self.holders.items() if count > 0)

    def _take(self) -> int:
        if self.never_kept:
            self.never_kept -= 1
        else:
            oldest, _ = self.kept.popitem(last=False)
            del self.found[self.content.pop(oldest)[1]]
            del self.holders[oldest]
        self.numbers += 1
        self.holders[self.numbers] = 1
        return self.numbers

    def _drop(self, block: int) -> None:
        self.holders[block] -= 1
        if self.holders[block]:
            return
        if block in self.content:
            self.kept[block] = None
        else:
            self.never_kept += 1
            del self.holders[block]


class Pair:
    """A pool and its model, driven alike; every step compares them."""

    def __init__(self, pool: PagedPool, stream: Stream, seed: int) -> None:
        self.pool, self.stream, self.random = pool, stream, random.Random(seed)
        self.model = PlainPages(pool.pages, pool.page_tokens)
        self.pairs: list[tuple[Sequence, Held, list[int]]] = []
        self.page_of: dict[int, int] = {}
        self.sequences = 0

    def run(self, sequences: int) -> None:
        """Random steps until so many sequences were begun; then all of them end."""
        while self.sequences < sequences:
            self.step()
            self.compare_figures()
            if len(self.page_of) > 100_000:
                self.page_of = {block: page for block, page in self.page_of.items() if block in self.model.holders}
        while self.pairs:
            self.finish()
        self.compare_figures()
        self.pool.walk()

    def step(self) -> None:
        draw = self.random.random()
        if not self.pairs or (draw < 0.3 and len(self.pairs) < 30):
            self.open()
        elif draw < 0.65:
            self.grow()
        elif draw < 0.72:
            self.fork()
        else:
            self.finish()

    def open(self) -> None:
        begin = self.random.randrange(4)
        tokens = [begin + i // 24 * self.random.randrange(2) for i in range(self.random.randrange(70))]
        sequence, held = self.pool.open(self.stream, tokens), self.model.open(tokens)
        self.add(sequence, held, tokens[: held.room])

    def add(self, sequence: Sequence, held: Held, tokens: list[int]) -> None:
        self.sequences += 1
        self.pairs.append((sequence, held, tokens))
        self.compare(sequence, held)

    def grow(self) -> None:
        sequence, held, tokens = self.random.choice(self.pairs)
        count = self.random.randrange(40)
        try:
            sequence.grow(count, self.stream)
        except PoolExhausted:
            before = list(held.blocks)
            try:
                self.model.grow(held, count)
            except Full:
                assert held.blocks == before
                self.compare(sequence, held)
                return
            raise AssertionError("the pool refused what the model can serve") from None
        self.model.grow(held, count)
        fresh = [self.random.randrange(2) for _ in range(count)]
        sequence.commit(fresh, self.stream)
        self.model.commit(held, fresh)
        tokens += fresh
        self.compare(sequence, held)

    def fork(self) -> None:
        sequence, held, tokens = self.random.choice(self.pairs)
        self.add(sequence.fork(self.stream), self.model.fork(held), list(tokens))

    def finish(self) -> None:
        index = self.random.randrange(len(self.pairs))
        self.pairs[index], self.pairs[-1] = self.pairs[-1], self.pairs[index]
        sequence, held, _ = self.pairs.pop()
        sequence.finish()
        self.model.finish(held)

    def compare(self, sequence: Sequence, held: Held) -> None:
        """Room and written tokens are equal, and equal blocks of the model are equal pages of the pool."""
        table = sequence.table
        assert (sequence.room, sequence.written, len(table)) == (held.room, held.written, len(held.blocks))
        for block, page in zip(held.blocks, table, strict=True):
            self.page_of.setdefault(block, page)
        assert [self.page_of[block] for block in held.blocks] == table

    def compare_figures(self) -> None:
        """Bytes are the model's; no page is two blocks; less than one page a sequence is wasted."""
        figures, step = self.pool.gauges(), self.pool.page_tokens
        assert figures.allocated == self.model.live * self.pool.page_bytes
        assert figures.requested * step == self.model.asked * self.pool.page_bytes
        wasted = figures.allocated - figures.requested
        assert wasted == 0 or wasted < len(self.pairs) * self.pool.page_bytes
        if self.random.random() < 0.01:
            live = [self.page_of[block] for block, count in self.model.holders.items() if count > 0]
            assert len(set(live)) == len(live)
            assert np.all(np.array(live, int) < self.pool.pages)
