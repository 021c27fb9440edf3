"""snapshot_rows: the rows and side tables of a tape from a snapshot's columns. It reads no file and moves no block.

Rows keep each device's order; devices are merged by time where the layout has times, and follow one another where it has not.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forebay._core.tape import COLUMNS as COLUMN_ORDER
from forebay.sources.heap_state import HeapState
from forebay.tape import COLUMNS, Flag, Frame, Kind, Pool, Sides, Sites, Stream

Array = NDArray[Any]

_KINDS = np.array(
    [
        Kind.alloc, Kind.free, Kind.reclaim, Kind.reserve, Kind.release, Kind.map, Kind.unmap, Kind.note, Kind.oom, Kind.note
    ],
    "u1",
)  # by the code of native/ingest's Action  # fmt: skip
_FREE_REQUESTED, _FREE_COMPLETED, _SEGMENT_ALLOC, _MAP, _UNMAP, _SNAPSHOT, _OOM, _OTHER = 1, 2, 3, 5, 6, 7, 8, 9
_NOT_TOLD = np.uint64(2**64 - 1)  # native/ingest: an oom of a layout that does not say what the driver had free
_STEP = 4  # positions from one event to the next, for the rows that stand between them


class _Pairs:
    """Pairs of numbers as indices: a pair's index is its place among all that were given, sorted by first, then second."""

    def __init__(self, first: Array, second: Array) -> None:
        self._first, self._second = np.unique(first), np.unique(second)
        self._keys = np.unique(self._key(first, second))

    def _key(self, first: Array, second: Array) -> Array:
        return np.searchsorted(self._first, first) * len(self._second) + np.searchsorted(self._second, second)

    def of(self, first: Array, second: Array) -> Array:
        """The indices of pairs that were given, u4."""
        return np.searchsorted(self._keys, self._key(first, second)).astype("u4")

    def pairs(self) -> list[tuple[int, int]]:
        """All pairs, in order."""
        width = max(len(self._second), 1)
        return [(int(self._first[k // width]), int(self._second[k % width])) for k in self._keys]


class SideIndex:
    """Streams and pools of a snapshot, numbered. Streams by device and handle; owner 0 is the default pools."""

    def __init__(self, raw: dict[str, Any]) -> None:
        events, segments = raw["events"], raw["segments"]

        def both(name: str, *more: Array) -> Array:
            return np.concatenate([events[name], segments[name], *more])

        zero = np.zeros(1, "u8")
        self._streams = _Pairs(both("device"), both("stream"))
        self._owners = _Pairs(both("pool_first", zero), both("pool_second", zero))
        self._pools: dict[tuple[int, int], int] = {}

    def stream(self, device: Array, handle: Array) -> Array:
        """Indices into the table of streams, u4."""
        return self._streams.of(device, handle)

    def owner(self, first: Array, second: Array) -> Array:
        """Numbers of private pools, u4."""
        return self._owners.of(first, second)

    def pool(self, device: Array, number: Array) -> Array:
        """Indices into the table of pools for pool numbers (2 * owner + large) on devices, u4; new ones are added to it."""
        unique, inverse = np.unique(device.astype("i8") << 40 | number, return_inverse=True)
        keys = [(int(key) >> 40, int(key) & (2**40 - 1)) for key in unique]
        return np.array([self._pools.setdefault(key, len(self._pools)) for key in keys], "u4")[inverse]

    def numbered(self, state: HeapState) -> HeapState:
        """The state with indices into the table of pools in place of the numbers of native/emulate."""
        segments, blocks = state.segments.copy(), state.blocks.copy()
        segments["pool"] = self.pool(segments["device"], 2 * segments["pool"] + segments["large"])
        blocks["pool"] = self.pool(blocks["device"], blocks["pool"])
        return HeapState(segments, blocks)

    def streams(self) -> tuple[Stream, ...]:
        """The table of streams."""
        return tuple(Stream(f"s{i}", handle, device) for i, (device, handle) in enumerate(self._streams.pairs()))

    def pools(self) -> tuple[Pool, ...]:
        """The table of pools, of all that were numbered so far."""
        owners = self._owners.pairs()
        return tuple(_pool(device, number & 1, owners[number >> 1]) for device, number in self._pools)


def _pool(device: int, large: int, owner: tuple[int, int]) -> Pool:
    kind, private = "large" if large else "small", None if owner == (0, 0) else owner
    name = kind if private is None else f"{kind}.{owner[0]}.{owner[1]}"
    return Pool(f"d{device}.{name}" if device else name, kind=kind, device=device, private=private, trusted=True)


class _Rows:
    """Runs of rows that are written one after another and then put in order by their positions."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self._names = names
        self._runs: list[tuple[Array, Array, dict[str, Array], Array]] = []
        self._bit = {name: np.uint32(1 << COLUMN_ORDER.index(name)) for name in names}

    def add(self, position: Array, kind: Array | Kind, unknown: Mapping[str, Array | bool] | None = None, **columns: Any) -> None:
        """A run: what each column holds, 0 where left out. `unknown`: where a column's value is not known although it has one."""
        n = len(position)
        run = {name: np.broadcast_to(columns.get(name, 0), (n,)) for name in self._names}
        known = np.full(n, sum(int(bit) for bit in self._bit.values()), "u4")
        for name, where in (unknown or {}).items():
            if name in self._bit:
                known[np.broadcast_to(where, (n,))] &= ~self._bit[name]
        self._runs.append((position, np.broadcast_to(kind, (n,)), run, known))

    def done(self) -> tuple[dict[str, Array], Array]:
        """All columns and `known`, in order of position; runs added earlier come first where positions are equal."""
        order = np.argsort(np.concatenate([run[0] for run in self._runs]), kind="stable")
        columns = {"kind": np.concatenate([run[1] for run in self._runs]).astype("u1")[order]}
        for name in self._names:
            columns[name] = np.concatenate([run[2][name].astype(COLUMNS[name].dtype) for run in self._runs])[order]
        return columns, np.concatenate([run[3] for run in self._runs])[order]


def _order(events: dict[str, Array], *, timed: bool) -> tuple[Array, Array]:
    """Each event's place among all, and the latest time (µs) that its device had reached by then."""
    reached = events["time_us"].copy()
    for device in np.unique(events["device"]) if timed else ():
        mine = events["device"] == device
        reached[mine] = np.maximum.accumulate(reached[mine])
    place = np.empty(len(reached), "i8")
    place[np.argsort(reached, kind="stable") if timed else slice(None)] = np.arange(len(reached))
    return place, reached


def _add_events(rows: _Rows, events: dict[str, Array], place: Array, size: Array, pool: Array) -> None:
    action = events["action"]
    kinds = _KINDS.copy()
    if not (action == _FREE_REQUESTED).any():
        kinds[_FREE_COMPLETED] = Kind.free  # a layout that shows the end of a block once
    oom, note = action == _OOM, np.isin(action, (_SNAPSHOT, _OTHER))
    is_map = np.isin(action, (_MAP, _UNMAP))
    memory = ~oom & ~note
    rows.add(
        place * _STEP,
        kinds[action],
        {"requested": oom, "pool": oom & (events["has_pool"] == 0), "name": (events["name"] == 0) & ~note},
        time_ns=events["time_us"] * 1000,
        name=events["name"],
        site=events["site"],
        flags=np.where(is_map, np.uint32(Flag.EXPANDABLE), np.uint32(0)),
        device=events["device"],
        stream=events["stream_index"],
        pool=pool,
        address=np.where(memory, events["address"], np.uint64(0)),
        size=size,
        requested=np.where(action < _SEGMENT_ALLOC, events["size"], np.uint64(0)),
    )


def _add_capacities(rows: _Rows, events: dict[str, Array], place: Array, name: int) -> None:
    told = np.flatnonzero((events["action"] == _OOM) & (events["address"] != _NOT_TOLD))
    rows.add(
        place[told] * _STEP - 1,
        Kind.capacity,
        {"pool": True, "site": True},
        time_ns=events["time_us"][told] * 1000,
        name=name,
        device=events["device"][told],
        size=events["address"][told],
    )


def _add_regions(rows: _Rows, raw: dict[str, Any], place: Array, reached: Array) -> None:
    told = raw["annotations"]
    if not len(told["name"]):
        return
    by_place = np.empty(len(place), "i8")
    by_place[place] = reached
    before = np.searchsorted(by_place, told["time_us"]) if raw["has_times"] else np.zeros(len(told["name"]), "i8")
    kind = np.where(told["end"] != 0, Kind.region_end, Kind.region_begin)
    rows.add(before * _STEP - 2, kind, {"site": True}, time_ns=told["time_us"] * 1000, name=told["name"])


def tape_parts(raw: dict[str, Any], sides: SideIndex, size: Array, pool: Array) -> tuple[dict[str, Array], Array, Sides]:
    """Columns, `known` and side tables. `size` and `pool` (an index into the table of pools) are the events', settled."""
    events, strings = raw["events"], list(raw["strings"])
    events = {**events, "stream_index": sides.stream(events["device"], events["stream"])}
    names = ("name", "time_ns", "site", "flags", "device", "stream", "pool", "address", "size", "requested")
    rows = _Rows(tuple(name for name in names if name != "time_ns" or raw["has_times"]))
    settings = [f"{key}={value}" for key, value in (raw["settings"] or {}).items()]
    first = len(strings) + 1
    strings += ["device_free", *settings]
    place, reached = _order(events, timed=raw["has_times"])
    unknown = {"time_ns": True, "site": True, "device": True}
    rows.add(np.full(len(settings), -_STEP), Kind.settings, unknown, name=np.arange(first, first + len(settings)))
    _add_events(rows, events, place, size, pool)
    _add_capacities(rows, events, place, first - 1)
    _add_regions(rows, raw, place, reached)
    columns, known = rows.done()
    return columns, known, Sides(sides.streams(), sides.pools(), tuple(strings), _sites(raw["sites"], strings))


def _sites(told: dict[str, Array], strings: list[str]) -> Sites:
    frames = [
        Frame(strings[file], line, strings[function])
        for file, line, function in zip(told["file"].tolist(), told["line"].tolist(), told["function"].tolist(), strict=True)
    ]
    return Sites(tuple(frames), told["offsets"], told["index"])
