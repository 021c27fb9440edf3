"""own_policy: what our own runtime's history would have needed under other settings of its pools: grown by frames, what stays apart, sizes
in buckets, idle memory given back, everything in one pool, no trims.

Reading the history is own_history.py's, the replay native/pool/replay.hpp. Each replay's device does its work at once: a free that waited
when it was recorded does not wait here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import numpy as np

from forebay._core.driver import SimDriver
from forebay._core.pool import GrowBy, Move, Outcome, Replay
from forebay.tape import Kind, Tape
from forebay.units import size
from forebay.views.pool_memory import pool_memory
from forebay.views.walkback import walkback
from forebay.whatif.buckets import AUTO, fitted
from forebay.whatif.own_history import Own, OwnPool, own_histories
from forebay.whatif.pytorch_policy import Row
from forebay.whatif.segregate import named

__all__ = ["ONE_POOL", "UNTRIMMED", "OwnTable", "own_table"]

_BOUNDLESS: Final = 1 << 60  # bytes of a device that no history fills
_MUCH: Final = 0.1  # of the bytes that stay in a pool
UNTRIMMED: Final = "no trim"
ONE_POOL: Final = "one pool"


@dataclass(frozen=True, slots=True)
class OwnTable:
    """The outcome. `exact`: the pools of the recording, replayed, take from the driver what they took, and refuse what they refused; else
    `why` says what differs. Events are rows of the pools' memory. That all is in one pool is no remedy: pools are apart for a reason, and
    only who finds one stranded may want it. `lower_bound`: bytes that any pool needs."""

    exact: bool
    why: str
    recorded: Row
    rows: tuple[Row, ...]
    lower_bound: int


class _Case(NamedTuple):
    """A way to have run: its name, the line that does it, the moves of each device, and sizes that requests round up to."""

    name: str
    how: str
    each: tuple[Own, ...]
    buckets: tuple[int, ...] = ()


def own_table(tape: Tape, cap: int | None = None) -> OwnTable:
    """The table of a tape of our own runtime. `cap` (bytes) is what the device is to have, else what it had, where a refusal shows it.
    Raises BadInput for a tape that does not show the beginning."""
    memory = pool_memory(tape)
    walkback(memory)  # refuses what begins in mid-life
    each = tuple(_kept_idle(own) for own in own_histories(memory))
    recorded = replace(_row(_Case("recorded", "as recorded", each), None), oom=any(len(own.refused) for own in each))
    why = "; ".join(filter(None, (_difference(memory, own) for own in each)))
    rows = [_row(case, cap) for case in _cases(memory, each)]
    best: dict[str, Row] = {}
    for row in rows:  # of several numbers of buckets the best
        kind = "buckets" if row.settings.startswith("buckets") else row.settings
        if kind not in best or _rank(row) < _rank(best[kind]):
            best[kind] = row
    bound = sum(_least(own) for own in each)
    return OwnTable(not why, why, recorded, tuple(best.values()), bound)


def _rank(row: Row) -> tuple[bool, int]:
    return row.oom, row.peak_reserved_bytes


def _cases(memory: Tape, each: tuple[Own, ...]) -> Iterator[_Case]:
    if any((own.move == int(Move.trim)).any() for own in each):
        untrimmed = tuple(own.picked(own.move != int(Move.trim)) for own in each)
        yield _Case(UNTRIMMED, "remove the calls of Pool.trim", untrimmed)
    if names := sorted({pool.name for own in each for pool in own.pools if pool.keeps}):
        told = ", ".join(names)
        yield _Case("gives_back=True", f"Pool(…, gives_back=True) for {told}", tuple(_with(own, keeps=False) for own in each))
    for growth in (GrowBy.frames, GrowBy.segments):
        if any(own.pools[n].growth != growth for own in each for n in np.unique(own.pool).tolist()):
            how = f'Pool(…, growth="{growth.name}")'
            yield _Case(f"growth={growth.name}", how, tuple(_with(own, growth=growth) for own in each))
    if apart := _apart(memory, each):
        yield apart
    sizes = np.concatenate([own.bytes[own.move == int(Move.alloc)] for own in each])
    for count in AUTO:
        buckets = fitted(sizes, np.ones(len(sizes)), count) if len(sizes) else sizes
        if len(buckets):
            listed = ", ".join(size(int(b)) for b in buckets[:6]) + (", …" if len(buckets) > 6 else "")
            how = f"Pool(…, buckets=[{listed}])"
            yield _Case(f"buckets={len(buckets)}", how, each, tuple(int(b) for b in buckets))
    if any(len(np.unique(own.pool)) > 1 for own in each):
        yield _Case(ONE_POOL, "take it all from one pool", tuple(map(_together, each)))


def _with(own: Own, *, growth: GrowBy | None = None, keeps: bool | None = None) -> Own:
    pools = (replace(pool, growth=growth or pool.growth, keeps=pool.keeps if keeps is None else keeps) for pool in own.pools)
    return replace(own, pools=tuple(pools))


def _together(own: Own) -> Own:
    """All in one pool, without a limit: what the device has is the limit."""
    growth = own.pools[int(own.pool[0])].growth if len(own.pool) else GrowBy.segments
    return replace(own, pool=np.zeros(len(own.pool), "u4"), pools=(OwnPool("one", growth),))


def _apart(memory: Tape, each: tuple[Own, ...]) -> _Case | None:
    """What stays in pools of their own, where a pool has both what stays and what goes: the pool that refused, or where none did each.
    Together they have the limit of the pool that they are parted from: what stays gets what it needs of it."""
    parted, sites = [], set()
    weight: dict[int, int] = {}
    for own in each:
        kept, pools, pool = own.kept(), list(own.pools), own.pool.copy()
        for number in (own.pool[own.refused[:1]] if len(own.refused) else np.unique(own.pool[kept])).tolist():
            mine = (own.pool == number) & (own.move != int(Move.trim))
            stays = _heavy(own, mine & kept)
            if not stays.any() or stays.sum() == mine.sum():
                continue
            need = _run(own.picked(stays), None).peak_reserved
            limit = own.pools[number].limit
            if limit is not None:
                pools[number] = replace(pools[number], limit=max(0, limit - need))
            pool[stays] = len(pools)
            pools.append(
                OwnPool(f"{own.pools[number].name}, kept", own.pools[number].growth, need if limit is not None else None)
            )
            sites |= set(own.site[stays].tolist())
            for site in np.unique(own.site[stays]).tolist():
                weight[site] = weight.get(site, 0) + int(own.bytes[stays & (own.site == site)].sum())
        parted.append(replace(own, pool=pool, pools=tuple(pools)))
    if not sites:
        return None
    return _Case(
        "what is kept apart", f"Pool(device, NAME) of its own for {named(memory, frozenset(sites), weight)}", tuple(parted)
    )


def _heavy(own: Own, stays: np.ndarray) -> np.ndarray:
    """Of what stays that of the sites that hold much of it: the rest is under way, or too little to be worth a pool."""
    held = np.bincount(own.site[stays], weights=np.where(own.move[stays] == int(Move.alloc), own.bytes[stays], 0))
    heavy: np.ndarray = stays & np.isin(own.site, np.flatnonzero(held >= _MUCH * held.sum()))
    return heavy


def _kept_idle(own: Own) -> Own:
    """The history with the pools that did not give their idle memory back: no tape says so, but where a request was refused that would
    have been served from it, they did not."""
    if not len(own.refused) or _run(own, None).oom_event == int(own.refused[0]):
        return own
    at = int(own.refused[0])
    others = tuple(replace(pool, keeps=number != int(own.pool[at])) for number, pool in enumerate(own.pools))
    keeping = replace(own, pools=others)
    if _run(keeping, None).oom_event != at:
        return own
    for number in np.unique(own.pool).tolist():  # as few as explain it
        fewer = replace(keeping, pools=tuple(replace(p, keeps=p.keeps and n != number) for n, p in enumerate(keeping.pools)))
        if _run(fewer, None).oom_event == at:
            keeping = fewer
    return replace(keeping, pools=tuple(replace(p, keeps=p.keeps and n in own.pool) for n, p in enumerate(keeping.pools)))


def _run(own: Own, cap: int | None, buckets: Sequence[int] = ()) -> Outcome:
    room = own.capacity if cap is None else max(0, cap - own.fixed)
    driver = SimDriver([room or _BOUNDLESS])
    replay = Replay(
        driver,
        0,
        limits=[pool.limit for pool in own.pools],
        buckets=list(buckets),
        growths=[pool.growth for pool in own.pools],
        keeps=[pool.keeps for pool in own.pools],
    )
    columns = (own.move, own.block.astype("u8"), own.bytes, own.stream, own.pool.astype("u4"))
    replay.feed(*(np.ascontiguousarray(column) for column in columns))
    return replay.outcome()


def _row(case: _Case, cap: int | None) -> Row:
    outcomes = [_run(own, cap, case.buckets) for own in case.each]
    fixed = sum(own.fixed for own in case.each)
    events = [int(own.row[o.oom_event]) for own, o in zip(case.each, outcomes, strict=True) if o.oom_event is not None]
    refused = sum(len(own.refused) for own in case.each)
    peak = fixed + sum(o.peak_reserved for o in outcomes)
    limited = all(own.capacity is not None or any(pool.limit is not None for pool in own.pools) for own in case.each)
    known = cap if cap is not None else (case.each[0].capacity if len(case.each) == 1 else None)
    return Row(
        policy="forebay",
        settings=case.name,
        cap_bytes=known if known is None or cap is not None else known + fixed,
        peak_reserved_bytes=peak,
        peak_allocated_bytes=fixed + sum(o.peak_allocated for o in outcomes),
        peak_active_bytes=fixed + sum(o.peak_active for o in outcomes),
        largest_free_bytes=max((o.largest_free_at_end for o in outcomes), default=0),
        oom=bool(events),
        oom_event=min(events, default=None),
        driver_allocs=sum(o.driver_allocs for o in outcomes),
        driver_frees=sum(o.driver_frees for o in outcomes),
        spread_low=peak,
        spread_high=peak,
        how=case.how,
        served=refused if not events else 0,
        retries=sum(o.retries for o in outcomes),
        tried=cap is not None or limited or not refused,
        remedy=case.name != ONE_POOL,
    )


def _difference(memory: Tape, own: Own) -> str:
    """How the replay of the pools as they were differs from the recording; "" where it does not."""
    outcome, refused = _run(own, None), int(own.refused[0]) if len(own.refused) else None
    if outcome.oom_event != refused:
        return "a request that was refused is served" if refused is not None else "a request is refused that was served"
    if any(own.pools[n].growth != GrowBy.segments for n in np.unique(own.pool).tolist()):
        return ""  # of frames the tape shows maps, not growths
    took, gave = _segments(memory, own)
    if (took, gave) == (outcome.driver_allocs, outcome.driver_frees):
        return ""
    return f"recorded {took} segments taken and {gave} given back, replayed {outcome.driver_allocs} and {outcome.driver_frees}"


def _segments(memory: Tape, own: Own) -> tuple[int, int]:
    """Segments that the pools took, and gave back, up to the last move."""
    last = int(own.row[-1]) if len(own.row) else -1
    paged = np.array([pool.kind == "paged" for pool in memory.sides.pools] + [False], bool)
    takes = memory.where(Kind.reserve)
    takes = takes[takes <= last]
    mine = takes[~paged[np.minimum(memory.columns["pool"][takes], len(paged) - 1)]] if memory.has("pool") else takes
    addresses = memory.columns["address"][mine]
    gives = memory.where(Kind.release)
    gives = gives[gives <= last]
    if memory.has("device"):
        mine = mine[memory.columns["device"][mine] == own.device]
        gives = gives[memory.columns["device"][gives] == own.device]
    return len(mine), int(np.isin(memory.columns["address"][gives], addresses).sum())


def _least(own: Own) -> int:
    """The most that the program had asked for at one time."""
    asked = np.zeros(len(own.move), "i8")
    alloc = own.move == int(Move.alloc)
    alloc[own.refused] = False
    sizes = np.zeros(int(own.block.max(initial=-1)) + 1, "i8")
    sizes[own.block[alloc]] = own.bytes[alloc]
    asked[alloc] = own.bytes[alloc]
    free = own.move == int(Move.free)
    asked[free] = -sizes[own.block[free]]
    return own.fixed + int(np.cumsum(asked).max(initial=0))
