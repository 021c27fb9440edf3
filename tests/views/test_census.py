"""One small heap counted by hand: three segments, one wholly free, one partly used by two sites, one by a single site."""

import numpy as np
import pytest

from forebay.sources.heap_state import BLOCK, SEGMENT, HeapState
from forebay.views.census import Pin, census

K = 1024


def heap():
    segments = np.zeros(3, SEGMENT)
    segments["address"], segments["size"], segments["stream"] = [0x1000, 0x10000, 0x20000], [4 * K, 20 * K, 10 * K], [0, 0, 1]
    blocks = np.zeros(4, BLOCK)
    blocks["address"] = [0x10000 + 2 * K, 0x10000 + 8 * K, 0x20000, 0x90000]
    blocks["size"], blocks["site"], blocks["pending"] = [2 * K, 4 * K, 6 * K, K], [5, 6, 6, 7], [0, 1, 0, 0]
    blocks["stream"] = [0, 0, 1, 0]
    return HeapState(segments, blocks)


def test_free_bytes_are_releasable_or_stranded():
    count = census(heap())
    assert count.segment_live.tolist() == [0, 6 * K, 6 * K]
    assert count.segment_free.tolist() == [4 * K, 14 * K, 4 * K]
    assert count.segment_largest_free.tolist() == [4 * K, 8 * K, 4 * K]
    assert (count.releasable, count.stranded, count.largest_free, count.orphans) == (4 * K, 18 * K, 8 * K, K)


def test_shares_of_streams():
    shares = {share.index: share for share in census(heap()).by("stream")}
    assert (shares[0].reserved, shares[0].allocated, shares[0].pending) == (24 * K, 3 * K, 4 * K)
    assert (shares[0].releasable, shares[0].stranded) == (4 * K, 14 * K)
    assert (shares[1].reserved, shares[1].allocated, shares[1].stranded) == (10 * K, 6 * K, 4 * K)


def test_shares_of_sites():
    assert [(s.index, s.allocated, s.pending, s.blocks) for s in census(heap()).by_site()] == [
        (6, 6 * K, 4 * K, 2),
        (5, 2 * K, 0, 1),
        (7, K, 0, 1),
    ]


def test_who_pins_segments():
    # Site 6 alone keeps the third segment (10 KiB); the second is kept by 5 and 6 together.
    assert census(heap()).pins() == [Pin(6, 2, 10 * K, 10 * K), Pin(5, 1, 2 * K, 0)]


@pytest.mark.parametrize("state", [HeapState(), HeapState(segments=heap().segments), HeapState(blocks=heap().blocks)])
def test_nothing_to_count(state):
    count = census(state)
    assert count.releasable == state.reserved
    assert count.orphans == state.active
    assert count.pins() == []


def test_counts_equal_a_brute_force_over_every_byte():
    rng = np.random.default_rng(1)
    for _ in range(50):
        used = rng.random(60) < 0.5
        segments, blocks = np.zeros(3, SEGMENT), np.zeros(int(used.sum()), BLOCK)
        segments["address"], segments["size"] = [100, 120, 150], [20, 30, 10]
        blocks["address"], blocks["size"] = 100 + np.flatnonzero(used), 1
        runs = [max(map(len, "".join("x" if u else "." for u in used[a:b]).split("x"))) for a, b in ((0, 20), (20, 50), (50, 60))]
        count = census(HeapState(segments, blocks))
        assert count.segment_largest_free.tolist() == runs
        assert count.segment_live.tolist() == [int(used[a:b].sum()) for a, b in ((0, 20), (20, 50), (50, 60))]
