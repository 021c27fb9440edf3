"""faults: the ways in which the demo's server can be broken on purpose, and who notices. A new fault is an engine and a row.

What a rule finds on the tape of a broken run is contract's; what is caught here is caught by the run itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Final

import numpy as np

from forebay.demo.engine import Engine
from forebay.demo.server import Served
from forebay.runtime import Array

STEADY_STATE: Final = "the count of driver calls in the steady state"
REFERENCE: Final = "tokens that differ from the reference's"


@dataclass(frozen=True, slots=True)
class Fault:
    """One planted fault: `rule` is the contract's rule that it breaks, `plants` what is done wrong, `caught_by` who notices."""

    rule: str
    plants: str
    caught_by: str
    engine: type[Engine]


class _ScratchFromTheDriver(Engine):
    """Every step takes its scratch from the driver and gives it back, as if there were no pool."""

    def _rows(self, rows: int, width: int | None = None) -> Array:
        shape = (rows, width or self.shape.width)
        return self.device.malloc(prod(shape) * np.dtype(np.int64).itemsize).array(np.int64, shape)


class _NoWaitForTokens(Engine):
    """A step is fed the tokens that were sampled last, or those before: `compute` does not wait for `sample`."""

    def _await_last_tokens(self) -> None:
        return


FAULTS: Final[dict[str, Fault]] = {
    fault.rule: fault
    for fault in (
        Fault(
            "driver-memory-call", "scratch of every step from the driver, not from a pool", STEADY_STATE, _ScratchFromTheDriver
        ),
        Fault("unordered-access", "no wait between sampling a token and feeding it", REFERENCE, _NoWaitForTokens),
    )
}


def noticed(served: Served) -> list[str]:
    """What a run itself shows to be wrong, in the words of `Fault.caught_by`."""
    signs = ((REFERENCE, bool(served.wrong)), (STEADY_STATE, bool(served.steady_calls)))
    return [words for words, seen in signs if seen]
