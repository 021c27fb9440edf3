"""saying: how an incident puts what it found: figures without those that are not known, sizes as people write them."""

from __future__ import annotations

from typing import Any

from forebay.finding import Finding, Severity, Site
from forebay.units import size

__all__ = ["found", "sized"]


def sized(count: int | None) -> str:
    """Bytes for people; what is not known says so.

    >>> sized(None), sized(2048)
    ('an unknown number of bytes', '2 KiB')
    """
    return "an unknown number of bytes" if count is None else size(count)


def found(
    name: str,
    message: str,
    remedy: str,
    *,
    certain: bool,
    severity: Severity = "error",
    events: list[int] | None = None,
    sites: list[Site] | None = None,
    **figures: Any,
) -> Finding:
    """A finding of an incident. `figures` become its evidence, unknown ones left out."""
    return Finding.of(
        name,
        message,
        severity=severity,
        certainty="certain" if certain else "possible",
        remedy=remedy,
        evidence={key: value for key, value in figures.items() if value is not None},
        events=events or [],
        sites=sites or [],
    )
