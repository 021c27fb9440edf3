"""svg: a scene as SVG text, for light and dark surroundings, with a title and a description for those who do not see it.

Where things lie is decided by who makes the scene. The text is the same for the same scene.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from typing import Final
from xml.sax.saxutils import escape, quoteattr

from forebay.report.scene import CHAR, LANE, LEFT, TOP, Arrow, Band, Box, Glyph, Lane, Mark, Scene

__all__ = ["svg"]

_LEAST: Final = 900.0  # pixels: the legend's room
_LINE: Final = 18.0
_NOT_XML: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")

# Text on its ground has a contrast of 4.5 at least, in both palettes. Colour never speaks alone: races are dashed and labelled, needless
# edges dotted and labelled.
_LIGHT: Final = {
    "ground": "#ffffff", "ink": "#1c1e21", "soft": "#565b62", "rule": "#d3d7dc", "band": "#f1f3f5", "launch": "#dbe8fb",
    "copy": "#d9f0df", "memset": "#fbeecb", "host": "#ece3f7", "edge": "#2f5fb3", "race": "#c4161c", "grey": "#666b72",
}  # fmt: skip
_DARK: Final = {
    "ground": "#15181c", "ink": "#eceff3", "soft": "#a9b1bb", "rule": "#3a4048", "band": "#1f242a", "launch": "#1e3a63",
    "copy": "#1d4a30", "memset": "#4a3a10", "host": "#43305e", "edge": "#82aef5", "race": "#ff6b6b", "grey": "#98a0aa",
}  # fmt: skip
_GLYPHS: Final[dict[Glyph, str]] = {
    "record": "M-5 0a5 5 0 1 0 10 0a5 5 0 1 0 -10 0z",
    "wait": "M-5 0a5 5 0 1 0 10 0a5 5 0 1 0 -10 0z",
    "alloc": "M-6 5L0 -6L6 5z",
    "free": "M-6 -5L0 6L6 -5z",
    "lend": "M-6 0L0 -6L6 0L0 6z",
    "host": "M-4 -4h8v8h-8z",
}
_LEGEND: Final = (
    ("box launch", "launch"), ("box copy", "copy"), ("box memset", "memset"), ("box host", "host: function, sync, access"),
    ("record", "record"), ("wait", "wait"), ("alloc", "alloc"), ("free", "free"), ("lend", "lent"),
    ("edge", "orders"), ("edge race", "race: no order"), ("edge needless", "needless"),
)  # fmt: skip


def svg(scene: Scene) -> str:
    """The drawing, a whole SVG file. Sizes in pixels."""
    width, notes = max(scene.width, _LEAST), list(_wrapped(scene))
    bottom = TOP + LANE * len(scene.lanes)
    height = bottom + 74 + _LINE * len(notes)
    return "\n".join(
        [*_head(scene, width, height), *_body(scene, width), *_legend(bottom + 30), *_notes(notes, bottom + 74), "</svg>\n"]
    )


def _head(scene: Scene, width: float, height: float) -> Iterator[str]:
    w, h = _n(width), _n(height)
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{w}" height="{h}" viewBox="0 0 {w} {h}" role="img" '
        f'aria-labelledby="title desc">'
    )
    yield f'<title id="title">{_t(scene.title)}</title>'
    yield f'<desc id="desc">{_t(scene.says)}</desc>'
    yield f"<style>{_style(_LIGHT)}\n@media (prefers-color-scheme: dark) {{{_style(_DARK)}}}</style>"
    yield f"<defs>{''.join(_tip(name) for name in ('edge', 'race', 'grey'))}</defs>"
    yield f'<rect class="ground" width="{w}" height="{h}"/>'
    yield f'<text class="title" x="16" y="26">{_t(scene.title)}</text>'
    yield f'<text class="soft" x="16" y="44">{_t(scene.axis)}</text>'


def _style(p: dict[str, str]) -> str:
    return f"""
text {{ font: 11px ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace; fill: {p["ink"]} }}
.title, .name {{ font-weight: bold; font-size: 13px }} .soft, .small {{ fill: {p["soft"]} }} .small {{ font-size: 10px }}
.ground {{ fill: {p["ground"]} }} .band {{ fill: {p["band"]}; stroke: {p["rule"]} }} .rule {{ stroke: {p["rule"]}; fill: none }}
.box {{ fill: {p["launch"]}; stroke: {p["soft"]} }} .copy {{ fill: {p["copy"]} }} .memset {{ fill: {p["memset"]} }}
.host {{ fill: {p["host"]} }} .captured {{ stroke-dasharray: 3 2 }}
.mark {{ fill: {p["ground"]}; stroke: {p["ink"]}; stroke-width: 1.5 }} .record, .alloc {{ fill: {p["ink"]} }}
.edge {{ fill: none; stroke: {p["edge"]}; stroke-width: 1.5; marker-end: url(#edge) }}
.needless {{ stroke: {p["grey"]}; stroke-dasharray: 2 3 }} .edge.needless {{ marker-end: url(#grey) }}
.mark.needless {{ stroke-dasharray: none }}
.race {{ stroke: {p["race"]}; stroke-width: 2.5 }} .edge.race {{ stroke-dasharray: 7 4; marker-end: url(#race) }}
.halo {{ stroke: {p["ground"]}; stroke-width: 4; paint-order: stroke }}
text.race {{ fill: {p["race"]}; font-weight: bold; stroke: {p["ground"]}; stroke-width: 4; paint-order: stroke }}
text.needless {{ fill: {p["grey"]}; stroke: {p["ground"]}; stroke-width: 4; paint-order: stroke; stroke-dasharray: none }}
#edge path {{ fill: {p["edge"]} }} #race path {{ fill: {p["race"]} }} #grey path {{ fill: {p["grey"]} }}"""


def _tip(name: str) -> str:
    size = 'markerUnits="userSpaceOnUse" markerWidth="10" markerHeight="10"'
    return f'<marker id="{name}" viewBox="0 0 10 10" refX="9" refY="5" {size} orient="auto"><path d="M0 1L10 5L0 9z"/></marker>'


def _body(scene: Scene, width: float) -> Iterator[str]:
    bottom = TOP + LANE * len(scene.lanes)
    yield from (_band(band, bottom) for band in scene.bands)
    yield from (_tick(x, label, bottom) for x, label in scene.ticks)
    yield from (_lane(lane, width) for lane in scene.lanes)
    yield from (_arrow(arrow) for arrow in scene.arrows if arrow.look != "race")
    yield from (_box(box) for box in scene.boxes)
    yield from (_arrow(arrow) for arrow in scene.arrows if arrow.look == "race")
    yield from (_mark(mark) for mark in scene.marks)
    yield from (_arrow_label(arrow) for arrow in scene.arrows if arrow.label)


def _band(band: Band, bottom: float) -> str:
    top = 52.0 + 15 * band.level
    names = f'<text x="{_n(band.x + 4)}" y="{_n(top + 11)}">{_t(band.name)}</text>'
    says = f'<text class="small" x="{_n(band.x + 4)}" y="{_n(top + 25)}">{_t(band.says)}</text>' if band.says else ""
    return (
        f'<rect class="band" x="{_n(band.x)}" y="{_n(top)}" width="{_n(band.width)}" height="{_n(bottom - top)}" '
        f'fill-opacity="0.55"><title>{_t(band.name)}</title></rect>{names}{says}'
    )


def _tick(x: float, label: str, bottom: float) -> str:
    line = f'<path class="rule" stroke-dasharray="1 4" d="M{_n(x)} {_n(TOP)}V{_n(bottom)}"/>'
    return f'{line}<text class="small" x="{_n(x + 2)}" y="{_n(bottom + 10)}">{_t(label)}</text>'


def _lane(lane: Lane, width: float) -> str:
    return (
        f'<path class="rule" d="M{_n(LEFT - 10)} {_n(lane.y)}H{_n(width - 10)}"/>'
        f'<text class="name" x="16" y="{_n(lane.y)}">{_t(lane.name)}</text>'
        f'<text class="small" x="16" y="{_n(lane.y + 14)}">{_t(lane.says)}</text>'
    )


def _box(box: Box) -> str:
    first = box.y + box.height / 2 + 4 - 6.5 * (len(box.lines) - 1)
    texts = (
        f'<text class="{"label" if i == 0 else "small"}" text-anchor="middle" x="{_n(box.x + box.width / 2)}" '
        f'y="{_n(first + 13 * i)}">{_t(line)}</text>'
        for i, line in enumerate(box.lines)
    )
    return (
        f'<g{_rows(box.rows)}><title>{_t(box.tip)}</title><rect class="box {box.look}" x="{_n(box.x)}" y="{_n(box.y)}" '
        f'width="{_n(box.width)}" height="{_n(box.height)}" rx="3"/>{"".join(texts)}</g>'
    )


def _mark(mark: Mark) -> str:
    label = f'<text class="small halo" text-anchor="middle" x="{_n(mark.x)}" y="{_n(mark.y + 20)}">{_t(mark.label)}</text>'
    return (
        f'<g{_rows(mark.rows)}><title>{_t(mark.tip)}</title><path class="mark {mark.glyph} {mark.look}" '
        f'transform="translate({_n(mark.x)} {_n(mark.y)})" d="{_GLYPHS[mark.glyph]}"/>{label}</g>'
    )


def _arrow(arrow: Arrow) -> str:
    return f'<path class="edge {arrow.look}"{_rows(arrow.rows)} d="{_curve(arrow)}"><title>{_t(arrow.tip)}</title></path>'


def _curve(arrow: Arrow) -> str:
    (x0, y0), (x1, y1) = arrow.start, arrow.end
    if y0 == y1:
        bend = f"C{_n(x0)} {_n(y0 - 30)} {_n(x1)} {_n(y1 - 30)}"
    elif x1 - x0 >= 30 and arrow.look != "race":
        bend = f"C{_n(x0 + (x1 - x0) * 0.6)} {_n(y0)} {_n(x1 - (x1 - x0) * 0.6)} {_n(y1)}"
    else:
        bend = f"C{_n(x0)} {_n(y0 + (y1 - y0) * 0.4)} {_n(x1)} {_n(y1 - (y1 - y0) * 0.4)}"
    return f"M{_n(x0)} {_n(y0)}{bend} {_n(x1)} {_n(y1)}"


def _arrow_label(arrow: Arrow) -> str:
    (x0, y0), (x1, y1) = arrow.start, arrow.end
    if y0 == y1:
        x, y = (x0 + x1) / 2, y0 - 26
    elif arrow.look == "race":  # beside its head: of several from one place the heads are apart
        x, y = x1 + 2, y1 + (16 if y1 < y0 else -10)
    else:  # between two lanes, the last that it crosses: marks and boxes lie on lanes
        lane = (y1 - TOP) // LANE + (0 if y1 > y0 else 1)
        y = TOP + LANE * lane + 4
        x = x0 + (x1 - x0) * (y - 4 - y0) / (y1 - y0)
    anchor, x = ("middle", x) if (abs(x1 - x0) > 40 and arrow.look != "race") or y0 == y1 else ("start", x + 6)
    return f'<text class="{arrow.look or "soft halo"}" text-anchor="{anchor}" x="{_n(x)}" y="{_n(y)}">{_t(arrow.label)}</text>'


def _legend(y: float) -> Iterator[str]:
    x = 16.0
    yield f'<g class="legend"><title>Legend</title><path class="rule" d="M16 {_n(y - 14)}H880"/>'
    for look, name in _LEGEND:
        yield f'{_sample(look, x, y)}<text x="{_n(x + 26)}" y="{_n(y + 4)}">{name}</text>'
        x += 40 + 6.7 * len(name)
        if x > 780:
            x, y = 16.0, y + 20
    yield "</g>"


def _sample(look: str, x: float, y: float) -> str:
    if look.startswith("box"):
        return f'<rect class="{look}" x="{_n(x)}" y="{_n(y - 6)}" width="20" height="12" rx="3"/>'
    if look.startswith("edge"):
        return f'<path class="{look}" d="M{_n(x)} {_n(y)}h20"/>'
    return f'<path class="mark {look}" transform="translate({_n(x + 10)} {_n(y)})" d="{_GLYPHS[look]}"/>'  # type: ignore[index]


def _wrapped(scene: Scene) -> Iterator[tuple[str, str]]:
    for look, note in scene.notes:
        for i, line in enumerate(textwrap.wrap(note, int((max(scene.width, _LEAST) - 40) / CHAR))):
            yield look, line if i == 0 else f"    {line}"


def _notes(notes: list[tuple[str, str]], y: float) -> Iterator[str]:
    for i, (look, line) in enumerate(notes):
        yield f'<text xml:space="preserve" class="note {look}" x="16" y="{_n(y + _LINE * i)}">{_t(line)}</text>'


def _rows(rows: str) -> str:
    return f" data-rows={quoteattr(rows)}" if rows else ""


def _n(value: float) -> str:
    """A length as text, to a tenth of a pixel.

    >>> _n(2.0), _n(2.25)
    ('2', '2.2')
    """
    return f"{value:.1f}".removesuffix(".0")


def _t(text: str) -> str:
    return escape(_NOT_XML.sub("?", text))
