"""finding: one thing that a rule or an incident has to say. How it is shown is report's; who says it is contract's and doctor's."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from typing import Annotated, Any, Literal

import msgspec

__all__ = ["Bytes", "Certainty", "Count", "Figures", "Finding", "Severity", "Site"]

Severity = Literal["error", "warning"]
Certainty = Literal["certain", "possible"]
Count = Annotated[int, msgspec.Meta(ge=0)]
Bytes = Annotated[int, msgspec.Meta(ge=0)]


class Site(msgspec.Struct, frozen=True):
    """A place in the program's source. `line` counts from 1."""

    file: str
    line: int
    function: str


class Figures(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """What the findings of one name say in figures: a class a rule or incident, whose fields are all that their `evidence` can hold.

    None is not known, and left out. The shipped JSON Schemas are made of these classes.
    """

    def told(self) -> dict[str, Any]:
        """The figures as they stand in `evidence`."""
        told: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(self))  # what is a tuple here is a list there
        return told


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One finding, as it stands in the JSON of every command.

    `evidence` holds figures by name (sizes in bytes, times in nanoseconds), `events` the indices of the tape's rows that show it,
    `sites` where the program did it. `prevents` is the incident that following the rule prevents; None for incidents. Make one
    with `Finding.of`, which fills in `fingerprint` and `docs`.
    """

    name: str
    severity: Severity
    certainty: Certainty
    message: str
    evidence: dict[str, Any]
    events: list[int]
    sites: list[Site]
    remedy: str
    prevents: str | None
    fingerprint: str
    docs: str

    @classmethod
    def of(
        cls,
        name: str,
        message: str,
        *,
        severity: Severity,
        certainty: Certainty,
        remedy: str,
        about: Iterable[str] = (),
        evidence: Figures | dict[str, Any] | None = None,
        events: Iterable[int] = (),
        sites: Iterable[Site] = (),
        prevents: str | None = None,
    ) -> Finding:
        """A finding with its fingerprint. `about` names what it is about (streams, pools, regions): with the name and the sites it
        tells this finding from others of the same name.

        >>> Finding.of("unordered-free", "…", severity="error", certainty="certain", remedy="…", about=["decode"]).docs
        'forebay explain unordered-free'
        """
        where = list(sites)
        return cls(
            name=name,
            severity=severity,
            certainty=certainty,
            message=message,
            evidence=evidence.told() if isinstance(evidence, Figures) else evidence or {},
            events=list(events),
            sites=where,
            remedy=remedy,
            prevents=prevents,
            fingerprint=fingerprint(name, about, where),
            docs=f"forebay explain {name}",
        )


def fingerprint(name: str, about: Iterable[str], sites: Iterable[Site]) -> str:
    """16 hexadecimal digits that stay the same from run to run and over edits elsewhere in a file: figures, addresses, row numbers
    and line numbers take no part.

    >>> before, after = Site("a.py", 3, "step"), Site("a.py", 9, "step")
    >>> fingerprint("hidden-sync", ["decode"], [before]) == fingerprint("hidden-sync", ["decode"], [after])
    True
    """
    identity = [name, list(about), [[site.file, site.function] for site in sites]]
    return hashlib.sha256(json.dumps(identity, ensure_ascii=True).encode()).hexdigest()[:16]
