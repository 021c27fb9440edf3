"""The rows of pools' memory: what failed, what is pinned and what the program took by itself is left out; segments get their owner."""

from forebay.tape import Kind, parse
from forebay.views.pool_memory import pool_memory

HEAD = """sees allocs segments driver_calls beginning
pool weights kind=segments
pool kv kind=segments
pool host kind=pinned space=pinned
"""


def rows(tape):
    names = [pool.name for pool in tape.sides.pools]
    streams = [stream.name for stream in tape.sides.streams]
    known = {name: tape.knows(name) for name in ("pool", "stream")}
    return [
        (
            Kind(int(kind)).name,
            streams[tape.columns["stream"][i]] if known["stream"][i] else None,
            names[tape.columns["pool"][i]] if known["pool"][i] else None,
        )
        for i, kind in enumerate(tape.columns["kind"])
    ]


def test_a_segment_has_the_stream_and_the_pool_of_its_first_block():
    tape = parse(
        HEAD
        + """t0 reserve S 2M @0x1000000 +pool_made
        t0 reserve T 2M @0x2000000 +pool_made
        t0 b alloc B 1M @0x2000000 pool=kv
        t0 a alloc A 1M @0x1000000 pool=weights
        t0 b alloc C 1M @0x1100000 pool=weights"""
    )
    assert rows(pool_memory(tape))[:2] == [("reserve", "a", "weights"), ("reserve", "b", "kv")]


def test_the_first_block_may_come_late_and_not_after_the_memory_was_taken_anew():
    other = "".join(f"t0 a alloc X{n} 1K @{0x2000000 + n * 1024:#x} pool=weights\n" for n in range(200))
    head = HEAD + "t0 reserve S 2M @0x1000000 +pool_made\nt0 reserve T 2M @0x2000000 +pool_made\n" + other
    late = parse(head + "t0 b alloc B 1M @0x1000000 pool=kv")
    assert rows(pool_memory(late))[0] == ("reserve", "b", "kv")
    anew = parse(head + "t0 release S\nt0 reserve U 2M @0x1000000 +pool_made\nt0 b alloc B 1M @0x1000000 pool=kv")
    found = rows(pool_memory(anew))
    assert found[0] == ("reserve", None, None)
    assert found[-2] == ("reserve", "b", "kv")


def test_what_the_program_took_by_itself_goes_with_its_release():
    tape = parse(
        HEAD
        + """t0 reserve P 8M @0x9000000
        t0 reserve S 2M @0x1000000 +pool_made
        t0 a alloc A 1M @0x1000000 pool=weights
        t0 release P
        t0 a free A"""
    )
    memory = pool_memory(tape)
    assert [kind for kind, _, _ in rows(memory)] == ["reserve", "alloc", "free"]
    assert memory.picked.tolist() == [1, 2, 4]


def test_where_no_row_says_who_made_it_all_memory_is_kept():
    tape = parse("sees segments allocs beginning\ns1 reserve S 2M @0x1000000\ns1 alloc A 1M @0x9000000\ns1 release S")
    assert [kind for kind, _, _ in rows(pool_memory(tape))] == ["reserve", "alloc", "release"]


def test_calls_that_failed_and_pinned_blocks_are_left_out():
    tape = parse(
        HEAD
        + """t0 reserve S 2M @0x1000000 +pool_made status=0
        t0 reserve 8M @0x8000000 +pool_made status=2
        t0 alloc H 1M @0x7f000000 pool=host
        t0 a alloc A 1M @0x1000000 pool=weights
        t0 free H pool=host
        t0 a free A"""
    )
    assert [kind for kind, _, _ in rows(pool_memory(tape))] == ["reserve", "alloc", "free"]


def test_reclaims_of_some_blocks_alone_count_for_none():
    text = HEAD + "t0 reserve S 2M @0x1000000\nt0 a alloc A 1M @0x1000000\nt0 a free A\nt0 a reclaim A\n"
    assert "reclaim" not in [kind for kind, _, _ in rows(pool_memory(parse(text)))]
    assert "reclaim" in [kind for kind, _, _ in rows(pool_memory(parse(text.replace("sees ", "sees reclaims "))))]
