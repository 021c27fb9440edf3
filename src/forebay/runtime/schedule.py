"""schedule: which of the legal orders a simulated device runs its work in, as a value that can be written down.

Choosing what runs next is native/driver/sim_schedule's; which order to try is forebay.adversary's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple
from urllib.parse import quote, unquote

from forebay.errors import BadInput

__all__ = ["Schedule", "WorkName"]


class WorkName(NamedTuple):
    """A work item: the name of its kernel (or copy, upload, download, memset, host_func), and how many of that name came before."""

    name: str
    nth: int

    def __str__(self) -> str:
        return f"{quote(self.name, safe=_PLAIN)}#{self.nth}"


# What stays readable in a name: everything but white space and what separates items.
_PLAIN = "!\"$&'()*+-./:;<=>?@[\\]^_`{|}~"


@dataclass(frozen=True, slots=True)
class Schedule:
    """An order of execution; `str` and `parse` turn it into a line and back.

    `fifo`: work runs by virtual time. `seed 7`: any legal order, drawn from the number. `hold sample#3, copy#0`: by virtual time, but
    these run as late as they legally can: when somebody waits for them or for what comes after them, and all else has run.

    >>> Schedule.parse("hold sample#3, copy#0").held
    (WorkName(name='sample', nth=3), WorkName(name='copy', nth=0))
    """

    seed: int | None = None
    held: tuple[WorkName, ...] = ()

    @classmethod
    def parse(cls, text: str) -> Schedule:
        """Raises BadInput where the line is no schedule."""
        word, _, rest = text.strip().partition(" ")
        try:
            if (word, rest) == ("fifo", ""):
                return cls()
            if word == "seed":
                return cls(seed=_count(rest))
            if word == "hold":
                return cls(held=tuple(_work_name(item) for item in rest.split(",")))
        except ValueError:
            pass
        raise BadInput(f"no such schedule: {text!r}; write `fifo`, `seed 7`, or `hold NAME#N, NAME#N`")

    def __str__(self) -> str:
        if self.seed is not None:
            return f"seed {self.seed}"
        return f"hold {', '.join(map(str, self.held))}" if self.held else "fifo"


def _work_name(text: str) -> WorkName:
    name, separator, nth = text.strip().rpartition("#")
    if not separator or not name:
        raise ValueError(text)
    return WorkName(unquote(name), _count(nth))


def _count(text: str) -> int:
    if not text.isdecimal():
        raise ValueError(text)
    return int(text)
