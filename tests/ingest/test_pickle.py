"""The native pickle machine against Python's own unpickler, and against files that mean harm."""

import os
import pickle
import random
import re
import struct
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pickles
from forebay._core import ingest
from forebay.errors import BadInput
from forebay.sources.torch_snapshot import read
from fuzz import mutated
from sources import layouts

WORDS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
LEAVES = st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False) | WORDS
VALUES = st.recursive(
    LEAVES | st.binary(max_size=300),
    lambda inner: st.lists(inner, max_size=5) | st.tuples(inner, inner) | st.dictionaries(WORDS, inner, max_size=5),
    max_leaves=25,
)


def same(a, b):
    """Equal, and of equal types all the way down (a bytearray counts as bytes)."""
    if isinstance(a, list | tuple):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return isinstance(b, dict) and list(a) == list(b) and all(same(a[k], b[k]) for k in a)
    return (a == b and (type(a) is type(b) or isinstance(b, bytearray))) or a != a


@given(VALUES, st.integers(0, 5))
@settings(max_examples=400, deadline=None)
def test_plain_values_of_every_protocol_read_as_python_reads_them(value, protocol):
    data = pickle.dumps(value, protocol=protocol)
    try:
        expected = pickles.plain(data)
    except pickles.Refused:  # bytes of protocols 0 to 2 are built by a call
        with pytest.raises(ValueError, match="refused, nothing was executed"):
            ingest.plain_pickle(data)
        return
    assert same(ingest.plain_pickle(data), expected)


def test_shared_and_cyclic_values_stay_shared():
    shared = ["x"]
    cyclic = [shared, shared]
    cyclic.append(cyclic)
    back = ingest.plain_pickle(pickle.dumps(cyclic))
    assert back[0] is back[1]
    assert back[2] is back


class Command:
    """Unpickling it would make a file."""

    def __init__(self, marker):
        self.marker = marker

    def __reduce__(self):
        return os.mkdir, (self.marker,)


@pytest.mark.parametrize("protocol", range(6))
def test_a_pickle_that_would_run_a_command_is_refused(tmp_path, protocol):
    marker = str(tmp_path / "executed")
    data = pickle.dumps({"segments": [], "device_traces": [[Command(marker)]]}, protocol=protocol)
    with pytest.raises(BadInput, match=r"byte \d+: opcode 0x\w\w names a class or a function to import: refused"):
        read(data)
    assert not os.path.exists(marker)


@pytest.mark.parametrize("opcode", b"ciobRPQ\x81\x82\x83\x84\x8f\x90\x91\x92\x93\x97\x98")
def test_every_opcode_that_names_builds_or_calls_is_refused(opcode):
    body = b"\x80\x04" + b"(]]" + bytes([opcode]) + b"os\nsystem\n" + b"\0" * 8 + b"."
    with pytest.raises(ValueError, match=r"byte 5: opcode .* refused, nothing was executed"):
        ingest.plain_pickle(body)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "byte 0: the file ends here"),
        (b"\x80\x04", "byte 2: the file ends here"),
        (b"\x80\x09.", "byte 0: pickle protocol 9"),
        (b".", "byte 0: a value is missing"),
        (b"\x80\x02X\xff\xff\xff\xffab.", "byte 2: the file ends here: 4294967295 bytes expected, 3 left"),
        (b"\x80\x04\x8e" + b"\xff" * 8 + b".", "byte 2: the file ends here"),
        (b"\x80\x04\x95" + b"\xff" * 8 + b".", "byte 2: the file ends here: a frame of"),
        (b"\x80\x02\x8b\xff\xff\xff\x7f.", "byte 2: the file ends here"),
        (b"\x80\x02]j\xff\xff\xff\xff.", "byte 3: memo entry 4294967295 was never stored"),
        (b"\x80\x02(K\x01u.", "byte 5: a value is missing"),
        (b"\x80\x02}(K\x01K\x02u.", "byte 8: a dict key must be str, got int"),
        (b"\x80\x02}(X\x01\0\0\0au.", "byte 10: a dict with a key that has no value"),
        (b"\x80\x02K\x01K\x02a.", "byte 6: expected list, got int"),
        (b"\x80\x02e.", "byte 2: a mark is missing"),
        (b"\x80\x02X\x01\0\0\0\xff.", "byte 2: a text that is not UTF-8"),
        (b"\x80\x02\x8a\x09" + b"\1" * 9 + b".", "byte 2: a number of more than 64 bits"),
        (b"\xfe", "byte 0: not a pickle: opcode 0xfe does not exist"),
        (b"I1_000\n.", "byte 0: not a whole number of 64 bits: '1_000'"),
        (b"Vab", "byte 0: the file ends inside a line"),
    ],
)
def test_a_fault_names_its_byte(data, message):
    with pytest.raises(ValueError, match=re.escape(message)) as error:
        ingest.plain_pickle(data)
    assert str(error.value).startswith(message)


def test_every_truncation_is_refused():
    for protocol in range(6):
        data = pickle.dumps(layouts.layout_2025(), protocol=protocol)
        for end in range(len(data)):
            with pytest.raises(BadInput):
                read(data[:end])


def times_of(data):
    begun = time.process_time()
    with pytest.raises(BadInput):
        read(data)
    return time.process_time() - begun


def put(index):
    return b"r" + struct.pack("<I", index)


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"\x80\x02" + b"]" * 10**6 + b"a" * (10**6 - 1) + b".", id="a million lists deep"),
        pytest.param(b"\x80\x02" + b"(" * 10**6 + b"N.", id="a million marks"),
        pytest.param(
            b"\x80\x02" + b"".join(b"N" + put(2**32 - 1 - i) + b"0" for i in range(10**5)) + b"N.", id="far memo entries"
        ),
        pytest.param(
            b"\x80\x02}(" + b"".join(b"X\x06\0\0\0%06d" % i + b"N" for i in range(10**5)) + b"u.", id="a hundred thousand keys"
        ),
        pytest.param(
            b"\x80\x02}q\0(X\x08\0\0\0segments](" + b"h\0" * 10 + b"eu.",
            id="a snapshot that is its own segment",
        ),
    ],
)
def test_hostile_shapes_cost_no_more_than_their_bytes(data):
    assert times_of(data) < 5


def test_lists_that_repeat_each_other_are_no_bomb():
    # 2 kB that claim a thousand devices of the same thousand lists of events.
    event = pickle.dumps(layouts.event("alloc", 4096, 512), protocol=2)[2:-1].replace(b"q", b"q")
    body = b"\x80\x02}(X\x08\0\0\0segments]X\x0d\0\0\0device_traces]("
    body += b"](" + event + b"q\xf0" + b"h\xf0" * 1000 + b"eq\xf1" + b"h\xf1" * 1000 + b"eu."
    with pytest.raises(BadInput, match="more rows than the file has bytes"):
        read(body)


def sound(tape):
    """What must hold of any tape that a broken file still gives."""
    assert len(tape) >= sum(tape.provenance["events"])
    for name, table in (("stream", tape.sides.streams), ("pool", tape.sides.pools), ("site", tape.sides.sites)):
        assert not len(tape) or int(tape.columns[name].max()) < max(len(table), 1)
    assert (tape.final.blocks["size"] > 0).all()
    return True


@pytest.mark.parametrize("protocol", range(5))
def test_ten_thousand_mutations_are_sound_or_one_line(protocol):
    rng = random.Random(protocol)
    originals = [
        pickle.dumps(make(), protocol=protocol) for make in (layouts.layout_2025, layouts.expandable, layouts.two_devices)
    ]
    lines = []
    for _ in range(2000):
        try:
            assert sound(read(mutated(rng.choice(originals), rng)))
        except BadInput as error:
            lines.append(str(error))
    assert 0 < len(lines) < 2000
    assert all(line and "\n" not in line for line in lines)


def test_what_the_machine_accepts_python_reads_as_the_same(tmp_path):
    rng, compared = random.Random(7), 0
    originals = [pickle.dumps(layouts.layout_2025(), protocol=p) for p in (0, 2, 4)]
    for _ in range(1500):
        data = mutated(rng.choice(originals), rng)
        try:
            ours = ingest.plain_pickle(data)
        except ValueError:
            continue
        try:
            theirs = pickles.plain_slowly(data)
        except (pickle.UnpicklingError, EOFError):  # a frame's length is looked at by one of the two only
            continue
        compared += 1
        assert repr(ours) == re.sub(r"bytearray\((b'.*?')\)", r"\1", repr(theirs))  # a mutation may have made a cycle
    assert compared > 100
