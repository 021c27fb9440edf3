"""storm [seconds] [seed]: threads, finalisers and forks on the pools of one seeded simulated device, at random.

Kernels are Python, so work runs on whichever thread is there, needs the interpreter and may end buffers. Buffers die by a free, or in a
cycle when the garbage collector comes by, in any thread, at any moment. Children of forks free and allocate, are refused, and must
come back. Fails with every thread's stack when nothing moves for 20 seconds. Prints what was done; exit status 1 says what is wrong.
"""

import faulthandler
import gc
import os
import random
import signal
import sys
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable

from forebay.errors import DriverError, ForebayError, Pending, PoolExhausted
from forebay.runtime import Buffer, PagedPool, PinnedPool, Pool, SimDevice, Stream
from forebay.runtime.paged import Sequence

MIB, PAGE = 2**20, 2**16
THREADS = 4
PATIENCE_S = 20.0


class Dropped:
    """A buffer in a cycle: its free comes from the garbage collector."""

    def __init__(self, buffer: Buffer) -> None:
        self.buffer, self.me = buffer, self

    def __del__(self) -> None:
        self.buffer.free()


class Storm:
    def __init__(self, seed: int) -> None:
        self.device = SimDevice(256 * MIB, seed=seed)
        self.streams = [self.device.stream(f"s{i}", kind="nonblocking" if i % 2 else "blocking") for i in range(4)]
        self.pools = [
            Pool(self.device, "segments", wait_limit=0.01),
            Pool(self.device, "frames", growth="frames", wait_limit=0.01),
            Pool(self.device, "capped", limit=48 * MIB, growth="frames", wait_limit=0.01),
            Pool(self.device, "debug", limit=64 * MIB, wait_limit=0.01, debug="8MiB"),
        ]
        self.staging = PinnedPool(self.device, "staging", 8 * MIB, wait_limit=0.01, debug="1MiB")
        self.pages = PagedPool(self.device, "pages", 4 * MIB, page_bytes=PAGE, page_tokens=16, wait_limit=0.01, debug="1MiB")
        self.counts: Counter[str] = Counter()
        self.failures: list[str] = []
        self.stop = threading.Event()

    def run(self, seconds: float, seed: int) -> None:
        threads = [threading.Thread(target=Actor(self, seed + i).run, name=f"actor {i}") for i in range(THREADS)]
        for thread in threads:
            thread.start()
        end, seen, moved = time.monotonic() + seconds, 0, time.monotonic()
        while time.monotonic() < end and not self.failures:
            time.sleep(0.1)
            if (now := self.counts.total()) != seen:
                seen, moved = now, time.monotonic()
            elif time.monotonic() - moved > PATIENCE_S:
                stuck()
        self.stop.set()
        for thread in threads:
            thread.join(PATIENCE_S)
            if thread.is_alive():
                stuck()
        self.settle()

    def settle(self) -> None:
        """Quiet again: everything is whole, and all of it comes back."""
        gc.collect()
        self.device.synchronize()
        everything = [*self.pools, self.staging, self.pages]
        for pool in everything:
            pool.walk()
        self.failures += [str(report) for pool in everything[-3:] for report in pool.reports]
        kept = sum(p.gauges().allocated for p in everything)
        if kept:
            self.failures.append(f"{kept} bytes are still allocated")
        for pool in self.pools:
            pool.trim()
        held = sum(p.gauges().reserved for p in [*self.pools, self.pages])
        if held != self.device.account.used_bytes:
            self.failures.append(f"pools have {held} bytes, the device counts {self.device.account.used_bytes}")


class Actor:
    """One thread's random doings."""

    def __init__(self, storm: Storm, seed: int) -> None:
        self.storm, self.random = storm, random.Random(seed)
        self.held: list[tuple[Buffer, Stream]] = []  # each with the stream that it was allocated for
        self.sequences: list[tuple[Sequence, Stream]] = []
        doings: list[tuple[int, Callable[[], None]]] = [
            (40, self.alloc),
            (25, self.free),
            (15, self.drop),
            (15, self.use),
            (8, self.stage),
            (8, self.sequence),
            (5, self.edge),
            (3, self.sync),
            (2, self.trim),
            (2, self.look),
            (1, self.short_stream),
            (1, self.short_pool),
            (1, self.fork),
            (1, self.collect),
        ]
        self.doings = [doing for weight, doing in doings for _ in range(weight)]

    def run(self) -> None:
        try:
            while not self.storm.stop.is_set():
                doing = self.random.choice(self.doings)
                doing()
                self.storm.counts[doing.__name__] += 1
            for buffer, _ in self.held:
                buffer.free()
            self.sequences.clear()
        except BaseException:
            self.storm.failures.append(traceback.format_exc())

    def stream(self) -> Stream:
        return self.random.choice(self.storm.streams)

    def alloc(self) -> None:
        nbytes = self.random.choice((100, 3000, 40_000, MIB, 5 * MIB, 30 * MIB))
        stream = self.stream()
        try:
            buffer = self.random.choice(self.storm.pools).alloc(nbytes, stream)
        except (PoolExhausted, Pending):
            self.storm.counts["refused"] += 1
            while len(self.held) > 4:
                self.free()
            return
        self.held.append((buffer, stream))
        stream.launch(self.touch, writes=[buffer.array("u1", min(nbytes, 64))], cost_ns=self.random.randrange(10**6))

    @staticmethod
    def touch(array: object) -> None:
        array[:] = 1  # type: ignore[index]

    def let_go(self) -> Buffer:
        return self.held.pop(self.random.randrange(len(self.held)))[0]

    def free(self) -> None:
        if self.held:
            self.let_go().free()

    def drop(self) -> None:
        if self.held:
            Dropped(self.let_go())

    def use(self) -> None:
        """On any stream, after the allocation: who had the bytes before may still use them until then."""
        if self.held:
            buffer, home = self.random.choice(self.held)
            stream = self.stream()
            stream.wait(home.record())
            stream.launch(self.touch, writes=[buffer.array("u1", 64)], cost_ns=1000)

    def stage(self) -> None:
        """Bytes of the host for a copy, and the block back at once."""
        try:
            block = self.storm.staging.alloc(self.random.choice((64, 5000, 300_000)))
        except (PoolExhausted, Pending):
            self.storm.counts["refused"] += 1
            return
        block.numpy()[:] = self.random.randrange(256)
        if self.held:
            buffer, home = self.random.choice(self.held)
            home.copy(buffer.array("u1", 64), block.array("u1", 64))
        block.free()

    def sequence(self) -> None:
        """Another sequence, or more room for one; the oldest ends, some by the collector's hand."""
        try:
            if not self.sequences or self.random.random() < 0.4:
                stream = self.stream()
                self.sequences.append((self.storm.pages.open(stream), stream))
            sequence, stream = self.random.choice(self.sequences)
            sequence.grow(self.random.randrange(1, 40), stream)
        except (PoolExhausted, Pending):
            self.storm.counts["refused"] += 1
            self.sequences.clear()
            return
        stream.launch(self.touch, writes=[sequence.page(-1, "u1", 64)], cost_ns=1000)
        if len(self.sequences) > 4:
            self.sequences.pop(0)

    def edge(self) -> None:
        self.stream().wait(self.stream().record())

    def sync(self) -> None:
        self.stream().synchronize()

    def trim(self) -> None:
        self.random.choice(self.storm.pools).trim()

    def look(self) -> None:
        gauges = self.random.choice(self.storm.pools).gauges(self.stream())
        assert gauges.requested <= gauges.allocated

    def short_stream(self) -> None:
        stream = self.storm.device.stream("short", kind="nonblocking")
        try:
            self.storm.pools[1].alloc(3 * MIB, stream).free()
        except (PoolExhausted, Pending):
            self.storm.counts["refused"] += 1
        stream.close()

    def short_pool(self) -> None:
        pool, stream = (
            Pool(self.storm.device, "short", growth=self.random.choice(("segments", "frames")), wait_limit=0),
            self.stream(),
        )
        try:
            buffer = pool.alloc(MIB, stream)
        except (PoolExhausted, Pending):
            self.storm.counts["refused"] += 1
            return
        stream.launch(self.touch, writes=[buffer.array("u1", 64)], cost_ns=1000)
        buffer.free()

    def collect(self) -> None:
        gc.collect()

    def fork(self) -> None:
        child = os.fork()
        if child == 0:
            os._exit(self.in_child())
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            pid, status = os.waitpid(child, os.WNOHANG)
            if pid:
                assert status == 0, f"a child ended with {os.waitstatus_to_exitcode(status)}"
                return
            time.sleep(0.002)
        os.kill(child, signal.SIGABRT)  # its stack is printed
        os.waitpid(child, 0)
        raise AssertionError("a child did not come back")

    def in_child(self) -> int:
        """Frees do nothing, allocations are refused, finalisers end, nothing waits for a thread that is not here."""
        try:
            for buffer, _ in self.held:
                buffer.free()
            gc.collect()
            for act in (self.child_alloc, self.child_short_pool, self.edge, self.trim, self.look, self.short_stream):
                went_on = refused(act) is None
                assert went_on == (act == self.trim), act.__name__
            return 0
        except BaseException:
            traceback.print_exc()
            return 1

    def child_alloc(self) -> None:
        self.storm.pools[0].alloc(1000, self.storm.streams[0])

    def child_short_pool(self) -> None:
        Pool(self.storm.device, "child", growth="frames").alloc(1000, self.storm.streams[0])


def refused(act: Callable[[], None]) -> str | None:
    """Why it was, where it was for being in a child."""
    try:
        act()
    except DriverError as error:
        if "forked" not in str(error):
            raise
        return str(error)
    return None


def stuck() -> None:
    print(f"storm: nothing moved for {PATIENCE_S:.0f} s", file=sys.stderr, flush=True)
    faulthandler.dump_traceback(all_threads=True)
    os._exit(1)


def main(seconds: float = 600.0, seed: int = 1) -> int:
    faulthandler.enable()
    start, storm = time.monotonic(), Storm(seed)
    try:
        storm.run(seconds, seed)
    except ForebayError as error:
        storm.failures.append(str(error))
    for failure in storm.failures:
        print(f"storm: {failure}", file=sys.stderr)
    done = ", ".join(f"{count} {name}" for name, count in storm.counts.most_common())
    print(
        f"storm of {time.monotonic() - start:.0f} s, seed {seed}, {THREADS} threads: {storm.counts.total()} operations ({done})"
    )
    return 1 if storm.failures else 0


if __name__ == "__main__":
    sys.exit(main(*(cast(text) for cast, text in zip((float, int), sys.argv[1:], strict=False))))
