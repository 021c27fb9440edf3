"""programs: random GPU programs as text of the notation, from a seed. Nothing here knows what order is."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

KINDS = ("nonblocking", "nonblocking", "blocking", "per_thread", "unclassed")
PINNED = 1 << 24  # where pinned bytes lie: no device address is as large


@dataclass
class Block:
    name: str
    address: int
    size: int
    stream: int
    pool: str


@dataclass
class Maker:
    """One program while it is made. `rare`: how often the odd kinds of uses appear."""

    dice: random.Random
    streams: int
    threads: int
    blocks: int
    rare: float
    lines: list[str] = field(default_factory=list)
    live: list[Block] = field(default_factory=list)
    dead: list[Block] = field(default_factory=list)
    made: int = 0

    def header(self) -> None:
        legacy = self.dice.random() < 0.4
        for s in range(self.streams):
            kind = "legacy" if legacy and s == 0 else self.dice.choice(KINDS)
            self.lines.append(f"stream s{s} {kind} device={int(s > 3)}")
        self.lines += ["pool own", "pool vouched trusted"]

    def who(self, stream: int | None = None) -> str:
        place = "" if stream is None else f" s{stream}"
        return f"t{self.dice.randrange(self.threads)}{place}"

    def any_stream(self) -> int:
        return self.dice.randrange(self.streams)

    def alloc(self) -> None:
        if self.made >= self.blocks:
            return
        size = 512 * self.dice.randint(1, 4)
        address = 512 * self.dice.randrange(24)
        if self.dead and self.dice.random() < 0.7:
            address = self.dice.choice(self.dead).address
        if any(b.address < address + size and address < b.address + b.size for b in self.live):
            return
        block = Block(f"B{self.made}", address, size, self.any_stream(), self.dice.choice(["own", "own", "vouched"]))
        self.made += 1
        self.live.append(block)
        self.lines.append(f"{self.who(block.stream)} alloc {block.name} {size} @{address} pool={block.pool}")

    def free(self) -> None:
        if not self.live:
            return
        block = self.live.pop(self.dice.randrange(len(self.live)))
        if self.dice.random() < 0.2:
            self.lines.append(f"{self.who(self.any_stream())} lend {block.name}")
        stream = block.stream if self.dice.random() < 0.8 else self.any_stream()
        self.lines.append(f"{self.who(stream)} free {block.name}")
        self.dead.append(block)

    def use(self) -> str:
        block = self.dice.choice(self.dead if self.dead and self.dice.random() < 0.04 else self.live)
        low = self.dice.randrange(0, block.size, 256)
        high = self.dice.randrange(low, block.size, 256) + 256
        mode = self.dice.choice("rw") if self.dice.random() > self.rare else self.dice.choice("a?")
        extent = ".hull" if self.dice.random() < self.rare / 3 else ""
        return f"{mode}{extent}:@{block.address + low}+{high - low}"

    def work(self) -> None:
        if not self.live:
            return
        uses = " ".join(self.use() for _ in range(self.dice.randint(1, 2)))
        mark = " +incomplete" if self.dice.random() < self.rare / 2 else ""
        self.lines.append(f"{self.who(self.any_stream())} launch k{len(self.lines)} {uses}{mark}")

    def copy(self) -> None:
        if not self.live:
            return
        host = f"@{PINNED + 512 * self.dice.randrange(4)}+512"
        space = self.dice.choice(["pinned", "pinned", "pageable"])
        mark = " +blocking" if self.dice.random() < 0.3 else ""
        mode = self.dice.choice(["r", "w"])
        self.lines.append(f"{self.who(self.any_stream())} copy {self.use()} {mode}.{space}:{host}{mark}")

    def touch(self) -> None:
        mode = self.dice.choice("rw")
        self.lines.append(f"{self.who()} host_access {mode}.pinned:@{PINNED + 512 * self.dice.randrange(4)}+512")

    def record(self) -> None:
        self.lines.append(f"{self.who(self.any_stream())} record e{self.dice.randrange(4)}")

    def wait(self) -> None:
        self.lines.append(f"{self.who(self.any_stream())} wait e{self.dice.randrange(4)}")

    def sync(self) -> None:
        event, ready = f"e{self.dice.randrange(4)}", self.dice.choice(["", " +ready"])
        who, stream = self.who(), self.who(self.any_stream())
        device = self.dice.randrange(2)
        syncs = [f"{who} sync_event {event}", f"{stream} sync_stream", f"{who} sync_device device={device}"]
        queries = [f"{who} query {event}{ready}", f"{stream} query{ready}"]
        self.lines.append(self.dice.choice([*syncs, *queries, f"{who} event_destroy {event}"]))

    def unmap(self) -> None:
        low, size = self.dice.choice(self.dead).address if self.dead else 0, 1024
        if any(b.address < low + size and low < b.address + b.size for b in self.live):
            return
        self.lines.append(f"{self.who()} unmap @{low} {size}")
        if self.dice.random() < 0.7:
            self.lines.append(f"{self.who()} map @{low} {size}")


def random_program(seed: int, length: int = 60) -> str:
    """A program of up to 6 streams, 3 threads and 40 blocks, often badly ordered."""
    dice = random.Random(seed)
    maker = Maker(dice, dice.randint(1, 6), dice.choice([1, 1, 2, 3]), dice.randint(1, 40), dice.choice([0.0, 0.3]))
    maker.header()
    acts = [maker.alloc, maker.free, maker.work, maker.copy, maker.touch, maker.record, maker.wait, maker.sync, maker.unmap]
    weights = [dice.choice([1, 3]), 2, dice.choice([3, 8]), 2, 1, 3, 3, dice.choice([0.3, 2]), 0.8]
    for _ in range(dice.randint(5, length)):
        dice.choices(acts, weights)[0]()
    return "\n".join(maker.lines)
