"""contract: what a program promises, rule by rule, and which of its runs break it. Exact: it gates CI. Explaining is doctor's.

A new rule is a file in `rules/` and one line in RULES. Without a contract only what is wrong anywhere is judged.
"""

from __future__ import annotations

from typing import Final

from forebay.contract.rule import Blind, Rule, Verdict
from forebay.contract.rules import legacy_stream, needless_edge, unordered_access, unordered_free
from forebay.tape import Tape

__all__ = ["RULES", "Blind", "Rule", "Verdict", "check"]

RULES: Final[dict[str, Rule]] = {
    rule.name: rule for rule in (unordered_free.RULE, unordered_access.RULE, legacy_stream.RULE, needless_edge.RULE)
}


def check(tape: Tape) -> Verdict:
    """Every rule on one tape: the findings, and the rules that could not see what they need."""
    verdict = Verdict([], [])
    for rule in RULES.values():
        if missing := rule.needs - tape.sees:
            verdict.blind.append(Blind(rule.name, sorted(missing), rule.advice))
        else:
            verdict.findings.extend(rule.judge(tape))
    return verdict
