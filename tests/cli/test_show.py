"""`forebay show`: the tape of a file as text that reads back, one line where there is none."""

import xml.etree.ElementTree as ET

import pytest

from forebay.cli import run
from forebay.sources import open_artifact
from forebay.tape import file, parse
from tape.arbitrary import story

DRAWING = "t0 s1 alloc A 1M @0x1000 at a.py:3 f\nt0 s1 launch k w:A"


def test_what_is_shown_reads_back(tmp_path, capsys):
    file.write(parse(DRAWING), tmp_path / "a.arrow")
    assert run(["show", str(tmp_path / "a.arrow")]) == 0
    shown = capsys.readouterr().out
    assert story(parse(shown)) == story(parse(DRAWING))
    assert "t0 s1 alloc A 1M @0x1000 at a.py:3 f" in shown


def test_a_file_that_is_cut_is_one_line_and_status_2(tmp_path, capsys):
    file.write(parse(DRAWING), tmp_path / "a.arrow")
    whole = (tmp_path / "a.arrow").read_bytes()
    (tmp_path / "a.arrow").write_bytes(whole[:-40])
    assert run(["show", str(tmp_path / "a.arrow")]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert f"{tmp_path}/a.arrow: not a whole tape" in err


def shown(capsys, *arguments):
    assert run(["show", *map(str, arguments)]) == 0
    return capsys.readouterr().out


def refused(capsys, *arguments):
    assert run(["show", *map(str, arguments)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    return err


@pytest.fixture
def drawing(tmp_path):
    path = tmp_path / "a.tape"
    path.write_text(DRAWING)
    return path


def test_a_drawing_goes_to_standard_output_or_to_a_file(drawing, tmp_path, capsys):
    text = shown(capsys, drawing, "--as", "dag")
    assert ET.fromstring(text).tag.endswith("svg")
    assert shown(capsys, drawing, "--as", "dag", "-o", tmp_path / "a.svg") == ""
    assert (tmp_path / "a.svg").read_text() == text


def test_any_artifact_becomes_a_closed_file(tmp_path, capsys):
    assert shown(capsys, "example:healthy", "--as", "arrow", "-o", tmp_path / "a.arrow") == ""
    there, here = file.read(tmp_path / "a.arrow"), open_artifact("example:healthy")
    assert {name: column.tolist() for name, column in there.columns.items()} == {n: c.tolist() for n, c in here.columns.items()}
    assert list(there.sides.strings) == list(here.sides.strings)


def test_rows_are_cut_as_python_cuts_them(drawing, tmp_path, capsys):
    assert "launch" not in shown(capsys, drawing, "--rows", ":1")
    assert "alloc" not in shown(capsys, drawing, "--rows", "1:99")
    shown(capsys, drawing, "--as", "arrow", "--rows", "1:", "-o", tmp_path / "cut.arrow")
    assert (len(file.read(tmp_path / "cut.arrow")), file.read(tmp_path / "cut.arrow").first) == (1, 1)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--as", "arrow"], "name it with -o FILE.arrow"),
        (["--rows", "2:5"], "--rows 2:5: holds none of the rows 0 to 1"),
        (["--rows", "-1:"], "--rows -1:: not a range of rows; write A:B"),
        (["--as", "dag", "-o", "nowhere/a.svg"], "nowhere"),
    ],
)
def test_what_cannot_be_shown_is_one_line_and_2(drawing, capsys, arguments, says):
    assert says in refused(capsys, drawing, *arguments)


def test_a_snapshot_has_no_order_to_draw_and_nothing_is_written(tmp_path, capsys):
    error = refused(capsys, "example:healthy", "--as", "dag", "-o", tmp_path / "a.svg")
    assert error.startswith("forebay: example:healthy: shows no work and no waits")
    assert list(tmp_path.iterdir()) == []
