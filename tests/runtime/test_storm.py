"""What the storm rests on: it runs, a pool's end lets kernels go on, and a forked child is refused at once, whatever was locked."""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from forebay.errors import DriverError
from forebay.runtime import PagedPool, Pool, SimDevice

MIB = 2**20
ROOT = Path(__file__).resolve().parents[2]


def ended(pid: int, seconds: float = 20.0) -> int | None:
    """The exit status of a child, or None where it had to be killed."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.005)
    os.kill(pid, 9)
    os.waitpid(pid, 0)
    return None


def in_child(act: Callable[[], None]) -> int | None:
    """How a child ends that does this: 0 where it goes through, 3 where it is refused for being a child."""
    pid = os.fork()
    if pid:
        return ended(pid)
    status = 1
    try:
        act()
        status = 0
    except DriverError as error:
        status = 3 if "forked" in str(error) else 1
    finally:
        os._exit(status)


def test_a_storm_of_five_seconds() -> None:
    done = subprocess.run([sys.executable, "tests/storm.py", "5", "2"], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert " fork" in done.stdout


@pytest.mark.parametrize("kind", ["segments", "frames", "paged"])
def test_the_end_of_a_pool_lets_a_kernel_that_runs_elsewhere_go_on(kind: str) -> None:
    program = f"""
import threading, time
from forebay.runtime import PagedPool, Pool, SimDevice
device = SimDevice("64MiB")
stream = device.stream("s")
pool = PagedPool(device, "p", 2**21, page_bytes=4096, page_tokens=16) if {kind!r} == "paged" else Pool(device, "p", growth={kind!r})
if {kind!r} != "paged":
    pool.alloc(1000, stream).free()
started = threading.Event()
def kernel():
    started.set()
    time.sleep(0.2)  # without the GIL; it is wanted back afterwards
stream.launch(kernel)
waits = threading.Thread(target=stream.synchronize)
waits.start()
started.wait()
del pool
waits.join()
print("over", device.account.used_bytes)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("over 0\n", "")


def test_a_child_is_refused_and_frees_in_silence() -> None:
    device = SimDevice("64MiB")
    stream, pool = device.stream("s"), Pool(device, "p", growth="frames")
    other = device.stream("other")
    buffer = pool.alloc(MIB, stream)
    stream.launch(lambda a: None, writes=[buffer])
    other.launch(lambda a: None, writes=[buffer])
    assert in_child(buffer.free) == 0
    assert in_child(lambda: None if pool.trim() == 0 else os._exit(1)) == 0
    refused: list[Callable[[], object]] = [
        lambda: pool.alloc(1000, stream),
        pool.gauges,
        pool.walk,
        stream.record,
        stream.synchronize,
        device.synchronize,
        lambda: device.stream("new"),
        lambda: device.host_alloc(512),
        lambda: Pool(device, "q", growth="frames"),
        lambda: PagedPool(device, "r", MIB, page_bytes=4096, page_tokens=16),
    ]
    for act in refused:
        assert in_child(act) == 3, act  # type: ignore[arg-type]
    buffer.free()
    assert pool.alloc(1000, stream)


def test_a_child_comes_back_whatever_other_threads_were_at() -> None:
    device = SimDevice("64MiB", seed=1)
    stream, pool = device.stream("s"), Pool(device, "p")
    held, stop = pool.alloc(1000, stream), threading.Event()

    def works() -> None:
        mine = device.stream("mine")
        while not stop.is_set():
            pool.alloc(5 * MIB, mine).free()
            mine.record()
            pool.trim()

    threads = [threading.Thread(target=works) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        assert [in_child(held.free) for _ in range(20)] == [0] * 20
        assert [in_child(pool.gauges) for _ in range(20)] == [3] * 20  # type: ignore[arg-type]
    finally:
        stop.set()
        for thread in threads:
            thread.join()
