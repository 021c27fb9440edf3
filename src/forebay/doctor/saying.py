"""saying: how an incident puts what it found: sizes as people write them, figures told apart where they round to the same."""

from __future__ import annotations

from forebay.doctor.figures import IncidentFigures
from forebay.finding import Finding, Severity, Site
from forebay.units import size

__all__ = ["found", "listed", "sized", "sized_below"]


def sized(count: int | None) -> str:
    """Bytes for people; what is not known says so.

    >>> sized(None), sized(2048)
    ('an unknown number of bytes', '2 KiB')
    """
    return "an unknown number of bytes" if count is None else size(count)


def sized_below(count: int, more: int | None) -> str:
    """Bytes for people, with how many lack where they would read like the larger ones they are held against.

    >>> sized_below(15 * 2**20 - 512, 15 * 2**20), sized_below(2**20, 15 * 2**20)
    ('15 MiB less 512 B', '1 MiB')
    """
    if more is None or count >= more or size(count) != size(more):
        return size(count)
    return f"{size(more)} less {size(more - count)}"


def listed(says: str, **figures: int | None) -> str:
    """A sentence with the figures that are known, each behind its name.

    >>> listed("2 MiB were refused", live=2**30, idle=None, free_on_the_card=0)
    '2 MiB were refused: 1 GiB live, 0 B free on the card'
    """
    told = [f"{size(value)} {name.replace('_', ' ')}" for name, value in figures.items() if value is not None]
    return f"{says}: {', '.join(told)}" if told else says


def found(
    name: str,
    message: str,
    remedy: str,
    figures: IncidentFigures,
    *,
    certain: bool,
    severity: Severity = "error",
    events: list[int] | None = None,
    sites: list[Site] | None = None,
) -> Finding:
    """A finding of an incident; `figures` become its evidence, unknown ones left out."""
    return Finding.of(
        name,
        message,
        severity=severity,
        certainty="certain" if certain else "possible",
        remedy=remedy,
        evidence=figures,
        events=events or [],
        sites=sites or [],
    )
