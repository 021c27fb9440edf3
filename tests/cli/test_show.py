"""`forebay show`: the tape of a file as text that reads back, one line where there is none."""

from forebay.cli import run
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
