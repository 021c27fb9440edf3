"""capture_law: what breaks the capture of a stream: which operation, in which mode, on which thread, why, and what to do instead.

Facts in words. What each driver call is on a tape is calls', and what it came to on an H200 is in benchmarks/results/; who looks before an
operation is made is runtime's.

>>> breaks(UNSAFE, "thread_local", own=True), breaks(UNSAFE, "thread_local", own=False), breaks(UNSAFE, "relaxed", own=True)
(True, False, False)
>>> ENDS[904].name
'unjoined'
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

__all__ = ["CAPTURE_MODES", "ENDS", "INVALIDATING", "Law", "breaks"]

CAPTURE_MODES: Final = ("global", "thread_local", "relaxed")
_ALL: Final = frozenset(CAPTURE_MODES)


@dataclass(frozen=True, slots=True)
class Law:
    """One way to break a capture. `status` is the CUresult that the driver answers; `own` and `other` are the modes of the capture in
    which it does, on the thread that began it and on another. `why` ends a sentence that begins with the operation.
    """

    name: str
    status: int
    why: str
    instead: str
    own: frozenset[str] = _ALL
    other: frozenset[str] = _ALL


UNSAFE: Final = Law(
    "unsafe",
    900,
    "might wait for the device",
    'move it before or after the capture, or on another thread capture with mode="thread_local"',
    own=frozenset({"global", "thread_local"}),
    other=frozenset({"global"}),
)
STREAM: Final = Law(
    "stream", 900, "asks about work that the capture holds back", "move it before or after the capture; replay first, then wait"
)
EVENT: Final = Law(
    "event", 907, "asks about an event whose record the capture holds back", "ask an event that is recorded after the replay"
)
DEVICE: Final = Law(
    "device", 900, "covers every stream of the device, the capturing one too", "move it before or after the capture"
)
LEGACY: Final = Law(
    "legacy",
    906,
    "would tie the legacy default stream to the blocking stream that captures",
    'give it a stream of its own, or capture on a stream of kind "nonblocking"',
)
OUTSIDE: Final = Law(
    "outside",
    905,
    "waits for an event that was recorded outside the capture",
    "record it inside, on a stream that the capture forked, or wait for it before the capture begins",
)
MERGE: Final = Law("merge", 902, "waits for an event of another capture", "end that capture first, and order the replays instead")
OVER: Final = Law(
    "over", 1, "needs an event that was last recorded in a capture that is over", "record it again, after the replay"
)
NEVER: Final = Law("never", 900, "has no place in a graph", "move it before or after the capture")
PAGEABLE: Final = Law(
    "pageable",
    0,
    "would make every replay read or write host memory that nobody keeps",
    "copy to or from pinned memory that lives as long as the graph (PinnedPool), and touch that on the host",
)
ELSEWHERE: Final = Law(
    "elsewhere",
    0,
    "uses memory of another device than the stream that captures",
    "allocate on the stream's device, or copy there first",
)
POOLED: Final = Law(
    "pooled",
    0,
    "hands out memory that the graph would use again at every replay, although it is given back in between",
    "take it before the capture and keep it as long as the graph",
)

# What the end of a capture says by its status.
ENDS: Final[dict[int, Law]] = {
    900: UNSAFE,
    901: Law("invalidated", 901, "was invalidated before it ended", "remove the call that a capture forbids"),
    902: MERGE,
    903: Law("unmatched", 903, "ended on a stream that only joined it", "end it on the stream that began it"),
    904: Law(
        "unjoined",
        904,
        "leaves work behind that the stream it began on does not wait for",
        "record an event on that stream after its last work, and wait for it on the stream that captures",
    ),
    905: OUTSIDE,
    906: LEGACY,
    907: EVENT,
    908: Law("thread", 908, "ended on another thread than it began on", 'end it where it began, or capture with mode="relaxed"'),
}

# Statuses of calls that invalidate a capture as they fail.
INVALIDATING: Final = frozenset({900, 902, 903, 905, 906, 907})


def breaks(law: Law, mode: str, *, own: bool) -> bool:
    """Whether the operation breaks a capture of this mode; `own`: made by the thread that began it. Raises KeyError for other modes."""
    if mode not in _ALL:
        raise KeyError(mode)
    return mode in (law.own if own else law.other)
