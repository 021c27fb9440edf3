"""Captures through PyTorch's hooks: whose memory is whose, what a capture may not hear, and replays over the fake libcuda."""

import ctypes
import random

from adapters.torch_world import LATE, on_thread
from driver_facts.raw import MIB


def test_what_is_allocated_in_a_capture_is_the_graph_s_until_it_is_released(torch):
    stream = torch.stream()
    with torch.capture(1, stream):
        inside = torch.alloc(MIB, stream)
        torch.free(inside, stream)
        assert torch.alloc(MIB, stream) == inside
        elsewhere = torch.alloc(MIB, torch.stream())  # takes no part
    assert torch.figures("graph 1,0")["allocated"] == MIB
    assert torch.figures()["allocated"] == MIB
    torch.free(inside, stream)
    assert [torch.alloc(MIB, stream) for _ in range(8)].count(inside) == 0
    torch.release(1)
    assert "graph 1,0" not in torch.library.figures(0)
    torch.free(elsewhere)
    torch.walk()


def test_a_released_graph_s_memory_stays_while_a_block_of_it_lives(torch):
    stream = torch.stream()
    with torch.capture(1, stream):
        output = torch.alloc(MIB, stream)
    torch.release(1)
    assert torch.figures("graph 1,0")["allocated"] == MIB
    torch.free(output, stream)
    assert "graph 1,0" not in torch.library.figures(0)


def test_captures_that_share_a_pool_use_it_again_and_each_counts(torch):
    stream = torch.stream()
    for _ in range(2):
        with torch.capture(1, stream):
            torch.free(torch.alloc(MIB, stream), stream)
    assert torch.figures("graph 1,0")["driver_allocs"] == 1
    torch.release(1)
    assert "graph 1,0" in torch.library.figures(0)
    torch.release(1)
    assert "graph 1,0" not in torch.library.figures(0)


def test_a_capture_hears_nothing_of_other_threads_misses_and_of_frees_that_wait(torch):
    """In the strictest mode any query, sync or allocation that is not relaxed would end it."""
    captured, lent, other = torch.stream(), torch.stream(), torch.stream()
    waiting = torch.alloc(4 * MIB, other)
    torch.record_stream(waiting, lent)
    torch.record_stream(waiting, captured)
    torch.raw.busy(lent, LATE)
    torch.free(waiting, other)
    with torch.capture(1, captured):
        block = torch.alloc(3 * MIB, captured)
        torch.fill(block, 1, 3 * MIB, captured)
        before = [torch.raw.fake.count(f"cu{name}") for name in ("EventQuery", "EventRecord", "StreamQuery")]
        taken = on_thread(lambda: torch.raw.on_thread(lambda: torch.alloc(40 * MIB, other)))
        torch.library.trim()
        assert [torch.raw.fake.count(f"cu{name}") for name in ("EventQuery", "EventRecord", "StreamQuery")] == before
        torch.free(block, captured)
    torch.free(taken, other)
    torch.raw.fake.settle()
    assert torch.alloc(4 * MIB, torch.stream())  # a miss: what waited is settled now
    assert torch.figures()["pending"] == 0
    torch.walk()


def test_a_thousand_replays_are_right_while_the_ordinary_pool_churns(torch):
    stream, churning, rng = torch.stream(), torch.stream(), random.Random(5)
    source = torch.alloc(MIB, stream)
    with torch.capture(1, stream) as made:
        middle = torch.alloc(MIB, stream)
        torch.raw.call("cuMemcpyAsync", middle, source, MIB, stream)
        out = torch.alloc(MIB, stream)
        torch.raw.call("cuMemcpyAsync", out, middle, MIB, stream)
        torch.free(middle, stream)
        late = torch.alloc(MIB, stream)
        torch.fill(late, 0xEE, MIB, stream)
        torch.free(late, stream)
    assert late == middle
    live: list[int] = []
    for replay in range(1000):
        torch.fill(source, replay % 251, MIB, stream)
        live.append(torch.alloc(rng.choice([MIB, 2 * MIB]), churning))
        torch.fill(live[-1], 0xAA, MIB, churning)
        if len(live) > 6:
            torch.free(live.pop(rng.randrange(len(live))), churning)
        assert torch.raw.call("cuGraphLaunch", made[0], stream) == 0
        if replay % 100 == 0:
            assert torch.raw.fake.read(out, 64) == bytes([replay % 251]) * 64
    assert torch.raw.fake.read(out, MIB) == bytes([999 % 251]) * MIB
    torch.walk()


def test_a_thread_s_route_takes_that_thread_s_allocations(torch):
    stream = torch.stream()
    torch.peer.peer_route_thread(torch.hook("begin"), 0, ctypes.c_uint64(9))
    inside, elsewhere = torch.alloc(MIB, stream), on_thread(lambda: torch.alloc(MIB, stream))
    assert torch.figures("graph 0,9")["allocated"] == torch.figures()["allocated"] == MIB
    torch.free(inside), torch.free(elsewhere)
