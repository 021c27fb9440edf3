"""The drawing of a tape's order, as an XML parser reads it: what is in it, what is red, what is grey, how much there is of it."""

import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from forebay.errors import BadInput
from forebay.report.dag import draw
from forebay.tape import Kind, parse
from forebay.views.needed import Edges
from forebay.views.order import find_races

SVG = "{http://www.w3.org/2000/svg}"
GOLDEN = Path(__file__).parent / "golden" / "missing-wait.svg"
TAPES = sorted((Path(__file__).parent.parent / "tapes").rglob("*.tape"))
WORK = (Kind.launch, Kind.copy, Kind.memset, Kind.host_func, Kind.graph_launch)

# 27 rows. By hand: stats (9) reads Y on `side`; what comes after it on `compute` without a wait and touches Y's bytes are attention (10),
# the free of Y (11) and mlp (13), whose block Z was given them. The wait for `fetched` (17) orders prefetch's X before norm's Z: nothing.
STORY = """
stream copy nonblocking
stream compute nonblocking
stream side nonblocking
t0 copy alloc W 8M @0x1000000
t0 copy alloc X 1M @0x2000000
t0 copy copy h2d w:W r.pinned:@0x7f0000000000+8M at load.py:10 weights
t0 copy record up
t0 compute wait up
t0 compute alloc Y 1M @0x3000000
t0 compute launch embed r:W w:Y
t0 compute record embedded
t0 side wait embedded
t0 side launch stats r:Y at step.py:10 step
t0 compute launch attention r:W w:Y[512K:1M]
t0 compute free Y
t0 compute alloc Z 1M @0x3000000
t0 compute launch mlp r:W w:Z
t0 compute record done
t0 copy launch prefetch w:X
t0 copy record fetched
t0 compute wait fetched
t0 compute launch norm r:Z
t0 copy wait done
t0 copy copy d2h r:Z w.pinned:@0x7f0001000000+1M
t0 copy sync_stream
t0 host_access r.pinned:@0x7f0001000000+1M
t0 copy free X
t0 compute free Z
t0 copy record last
t0 compute wait last
"""


def drawn(text: str, rows: range | None = None) -> ET.Element:
    return ET.fromstring(draw(parse(text), "story", rows))


def classed(root: ET.Element, tag: str, *classes: str) -> list[ET.Element]:
    """The elements of the drawing itself that have all these style classes."""
    legend = {id(part) for group in root.iter(f"{SVG}g") if group.get("class") == "legend" for part in group.iter()}
    return [e for e in root.iter(SVG + tag) if set(classes) <= set(e.get("class", "").split()) and id(e) not in legend]


def rows_of(root: ET.Element, look: str) -> set[int]:
    """The rows of all things on lanes that look so."""
    groups = [g for g in root.iter(f"{SVG}g") if any(look in part.get("class", "").split() for part in g) and g.get("data-rows")]
    return {int(row) for group in groups for row in group.get("data-rows").split()}


def pairs(root: ET.Element) -> list[tuple[int, ...]]:
    return [tuple(map(int, arrow.get("data-rows").split())) for arrow in classed(root, "path", "edge", "race")]


def test_a_box_for_each_work_row_and_the_findings_worked_out_by_hand():
    root = drawn(STORY)
    assert len(classed(root, "rect", "box", "work")) == 8
    assert sorted(pairs(root)) == [(9, 10), (9, 11), (9, 13)]
    assert rows_of(root, "race") == {9, 10, 11, 13}
    assert [arrow.get("data-rows") for arrow in classed(root, "path", "edge", "needless")] == ["17"]
    assert rows_of(root, "needless") == {17}


def test_an_edge_is_an_arrow_from_its_record_to_its_wait():
    tips = {arrow.find(f"{SVG}title").text for arrow in classed(drawn(STORY), "path", "edge") if "race" not in arrow.get("class")}
    assert tips == {
        "row 4 comes after row 3", "row 8 comes after row 7", "row 17 comes after row 16, and nothing needs that",
        "row 19 comes after row 14", "row 21 comes after row 20", "row 26 comes after row 25",
    }  # fmt: skip


@pytest.mark.parametrize("path", TAPES, ids=lambda path: path.stem)
def test_every_tape_is_drawn_with_the_engines_races_and_needless_edges_or_refused(path):
    tape = parse(path.read_text())
    shows = (*WORK, Kind.wait, Kind.host_access, Kind.sync_stream, Kind.sync_device, Kind.sync_event)
    if not len(tape.where(*shows)):
        with pytest.raises(BadInput, match="no order to draw"):
            draw(tape, path.name)
        return
    root = ET.fromstring(draw(tape, path.name))
    assert len(classed(root, "rect", "box", "work")) == len(tape.where(*WORK))
    assert sorted(pairs(root)) == sorted((race.a.row, race.b.row) for race in find_races(tape))
    needless = {row for edge in Edges(tape).all if edge.verdict == "needless" and not edge.pool_made for row in edge.rows}
    assert rows_of(root, "needless") == needless


def test_a_lane_a_stream_and_a_host_thread():
    names = [text.text for text in classed(drawn(STORY + "t3 side launch late"), "text", "name")]
    assert names == ["thread 0", "copy", "compute", "side"]


def test_it_tells_itself_to_those_who_do_not_see_it():
    root = drawn(STORY)
    assert root.get("role") == "img"
    assert root.find(f"{SVG}title").text == "story: 27 rows, 3 races, 1 needless edge"
    assert "missing: record on `side` after launch stats at step.py:10" in root.find(f"{SVG}desc").text


def test_what_has_times_lies_in_the_order_of_its_times():
    text = """t0 b launch late begin=90us end=95us
              t0 a launch early begin=10us end=30us
              t0 a launch second begin=30us end=80us"""
    left = {
        g.find(f"{SVG}text").text: float(g.find(f"{SVG}rect").get("x")) for g in drawn(text).iter(f"{SVG}g") if g.get("data-rows")
    }
    assert sorted(left, key=left.get) == ["early", "second", "late"]


def test_without_times_nothing_lies_left_of_what_it_comes_after():
    root = drawn(STORY)
    x = {}
    for group in (g for g in root.iter(f"{SVG}g") if g.get("data-rows")):
        rect, mark = group.find(f"{SVG}rect"), group.find(f"{SVG}path")
        at = float(rect.get("x")) if rect is not None else float(mark.get("transform")[10:].split()[0])
        x[int(group.get("data-rows"))] = at
    for before, after in [(3, 4), (7, 8), (16, 17), (14, 19), (20, 21), (25, 26), (2, 3), (21, 22)]:
        assert x[before] < x[after], (before, after)


def test_boxes_of_one_lane_do_not_overlap():
    boxes = [(float(r.get("y")), float(r.get("x")), float(r.get("width"))) for r in classed(drawn(STORY), "rect", "box")]
    for (y0, x0, width), (y1, x1, _) in zip(sorted(boxes), sorted(boxes)[1:], strict=False):
        assert y0 != y1 or x0 + width <= x1


def test_some_rows_are_drawn_alone_and_the_whole_is_judged():
    root = drawn(STORY, range(9, 12))
    assert sorted(pairs(root)) == [(9, 10), (9, 11)]
    assert len(classed(root, "rect", "box", "work")) == 2
    assert "rows 9:12 of 27, 3 races" in root.find(f"{SVG}title").text


def test_names_that_are_no_xml_are_text_still():
    root = drawn('t0 "<s & \\u0001>" launch "a<b>\\"&"')
    assert "<s & ?>" in [text.text for text in root.iter(f"{SVG}text")]


def test_a_tape_without_work_is_refused():
    with pytest.raises(BadInput, match="no work and no waits"):
        draw(parse("t0 s1 alloc A 1M @0\nt0 s1 free A"), "heap")


def test_a_small_drawing_is_as_it_was():
    text = "stream t nonblocking\nstream main nonblocking\nt0 t copy 4M w:@0x400000+4M\nt0 main launch attention r:@0x400000+4M"
    assert draw(parse(text), "missing-wait") == GOLDEN.read_text(encoding="utf-8")


# Many rows.


def pipeline(steps: int, race_at: int | None = None, *, regions: bool = True) -> str:
    """Uploads into one of two buffers while the other is computed on: nine rows a step. `race_at`: a step that does not wait."""
    lines = ["stream up nonblocking", "stream compute nonblocking"]
    for i in range(steps):
        place = 0x1000 + 0x1000 * (i % 2)
        lines += [f"t0 region_begin step {i}"] if regions else []
        lines += [f"t0 up wait done{i % 2}", f"t0 up copy w:@{place}+4K", "t0 up record here"]
        lines += ["t0 compute wait here" if i != race_at else "t0 compute wait never"]
        lines += [f"t0 compute launch attention r:@{place}+4K", f"t0 compute record done{i % 2}"]
        lines += [f"t0 region_end step {i}"] if regions else ["t0 compute sync_stream"]
    return "\n".join(lines)


def elements(root: ET.Element) -> int:
    return sum(1 for _ in root.iter())


def test_steps_that_do_the_same_share_a_column_and_a_race_stands_out():
    root = drawn(pipeline(400, race_at=250))
    names = [band.find(f"{SVG}title").text for band in classed(root, "rect", "band")]
    assert names == ["step 0 … 249", "step 250", "step 251 … 399"]
    assert len(classed(root, "rect", "cell", "race")) == 2
    assert [text.text for text in root.iter(f"{SVG}text") if text.get("class") == "race"] == ["race 1"]
    assert len(classed(root, "rect", "box", "work")) == 0


def test_figures_of_a_column_of_equal_steps_are_those_of_one():
    root = drawn(pipeline(400))
    texts = [text.text for text in root.iter(f"{SVG}text")]
    assert {"400 alike: each does", "1 launch", "1 copy", "attention"} <= set(texts)


@pytest.mark.parametrize(("steps", "regions"), [(400, True), (400, False), (12_500, True)])
def test_the_number_of_shapes_is_bounded_whatever_the_number_of_rows(steps, regions):
    assert elements(drawn(pipeline(steps, regions=regions))) < 150


@pytest.mark.parametrize("rows", [3_000, 100_000])
def test_steps_that_all_differ_and_many_streams_are_bounded_too(rows):
    text = "\n".join(f"t0 s{i * 7919 % 61} launch k{i % 97}\nt0 region_begin step {i}" for i in range(0, rows, 2))
    root = drawn(text)
    assert len(classed(root, "rect", "band")) <= 12
    assert len(classed(root, "text", "name")) <= 25
    assert elements(root) < 2_500
