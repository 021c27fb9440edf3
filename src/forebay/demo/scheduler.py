"""scheduler: which request runs when. It promises each running request the pages of its longest outcome, so none is ever put back.

It knows numbers only: memory and device work are engine.py's.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from forebay.demo.traffic import Request


@dataclass(slots=True, eq=False)
class Running:
    """A request that has a slot of the batch. `issued` tokens were asked of the device, `tokens` are known to the host."""

    request: Request
    slot: int
    issued: int = 0
    tokens: list[int] = field(default_factory=list)

    @property
    def place(self) -> int:
        """Where the token that was asked for last stands; it is the next one to be fed."""
        return len(self.request.prompt) + self.issued - 1

    @property
    def wants_more(self) -> bool:
        """Whether the device should be asked for another token, as far as the host knows."""
        return self.issued < self.request.most


class Scheduler:
    """At most `slots` requests at once, within `pages` pages of `page_tokens` tokens; first come, first served."""

    def __init__(self, requests: Iterable[Request], slots: int, pages: int, page_tokens: int) -> None:
        self._coming = deque(sorted(requests, key=lambda request: (request.arrives, request.number)))
        self._waiting: deque[Request] = deque()
        self._free_slots = list(range(slots))
        self._free_pages, self._page_tokens = pages, page_tokens
        self.running: list[Running] = []

    def arrive(self, step: int) -> None:
        """Takes in what has arrived by this step."""
        while self._coming and self._coming[0].arrives <= step:
            self._waiting.append(self._coming.popleft())

    def admit(self) -> Running | None:
        """The next request that may start, if there is a slot and its pages are free; else none."""
        if not self._waiting or not self._free_slots or self._promise(self._waiting[0]) > self._free_pages:
            return None
        self._free_pages -= self._promise(self._waiting[0])
        started = Running(self._waiting.popleft(), self._free_slots.pop())
        self.running.append(started)
        return started

    def finish(self, running: Running) -> None:
        """Its slot and its pages are free again."""
        self.running.remove(running)
        self._free_slots.append(running.slot)
        self._free_pages += self._promise(running.request)

    @property
    def done(self) -> bool:
        """Nothing runs, waits or will come."""
        return not (self.running or self._waiting or self._coming)

    def _promise(self, request: Request) -> int:
        # The last token is never fed, but one more step may have been asked for when END comes.
        return -(-(len(request.prompt) + request.most) // self._page_tokens)
