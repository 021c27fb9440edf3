"""evidence: the figures of one moment that incidents are judged by. None is "not known".

Where they come from is heap_evidence.py's and line_evidence.py's; which figures make which incident is the incidents' matter, a
request's cause cause.py's.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from forebay.finding import Site
from forebay.tape import Tape
from forebay.views.census import Census
from forebay.whatif.settings import AllocatorSettings
from forebay.whatif.steps import Steps

__all__ = ["Broken", "Evidence", "Flushes", "Held", "Longest", "Rounds", "Run", "outside_pools"]

_LIBRARY: Final = re.compile(r"(?:site|dist)-packages/|^<frozen |^\?\?$|^$|\.(?:cpp|cu|cc|h|so)\b")  # no line that its user wrote


class Flushes(NamedTuple):
    """Calls of empty_cache: how many, the segments and bytes that they gave back, and what of it the program took again before the
    next call. `told`: stacks or rows of their own tell them from what a request did under pressure."""

    calls: int
    segments: int
    bytes: int
    regrown_segments: int
    regrown_bytes: int
    told: bool


class Broken(NamedTuple):
    """A capture that the driver gave up: its error number, the number's name, what it means, and where: a row of the artifact with its
    stack, or a line of a log."""

    code: int
    name: str
    says: str
    row: int | None = None
    site: int | None = None
    line: int | None = None


@dataclass(frozen=True, slots=True)
class Run:
    """What the history did, of one device: counts, and bytes. `flush_sites` are the stacks of empty_cache calls."""

    steps: Steps
    settings: AllocatorSettings
    asked: AllocatorSettings | None  # what the variable says; None where nobody told, or where PyTorch refuses it
    flushes: Flushes
    presses: int  # requests that gave memory back before they were served or refused
    driver_allocs: int
    driver_frees: int
    flush_sites: tuple[int, ...] = ()


def outside_pools(process: int | None, reserved: int | None) -> int | None:
    """What this process holds of a device outside its pools, bytes; None where either is not known."""
    return max(0, process - reserved) if process is not None and reserved is not None else None


class Rounds(NamedTuple):
    """The region whose iterations take memory from the driver and give it back most often: in how many of its last ones (its second
    half), and the calls in them."""

    region: str
    iterations: int
    churned: int
    calls: int


class Longest(NamedTuple):
    """The longest sequence, in tokens, that a server says it has room for, and the one that it was to serve."""

    fits: int
    asked: int | None


class Held(NamedTuple):
    """What all pools of this process hold of a device, bytes: in all, live, idle (pending included), pending."""

    reserved: int | None = None
    live: int | None = None
    idle: int | None = None
    pending: int | None = None


@dataclass(frozen=True, slots=True)
class Evidence:
    """One moment of one device. Sizes in bytes.

    `row` is the refusal as the artifact itself counts its events. `request` is what was refused, None where nothing was; `refused`
    whether something was. `free` is what the driver had free, `total` what the device has, `allowed` the limit of the process, or of
    the pool that refused. `reserved` is held from the driver, by that pool where the tape tells which it was; `idle` the part of it
    that no live block covers, pending frees included. Of the idle bytes: `pending` wait for events; `private` lie in private pools;
    `elsewhere` on other streams than the request's (without one: than the busiest), or in other pools that kept them; `own` are the
    rest. `held` is what all pools of the process hold. `others` is held by other processes, `outside` by this one beyond its pools.
    `peak` is the most that the program had asked for at one time, `peak_reserved` the most that was held from the driver.
    `whole`: what was there before the first row is known. `capped`: a limit refused, whatever its figures are.
    `host_call`: page-locked host memory was refused; `pageable`: other host memory. `request_beyond` is a request that no number of 64 bits
    holds, as it is printed; `advice` what the line itself says to do.
    """

    device: int = 0
    devices: int = 1
    framework: str = "pytorch"
    refused: bool = False
    row: int | None = None
    request: int | None = None
    request_signed: int | None = None
    free: int | None = None
    total: int | None = None
    allowed: int | None = None
    reserved: int | None = None
    allocated: int | None = None
    idle: int | None = None
    pending: int | None = None
    private: int | None = None
    private_live: int | None = None
    elsewhere: int | None = None
    own: int | None = None
    releasable: int | None = None
    largest_free: int | None = None
    peak: int | None = None
    peak_reserved: int | None = None
    rounds: Rounds | None = None
    held: Held = field(default_factory=Held)
    others: int | None = None
    outside: int | None = None
    pinned: int | None = None
    pinned_requested: int | None = None
    host_call: bool = False
    pageable: bool = False
    request_beyond: str | None = None
    advice: str | None = None
    longest: Longest | None = None
    capped: bool = False
    whole: bool = True
    capture: Broken | None = None
    census: Census | None = None
    run: Run | None = None
    tape: Tape | None = field(default=None, repr=False)

    def sites(self, numbers: list[int], most: int = 3) -> list[Site]:
        """Where the program did it: of each stack the innermost frame that is no installed library's, else the innermost."""
        if self.tape is None:
            return []
        stacks = [stack for n in numbers if (stack := self.tape.sides.sites.stack(n))]
        own = [next((frame for frame in stack if not _LIBRARY.search(frame.file)), stack[0]) for stack in stacks]
        return list(dict.fromkeys(Site(frame.file, max(frame.line, 0), frame.function) for frame in own))[:most]
