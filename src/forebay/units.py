"""units: sizes and durations as people write them, and back. Binary units only: 1 MiB = 2**20 bytes, as drivers and frameworks count."""

import re

_STEPS = {"": 1, "B": 1, "K": 2**10, "KiB": 2**10, "M": 2**20, "MiB": 2**20, "G": 2**30, "GiB": 2**30, "T": 2**40, "TiB": 2**40}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([A-Za-z]*)", re.ASCII)


def parse_size(text: str) -> int:
    """Bytes of "512", "20 MiB", "1.5G"; below 16 EiB, what 64 bits count. Raises ValueError, saying what would be understood.

    >>> parse_size("20 MiB"), parse_size("1.5G")
    (20971520, 1610612736)
    """
    match = _SIZE.fullmatch(text.strip())
    if match is None or match[2] not in _STEPS:
        raise ValueError(f"not a size: {text!r}; write bytes, or a number with K, M, G, T or KiB, MiB, GiB, TiB")
    step = _STEPS[match[2]]
    whole, _, part = match[1].partition(".")
    count = int(whole[-40:]) * step + (round(float("0." + part) * step) if part else 0)
    if count >= 2**64 or whole[:-40].strip("0"):
        raise ValueError(f"not a size: {text!r} is 16 EiB or more, which no machine can address")
    return count


def size(count: int) -> str:
    """Bytes for people, at most two decimals.

    >>> size(0), size(2182086656), size(76524442), size(1536)
    ('0 B', '2.03 GiB', '72.98 MiB', '1.5 KiB')
    """
    for unit in ("TiB", "GiB", "MiB", "KiB"):
        if abs(count) >= _STEPS[unit]:
            return f"{count / _STEPS[unit]:.2f}".rstrip("0").rstrip(".") + f" {unit}"
    return f"{count} B"


def percent(share: float) -> str:
    """A share for people; all and nothing are said only where they are so.

    >>> percent(0.83), percent(0.9964), percent(1.0), percent(0.99999), percent(0.0)
    ('83%', '99.6%', '100%', 'nearly all', '0%')
    """
    for digits in (0, 1, 2):
        if share in (0, 1) or 0 < float(f"{share:.{digits + 2}f}") < 1:
            return f"{share:.{digits}%}"
    return "nearly all" if share > 0.5 else "next to nothing"


def duration(nanoseconds: int) -> str:
    """Nanoseconds for people.

    >>> duration(150), duration(12_300), duration(2_000_000_000)
    ('150 ns', '12.3 µs', '2 s')
    """
    for unit, step in (("s", 10**9), ("ms", 10**6), ("µs", 10**3)):
        if abs(nanoseconds) >= step:
            return f"{nanoseconds / step:.2f}".rstrip("0").rstrip(".") + f" {unit}"
    return f"{nanoseconds} ns"
