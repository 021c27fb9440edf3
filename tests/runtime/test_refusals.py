"""Every refusal of every kind of pool: it names the right cause, and what it advises helps.

A case makes a device on which one request is refused, and says what cures it; the request then works. That is what makes a cause the
right one: where the device is full, room on the device; where a limit is reached, room below it; where streams work, their end.
"""

from collections.abc import Callable
from typing import NamedTuple

import pytest

from forebay.errors import DriverError, Pending, PoolExhausted
from forebay.runtime import Buffer, PagedPool, PinnedPool, Pool, SimDevice, Stream
from forebay.runtime.pool import _REMEDY

MIB, PAGE = 2**20, 4096


class World:
    def __init__(self) -> None:
        self.device = SimDevice(64 * MIB)
        self.main, self.other = (self.device.stream(name, kind="nonblocking") for name in ("main", "other"))
        self.kept: list[object] = []  # a pool that nobody has any more gives its memory back

    def hoard(self, nbytes: int, **options: object) -> Buffer:
        """Memory of another pool."""
        self.kept.append(Pool(self.device, "hoard", **options).alloc(nbytes, self.main))
        return self.kept[-1]

    def paged(self, pages: int, **options: float) -> PagedPool:
        return PagedPool(self.device, "asked", pages * PAGE, page_bytes=PAGE, page_tokens=8, wait_limit=0, **options)


class Refused(NamedTuple):
    """The request, and what cures it."""

    request: Callable[[], object]
    cure: Callable[[], object]


def work(stream: Stream, *written: object) -> None:
    """A second of virtual time."""
    stream.launch(lambda *_: None, writes=written, cost_ns=10**9)


def full(w: World) -> Refused:
    pool = Pool(w.device, "asked")
    return Refused(lambda: pool.alloc(20 * MIB, w.main), w.hoard(50 * MIB).free)


def full_in_frames(w: World) -> Refused:
    pool = Pool(w.device, "asked", growth="frames")
    return Refused(lambda: pool.alloc(20 * MIB, w.main), w.hoard(50 * MIB, growth="frames").free)


def full_beyond_the_limit_too(w: World) -> Refused:
    """Raising the limit would not help: what it would allow is another's."""
    pool = Pool(w.device, "asked", limit=20 * MIB)
    w.hoard(44 * MIB)
    return Refused(lambda: pool.alloc(6 * MIB, w.main), pool.alloc(20 * MIB, w.main).free)


def full_pinned(w: World) -> Refused:
    pool = PinnedPool(w.device, "asked")
    w.device.fail("host_alloc", always=True)
    return Refused(lambda: pool.alloc(5 * MIB), w.device.machine.faulty.forget_plans)


def full_paged(w: World) -> Refused:
    pool = w.paged(1024)
    w.hoard(60 * MIB)
    sequence, more = pool.open(w.main), pool.open(w.main)
    sequence.grow(1024 * 8, w.main)
    return Refused(lambda: more.grow(1, w.main), sequence.finish)


def full_in_debug_mode(w: World) -> Refused:
    pool = Pool(w.device, "asked", debug=True)
    return Refused(lambda: pool.alloc(20 * MIB, w.main), w.hoard(50 * MIB).free)


def capped(w: World) -> Refused:
    pool = Pool(w.device, "asked", limit=20 * MIB)
    return Refused(lambda: pool.alloc(10 * MIB, w.main), pool.alloc(15 * MIB, w.main).free)


def capped_in_frames(w: World) -> Refused:
    pool = Pool(w.device, "asked", limit=20 * MIB, growth="frames")
    return Refused(lambda: pool.alloc(10 * MIB, w.main), pool.alloc(15 * MIB, w.main).free)


def capped_where_another_pool_would_give_room(w: World) -> Refused:
    pool = Pool(w.device, "asked", limit=2 * MIB)
    w.hoard(60 * MIB).free()
    return Refused(lambda: pool.alloc(2 * MIB, w.main), pool.alloc(MIB, w.main).free)


def capped_pinned(w: World) -> Refused:
    pool = PinnedPool(w.device, "asked", 8 * MIB)
    return Refused(lambda: pool.alloc(5 * MIB), pool.alloc(5 * MIB).free)


def capped_paged(w: World) -> Refused:
    """Its own size: a larger one would fit the device."""
    pool = w.paged(8)
    sequence, more = pool.open(w.main), pool.open(w.main)
    sequence.grow(8 * 8, w.main)
    return Refused(lambda: more.grow(1, w.main), sequence.finish)


def capped_paged_below_its_size(w: World) -> Refused:
    pool = w.paged(8)
    pool.cap(2)
    sequence = pool.open(w.main)
    return Refused(lambda: sequence.grow(3 * 8, w.main), lambda: pool.cap(3))


def capped_paged_where_another_pool_would_give_room(w: World) -> Refused:
    pool = w.paged(512)
    w.hoard(62 * MIB).free()
    sequence, more = pool.open(w.main), pool.open(w.main)
    sequence.grow(512 * 8, w.main)
    return Refused(lambda: more.grow(8, w.main), sequence.finish)


def capped_paged_in_debug_mode(w: World) -> Refused:
    pool = w.paged(8, debug=True)
    sequence, more = pool.open(w.main), pool.open(w.main)
    sequence.grow(8 * 8, w.main)
    return Refused(lambda: more.grow(1, w.main), sequence.finish)


def capped_in_debug_mode(w: World) -> Refused:
    pool = Pool(w.device, "asked", limit=20 * MIB, debug="1GiB")
    return Refused(lambda: pool.alloc(10 * MIB, w.main), pool.alloc(15 * MIB, w.main).free)


def pending(w: World) -> Refused:
    pool = Pool(w.device, "asked", limit=20 * MIB, wait_limit=0)
    buffer = pool.alloc(20 * MIB, w.main)
    work(w.other, buffer)
    buffer.free()
    return Refused(lambda: pool.alloc(20 * MIB, w.main), w.other.synchronize)


def pending_pinned(w: World) -> Refused:
    pool = PinnedPool(w.device, "asked", 8 * MIB, wait_limit=0)
    buffer = pool.alloc(8 * MIB)
    work(w.other, buffer)
    buffer.free()
    return Refused(lambda: pool.alloc(8 * MIB), w.other.synchronize)


def pending_pinned_in_debug_mode(w: World) -> Refused:
    pool = PinnedPool(w.device, "asked", 8 * MIB, wait_limit=0, debug=True)
    buffer = pool.alloc(7 * MIB)
    work(w.other, buffer)
    buffer.free()
    return Refused(lambda: pool.alloc(7 * MIB), w.other.synchronize)


def pending_paged(w: World) -> Refused:
    pool = w.paged(8)
    sequence, more = pool.open(w.other), pool.open(w.main)
    sequence.grow(8 * 8, w.other)
    work(w.other, sequence.page(0, "u1", PAGE))
    sequence.finish()
    return Refused(lambda: more.grow(1, w.main), w.other.synchronize)


def stranded_in_another_stream(w: World) -> Refused:
    pool = Pool(w.device, "asked", limit=40 * MIB, wait_limit=0)
    pool.alloc(40 * MIB, w.other).free()
    pool.alloc(10 * MIB, w.other)  # keeps the segment
    buffer = pool.alloc(30 * MIB, w.other)
    work(w.other, buffer)
    buffer.free()
    return Refused(lambda: pool.alloc(26 * MIB, w.main), w.other.synchronize)


def stranded_in_a_pool_that_keeps(w: World) -> Refused:
    hoard, pool = Pool(w.device, "hoard", gives_back=False), Pool(w.device, "asked")
    hoard.alloc(50 * MIB, w.main).free()
    return Refused(lambda: pool.alloc(20 * MIB, w.main), hoard.trim)


def fragmented(w: World) -> Refused:
    pool = Pool(w.device, "asked", limit=40 * MIB)
    pool.alloc(40 * MIB, w.main).free()
    blocks = [pool.alloc(4 * MIB, w.main) for _ in range(10)]
    for block in blocks[::2]:
        block.free()
    return Refused(lambda: pool.alloc(8 * MIB, w.main), blocks[1].free)


CASES = [
    (case, case.__name__.split("_")[0])
    for case in (
        full,
        full_in_frames,
        full_beyond_the_limit_too,
        full_pinned,
        full_paged,
        full_in_debug_mode,
        capped,
        capped_in_frames,
        capped_where_another_pool_would_give_room,
        capped_pinned,
        capped_paged,
        capped_paged_below_its_size,
        capped_paged_where_another_pool_would_give_room,
        capped_paged_in_debug_mode,
        capped_in_debug_mode,
        pending,
        pending_pinned,
        pending_pinned_in_debug_mode,
        pending_paged,
        stranded_in_another_stream,
        stranded_in_a_pool_that_keeps,
        fragmented,
    )
]


@pytest.mark.parametrize(("case", "verdict"), CASES, ids=[case.__name__ for case, _ in CASES])
def test_a_refusal_names_its_cause_and_the_cure_helps(case: Callable[[World], Refused], verdict: str) -> None:
    request, cure = case(World())
    with pytest.raises(PoolExhausted) as refused:
        request()
    text = str(refused.value)
    assert refused.value.verdict == verdict
    assert text.startswith("pool asked: asked ")
    assert "\n" not in text
    assert [name for name, remedy in _REMEDY.items() if remedy in text] == [verdict]
    cure()
    request()


@pytest.mark.parametrize("make", [pending, pending_pinned, pending_paged], ids=["blocks", "pinned", "pages"])
def test_a_wait_that_ends_too_early_is_no_refusal_and_names_the_stream(make: Callable[[World], Refused], monkeypatch) -> None:
    for kind in (Pool, PinnedPool, PagedPool):
        made = kind.__init__
        monkeypatch.setattr(
            kind, "__init__", lambda self, *args, made=made, **options: made(self, *args, **options | {"wait_limit": 1e-3})
        )
    request, cure = make(World())
    with pytest.raises(Pending, match=r"waited .* for frees on .*other") as late:
        request()
    assert late.value.streams == ("other",)
    cure()
    request()


def test_a_paged_pool_larger_than_the_device_says_that_and_not_try_again() -> None:
    w = World()
    with pytest.raises(DriverError, match=r"reserve of 80 MiB answered out of memory.*Lower the limit") as refused:
        w.paged(20 * 1024)
    assert "try again" not in str(refused.value)
    w.paged(10 * 1024)


@pytest.mark.parametrize(
    ("status", "advice"),
    [
        ("invalid_value", "check its sizes"),
        ("not_supported", "growth='segments'"),
        ("capture_unsupported", "a capture is under way"),
        ("unknown", "try again"),
        ("launch_failed", "the device is lost"),
    ],
)
def test_what_the_driver_answered_decides_the_advice(status: str, advice: str) -> None:
    w = World()
    pool = Pool(w.device, "asked", growth="frames")
    w.device.fail("create", status=status)
    with pytest.raises(DriverError) as refused:
        pool.alloc(MIB, w.main)
    assert advice in str(refused.value)
    assert ("try again" in str(refused.value)) == (advice == "try again")
