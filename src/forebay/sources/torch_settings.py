"""torch_settings: PyTorch's allocator settings, as a snapshot or a settings string spells them, for native/emulate.

It reads what is there and never fails: an artifact with odd settings is still an artifact. Judging settings is the doctor's.
"""

import re
from collections.abc import Mapping
from typing import Any

from forebay._core.emulate import Settings

_MIB = 2**20


def _number(text: str, key: str) -> float | None:
    match = re.search(rf"(?:^|,)\s*{key}\s*:\s*([0-9.]+)", text)
    try:
        return float(match[1]) if match else None
    except ValueError:
        return None


def _divisions(table: Any) -> list[int]:
    """The rounding table of 16 slots from {"1": 4, "2": 4, ..}: keys are sizes in MiB, powers of two."""
    slots = [0] * 16
    if isinstance(table, Mapping):
        for key, value in table.items():
            if str(key).isdigit() and isinstance(value, int) and 0 <= value < 2**32 and 0 < int(key) < 2**16:
                slots[int(key).bit_length() - 1] = value
    return slots


def allocator_settings(told: Mapping[str, Any] | None) -> Settings:
    """The settings that decide sizes, of the `allocator_settings` of a snapshot; PyTorch's defaults where it says nothing.

    `max_split_size` is -1 where it is unlimited. What the dict lacks is read from the string of PYTORCH_CUDA_ALLOC_CONF.
    """
    settings, told = Settings(), told or {}
    text = str(told.get("PYTORCH_CUDA_ALLOC_CONF") or told.get("PYTORCH_ALLOC_CONF") or "")
    split = told.get("max_split_size")
    if isinstance(split, int) and 0 < split < 2**62:
        settings.max_split_size = split
    if large := _number(text, "large_segment_size_mb"):
        settings.large_segment_size = settings.max_non_split_rounding = int(large * _MIB)
    if rounding := _number(text, "max_non_split_rounding_mb"):
        settings.max_non_split_rounding = int(rounding * _MIB)
    settings.roundup_divisions = _divisions(told.get("roundup_power2_divisions"))
    threshold = told.get("garbage_collection_threshold")
    settings.gc_threshold = float(threshold) if isinstance(threshold, int | float) else 0.0
    settings.memory_fraction = _number(text, "per_process_memory_fraction") or 1.0
    settings.expandable_segments = told.get("expandable_segments") is True
    return settings
