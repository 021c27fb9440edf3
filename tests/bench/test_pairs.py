"""Allocators beside one another: the arithmetic of the table, who is named, and the loop that calls C functions."""

import ctypes
import threading

import pytest

from bench.fresh import over_a_fresh_fake
from forebay._core import bench
from forebay._core.driver import SimDriver
from forebay.bench import compare
from forebay.bench.pairs import Load, from_python
from forebay.errors import BadInput
from forebay.runtime import SimDevice

MIB = 2**20
SHORT = Load(pairs=50, rounds=3)


@pytest.fixture(scope="module")
def compared():
    return compare(SimDevice("1GiB"), (1, 2), SHORT)


def test_ours_is_measured_from_both_languages_on_each_number_of_threads(compared):
    ours = [(row.language, row.threads) for row in compared.rows if row.peer == "forebay"]
    assert sorted(ours) == [("C++", 1), ("C++", 2), ("Python", 1), ("Python", 2)]


def test_a_ratio_is_to_ours_of_the_same_language_and_threads(compared):
    ours = {(row.language, row.threads): row.ns for row in compared.rows if row.peer == "forebay"}
    there = [row for row in compared.rows if row.ns is not None]
    assert len(there) >= 8
    for row in there:
        assert row.ratio == pytest.approx(row.ns / ours[row.language, row.threads])
        assert row.pairs_per_s == pytest.approx(row.threads * 1e9 / row.ns)
        assert row.least_ns <= row.ns <= row.most_ns


def test_a_peer_that_is_not_here_is_named_with_how_to_get_it(compared):
    absent = {row.peer: (row.why, row.get) for row in compared.rows if row.ns is None}
    assert set(absent) == {
        "forebay's library for torch",
        "cudaMallocAsync (DriverPool)",
        "torch raw_alloc",
        "torch caching_allocator_alloc",
        "rmm pool",
        "rmm arena",
        "rmm async",
        "cupy MemoryPool",
        "cuda.core DeviceMemoryResource",
    }
    assert set(absent.values()) == {("this is a simulated device", "a machine with a CUDA device")}


def test_over_the_fake_the_driver_s_pool_is_measured_and_libraries_that_are_not_installed_are_named():
    rows = compare(over_a_fresh_fake(512 * MIB), (1,), SHORT).rows
    there = {(row.peer, row.language) for row in rows if row.ns is not None}
    assert ("cudaMallocAsync (DriverPool)", "C++") in there
    assert ("cudaMallocAsync (DriverPool)", "Python") in there
    rmm = [row for row in rows if row.peer == "rmm arena"]
    assert [(row.ns, row.get) for row in rmm] == [(None, "pip install rmm-cu13 (rmm-cu12 for CUDA 12)")]


@pytest.mark.parametrize("threads", [(), (0,), (1, 300), ("2",)])
def test_numbers_of_threads_that_are_none_are_refused(threads):
    with pytest.raises(BadInput, match=r"threads: .* from 1 to 256"):
        compare(SimDevice("1GiB"), threads, SHORT)


# ---- the loops


def functions(alloc, free):
    """C functions of these Python ones, and their addresses."""
    kept = (
        ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p)(alloc),
        ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p)(free),
    )
    return kept, [ctypes.cast(function, ctypes.c_void_p).value for function in kept]


def test_the_loop_over_c_functions_frees_what_it_allocates_on_its_own_stream():
    """3 rounds and one that is not counted, of 5 pairs and one before each, on two threads."""
    calls, lock, blocks = [], threading.Lock(), iter(range(4096, 10**9, 64))

    def alloc(nbytes, device, stream):
        with lock:
            block = next(blocks)
            calls.append(("alloc", block, nbytes, device, stream))
        return block

    def free(block, nbytes, device, stream):
        with lock:
            calls.append(("free", block, nbytes, device, stream))

    kept, addresses = functions(alloc, free)
    samples = bench.c_pairs(SimDriver([2**20]), *addresses, 0, [16, 32], bytes=100, pairs=5, rounds=3)
    assert len(samples) == 3
    assert min(samples) > 0
    taken, given = ([call[1:] for call in calls if call[0] == what] for what in ("alloc", "free"))
    assert sorted(taken) == sorted(given)
    assert len(taken) == 2 * (3 + 1) * (5 + 1)
    assert {(nbytes, device) for _, nbytes, device, _ in taken} == {(100, 0)}
    assert [sum(1 for call in taken if call[3] == stream) for stream in (16, 32)] == [24, 24]
    del kept


def test_a_failed_allocation_leaves_no_figures():
    kept, addresses = functions(lambda nbytes, device, stream: None, lambda block, nbytes, device, stream: None)
    assert bench.c_pairs(SimDriver([2**20]), *addresses, 0, [16], bytes=100, pairs=5, rounds=3) == []
    del kept


def test_python_pairs_run_on_threads_of_their_own_beside_another():
    seen = set()
    samples = from_python(
        [lambda: seen.add((threading.current_thread().name, threading.active_count()))] * 2, Load(pairs=3, rounds=2)
    )
    assert len(samples) == 2
    assert len({name for name, _ in seen}) == 2 * (2 + 1)  # two rounds, and one that is not counted
    assert min(count for _, count in seen) >= 3  # this thread, its own, and one that is only there


def test_what_a_pair_raises_is_raised():
    def broken():
        raise RuntimeError("no more")

    with pytest.raises(RuntimeError, match="no more"):
        from_python([broken, lambda: None], Load(pairs=3, rounds=2))
