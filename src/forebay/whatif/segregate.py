"""segregate: call sites moved into memory pools of their own (torch.cuda.MemPool): the history that such a program would have had.

What a private pool means (its idle memory is not given back at an out-of-memory) is native/emulate's. Which sites go together is said
by the user, or found here by how long their blocks live.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import partial
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from forebay._core.allocator import Step
from forebay.errors import BadInput
from forebay.tape import Frame, Tape
from forebay.whatif.calibrate import Calibrated
from forebay.whatif.pytorch_policy import Case
from forebay.whatif.settings import AllocatorSettings
from forebay.whatif.steps import Steps

__all__ = ["apart", "by_glob", "by_lifetime", "kept", "kept_apart", "named", "segregate_cases"]

Array = NDArray[Any]
_SHARES: Final = (0.05, 0.25, 0.75)  # of the history: sites whose blocks live longer than this (median) are long-lived
_POOL: Final = "torch.cuda.use_mem_pool(torch.cuda.MemPool()) around"
_VERSIONS: Final = ((True, "torch up to 2.12"), (False, "torch from 2.13 on"))


def _matches(frames: Sequence[Frame], glob: str) -> bool:
    spelled = [word for f in frames for word in (f.function, f"{f.file}:{f.line}", f"{f.file}:{f.function}")]
    return any(fnmatchcase(word, glob) for word in spelled)


def by_glob(tape: Tape, rules: Sequence[str]) -> dict[int, str]:
    """The pool of each site that a rule GLOB=POOL names, the first rule that fits. A glob is held against every frame of a stack: its
    function, file:line, and file:function. Raises BadInput for a rule without a pool, or one that fits no site."""
    found: dict[int, str] = {}
    for rule in rules:
        glob, mark, pool = rule.rpartition("=")
        if not (glob and mark and pool):
            raise BadInput(f"--segregate {rule!r}: expected GLOB=POOL or auto, for example '*/optim/*=optimizer'")
        fits = [site for site in range(len(tape.sides.sites)) if _matches(tape.sides.sites.stack(site), glob)]
        if not fits:
            raise BadInput(
                f"--segregate {rule!r}: no stack of this tape has a frame like {glob!r}; globs match function, file:line"
            )
        for site in fits:
            found.setdefault(site, pool)
    return found


def _lifetimes(steps: Steps) -> Array:
    """How many steps each handle lives; to the end where it is never freed."""
    at = np.arange(len(steps.step))
    alloc, end = steps.step == int(Step.alloc), np.isin(steps.step, (int(Step.free), int(Step.request)))
    begin, until = np.zeros(len(steps.address), "i8"), np.full(len(steps.address), len(steps.step), "i8")
    begin[steps.handle[alloc]] = at[alloc]
    until[steps.handle[end]] = at[end]
    return until - begin


def by_lifetime(steps: Steps, share: float) -> frozenset[int]:
    """The sites whose blocks live, in the median, longer than this share of the history."""
    lives = _lifetimes(steps)
    order = np.argsort(steps.site, kind="stable")
    sites, starts = np.unique(steps.site[order], return_index=True)
    groups = np.split(lives[order], starts[1:])
    return frozenset(
        int(s) for s, group in zip(sites, groups, strict=True) if len(group) and np.median(group) > share * len(steps.step)
    )


def kept(steps: Steps) -> Array:
    """Which handles are still held at the first refusal, or at the end."""
    refused = np.flatnonzero(steps.step == int(Step.refused))
    end = int(refused[0]) if len(refused) else len(steps.step)
    held = np.ones(len(steps.address), bool)
    gone = np.isin(steps.step[:end], (int(Step.free), int(Step.request)))
    held[steps.handle[:end][gone]] = False
    return held


def apart(steps: Steps, pool_of: Callable[[int], str | None]) -> Steps:
    """The history with the allocations of each site in the pool that `pool_of` names; None leaves them where they are."""
    sites, inverse = np.unique(steps.site, return_inverse=True)
    told = [pool_of(int(site)) for site in sites]
    names = list(dict.fromkeys(name for name in told if name is not None))
    numbers = np.array([-1 if name is None else names.index(name) for name in told], "i8")
    return _moved(steps, numbers[inverse] if len(sites) else np.zeros(0, "i8"), len(names))


def kept_apart(steps: Steps) -> Steps:
    """The history with what is held to the end in a pool of its own, whatever site it is of."""
    return _moved(steps, np.where(kept(steps), 0, -1), 1)


def _moved(steps: Steps, pool: Array, pools: int) -> Steps:
    """The history with each handle in the new pool of this number; -1 leaves it where it is."""
    places, place = list(steps.places), steps.place.copy()
    alloc = np.flatnonzero(steps.step == int(Step.alloc))
    of = pool[steps.handle[alloc]]
    for number in range(pools):
        mine = alloc[of == number]
        for old in np.unique(steps.place[mine]).tolist():
            new = (len(steps.traits) + number, steps.places[old][1])
            if new not in places:
                places.append(new)
            place[mine[steps.place[mine] == old]] = places.index(new)
    return replace(steps, place=place, places=tuple(places), traits=(*steps.traits, *[(False, False)] * pools))


def _cases(
    devices: Sequence[Calibrated],
    label: str,
    how: str,
    moved: Callable[[Steps], Steps],
    cap: int | None,
    settings: AllocatorSettings,
) -> list[Case]:
    steps = tuple(moved(d.steps) for d in devices)
    if cap is None and all(device.capacity is None for device in devices):  # nothing is ever given back for a request
        return [Case(label, settings, cap, how, steps)]
    return [Case(f"{label} ({version})", settings, cap, how, steps, routing_is_capture=capture) for capture, version in _VERSIONS]


def _by_bytes(devices: Sequence[Calibrated]) -> dict[int, int]:
    """The bytes that each site asked for, over all of the history."""
    total: dict[int, int] = {}
    for steps in (device.steps for device in devices):
        alloc = steps.step == int(Step.alloc)
        sums = np.bincount(steps.site[steps.handle[alloc]], weights=steps.bytes[alloc].astype("f8"))
        for site in np.flatnonzero(sums).tolist():
            total[site] = total.get(site, 0) + int(sums[site])
    return total


def named(tape: Tape, sites: frozenset[int], weight: Mapping[int, int], most: int = 3) -> str:
    """The sites, those that asked for most first."""
    heavy = sorted(sites, key=lambda site: (-weight.get(site, 0), site))
    stacks = [stack for site in heavy if (stack := tape.sides.sites.stack(site))]
    python = [[frame for frame in stack if frame.file.endswith(".py")] for stack in stacks]  # what a program's author knows
    told = [stack[:2] for stack in python if stack] or [list(stack[:2]) for stack in stacks]
    first = list(dict.fromkeys(" < ".join(f"{f.file}:{f.line} {f.function}" for f in stack) for stack in told))
    if not first:
        return "sites that no stack names"
    return ", ".join(first[:most]) + (f" and {len(first) - most} more" if len(first) > most else "")


def segregate_cases(tape: Tape, devices: Sequence[Calibrated], rules: Sequence[str], cap: int | None) -> list[Case]:
    """Cases with sites in pools of their own: by the rules given, or, where they are just `auto`, what lives long apart from the rest,
    by site at several shares of the history, and by block. Under a cap each twice, for torch up to 2.12 and from 2.13 on. Raises
    BadInput."""
    if list(rules) == ["auto"]:
        return [*_long_sites(tape, devices, cap), *_kept_blocks(tape, devices, cap)]
    pools, weight = by_glob(tape, rules), _by_bytes(devices)
    how = f"{_POOL}: " + "; ".join(
        f"{named(tape, frozenset(s for s, p in pools.items() if p == name), weight)} → {name}"
        for name in dict.fromkeys(pools.values())
    )
    return _cases(devices, ", ".join(rules), how, partial(apart, pool_of=pools.get), cap, devices[0].settings)


def _long_sites(tape: Tape, devices: Sequence[Calibrated], cap: int | None) -> Iterator[Case]:
    everything = _sites_of(devices, lambda steps: frozenset(np.unique(steps.site).tolist()))
    for share in _SHARES:
        sites = _sites_of(devices, partial(by_lifetime, share=share))
        if sites and sites != everything:
            how = f"{_POOL} the long-lived: {named(tape, sites, _by_bytes(devices))}"
            pools = dict.fromkeys(sites, "long")
            label = f"long-lived sites apart, > {share:.0%} of the run"
            yield from _cases(devices, label, how, partial(apart, pool_of=pools.get), cap, devices[0].settings)


def _kept_blocks(tape: Tape, devices: Sequence[Calibrated], cap: int | None) -> Iterator[Case]:
    """One site may make both what stays and what goes: only the program can tell them apart, so this is what it would gain."""
    held = [kept(d.steps) for d in devices]
    if not any(mask.any() and not mask.all() for mask in held):
        return
    sites = frozenset(int(s) for d, mask in zip(devices, held, strict=True) for s in np.unique(d.steps.site[mask]))
    how = f"{_POOL} what is kept, of {named(tape, sites, _by_bytes(devices))}"
    growing = replace(devices[0].settings, expandable_segments=True, max_split_size=None)
    for settings, label in ((devices[0].settings, ""), (growing, ", expandable_segments:True")):
        yield from _cases(devices, f"what is kept apart{label}", how + label.replace(", ", ", with "), kept_apart, cap, settings)


def _sites_of(devices: Sequence[Calibrated], pick: Callable[[Steps], frozenset[int]]) -> frozenset[int]:
    return frozenset().union(*(pick(device.steps) for device in devices))
