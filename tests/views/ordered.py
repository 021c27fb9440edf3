"""ordered: random programs without a race, with more waits than they need. Every touch is ordered after the ones it clashes with, by
hand-overs that nobody checked for being needed."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

STEP = 1024  # bytes between slots
PINNED = 1 << 24


@dataclass(frozen=True)
class Actor:
    """A stream, or a host thread."""

    kind: str
    number: int


@dataclass
class Slot:
    """A place in memory: its present block, and who touched it so that a later touch must come after."""

    address: int
    block: str | None = None
    owner: int = 0
    pinned: bool = False
    writers: list[Actor] = field(default_factory=list)
    readers: list[Actor] = field(default_factory=list)


class Ordered:
    """One program while it is made."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.streams, self.threads = self.dice.randint(2, 5), self.dice.choice([1, 1, 2, 3])
        kinds = ["nonblocking", "nonblocking", "blocking"]
        legacy = self.dice.random() < 0.3
        named = ["legacy" if legacy and s == 0 else self.dice.choice(kinds) for s in range(self.streams)]
        self.header = [f"stream s{s} {kind}" for s, kind in enumerate(named)]
        self.lines: list[str] = []
        self.slots = [Slot(STEP * i) for i in range(self.dice.randint(1, 8))]
        self.pinned = [Slot(PINNED + STEP * i, "pinned", pinned=True) for i in range(2)]

    def text(self) -> str:
        return "\n".join([*self.header, *self.lines])

    def thread(self) -> int:
        return self.dice.randrange(self.threads)

    def stream(self) -> int:
        return self.dice.randrange(self.streams)

    def order(self, before: list[Actor], after: Actor, by: int) -> None:
        """Hands over from each actor to `after`, whose next call thread `by` makes."""
        for actor in dict.fromkeys(before):
            if actor != after and not (actor == Actor("thread", by) and after.kind == "stream"):
                self.hand_over(actor, after, by)

    def hand_over(self, before: Actor, after: Actor, by: int) -> None:
        stream = before.number if before.kind == "stream" else self.stream()
        thread = before.number if before.kind == "thread" else by
        if before.kind == "stream" and after.kind == "thread" and self.dice.random() < 0.4:
            self.lines.append(
                self.dice.choice([f"t{by} s{stream} sync_stream", f"t{by} sync_device device=0", f"t{by} s{stream} query +ready"])
            )
            return
        event = f"e{self.dice.randrange(3)}"
        self.lines.append(f"t{thread} s{stream} record {event}")
        how = (
            f"s{after.number} wait {event}"
            if after.kind == "stream"
            else self.dice.choice([f"sync_event {event}", f"query {event} +ready"])
        )
        self.lines.append(f"t{by} {how}")

    def prepare(self, slot: Slot, mode: str, actor: Actor, by: int) -> None:
        self.order(slot.writers + (slot.readers if mode == "w" else []), actor, by)

    def note(self, slot: Slot, mode: str, actor: Actor) -> None:
        if mode == "w":
            slot.writers, slot.readers = [actor], []
        else:
            slot.readers.append(actor)

    def alloc(self) -> None:
        slot = self.dice.choice(self.slots)
        if slot.block is None:
            slot.block, slot.owner = f"B{len(self.lines)}", self.stream()
            self.lines.append(f"t{self.thread()} s{slot.owner} alloc {slot.block} {STEP} @{slot.address}")
            slot.writers.append(Actor("stream", slot.owner))

    def free(self) -> None:
        live = [slot for slot in self.slots if slot.block]
        if live:
            slot, by = self.dice.choice(live), self.thread()
            stream = Actor("stream", slot.owner if self.dice.random() < 0.7 else self.stream())
            self.order(slot.writers + slot.readers, stream, by)
            self.lines.append(f"t{by} s{stream.number} free {slot.block}")
            slot.block = None

    def work(self) -> None:
        live = [slot for slot in self.slots if slot.block]
        if not live:
            return self.alloc()
        by, actor = self.thread(), Actor("stream", self.stream())
        chosen = [(slot, self.dice.choice("rrw")) for slot in self.dice.sample(live, min(len(live), self.dice.randint(1, 3)))]
        if self.dice.random() < 0.2:
            chosen.append((self.dice.choice(self.pinned), self.dice.choice("rw")))
        for slot, mode in chosen:
            self.prepare(slot, mode, actor, by)
        uses = " ".join(f"{mode}{'.pinned' if slot.pinned else ''}:@{slot.address}+{STEP}" for slot, mode in chosen)
        blocking = len(chosen) > 1 and self.dice.random() < 0.1
        self.lines.append(
            f"t{by} s{actor.number} copy {uses} +blocking"
            if blocking
            else f"t{by} s{actor.number} launch k{len(self.lines)} {uses}"
        )
        for slot, mode in chosen:
            self.note(slot, mode, actor)
        return None

    def touch(self) -> None:
        slot, mode, by = self.dice.choice(self.pinned), self.dice.choice("rw"), self.thread()
        self.prepare(slot, mode, Actor("thread", by), by)
        self.lines.append(f"t{by} host_access {mode}.pinned:@{slot.address}+{STEP}")
        self.note(slot, mode, Actor("thread", by))

    def spare(self) -> None:
        """An edge that nobody asked for."""
        actors = [
            Actor("stream", self.stream()),
            self.dice.choice([Actor("stream", self.stream()), Actor("thread", self.thread())]),
        ]
        if actors[0] != actors[1]:
            self.hand_over(actors[0], actors[1], actors[1].number if actors[1].kind == "thread" else self.thread())


def ordered_program(seed: int, length: int = 25) -> Ordered:
    """A program of up to 5 streams and 3 threads in which nothing races."""
    made = Ordered(seed)
    acts = [made.alloc, made.free, made.work, made.touch, made.spare]
    for _ in range(made.dice.randint(5, length)):
        made.dice.choices(acts, [2, 1, 6, 1, 1])[0]()
    return made
