"""The rules on order, a drawing each: which rule says what, and what it does not repeat."""

from pathlib import Path

import pytest

from forebay.contract import RULES, check
from forebay.finding import Finding
from forebay.tape.notation import parse

TAPES = Path(__file__).parent.parent / "tapes"


def findings(text: str) -> list[Finding]:
    return check(parse(text)).findings


def names(text: str) -> list[str]:
    return [f"{finding.name} {finding.certainty}" for finding in findings(text)]


@pytest.mark.parametrize(
    ("report", "verdict"),
    [
        ("c1-index-assert", ["unordered-free certain"]),
        ("c1-fixed-by-an-edge", []),
        ("c2-stashed-memory", ["unordered-free certain"]),
        ("c6-freed-in-stream-order", ["unordered-free certain"]),
        ("c4-the-wrong-producer", ["unordered-access certain"]),
        ("c10-ordered-by-its-stream", []),
        ("d1-threads-still-serialise", ["legacy-stream certain"]),
    ],
)
def test_a_public_report_breaks_exactly_the_rule_that_it_is_about(report: str, verdict: list[str]):
    assert names((TAPES / "reports" / f"{report}.tape").read_text(encoding="utf-8")) == verdict


def test_what_came_before_the_free_is_an_access_of_its_own():
    text = """t0 s1 alloc A 1M @0
              t0 s1 launch k1 w:A
              t0 s2 launch k2 r:A
              t0 s2 free A"""
    assert sorted(names(text)) == ["unordered-access certain", "unordered-free possible"] or names(text) == [
        "unordered-access certain"
    ]


def test_the_same_race_in_every_step_is_one_finding():
    step = "t0 s1 launch k1 w:@0+512 at a.py:1 f\nt0 s2 launch k2 r:@0+512 at a.py:2 f\nt0 sync_device device=0\n"
    (finding,) = findings(step * 5)
    assert finding.evidence["times"] == 5
    assert [(site.file, site.line) for site in finding.sites] == [("a.py", 1), ("a.py", 2)]
    assert finding.remedy == "record on `s1` after launch k1 at a.py:1, wait on `s2` before launch k2 at a.py:2"


def test_a_needless_edge_is_a_warning_and_names_its_site():
    (finding,) = findings((TAPES / "rules" / "needless-edge.tape").read_text(encoding="utf-8"))
    assert (finding.name, finding.severity, [site.line for site in finding.sites]) == ("needless-edge", "warning", [6])


def test_the_legacy_stream_is_silent_where_no_blocking_stream_works():
    text = "stream L legacy\nstream s1 {}\nt0 L launch k1\nt0 s1 launch k2"
    assert names(text.format("nonblocking")) == []
    assert names(text.format("blocking")) == ["legacy-stream certain"]
    assert names(text.format("blocking device=1")) == []


def test_a_tape_without_uses_leaves_the_rules_blind_and_says_so():
    verdict = check(parse("sees work streams\nstream s1 nonblocking\nt0 s1 launch k"))
    assert verdict.findings == []
    assert [(blind.name, blind.needs) for blind in verdict.blind] == [
        ("unordered-free", ["allocs", "edges", "uses"]),
        ("unordered-access", ["edges", "uses"]),
        ("stale-graph-pointer", ["allocs", "captures", "edges", "graphs", "uses"]),
        ("capture-unclean", ["captures"]),
        ("needless-edge", ["edges", "syncs", "uses"]),
    ]


@pytest.mark.parametrize("rule", RULES.values(), ids=lambda rule: rule.name)
def test_a_rules_page_says_what_why_and_what_instead(rule):
    assert [part.split(":")[0] for part in rule.page.split("\n\n")] == ["What it does", "Why it matters", "Instead"]
