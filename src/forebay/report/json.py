"""json: the outputs of the commands as types. The JSON Schemas in report/schemas/ are made of them by schema.py, and ship.

Sizes are bytes, times seconds unless a name says otherwise; what is not known is null, never zero.
"""

from __future__ import annotations

from importlib.resources import files
from typing import Any, Final, Literal

import msgspec

from forebay.finding import Finding

__all__ = [
    "OUTPUTS",
    "BenchNumbers",
    "BenchPool",
    "Calibration",
    "Doctor",
    "Explained",
    "Report",
    "Row",
    "Spread",
    "WhatIf",
    "encode",
    "shipped",
]

SCHEMA: Final = 1


class Blind(msgspec.Struct, frozen=True):
    """A rule that could not judge: what it needs that the artifact does not show, and how to record it."""

    name: str
    needs: list[str]
    advice: str


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What every command that reports has to say."""

    schema: Literal[1] = SCHEMA
    source: dict[str, Any]
    findings: list[Finding] = []
    blind: list[Blind] = []
    gauges: dict[str, int | float | None] = {}
    ledger: dict[str, int | None] = {}


class Calibration(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a policy, run under the recorded settings, did what the recording shows; if not, the first event where it did not."""

    exact: bool
    first_divergence: int | None


class Spread(msgspec.Struct, frozen=True, kw_only=True):
    """The least and the most peak reserved bytes over everything that the history leaves open."""

    lo: int
    hi: int


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """A history under one policy. Of several devices the figures are sums. `peak_allocated_bytes` counts a block until the program let
    go of it, `peak_active_bytes` until its bytes could be used again. `cap_bytes` is the cap, else what the driver had to give. `oom` is
    null where the request that was refused could not be tried, since no limit is known; `oom_event` is the first event that failed, as
    the artifact itself counts (in its device's trace)."""

    policy: Literal["pytorch", "forebay"]
    settings: str
    cap_bytes: int | None
    peak_reserved_bytes: int
    peak_allocated_bytes: int
    peak_active_bytes: int
    largest_free_bytes: int
    oom: bool | None
    oom_event: int | None
    driver_allocs: int
    driver_frees: int
    spread: Spread
    how: str


class WhatIf(Report, frozen=True, kw_only=True):
    """What `forebay whatif` found. `calibration` is null where no emulated policy was asked for."""

    events: int
    seconds: float
    calibration: Calibration | None
    recorded: dict[str, Any]
    rows: list[Row]
    lower_bound_bytes: int
    advice: list[str]


class Doctor(Report, frozen=True, kw_only=True):
    """What `forebay doctor` found. `verdict` is the gravest artifact's incident, null where the evidence was there and is healthy,
    "cannot-tell" where it was not; `why` says so in sentences. `source.verdicts` has the verdict of each artifact."""

    verdict: str | None
    why: list[str]


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """One row of the guide's table: nanoseconds a call, the median of the rounds with the least and the most, beside what the guide says
    (null: nothing). Null where it could not be measured; `why` says why. `clock` is virtual on a simulated device."""

    name: str
    what: str
    guide: str | None
    ns: float | None
    least_ns: float | None
    most_ns: float | None
    calls: int
    clock: Literal["host", "virtual"]
    why: str | None


class BenchNumbers(msgspec.Struct, frozen=True, kw_only=True):
    """What `forebay bench numbers` measured. `graph_saves` is the part of a decode step's time that one graph of it saves."""

    schema: Literal[1] = SCHEMA
    device: str
    simulated: bool
    rounds: int
    figures: list[Figure]
    graph_saves: float | None


class Pair(msgspec.Struct, frozen=True, kw_only=True):
    """An allocation and its free of a cached block through one allocator: wall nanoseconds on each thread, pairs a second of all threads.
    `ratio` is its time to forebay's from the same language on as many threads. Null with `why`, and `get`, where it is not here."""

    peer: str
    language: Literal["C++", "Python"]
    threads: int
    ns: float | None
    least_ns: float | None
    most_ns: float | None
    pairs_per_s: float | None
    ratio: float | None
    why: str | None
    get: str | None


class BenchPool(msgspec.Struct, frozen=True, kw_only=True):
    """What `forebay bench pool` measured, with blocks of `bytes`; `versions` of the libraries that are here."""

    schema: Literal[1] = SCHEMA
    device: str
    simulated: bool
    bytes: int
    rows: list[Pair]
    versions: dict[str, str]


class Explained(msgspec.Struct, frozen=True, kw_only=True):
    """What `forebay explain` has to say of one term."""

    schema: Literal[1] = SCHEMA
    name: str
    group: str
    text: str


OUTPUTS: Final[dict[str, type[msgspec.Struct]]] = {
    "report": Report,
    "whatif": WhatIf,
    "doctor": Doctor,
    "explain": Explained,
    "bench-numbers": BenchNumbers,
    "bench-pool": BenchPool,
}


def encode(output: msgspec.Struct) -> str:
    """One output as indented JSON, keys in the order of its type. What of a text is no text (the bytes of a file name) is escaped."""
    try:
        encoded = msgspec.json.encode(output)
    except UnicodeEncodeError:
        encoded = msgspec.json.encode(_legible(msgspec.to_builtins(output)))
    return msgspec.json.format(encoded, indent=1).decode()


def _legible(value: Any) -> Any:
    """The same with `\\udce9` written out where a byte stands that is no UTF-8."""
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, dict):
        return {_legible(key): _legible(inner) for key, inner in value.items()}
    return [_legible(inner) for inner in value] if isinstance(value, (list, tuple)) else value


def shipped(name: str) -> dict[str, Any]:
    """The JSON Schema of an output as the package ships it."""
    text = (files("forebay.report") / "schemas" / f"{name}.json").read_text(encoding="utf-8")
    schema: dict[str, Any] = msgspec.json.decode(text)
    return schema
