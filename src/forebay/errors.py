"""errors: every exception that forebay raises on purpose, six classes.

Each message names the thing, gives the numbers and says what to do next. What a driver's status numbers mean is native/driver/status.hpp's.
"""

from collections.abc import Mapping


class ForebayError(Exception):
    """What all of them are. Caught by the command line, which prints the message as one line and exits with 2."""


class BadInput(ForebayError):
    """An artifact, a tape, a file or an argument that cannot be used; the message says where in it and what to do, in one line whatever
    the names that it quotes hold.

    >>> str(BadInput("no kind is called 'launch\\u2028ed'"))
    "no kind is called 'launch ed'"
    """

    def __init__(self, message: str) -> None:
        super().__init__(" ".join(message.splitlines()))


class NotSupported(ForebayError):
    """What this machine, build or version cannot do; the message says what is missing and how to get it."""


class DriverError(ForebayError):
    """A driver call failed. `call` is its name, `status` its CUresult number, `sticky` whether every later call fails too."""

    def __init__(self, message: str, *, call: str = "", status: int = 0, sticky: bool = False) -> None:
        super().__init__(message)
        self.call, self.status, self.sticky = call, status, sticky


class PoolExhausted(ForebayError):
    """A pool could not serve a request: `verdict` is full, fragmented, pending, stranded or capped, "" where the pool cannot know;
    `gauges` the figures in bytes.
    """

    def __init__(self, message: str, *, verdict: str = "", gauges: Mapping[str, int] | None = None) -> None:
        super().__init__(message)
        self.verdict, self.gauges = verdict, dict(gauges or {})


class Pending(ForebayError):
    """A wait reached its limit. `streams` names the streams that were waited for."""

    def __init__(self, message: str, *, streams: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.streams = streams
