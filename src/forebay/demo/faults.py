"""faults: the ways in which the demo's server can be broken on purpose, which rule each breaks, and the incident that this leads to.

A new fault is an engine and a row. What a rule finds on the tape of a broken run is contract's; what the run itself shows is
`noticed` here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Final

import numpy as np

from forebay.demo import capture_faults as capturing
from forebay.demo import memory_faults as memory
from forebay.demo.captured import CapturedEngine
from forebay.demo.engine import Engine, Issued, Limits
from forebay.demo.model import Weights
from forebay.demo.scheduler import Running
from forebay.demo.server import Served
from forebay.runtime import Array, SimDevice

STEADY_STATE: Final = "the count of driver calls in the steady state"
REFERENCE: Final = "tokens that differ from the reference's"
REFUSAL: Final = "a refusal by the runtime, in its place"
CHECK: Final = "`forebay check` of the tape"
UNCLEAN, DIRTY, STALE = "capture-unclean", "dirty-capture", "stale-graph-pointer"
DOCTOR: Final = "`forebay doctor` of the tape"


@dataclass(frozen=True, slots=True)
class Fault:
    """One planted fault: the contract's rule that it breaks (None: no rule forbids it), the incident that follows, what is done wrong,
    and who notices."""

    name: str
    rule: str | None
    incident: str
    plants: str
    caught_by: str
    engine: type[Engine]

    @property
    def races(self) -> bool:
        """Whether its tokens may be right or wrong: a schedule decides."""
        return self.rule in ("unordered-access", "unordered-free")

    @property
    def slows(self) -> bool:
        """Whether all it costs is throughput: its tokens are right under every schedule."""
        return self.rule in ("legacy-stream", "needless-edge")


class _ScratchFromTheDriver(Engine):
    """Every step takes its scratch from the driver and gives it back, as if there were no pool."""

    def _rows(self, rows: int, width: int | None = None) -> Array:
        shape = (rows, width or self.shape.width)
        return self.device.malloc(prod(shape) * np.dtype(np.int64).itemsize).array(np.int64, shape)


class _NoWaitForTokens(Engine):
    """A step is fed the tokens that were sampled last, or those before: `compute` does not wait for `sample`."""

    def _feed(self, embed: Callable[..., object], reads: Sequence[Array], x: Array) -> None:
        self.compute.launch(embed, reads, [x], name="decode.embed")


class _FreeWithoutLending(Engine):
    """Prompts go up on a stream of their own, ahead of everything. Logits are given back in the order of `compute`, which made them;
    that `sample` still reads them nobody told the pool: once in a while a prompt's scratch is written over them.
    """

    def __init__(self, device: SimDevice, weights: Weights, slots: int, limits: Limits) -> None:
        super().__init__(device, weights, slots, limits)
        self.upload = device.stream("prefetch")

    def _let_go(self, logits: Array) -> None:
        self.activations.free_address(logits.address)


class _CopiesOnTheLegacyStream(CapturedEngine):
    """Copies go to the legacy default stream: all other streams wait for each, and each waits for all. A step's tokens go down while
    nothing else runs, and a prompt goes up only when the step before it has ended.
    """

    def __init__(self, device: SimDevice, weights: Weights, slots: int, limits: Limits) -> None:
        super().__init__(device, weights, slots, limits)
        self.copy = self.upload = device.default_stream


class _PrefillAwaitsTokens(CapturedEngine):
    """The host waits for the tokens of the step before it issues a prompt that has nothing to do with them."""

    def prefill(self, running: Running) -> Issued:
        self.sampled.synchronize()
        return super().prefill(running)


FAULTS: Final[dict[str, Fault]] = {
    fault.name: fault
    for fault in (
        Fault(
            "driver-memory-call",
            None,
            "driver-churn",
            "scratch of every step from the driver, not from a pool",
            STEADY_STATE,
            _ScratchFromTheDriver,
        ),
        Fault(
            "missing-wait",
            "unordered-access",
            "cross-stream-use-after-free",
            "no wait between sampling a token and feeding it",
            REFERENCE,
            _NoWaitForTokens,
        ),
        Fault(
            "cross-stream-use-after-free",
            "unordered-free",
            "cross-stream-use-after-free",
            "logits freed on `compute` while `sample` reads them",
            CHECK,
            _FreeWithoutLending,
        ),
        Fault(
            "legacy-stream",
            "legacy-stream",
            "legacy-stream-serialization",
            "copies on the legacy default stream",
            CHECK,
            _CopiesOnTheLegacyStream,
        ),
        Fault(
            "extra-edge",
            "needless-edge",
            "lost-overlap",
            "a wait for tokens before a prompt that needs none",
            CHECK,
            _PrefillAwaitsTokens,
        ),
        Fault(
            "checkerboard-fragmentation",
            None,
            "checkerboard-fragmentation",
            "records that stay, between scratch that goes",
            DOCTOR,
            memory.KeepsRecordsAmongScratch,
        ),
        Fault(
            "capacity-oom",
            None,
            "capacity-oom",
            "workspaces for more requests than the card holds",
            DOCTOR,
            memory.TakesMoreThanTheCard,
        ),
        Fault(
            "empty-cache-smell",
            None,
            "empty-cache-smell",
            "scratch given back to the driver after every prompt",
            DOCTOR,
            memory.EmptiesTheCache,
        ),
        Fault(
            "stranded-stream-cache",
            None,
            "stranded-stream-cache",
            "weights converted on a stream and in a pool used once",
            DOCTOR,
            memory.ConvertsOnAStreamOfItsOwn,
        ),
        Fault("memory-growth", None, "memory-growth", "the logits of every step kept", DOCTOR, memory.KeepsItsLogits),
        Fault("capture-sync", UNCLEAN, DIRTY, "a captured step that waits for itself", REFUSAL, capturing.SyncsInside),
        Fault(
            "capture-outside-wait",
            UNCLEAN,
            DIRTY,
            "a captured step that waits for an upload before it",
            REFUSAL,
            capturing.WaitsOutside,
        ),
        Fault(
            "capture-other-thread",
            UNCLEAN,
            DIRTY,
            "a loader that pins memory during a global capture",
            REFUSAL,
            capturing.PinsMeanwhile,
        ),
        Fault("capture-query", UNCLEAN, DIRTY, "a captured step that asks about its own event", REFUSAL, capturing.AsksInside),
        Fault(
            "capture-wrong-stream",
            UNCLEAN,
            DIRTY,
            "a step issued beside the stream that captures",
            REFUSAL,
            capturing.CapturesNothing,
        ),
        Fault(
            "capture-oom",
            None,
            "capacity-oom",
            "a captured step that needs more than the card has",
            REFUSAL,
            capturing.AsksTooMuch,
        ),
        Fault(
            "stale-graph-pointer", STALE, STALE, "a weight replaced under its captured step", REFUSAL, capturing.ReplacesAWeight
        ),
    )
}


def noticed(served: Served) -> list[str]:
    """What a run itself shows to be wrong, in the words of `Fault.caught_by`."""
    signs = (
        (REFERENCE, bool(served.wrong)),
        (STEADY_STATE, bool(served.steady_calls)),
        (REFUSAL, served.refused is not None),
    )
    return [words for words, seen in signs if seen]
