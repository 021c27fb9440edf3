"""allow: which findings a contract bears with. How an `[[allow]]` is written is contract_file's."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import date
from fnmatch import fnmatchcase

import msgspec

from forebay.contract.contract_file import Allow
from forebay.finding import Finding

__all__ = ["borne"]


def borne(findings: Iterable[Finding], allows: Sequence[Allow], today: date) -> Iterator[Finding]:
    """The findings that no allowance covers. One that only an expired allowance covers says so."""
    for finding in findings:
        fitting = [allow for allow in allows if allow.rule == finding.name and _covers(allow, finding)]
        if not fitting:
            yield finding
        elif all(allow.expires is not None and allow.expires < today for allow in fitting):
            last = max(fitting, key=lambda allow: allow.expires or today)
            message = f"{finding.message} (allowed until {last.expires}, which is over: {last.reason})"
            yield msgspec.structs.replace(finding, message=message)


def _covers(allow: Allow, finding: Finding) -> bool:
    """`where` may leave out the folders that the file lies in."""
    places = [f"{site.file}:{site.function}" for site in finding.sites]
    return any(fnmatchcase(place, pattern) for place in places for pattern in (allow.where, f"*/{allow.where}"))
