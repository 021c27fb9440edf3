"""What a drawing looks like: texts stand out from their ground in both palettes, by WCAG 2's measure (4.5 for small text)."""

import re
import xml.etree.ElementTree as ET

import pytest

from forebay.report.scene import Scene
from forebay.report.svg import svg


def palettes():
    style = next(ET.fromstring(svg(Scene("a", "b", 100, []))).iter("{http://www.w3.org/2000/svg}style")).text
    light, dark = style.split("@media (prefers-color-scheme: dark)")
    return {"light": light, "dark": dark}


def fill(style, name):
    return re.search(
        rf"(?:^|[\s,]){re.escape(name)}(?:, [\w.]+)* {{ (?:font[^;]*; )?fill: (#[0-9a-f]{{6}})", style, re.MULTILINE
    )[1]


def luminance(colour):
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(a, b):
    low, high = sorted((luminance(a), luminance(b)))
    return (high + 0.05) / (low + 0.05)


def test_the_measure_is_that_of_the_standard():
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


@pytest.mark.parametrize("name", ["light", "dark"])
def test_text_can_be_read(name):
    style = palettes()[name]
    grounds = {part: fill(style, part) for part in (".ground", ".band", ".box", ".copy", ".memset", ".host")}
    for part, ground in grounds.items():
        for text in ("text", ".soft"):
            assert contrast(fill(style, text), ground) >= 4.5, (text, part)
    for text in ("text.race", "text.needless"):
        for part in (".ground", ".band"):
            assert contrast(fill(style, text), grounds[part]) >= 4.5, (text, part)
