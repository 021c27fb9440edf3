"""pool_scenarios: what a program does with pools, one function a scenario. Any step may fail; what follows goes on with what there is."""

from conformance.pool_world import CAPACITY, MIB, PAGE, World


def first_alloc(w: World) -> None:
    w.alloc(w.pool(), 1000, w.main)


def hit(w: World) -> None:
    pool = w.pool()
    w.free(w.alloc(pool, 3 * MIB, w.main))
    w.alloc(pool, 3 * MIB, w.main)


def split_and_coalesce(w: World) -> None:
    pool = w.pool()
    blocks = [w.alloc(pool, n, w.main) for n in (MIB, 3 * MIB, 100, 5000, 2 * MIB)]
    w.free(*blocks[1::2])
    w.free(*blocks[::2])
    w.alloc(pool, 5 * MIB, w.main)
    w.alloc(pool, 24 * MIB, w.main)


def reuse_by_another_stream(w: World) -> None:
    pool = w.pool(limit=20 * MIB)
    kept = w.alloc(pool, 4 * MIB, w.main)
    w.free(w.alloc(pool, 14 * MIB, w.main))
    w.ground.settle()
    guest = w.alloc(pool, 13 * MIB, w.other)
    w.free(kept, guest)
    w.alloc(pool, 19 * MIB, w.main)


def lend_and_free(w: World) -> None:
    pool = w.pool()
    lent = w.alloc(pool, 6 * MIB, w.main)
    w.lend(lent, w.other)
    w.busy(w.other, 1000)
    w.free(lent)
    w.alloc(pool, 6 * MIB, w.main)
    w.ground.settle()
    w.alloc(pool, 18 * MIB, w.main)


def trim_twice(w: World) -> None:
    pool = w.pool()
    kept, idle = w.alloc(pool, 5 * MIB, w.main), w.alloc(pool, 30 * MIB, w.main)
    w.busy(w.main, 1000)
    w.free(idle)
    w.trim(pool)
    w.trim(pool)
    w.alloc(pool, 20 * MIB, w.main)
    w.free(kept)


def limits(w: World) -> None:
    pool = w.pool(limit=21 * MIB)
    first = w.alloc(pool, 12 * MIB, w.main)
    w.alloc(pool, 12 * MIB, w.main)
    w.free(first)
    w.alloc(pool, 20 * MIB, w.other)


def siblings_give_back(w: World) -> None:
    hoard, pool = w.pool(), w.pool()
    w.alloc(hoard, 2000, w.other)
    blocks = [w.alloc(hoard, 25 * MIB, w.other) for _ in range(3)]
    w.busy(w.other, 1000)
    w.free(*blocks)
    w.alloc(pool, 60 * MIB, w.main)


def siblings_of_another_growth_give_back(w: World) -> None:
    hoard = w.pool(growth="segments" if w.growth == "frames" else "frames")
    w.free(w.alloc(hoard, 80 * MIB, w.other))
    w.alloc(w.pool(), 60 * MIB, w.main)


def out_of_memory_waits_and_searches_again(w: World) -> None:
    pool = w.pool(wait_limit=1.0)
    w.alloc(pool, 20 * MIB, w.main)
    lent = w.alloc(pool, 70 * MIB, w.main)
    w.lend(lent, w.other)
    w.busy(w.other, 10**6)
    w.free(lent)
    w.alloc(pool, 66 * MIB, w.main)


def out_of_memory_for_good(w: World) -> None:
    pool = w.pool()
    w.alloc(pool, CAPACITY // 2, w.main)
    idle = w.alloc(pool, 20 * MIB, w.other)
    w.free(idle)
    w.alloc(pool, CAPACITY, w.main)
    w.alloc(pool, 1000, w.main)


def growth_and_give_back_over_and_over(w: World) -> None:
    pool = w.pool()
    for round in range(3):
        blocks = [w.alloc(pool, n * MIB, w.main) for n in (3, 9, 1, 14)]
        w.free(*blocks[round % 2 :: 2])
        w.trim(pool)
    w.alloc(pool, 17 * MIB, w.main)


def a_stream_ends(w: World) -> None:
    pool = w.pool()
    stream = w.attempt(lambda: w.device.stream("short", kind="nonblocking"))
    if stream is None:
        return
    w.free(w.alloc(pool, 20 * MIB, stream))
    w.attempt(stream.close)
    w.ground.settle()
    w.attempt(w.device.synchronize)
    w.alloc(pool, 18 * MIB, w.main)


def a_pool_ends(w: World) -> None:
    for _ in range(2):
        if w.pool() is None:
            return
    for nbytes, stream in ((30 * MIB, w.main), (2000, w.main), (9 * MIB, w.other)):
        w.alloc(w.pools[0], nbytes, stream)
        w.busy(stream, 1000)
    w.alloc(w.pools[1], 4 * MIB, w.other)
    w.end_of_pool()
    w.alloc(w.pools[0], 40 * MIB, w.other)


def pinned_memory(w: World) -> None:
    pool = w.pinned(limit=40 * MIB)
    first = w.alloc(pool, 3 * MIB, w.main)
    w.alloc(pool, 100, w.other)
    w.busy(w.main, 1000)
    w.free(first)
    w.alloc(pool, 30 * MIB, w.main)
    w.trim(pool)
    w.ground.settle()
    w.alloc(pool, 3 * MIB, w.other)
    w.trim(pool)


def pinned_and_device_memory_do_not_help_each_other(w: World) -> None:
    pinned, pool = w.pinned(), w.pool()
    w.free(w.alloc(pinned, 20 * MIB, w.main))
    w.alloc(pool, 60 * MIB, w.main)
    w.alloc(pool, 60 * MIB, w.main)


def pages_shared_and_copied(w: World) -> None:
    pool = w.paged(32)
    first = w.open(pool, 40, w.main)
    w.busy(w.main, 1000)
    twin = w.fork(first, w.other)
    w.grow(twin, 20, w.other)
    w.grow(first, 20, w.main)
    w.finish(first)
    w.open(pool, 16 * 20, w.main)


def pages_run_out_and_come_back(w: World) -> None:
    pool = w.paged(32)
    long = w.open(pool, 16 * 30, w.main)
    w.busy(w.main, 10**6)
    w.open(pool, 16 * 8, w.other)
    w.finish(long)
    w.open(pool, 16 * 20, w.other)


def a_paged_pool_ends(w: World) -> None:
    if w.paged(32) is None:
        return
    w.open(w.pools[0], 100, w.main)
    w.busy(w.main, 1000)
    w.end_of_pool()
    w.alloc(w.pool(), 40 * MIB, w.main)


def debug_mode(w: World) -> None:
    pool = w.pool(debug=2 * MIB)
    lent, kept = w.alloc(pool, 300_000, w.main), w.alloc(pool, 5000, w.main)
    w.lend(lent, w.other)
    w.busy(w.other, 1000)
    w.free(lent)
    w.alloc(pool, 100, w.other)
    w.free(w.alloc(pool, 2 * MIB, w.main))
    w.check(pool)
    w.free(kept)
    w.trim(pool)
    w.alloc(pool, 300_000, w.main)


def quarantine_is_given_up(w: World) -> None:
    hoard, pool = w.pool(debug=CAPACITY, limit=8 * MIB), w.pool(growth="segments")
    w.alloc(pool, 86 * MIB, w.main)
    w.free(w.alloc(hoard, 4 * MIB, w.main))
    w.free(w.alloc(hoard, 5 * MIB, w.main))
    w.free(w.alloc(pool, 9 * MIB, w.other))
    w.alloc(hoard, 2 * MIB, w.other)


def pinned_memory_in_debug_mode(w: World) -> None:
    pool = w.pinned(debug=2 * MIB)
    first, second = w.alloc(pool, 300_000, w.main), w.alloc(pool, 5000, w.other)
    w.busy(w.main, 1000)
    w.free(first)
    w.alloc(pool, 100, w.other)
    w.check(pool)
    w.free(second)
    w.alloc(pool, 3 * MIB, w.main)
    w.trim(pool)


def pages_in_debug_mode(w: World) -> None:
    pool = w.paged(32, debug=6 * PAGE)
    first = w.open(pool, 40, w.main)
    w.busy(w.main, 1000)
    twin = w.fork(first, w.other)
    w.grow(twin, 20, w.other)
    w.finish(first)
    w.check(pool)
    w.open(pool, 16 * 20, w.main)
    w.finish(twin)
    w.open(pool, 16 * 10, w.other)


def pools_go_on_beside_a_capture(w: World) -> None:
    pool = w.pool()
    w.alloc(pool, 3 * MIB, w.main)
    lent = w.alloc(pool, 6 * MIB, w.other)
    w.lend(lent, w.main)
    w.busy(w.main, 1000)

    def captured() -> None:
        with w.device.capture(w.main, mode="global") as graph:
            inside = pool.alloc(3 * MIB, w.main)
            w.main.memset(inside, 1)
            inside.free()
            w.free(lent)
            w.free(w.alloc(pool, 25 * MIB, w.other))
            w.trim(pool)
        graph.replay(w.main)
        graph.close()

    if pool is not None and w.ground.captures:
        w.attempt(captured)
        w.ground.end_capture(w.main.handle)
    w.alloc(pool, 6 * MIB, w.other)


SCENARIOS = (
    first_alloc,
    hit,
    split_and_coalesce,
    reuse_by_another_stream,
    lend_and_free,
    trim_twice,
    limits,
    siblings_give_back,
    siblings_of_another_growth_give_back,
    out_of_memory_waits_and_searches_again,
    out_of_memory_for_good,
    growth_and_give_back_over_and_over,
    a_stream_ends,
    pools_go_on_beside_a_capture,
    a_pool_ends,
    pinned_memory,
    pinned_and_device_memory_do_not_help_each_other,
    pages_shared_and_copied,
    pages_run_out_and_come_back,
    a_paged_pool_ends,
    debug_mode,
    quarantine_is_given_up,
    pinned_memory_in_debug_mode,
    pages_in_debug_mode,
)
