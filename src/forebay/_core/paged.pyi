"""The paged pool."""

from typing import Annotated, overload

import numpy
from numpy.typing import NDArray

import forebay._core.pool
import forebay._core.tape


class Sequence:
    """
    The pages of one sequence, in the order of its tokens. Streams go by their driver id.
    """

    @property
    def table(self) -> list[int]:
        """The pages, by number."""

    @property
    def room(self) -> int:
        """Tokens that it has pages for."""

    @property
    def written(self) -> int:
        """Tokens found or committed."""

    def grow(self, tokens: int, stream: int) -> None:
        """Room for more tokens. Raises PoolExhausted, Pending, DriverError."""

    def commit(self, tokens: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu', writable=False)], stream: int) -> bool:
        """
        The next tokens (uint32) of its room are written by work that the stream was given. False: no such room.
        """

    def use(self, stream: int) -> None:
        """Work on this stream touches its pages too."""

    def finish(self) -> None:
        """
        Its end, after all that its streams were given. Never waits; again is nothing.
        """

class PagedPool:
    """Fixed blocks in one reservation, held by sequences in stream order."""

    def __init__(self, domain: forebay._core.pool.Domain, name: str, *, page_bytes: int, pages: int, page_tokens: int, index: int = 0, wait_limit_ns: int = 10000000000, tape: forebay._core.tape.Sink | None = None, quarantine: int | None = None) -> None:
        """
        With `quarantine` in debug mode, so many bytes of it. Raises BadInput for an impossible shape, DriverError.
        """

    def open(self, tokens: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu', writable=False)], stream: int) -> Sequence:
        """
        A sequence that begins with the pages that hold the first of these tokens (uint32) already.
        """

    def fork(self, sequence: Sequence, stream: int) -> Sequence | None:
        """
        The same tokens on the same pages. None: some of the room is not written.
        """

    def address(self, page: int) -> int: ...

    def limit(self, pages: int) -> None:
        """At most so many pages live at once."""

    def available(self, stream: int) -> int:
        """Pages that the stream can have without a wait."""

    @overload
    def gauges(self) -> forebay._core.pool.Gauges: ...

    @overload
    def gauges(self, stream: int) -> forebay._core.pool.Gauges: ...

    def walk(self) -> str | None:
        """The full check: what is wrong, or None."""

    def check(self) -> None:
        """Looks at every page in quarantine, and waits for what that takes."""

    @property
    def reports(self) -> list[forebay._core.pool.Report]: ...

    @property
    def unseen(self) -> int:
        """Pages that could not be looked at."""

    @property
    def staging_reserved(self) -> int:
        """Pinned bytes that its checks hold."""
