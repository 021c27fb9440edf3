"""figures: what the evidence of incidents is made of: what was tried of remedies, and who pins partly used segments.

Which figures an incident tells stands in its own file; how they are found is evidence.py's and remedies.py's.
"""

from __future__ import annotations

import msgspec

from forebay.finding import Bytes, Count, Figures, Site

__all__ = ["IncidentFigures", "PinFigures", "Remedy"]


class Remedy(msgspec.Struct, frozen=True, kw_only=True):
    """A remedy that was tried on the history: what it is and how it is done; the peak reserved as recorded and with it, and how much of
    the latter is open (bytes); whether the request that was refused, or any other, is refused with it, null where no limit is known that
    could; driver calls before and after; and whether it helps."""

    name: str
    how: str
    before_bytes: Bytes
    after_bytes: Bytes
    spread_bytes: Bytes
    cap_bytes: Bytes | None
    oom: bool | None
    driver_calls_before: Count
    driver_calls_after: Count
    helps: bool


class PinFigures(msgspec.Struct, frozen=True, kw_only=True):
    """A site that keeps partly used segments: its bytes in them, and what would come free of those in which it is alone."""

    site: list[Site]
    segments: Count
    held_bytes: Bytes
    freed_if_gone_bytes: Bytes


class IncidentFigures(Figures, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Figures of an incident. `device`: which, where an artifact shows several. `remedies`: what was tried on the history of the verdict,
    those that help first."""

    device: Count | None = None
    remedies: tuple[Remedy, ...] = ()
