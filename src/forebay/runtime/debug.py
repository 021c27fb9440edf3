"""debug: what a pool in debug mode says: reports in words, when they are raised, and the last look at its end.

What is looked at, and what proves a misuse, is native/pool's (guarded.hpp, witness.hpp).
"""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from forebay._core.paged import PagedPool as NativePagedPool
from forebay._core.pool import GuardedPool, Misuse, Suspect
from forebay._core.pool import Report as NativeReport
from forebay._core.tape import note_callers
from forebay.errors import BadInput, ForebayError
from forebay.runtime.arguments import byte_count, count
from forebay.runtime.recorder import own_files
from forebay.units import size

__all__ = ["Checks", "Misuses", "Report", "pages_of", "quarantine_of"]

_QUARANTINE = 64 * 2**20  # bytes, of a pool that is told no more than True


def quarantine_of(debug: object, name: str) -> int | None:
    """Bytes of quarantine that an argument `debug` asks for; None: no debug mode. Raises BadInput."""
    if debug is False or debug is None:
        return None
    return _QUARANTINE if debug is True else byte_count(debug, f"pool {name}: debug (bytes of quarantine)")


@dataclass(frozen=True)
class Report:
    """One misuse of a block: "read_after_free", "write_after_free" or "overrun". As text it is one line.

    `address` and `nbytes` are the block's as the program knows it; where bytes were found changed, `offset` and `last` are the first and
    the last of them, counted from there.
    `suspects` are (name, stream, site) of the work that did it or, of an overrun, that ran between two looks, what uses the block first.
    """

    misuse: str
    pool: str
    address: int
    nbytes: int
    stream: str
    allocated_at: str
    freed_at: str
    offset: int | None
    last: int | None
    suspects: tuple[tuple[str, str, str], ...]
    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class _Words:
    """How reports call a block, and what they advise after a use of it on a stream that its free did not wait for."""

    block: Callable[[NativeReport], str]
    remedy: str


_BLOCKS = _Words(lambda r: f"the block of {size(r.nbytes)} at {r.address:#x}", "Free it after that use, or lend it to")


def pages_of(native: NativePagedPool) -> _Words:
    """How reports call the pages of this pool."""
    base = native.address(0)
    return _Words(
        lambda r: f"page {(r.address - base) // r.nbytes} ({size(r.nbytes)} at {r.address:#x})",
        "Finish its sequence after that use, drop the old block table, or tell the sequence by Sequence.page of",
    )


class Misuses:
    """What a native pool in debug mode found. A report is raised once, by the pool's next request or `check`."""

    def __init__(self, native: GuardedPool | NativePagedPool, name: str, words: _Words = _BLOCKS) -> None:
        self.native, self.name, self.words = native, name, words
        self.told = 0  # reports that were raised
        note_callers(own_files())

    @property
    def reports(self) -> tuple[Report, ...]:
        """All that was found so far, raised or not."""
        return tuple(_in_words(self.name, self.words, report) for report in self.native.reports)

    def check(self) -> None:
        """Looks at every block, waits for that, and raises BadInput for what was found. Raises Pending, DriverError."""
        self.native.check()
        self.raise_new()

    def at_the_end_of(self, owner: object) -> None:
        """When `owner` goes there is a last look; what nobody was told is a RuntimeWarning then."""
        weakref.finalize(owner, self._last_look)

    def raise_new(self) -> None:
        """Raises BadInput for what was found and not told yet."""
        new = self.reports[self.told :]
        if new:
            self.told += len(new)
            more = f" ({len(new) - 1} more in `reports`)" if len(new) > 1 else ""
            raise BadInput(f"{new[0]}{more}")

    def _last_look(self) -> None:
        with suppress(ForebayError):  # what is known is told all the same
            self.native.check()
        note_callers(None)
        for report in self.reports[self.told :]:
            warnings.warn(str(report), RuntimeWarning, stacklevel=2)


class Checks(Misuses):
    """A native pool of blocks in debug mode with the calls of an ordinary one."""

    def __init__(self, native: GuardedPool, name: str) -> None:
        super().__init__(native, name)
        self.pool = native

    def alloc(self, nbytes: int, stream: int) -> int:
        """As the native pool's; raises BadInput for what was found since."""
        self.raise_new()
        return self.pool.alloc(nbytes, stream)

    def free(self, address: int) -> None:
        """As the native pool's. Raises BadInput for an unknown address and for a second free, with the place of the first."""
        address = count(address, f"pool {self.name}: address")
        freed_at = self.pool.freed_at(address)
        if freed_at is not None:
            raise BadInput(
                f"pool {self.name}: the block at {address:#x} was freed before, at {freed_at or _UNKNOWN}; free it once"
            )
        self.pool.free(address)


_UNKNOWN = "a place that nobody saw"
_HOST_READS = {"download": "a copy to the host"}


def _in_words(pool: str, words: _Words, r: NativeReport) -> Report:
    suspects = tuple((s.name, s.stream, s.site) for s in r.suspects)
    block = f"{words.block(r)}, allocated at {r.allocated_at or _UNKNOWN} for stream {r.stream}"
    freed = f"freed at {r.freed_at or _UNKNOWN}"
    if r.misuse == Misuse.overrun:
        text = f"pool {pool}: {block}, was overrun: {_how_far(r)}. {_ran(r)}"
    elif r.offset is None:
        verb = "read" if r.misuse == Misuse.read_after_free else "wrote"
        user = r.suspects[0]
        text = f"pool {pool}: {_named(user)} {verb} freed memory: {block}, {freed}. {words.remedy} stream {user.stream} before the free"
    else:
        text = f"pool {pool}: {block}, {freed}, was written after that, at {_bytes(r, r.offset, r.last)}. {_ran(r)}"
    return Report(
        r.misuse.name, pool, r.address, r.nbytes, r.stream, r.allocated_at, r.freed_at, r.offset, r.last, suspects, text
    )


def _how_far(r: NativeReport) -> str:
    """From the byte that is nearest to the block to the farthest, the first beside it being byte 1."""
    assert r.offset is not None
    assert r.last is not None
    if r.offset < 0:
        return f"{_bytes(r, -r.last, -r.offset)} before its begin"
    return f"{_bytes(r, r.offset - r.nbytes + 1, r.last - r.nbytes + 1)} beyond its end"


def _bytes(r: NativeReport, first: int, last: int | None) -> str:
    more = ", as far as anybody looked," if r.further else ""
    return f"byte {first}{more}" if first == last else f"bytes {first} to {last}{more}"


def _ran(r: NativeReport) -> str:
    if not r.suspects and not r.forgotten:
        return "No work of the program is known to have run between the two looks: did the host write, or a kernel of another library?"
    named = "; ".join(_named(s) + (", which uses the block" if s.touched else "") for s in r.suspects)
    return f"Between the two looks ran {named}" + (f"; and {r.forgotten} more" if r.forgotten else "")


def _named(s: Suspect) -> str:
    return f"{_HOST_READS.get(s.name, s.name)} on stream {s.stream} ({s.site or _UNKNOWN})"
