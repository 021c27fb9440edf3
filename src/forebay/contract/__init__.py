"""contract: what a program promises, rule by rule, and which of its runs break it. Exact: it gates CI. Explaining is doctor's.

A new rule is a file in `rules/` and one line in RULES. Without a contract only what is wrong anywhere is judged.
"""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Final

from forebay.contract import contract_file
from forebay.contract.allow import borne
from forebay.contract.contract_file import Contract
from forebay.contract.rule import Blind, Rule, Verdict
from forebay.contract.rules import (
    capture_unclean,
    legacy_stream,
    needless_edge,
    order,
    stale_graph_pointer,
    unordered_access,
    unordered_free,
)
from forebay.tape import Tape

__all__ = ["RULES", "Blind", "Contract", "Rule", "Verdict", "check", "read_contract"]

RULES: Final[dict[str, Rule]] = {
    rule.name: rule
    for rule in (
        unordered_free.RULE,
        unordered_access.RULE,
        stale_graph_pointer.RULE,
        capture_unclean.RULE,
        legacy_stream.RULE,
        needless_edge.RULE,
        order.RULE,
    )
}
_NOTHING: Final = Contract()


def read_contract(path: Path | str) -> Contract:
    """The contract of a `forebay.toml` or a pyproject. Raises BadInput, one line that points into the file."""
    return contract_file.read_contract(path, RULES)


def check(tape: Tape, contract: Contract = _NOTHING, today: date | None = None) -> Verdict:
    """Every rule that is asked for on one tape: the findings, less those that the contract allows today, and the rules that could not
    see what they need."""
    verdict = Verdict([], [])
    for rule in RULES.values():
        if rule.asked == "by the contract" and rule.name not in contract.names:
            continue
        if missing := rule.needs - tape.sees:
            verdict.blind.append(Blind(rule.name, sorted(missing), rule.advice))
        else:
            verdict.findings.extend(borne(rule.judge(tape, contract), contract.allows, today or date.today()))
    return verdict
