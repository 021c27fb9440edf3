import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.errors import BadInput
from forebay.sources.heap_state import BLOCK, HeapState
from forebay.tape import Kind, Sees, Tape, parse
from forebay.whatif.forebay_policy import through_our_pool
from forebay.whatif.history import Op, histories
from forebay.whatif.steps import steps_of


def operations(history):
    """Each operation as a word: what, which block."""
    return [f"{Op(op).name.lower()} {block}" for op, block in zip(history.op, history.block, strict=True)]


def alive(*blocks):
    """A heap of blocks (address, requested, pending) on device 0."""
    rows = np.zeros(len(blocks), BLOCK)
    for row, (address, requested, pending) in zip(rows, blocks, strict=True):
        row["address"], row["size"], row["requested"], row["pending"] = address, 512, requested, pending
    return HeapState(blocks=rows)


def test_a_block_is_known_by_its_allocation_and_not_by_its_address():
    [history] = histories(
        parse("""
        s1 alloc A 1K @0x1000 requested=1000
        s1 free A
        s2 alloc B 2K @0x1000 requested=2000
        s1 alloc C 4K @0x2000 requested=4096
        s2 free B
        """)
    )
    assert operations(history) == ["alloc 0", "free 0", "alloc 1", "alloc 2", "free 1"]
    assert history.requested.tolist() == [1000, 2000, 4096]
    assert history.stream.tolist() == [0, 1, 0]
    assert [history.row_of(i) for i in range(5)] == [0, 1, 2, 3, 4]


def test_what_lived_before_the_tape_comes_first():
    [history] = histories(
        parse("s1 free A @0x1000\ns1 alloc B 1K @0x3000 requested=1K"), alive((0x1000, 100, 0), (0x2000, 200, 0))
    )
    assert operations(history) == ["alloc 0", "alloc 1", "free 0", "alloc 2"]
    assert history.requested.tolist() == [100, 200, 1024]
    assert [history.row_of(i) for i in range(4)] == [None, None, 0, 1]


def test_a_block_that_was_pending_before_the_tape_is_let_go_before_it_and_ends_in_it():
    [history] = histories(parse("s1 alloc B 1K @0x3000\ns1 reclaim A @0x1000"), alive((0x1000, 100, 1)))
    assert operations(history) == ["alloc 0", "free 0", "alloc 1", "reclaim 0"]
    assert [history.row_of(i) for i in range(2, 4)] == [0, 1]


def test_a_free_of_nothing_and_a_second_free_are_left_out():
    [history] = histories(
        parse("""
        s1 free A @0x1000
        s1 alloc B 1K @0x2000
        s1 free B
        s1 free C @0x2000
        s1 alloc D 1K @0x2000
        s1 free D
        """)
    )
    assert operations(history) == ["alloc 0", "free 0", "alloc 1", "free 1"]
    assert [history.row_of(i) for i in range(4)] == [1, 2, 4, 5]


def test_a_request_that_failed_is_a_block_of_its_own():
    [history] = histories(parse("s1 alloc A 1K @0\ns1 oom 200M\ns1 free A"))
    assert operations(history) == ["alloc 0", "attempt 1", "free 0"]
    assert history.requested.tolist() == [1024, 200 * 2**20]


def test_each_device_has_a_history_of_its_own_though_addresses_are_the_same():
    first, second = histories(
        parse("""
        s1 alloc A 1K @0x1000 device=0
        s1 alloc B 2K @0x1000 device=2
        s1 free A @0x1000 device=0
        """)
    )
    assert (first.device, operations(first)) == (0, ["alloc 0", "free 0"])
    assert (second.device, operations(second), second.requested.tolist()) == (2, ["alloc 0"], [2048])


def test_blocks_of_private_pools_are_told_apart():
    [history] = histories(
        parse("""
        pool small
        pool graph private=0,1
        pool other private=3,0
        alloc A 1K @0x1000 pool=small
        alloc B 1K @0x2000 pool=other
        alloc C 1K @0x3000 pool=graph
        """)
    )
    assert history.private == ((0, 1), (3, 0))
    assert history.group.tolist() == [0, 2, 1]


def test_where_nothing_was_allocated_there_is_nothing_to_run():
    with pytest.raises(BadInput, match="holds no allocator history \\(0 events\\)"):
        histories(parse("s1 launch k\ns1 reserve 2M @0"))


def test_one_event_of_a_source_that_could_not_follow_is_no_history():
    with pytest.raises(BadInput, match="holds no allocator history \\(1 event is none\\)"):
        histories(parse("sees segments\ns1 alloc A 1K @0"))


@given(
    st.lists(
        st.tuples(st.sampled_from([Kind.alloc, Kind.free, Kind.reclaim, Kind.oom, Kind.note]), st.integers(0, 3)), max_size=40
    )
)
def test_blocks_are_as_one_pass_over_a_table_of_addresses_finds_them(rows):
    kinds = np.array([kind for kind, _ in rows], "u1")
    addresses = np.array([address for _, address in rows], "u8")
    tape = Tape({"kind": kinds, "address": addresses, "size": np.arange(1, len(rows) + 1, dtype="u8")}, sees=frozenset(Sees))
    expected, at, done, made = [], {}, set(), 0
    for index, (kind, address) in enumerate(rows):
        if kind in (Kind.alloc, Kind.oom):
            expected.append((index, made))
            if kind is Kind.alloc:
                at[address] = made
            made += 1
        elif kind is not Kind.note and address in at and (kind, at[address]) not in done:
            done.add((kind, at[address]))
            expected.append((index, at[address]))
    if not any(kind is not Kind.note for kind, _ in rows):
        return
    [history] = histories(tape)
    assert [(history.row_of(i), int(history.block[i])) for i in range(len(history))] == expected
    assert len(history.requested) == made


def test_a_free_whose_reclaim_never_came_holds_its_bytes_to_the_end():
    text = """sees allocs reclaims segments beginning
    t0 s1 reserve S 40M @0x10000000
    t0 s1 alloc A 20M @0x10000000 requested=20M
    t0 s1 free A
    t0 s1 alloc B 20M @0x11400000 requested=20M
    t0 s1 free B"""
    for told, peak in ((text, 40 * 2**20), (text.replace(" reclaims", ""), 20 * 2**20)):
        tape = parse(told)
        assert through_our_pool(histories(tape), None, lambda share: None).peak_active_bytes == peak
        steps = steps_of(tape)
        assert int(steps.requested_live().max()) == peak
