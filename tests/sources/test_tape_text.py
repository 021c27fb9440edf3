"""Tapes written by hand are artifacts like any other; what is wrong in one is said with file, line and column."""

import gzip
import lzma
from pathlib import Path

import pyarrow as pa
import pytest

from forebay.cli import run
from forebay.errors import BadInput
from forebay.sources import open_artifact, tape_text
from forebay.tape import Kind, parse
from tape.arbitrary import story

TAPES = sorted((Path(__file__).parent.parent / "tapes").rglob("*.tape"))
DRAWING = "# a story\n\nstream s1 nonblocking\nt0 s1 alloc A 1M @0x1000\nt0 s1 launch k w:A\n"
LOG = "INFO first step\nINFO launch of server\nwait a moment\nrecord 12 is bad\nfree memory: 3 GB\nTraceback:\n oom\n"


@pytest.mark.parametrize("path", TAPES, ids=lambda path: path.stem)
def test_every_tape_of_the_tests_is_an_artifact(path):
    assert story(open_artifact(path)) == story(parse(path.read_text()))


@pytest.mark.parametrize(
    "pack", [bytes, gzip.compress, lzma.compress, lambda d: bytes(pa.Codec("zstd").compress(d))], ids=["plain", "gz", "xz", "zst"]
)
def test_any_packing_any_name(tmp_path, pack):
    file = tmp_path / "no.suffix"
    file.write_bytes(pack(DRAWING.encode()))
    tape = open_artifact(file)
    assert [Kind(kind).name for kind in tape.columns["kind"].tolist()] == ["alloc", "launch"]
    assert int(tape.columns["address"][0]) == 0x1000


def test_a_byte_order_mark_and_the_lines_of_windows_are_read_over(tmp_path):
    file = tmp_path / "a.tape"
    file.write_bytes(b"\xef\xbb\xbf" + DRAWING.replace("\n", "\r\n").encode())
    assert story(open_artifact(file)) == story(parse(DRAWING))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("t0 s1 alloc A 1M\nt0 s1 launch k w:B\n", "line 2, column 18: no block is called B"),
        ("t0 s1 aloc A 1M\n", "line 1, column 7: no kind of event is called aloc; the nearest is alloc"),
        ("t0 s1 free A\n# fine\nt0 s1 free A +odd\n", "line 3, column 14: no flag is called odd"),
        ("# head\nt0 s1 launch k\nt0 #7 launch k\n", "line 3, column 4: stream 7 is not in a table of 1"),
        ("t0 s1 launch k at #9\n", "line 1, column 19: site 9 is not in a table of 1"),
    ],
)
def test_an_error_names_file_line_and_column(tmp_path, capsys, text, says):
    file = tmp_path / "bad.tape"
    file.write_text(text)
    assert run(["show", str(file)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"forebay: {file}: {says}")
    assert err.count("\n") == 1


def test_bytes_that_are_not_utf8_have_a_place_too(tmp_path):
    file = tmp_path / "latin.tape"
    file.write_bytes(b"t0 s1 launch k\nt0 s1 launch caf\xe9\n")
    with pytest.raises(BadInput, match="line 2, column 17: not UTF-8 text"):
        open_artifact(file)


@pytest.mark.parametrize(
    "text",
    [
        LOG,
        "",
        "# only a remark\n",
        '{"kind": "launch"}',
        "t0 s1 launch k\0\n",
        "wait\nfor it\nand more\n",
        "launch the thing\nfree it\nsync the rest now\n",
    ],
)
def test_other_text_is_no_tape(text):
    assert not tape_text.recognises(text.encode())
