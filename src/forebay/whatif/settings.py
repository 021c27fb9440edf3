"""settings: the strings that PyTorch's allocator is told (PYTORCH_ALLOC_CONF), parsed as it parses them, resets included.

What the values do to a history is native/emulate's. Keys and rules are those of torch 2.11 (c10/core/AllocatorConfig, c10/cuda/
CUDAAllocatorConfig): each string sets max_split_size, the rounding table and the garbage collection threshold back to their
defaults first, and keeps expandable_segments and large_segment_size.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from forebay._core import emulate
from forebay.errors import BadInput

__all__ = ["DEFAULTS", "AllocatorSettings", "apply", "asked_for", "recorded"]

MIB: Final = 2**20
LARGE_SEGMENT: Final = 20 * MIB
SLOTS: Final = 16  # of the rounding table: slot i is for sizes in [2**(20 + i), 2**(21 + i)) bytes

# Accepted, and without influence on which block serves which request.
_OTHERS: Final = frozenset(
    {
        "graph_capture_record_stream_reuse",
        "pinned_free_catch_all",
        "pinned_max_cached_size_mb",
        "pinned_max_round_threshold_mb",
        "pinned_num_register_threads",
        "pinned_reserve_segment_size_mb",
        "pinned_use_background_threads",
        "pinned_use_cuda_host_register",
        "release_lock_on_cudamalloc",
        "throw_on_cudamalloc_oom",
    }
)


@dataclass(frozen=True, slots=True)
class AllocatorSettings:
    """What a settings string comes to, sizes in bytes. `fraction` is the share of the device that the allocator may reserve."""

    max_split_size: int | None = None
    max_non_split_rounding: int = LARGE_SEGMENT
    large_segment_size: int = LARGE_SEGMENT
    roundup_divisions: tuple[int, ...] = (0,) * SLOTS
    gc_threshold: float = 0.0
    expandable_segments: bool = False
    fraction: float | None = None

    @property
    def grows_without_end(self) -> bool:
        """Large free ranges are never reused for smaller requests, and an expandable segment maps new pages instead (pytorch#193400)."""
        return self.expandable_segments and self.max_split_size is not None

    @property
    def collects_nothing(self) -> bool:
        """A threshold of a garbage collection that only runs below a memory fraction, which nothing here sets."""
        return self.gc_threshold > 0 and self.fraction is None

    def native(self) -> emulate.Settings:
        """The same for the emulated allocator."""
        native = emulate.Settings()
        native.max_split_size = self.max_split_size
        native.max_non_split_rounding = self.max_non_split_rounding
        native.large_segment_size = self.large_segment_size
        native.roundup_divisions = list(self.roundup_divisions)
        native.gc_threshold = self.gc_threshold
        native.expandable_segments = self.expandable_segments
        return native


DEFAULTS: Final = AllocatorSettings()


class _Words:
    """The string cut at , : [ ], blanks ignored, as PyTorch cuts it."""

    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0
        self.words: list[str] = re.findall(r"[,:\[\]]|[^,:\[\]]+", text.replace(" ", ""))

    def fail(self, why: str) -> BadInput:
        printable = "".join(c if c.isprintable() else repr(c)[1:-1] for c in why)
        return BadInput(f"allocator settings {self.text!r}: {printable}")

    def more(self) -> bool:
        return self.at < len(self.words)

    def next(self, what: str) -> str:
        if not self.more():
            raise self.fail(f"ends where {what} should stand")
        self.at += 1
        return self.words[self.at - 1]

    def expect(self, mark: str, after: str) -> None:
        found = self.next(f"{mark!r} after {after}")
        if found != mark:
            raise self.fail(f"expected {mark!r} after {after}, got {found!r}")

    def number(self, key: str) -> int:
        word = self.next(f"the value of {key}")
        if not re.fullmatch(r"\d{1,18}", word):
            raise self.fail(f"{key}: expected a whole number, got {word!r}")
        return int(word)

    def real(self, key: str) -> float:
        word = self.next(f"the value of {key}")
        if not re.fullmatch(r"\d{0,18}\.?\d{0,18}", word) or not re.search(r"\d", word):
            raise self.fail(f"{key}: expected a number, got {word!r}")
        return float(word)

    def truth(self, key: str) -> bool:
        word = self.next(f"the value of {key}")
        if word not in ("True", "False"):
            raise self.fail(f"{key}: expected True or False, got {word!r}")
        return word == "True"


def _megabytes(words: _Words, key: str, floor: int) -> int:
    size = words.number(key) * MIB
    if size < floor:
        raise words.fail(f"{key}: {size // MIB} is too small, the least is {floor // MIB}")
    return size


def _max_split(words: _Words, now: AllocatorSettings) -> AllocatorSettings:
    return replace(now, max_split_size=_megabytes(words, "max_split_size_mb", now.large_segment_size))


def _non_split(words: _Words, now: AllocatorSettings) -> AllocatorSettings:
    return replace(now, max_non_split_rounding=_megabytes(words, "max_non_split_rounding_mb", now.large_segment_size))


def _large_segment(words: _Words, now: AllocatorSettings) -> AllocatorSettings:
    size = _megabytes(words, "large_segment_size_mb", 11 * MIB)
    if size % (2 * MIB):
        raise words.fail("large_segment_size_mb: expected an even number, since segments are multiples of 2 MiB")
    return replace(now, large_segment_size=size)


def _collect(words: _Words, now: AllocatorSettings) -> AllocatorSettings:
    threshold = words.real("garbage_collection_threshold")
    if not 0 < threshold < 1:
        raise words.fail(f"garbage_collection_threshold: expected a number between 0 and 1, got {threshold:g}")
    return replace(now, gc_threshold=threshold)


def _expandable(words: _Words, now: AllocatorSettings) -> AllocatorSettings:
    return replace(now, expandable_segments=words.truth("expandable_segments"))


def _fraction(words: _Words, now: AllocatorSettings) -> AllocatorSettings:
    fraction = words.real("per_process_memory_fraction")
    if not 0 < fraction <= 1:
        raise words.fail(f"per_process_memory_fraction: expected a number between 0 and 1, got {fraction:g}")
    return replace(now, fraction=fraction)


def _backend(words: _Words, now: AllocatorSettings) -> AllocatorSettings:
    if (name := words.next("the value of backend")) != "native":
        raise words.fail(f"backend {name!r} is not PyTorch's own allocator: only `native` can be emulated")
    return now


def _roundup(words: _Words, now: AllocatorSettings) -> AllocatorSettings:
    key = "roundup_power2_divisions"
    if words.more() and words.words[words.at] == "[":
        words.at += 1
        return replace(now, roundup_divisions=tuple(_table(words, key)))
    return replace(now, roundup_divisions=(_power(words, key),) * SLOTS)


def _power(words: _Words, key: str) -> int:
    value = words.number(key)
    if (value and value & (value - 1)) or value > 2**16:
        raise words.fail(f"{key}: expected 0 or a power of two up to 65536, got {value}")
    return value


def _table(words: _Words, key: str) -> Sequence[int]:
    """A list of size in MiB : divisions. The first also fills the smaller sizes, `>` all larger ones, gaps stay 0."""
    table, last, first = [0] * SLOTS, 0, True
    while (size := words.next("']'")) != "]":
        words.expect(":", f"{key} {size}")
        value = _power(words, key)
        if size == ">":
            table[last + 1 :] = [value] * (SLOTS - last - 1)
        elif not re.fullmatch(r"\d{1,9}", size) or not int(size) or int(size) & (int(size) - 1):
            raise words.fail(f"{key}: expected a power of two in MiB or '>', got {size!r}")
        else:
            last = min(int(size).bit_length() - 1, SLOTS - 1)
            table[: last + 1] = [*([value] * last if first else table[:last]), value]
            first = False
        if words.more() and words.words[words.at] != "]":
            words.expect(",", f"{key} {size}:{value}")
    return table


_KEYS: Final[dict[str, Callable[[_Words, AllocatorSettings], AllocatorSettings]]] = {
    "backend": _backend,
    "expandable_segments": _expandable,
    "garbage_collection_threshold": _collect,
    "large_segment_size_mb": _large_segment,
    "max_non_split_rounding_mb": _non_split,
    "max_split_size_mb": _max_split,
    "per_process_memory_fraction": _fraction,
    "roundup_power2_divisions": _roundup,
}


def asked_for(told: Mapping[str, Any] | None) -> AllocatorSettings | None:
    """What the string in a snapshot's `allocator_settings` asks for; None where there is none, or where PyTorch refuses it."""
    told = told or {}
    text = str(told.get("PYTORCH_CUDA_ALLOC_CONF") or told.get("PYTORCH_ALLOC_CONF") or "")
    try:
        return apply(text) if text else None
    except BadInput:
        return None


def recorded(told: Mapping[str, Any] | None) -> AllocatorSettings:
    """The settings in force when a snapshot was taken, from its `allocator_settings`; PyTorch's defaults where it says nothing.

    What the dict states is believed before the string in it, which may have been refused or set anew since.
    """
    told = told or {}
    now = asked_for(told) or DEFAULTS
    split, threshold, table = (
        told.get(key) for key in ("max_split_size", "garbage_collection_threshold", "roundup_power2_divisions")
    )
    if isinstance(split, int):
        now = replace(now, max_split_size=split if 0 < split < 2**62 else None)
    if isinstance(threshold, float) and 0 <= threshold < 1:
        now = replace(now, gc_threshold=threshold)
    if isinstance(told.get("expandable_segments"), bool):
        now = replace(now, expandable_segments=told["expandable_segments"])
    if isinstance(table, Mapping) and len(table) == SLOTS and all(isinstance(n, int) and 0 <= n < 2**32 for n in table.values()):
        now = replace(now, roundup_divisions=tuple(table.values()))
    return now


def _unknown(words: _Words, key: str) -> BadInput:
    return words.fail(
        f"no setting is called {key!r}; known are {', '.join(sorted(_KEYS))} and {len(_OTHERS)} without influence here"
    )


def apply(text: str, before: AllocatorSettings = DEFAULTS) -> AllocatorSettings:
    """The settings after PyTorch has been told `text`, having stood at `before`. "none" and "" are PyTorch's defaults.

    Raises BadInput where PyTorch would refuse the string, and for a backend that is not its own allocator.

    >>> apply("max_split_size_mb:64,expandable_segments:True").max_split_size
    67108864
    >>> apply("expandable_segments:False", apply("max_split_size_mb:64")).max_split_size is None
    True
    """
    kept = replace(before, max_split_size=None, roundup_divisions=(0,) * SLOTS, gc_threshold=0.0)
    now = replace(kept, max_non_split_rounding=kept.large_segment_size)
    words = _Words("" if text.strip() == "none" else text)
    while words.more():
        if (key := words.next("a setting")) == ",":
            continue
        if key not in _KEYS and key not in _OTHERS:
            raise _unknown(words, key)
        words.expect(":", key)
        if key in _OTHERS:
            words.next(f"the value of {key}")
        else:
            now = _KEYS[key](words, now)
        if words.more():
            words.expect(",", f"the value of {key}")
    return now
