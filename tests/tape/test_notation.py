"""The text notation: what people write means what it says, and what is printed reads back."""

import pytest
from hypothesis import given, settings

from forebay.errors import BadInput
from forebay.tape import Extent, Frame, Kind, Mode, Sees, Space, Stream, StreamClass, format_tape, parse
from tape.arbitrary import story, tapes


@settings(max_examples=300, deadline=None)
@given(tapes())
def test_what_is_printed_reads_back(tape):
    assert story(parse(format_tape(tape))) == story(tape)


@pytest.mark.parametrize(
    ("text", "lacks"),
    [
        ("columns kind seq flags device stream address uses\ns1 copy r:@0+5\ns1 reserve A @0", "size"),
        ("columns kind seq flags device stream address uses\ns1 memset w:@0+5\ns1 reserve A @0", "size"),
        ("columns kind seq flags device stream ref\ns1 capture_begin ref=3\ns1 launch", "capture"),
    ],
)
def test_a_column_that_a_reader_would_conclude_stays_absent(text, lacks):
    tape = parse(text)
    assert lacks not in tape.columns
    assert story(parse(format_tape(tape))) == story(tape)


def column(tape, name):
    return [value if known else None for value, known in zip(tape.columns[name].tolist(), tape.knows(name), strict=True)]


DRAWING = """t0 s1 alloc  A 1M @0
t0 s1 record e
t0 s1 launch k1 w:A
t0 s1 free   A
t0 s2 wait   e
t0 s2 alloc  B 2M @0
t0 s2 launch k2 w:B[4K:8K] r:B"""


def test_a_drawing_says_what_it_shows():
    tape = parse(DRAWING)
    kinds = ["alloc", "record", "launch", "free", "wait", "alloc", "launch"]
    assert [Kind(kind).name for kind in tape.columns["kind"]] == kinds
    assert column(tape, "stream") == [0, 0, 0, 0, 1, 1, 1]
    assert column(tape, "address") == [0, None, None, 0, None, 0, None]
    assert column(tape, "size") == [2**20, None, None, 2**20, None, 2**21, None]
    assert column(tape, "ref") == [None, 0, None, None, 0, None, None]
    assert column(tape, "seq") == list(range(7))
    assert [tape.sides.strings[n] if n else n for n in column(tape, "name")] == [None, None, "k1", None, None, None, "k2"]
    assert (tape.uses.offsets.tolist(), tape.uses.address.tolist()) == ([0, 0, 0, 1, 1, 1, 1, 3], [0, 4096, 0])
    assert (tape.uses.size.tolist(), tape.uses.mode.tolist()) == ([2**20, 4096, 2**21], [1, 1, 0])
    assert tape.sides.streams == [Stream("s1"), Stream("s2")]
    assert tape.sees == frozenset(Sees)


def test_a_drawing_prints_as_it_was_drawn():
    words = [" ".join(line.split()) for line in DRAWING.split("\n")]
    assert format_tape(parse(DRAWING)).split("\n") == [line.replace(" e", " e0") for line in words[:-1]] + [
        "t0 s2 launch k2 w:B[4K:8K] r:B",
        "",
    ]


def test_header_lines_make_the_side_tables():
    tape = parse(
        """stream main nonblocking device=1 priority=-1 handle=0x7f
                    pool kv consumer=kv space=pinned private=3,1 trusted   # the server's
                    thread loader tid=77
                    sees allocs frees_not""".replace(" frees_not", "")
    )
    assert tape.sides.streams == [Stream("main", 0x7F, 1, None, StreamClass.nonblocking, -1)]
    pool = tape.sides.pools[0]
    assert (pool.consumer, pool.space, pool.private, pool.trusted) == ("kv", "pinned", (3, 1), True)
    assert tape.sides.threads[0].tid == 77
    assert tape.sees == {Sees.ALLOCS}


def test_work_of_a_captured_stream_is_part_of_the_capture_until_it_ends():
    tape = parse("""s1 capture_begin c
                    s1 launch k
                    s1 record e
                    s2 wait e
                    s2 launch k
                    s3 launch k
                    s2 record f
                    s1 wait f
                    s1 capture_end g
                    s1 launch k
                    s2 launch k""")
    assert column(tape, "capture") == [None, 0, 0, 0, 0, None, 0, 0, 0, None, None]


def test_pinned_memory_a_hull_and_a_raw_range():
    tape = parse("pin H 1M @0x1000\ns1 launch k r:H ?.hull.managed:@0x10+4 r.pageable:H[0:4]")
    assert tape.uses.space.tolist() == [Space.pinned, Space.managed, Space.pageable]
    assert tape.uses.extent.tolist() == [Extent.exact, Extent.hull, Extent.exact]
    assert (tape.uses.mode[1], tape.uses.address[1], tape.uses.size[1]) == (Mode.unknown, 16, 4)


def test_a_declared_stream_may_be_called_as_a_kind_is():
    tape = parse("stream copy\nt0 copy copy h2d 1M\ncopy record e\nt0 launch free")
    assert [Kind(kind).name for kind in tape.columns["kind"]] == ["copy", "record", "launch"]
    assert column(tape, "stream") == [0, 0, None]
    assert tape.sides.strings == ["", "h2d", "free"]


def test_a_status_that_is_always_success_is_kept():
    tape = parse("t0 sync_device status=0\nt0 sync_device")
    assert column(tape, "status") == [0, 0]
    assert story(parse(format_tape(tape))) == story(tape)


def test_stacks_times_flags_and_causes():
    tape = parse(
        't3 sync_device +blocking +implied time=5us span=1.5ms name=cudaFree cause=0 at "my file.py":12 f < b.py:3 <module>'.replace(
            "<module>", '"<module>"'
        )
    )
    assert column(tape, "flags") == [0b10010]
    assert (column(tape, "time_ns"), column(tape, "span_ns"), column(tape, "thread")) == ([5000], [1_500_000], [3])
    assert tape.sides.sites.stack(1) == (Frame("my file.py", 12, "f"), Frame("b.py", 3, "<module>"))


def test_blocks_without_an_address_do_not_overlap():
    tape = parse("s1 alloc A 1000\ns1 alloc B 1M\ns1 alloc C 1 @1G\ns1 alloc D 1")
    assert column(tape, "address") == [0, 1024, 2**30, 2**30 + 512]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("t0 s1 frob A", "line 1, column 1: no event in this line"),
        ("\nt0 s1 launch k w:Q", "line 2, column 18: no block is called Q"),
        (
            "t0 s1 launch k w:#58",
            "line 1, column 18: no block is called #58; write its address, @0x1000+512",
        ),
        ("t0 s1 alloc A 1Q", "line 1, column 15: not a size"),
        ('t0 s1 alloc "A', "line 1, column 13: a quote is not closed"),
        ("t0 s1 free A foo=3", "line 1, column 14: no column is called foo"),
        ("t0 s1 alloc A B", "line 1, column 15: one name too many"),
        ("t0 sync_device +x", "line 1, column 16: no flag is called x"),
        ("t0 s1 sync_device", "line 1, column 7: `sync_device` has no stream"),
        ("stream", "line 1, column 1: a stream needs a name"),
        ("stream s blue", "line 1, column 10: a stream has no blue"),
        ("t0 launch k at a", "line 1, column 13: not a stack"),
        ("t0 launch k at a b", "line 1, column 16: not a place in a file"),
        ("t0 s1 alloc A 1M @-1", "line 1, column 7: address is -1"),
        ("t0 s1 free A r:@0+4", "line 1, column 7: `free` touches no bytes"),
        ("t0 s1 launch k r:@0", "line 1, column 18: no size after @0"),
        ("t0 s1 launch k x.hull:@0+1", "line 1, column 16: one name too many"),
        ("t0 s1 launch k r.odd:@0+1", "line 1, column 16: no use is marked odd"),
        ("s1 alloc A 1M @0\ns1 launch k r:A[8:4]", "line 2, column 16: a range that ends before it begins"),
        ("s1 alloc A 1M @0\ns1 launch k r:A[8", "line 2, column 16: not a range"),
        ("s1 alloc A size=\n", "line 1, column 12: no value after size="),
        ("sees allocs everything", "line 1, column 13: nothing to see is called everything"),
        ("columns blue", "line 1, column 9: no column is called blue"),
        ("provenance host", "line 1, column 1: provenance is a key and one value as JSON"),
        ("provenance host {", "line 1, column 17: not JSON"),
        ("t0 t stream_sync", "line 1, column 6: no kind of event is called stream_sync; the nearest is sync_stream"),
        ("t0 s1 aloc A 1M", "line 1, column 7: no kind of event is called aloc; the nearest is alloc"),
        ("t0 s1 frob A", "line 1, column 1: no event in this line: none of t0, s1, frob is a kind"),
        ("first", "line 1, column 1: first is the number of rows"),
    ],
)
def test_an_error_names_line_and_column_and_what_to_do(text, said):
    with pytest.raises(BadInput) as error:
        parse(text)
    assert str(error.value).startswith(said)
    assert "\n" not in str(error.value)
