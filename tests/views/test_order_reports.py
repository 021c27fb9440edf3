"""Public bug reports as tapes: each says its verdict in its header, worked out by hand from the report."""

from pathlib import Path

import pytest

from views.drawings import found

REPORTS = sorted((Path(__file__).parent.parent / "tapes" / "reports").glob("*.tape"))


def expected(text: str) -> list[str]:
    """What the header says is to be found."""
    (verdict,) = (line.removeprefix("# verdict: ") for line in text.split("\n") if line.startswith("# verdict: "))
    return [] if verdict == "silent" else verdict.split("; ")


@pytest.mark.parametrize("path", REPORTS, ids=lambda path: path.stem)
def test_a_report_gets_its_verdict(path: Path):
    text = path.read_text(encoding="utf-8")
    assert found(text) == expected(text)


def test_every_report_of_the_list_is_there():
    assert {path.stem.split("-")[0] for path in REPORTS} == {"c1", "c2", "c3", "c4", "c6", "c7", "c10", "d1"}


def test_what_keeps_two_streams_apart_in_d1_is_the_legacy_stream():
    text = next(path for path in REPORTS if path.stem.startswith("d1")).read_text(encoding="utf-8")
    without = "\n".join(line for line in text.split("\n") if " legacy copy " not in line)
    assert found(without) == ["certain access: enqueue1 enqueue2"]


def test_the_missing_edge_in_words(missing):
    c6 = next(path for path in REPORTS if path.stem.startswith("c6")).read_text(encoding="utf-8")
    assert missing(c6)[0] == "record on `c` after launch conv (row 4), wait on `off` before free (row 5)"


@pytest.fixture
def missing():
    from forebay.tape.notation import parse
    from forebay.views.order import find_races

    return lambda text: [race.missing for race in find_races(parse(text))]
