"""artifacts: several artifacts sorted by what they say of themselves: one process at several times is a trend, many ranks are a line a
verdict, and what names neither process nor rank stands alone. Nothing is guessed, least of all from a file's name.

Judging one is diagnose.py's; opening and showing them is cli's and report's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from forebay.doctor.diagnose import CANNOT_TELL, Diagnosis, diagnose
from forebay.tape import Tape
from forebay.units import size

__all__ = ["Examined", "Trend", "examined", "gravest", "odd_one", "trends"]


@dataclass(frozen=True, slots=True)
class Examined:
    """An artifact with its diagnosis, and what it says of itself: host, process, rank, kind of source, and the time of its last row
    (nanoseconds); None where it does not say."""

    name: str
    diagnosis: Diagnosis
    source: str | None
    host: str | None
    pid: int | None
    rank: int | None
    time_ns: int | None

    @property
    def verdict(self) -> str | None:
        """The diagnosis's verdict."""
        return self.diagnosis.verdict


class Trend(NamedTuple):
    """Live and reserved bytes of one process in the order of time, and whether the live ones rose from each artifact to the next."""

    host: str
    pid: int
    names: tuple[str, ...]
    live: tuple[int | None, ...]
    reserved: tuple[int | None, ...]
    rises: bool

    def __str__(self) -> str:
        steps = " → ".join("not known" if live is None else size(live) for live in self.live)
        return f"process {self.pid} on {self.host}, {len(self.names)} times: live {steps}" + (
            "; it rises every time: look for what is kept" if self.rises else ""
        )


def examined(name: str, tape: Tape) -> Examined:
    """One artifact's diagnosis, with what it says of itself."""
    told = tape.provenance
    host, pid, rank = told.get("host"), told.get("pid"), told.get("rank")
    known = tape.columns["time_ns"][tape.knows("time_ns")].tolist() if tape.has("time_ns") else []
    return Examined(
        name,
        diagnose(tape),
        str(source) if (source := told.get("format", told.get("source"))) is not None else None,
        host if isinstance(host, str) else None,
        pid if isinstance(pid, int) else None,
        rank if isinstance(rank, int) else None,
        int(known[-1]) if known else None,
    )


def trends(each: Sequence[Examined]) -> list[Trend]:
    """The processes that several artifacts of one kind are of."""
    by_process: dict[tuple[str, int, str | None], list[Examined]] = {}
    for one in each:
        if one.host is not None and one.pid is not None and one.time_ns is not None:
            by_process.setdefault((one.host, one.pid, one.source), []).append(one)
    return [_trend(host, pid, found) for (host, pid, _), found in by_process.items() if len(found) > 1]


def _trend(host: str, pid: int, found: Sequence[Examined]) -> Trend:
    order = sorted(found, key=lambda one: one.time_ns or 0)
    live = tuple(one.diagnosis.gauges.get("allocated") for one in order)
    reserved = tuple(one.diagnosis.gauges.get("reserved") for one in order)
    known = [value for value in live if value is not None]
    rises = len(known) == len(live) > 2 and all(a < b for a, b in pairwise(known)) and known[-1] >= 1.1 * known[0]
    return Trend(host, pid, tuple(one.name for one in order), live, reserved, rises)


def _weight(verdict: str | None) -> int:
    return {None: 2, CANNOT_TELL: 1}.get(verdict, 0)


def gravest(each: Sequence[Examined]) -> str | None:
    """The verdict over all: the incident that most artifacts show, else "cannot-tell" where one could not be judged, else None."""
    count = Counter(one.verdict for one in each)
    return min(count, key=lambda verdict: (_weight(verdict), -count[verdict]))


def odd_one(each: Sequence[Examined]) -> Examined:
    """The artifact to be shown in full: of those with an incident one whose verdict is the rarest, the first of them."""
    count = Counter(one.verdict for one in each)
    return min(each, key=lambda one: (_weight(one.verdict), count[one.verdict]))
