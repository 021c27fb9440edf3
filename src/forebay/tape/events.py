"""events: the columns of a tape with their types and units.

Kinds, flags and modes come from native/tape/events.hpp, where they are written once. Rows are rows.py's.
"""

from enum import StrEnum
from typing import Final, NamedTuple

import numpy as np

from forebay._core.tape import Extent, Flag, Kind, Mode, Space, StreamClass, fills

__all__ = ["COLUMNS", "PROMISES", "Column", "Extent", "Flag", "Kind", "Mode", "Promise", "Sees", "Space", "StreamClass", "fills"]


class Column(NamedTuple):
    """One column: its NumPy type, its group in the schema, and what it holds."""

    dtype: np.dtype[np.generic]
    group: str
    holds: str


def _column(dtype: str, group: str, holds: str) -> Column:
    return Column(np.dtype(dtype), group, holds)


# `uses` and `text` are not here: they are lists and strings, and live in Uses and in the recording stream.
COLUMNS: Final[dict[str, Column]] = {
    "kind": _column("u1", "call", "what happened (Kind)"),
    "name": _column("u4", "call", "string: the call, kernel, region, setting or note"),
    "thread": _column("u2", "call", "index of the calling host thread"),
    "seq": _column("u8", "call", "order of the call's entry among all threads of the process"),
    "time_ns": _column("i8", "call", "when the call began, nanoseconds on the source's clock"),
    "span_ns": _column("i8", "call", "how long the call took on its thread, nanoseconds"),
    "status": _column("i4", "call", "CUresult of the call; 0 is success"),
    "site": _column("u4", "call", "site: the stack that made the call"),
    "flags": _column("u4", "call", "Flag bits, capture mode and release cause"),
    "device": _column("i2", "place", "device index"),
    "stream": _column("u4", "place", "stream: index into the table of streams"),
    "capture": _column("u4", "place", "the capture that the row was issued into; null where none"),
    "pool": _column("u4", "memory", "pool: index into the table of pools"),
    "address": _column("u8", "memory", "first byte"),
    "size": _column("u8", "memory", "bytes of the block (unsplit tail included), segment, copy or request"),
    "requested": _column("u8", "memory", "bytes that the program asked for"),
    "ref": _column("u4", "handle", "event, graph, capture, segment or iteration; unique for the tape's life"),
    "begin_ns": _column("i8", "device", "when the work itself began, nanoseconds"),
    "end_ns": _column("i8", "device", "when the work itself ended, nanoseconds"),
    "cause": _column("u8", "cause", "index of the row that made this one"),
}


class Sees(StrEnum):
    """What a tape's source can show. A rule that needs more than its tape sees is blind, and says so."""

    ALLOCS = "allocs"  # every alloc and free of the pools, from the first row on
    RECLAIMS = "reclaims"  # when freed bytes became reusable, apart from the free
    SEGMENTS = "segments"  # driver memory: reserve, release, map, unmap
    PINNED = "pinned"  # pin and unpin
    LENDS = "lends"  # record_stream calls
    WORK = "work"  # launches, copies, memsets
    USES = "uses"  # which bytes each work item touches
    HOST_ACCESSES = "host_accesses"  # reads and writes of the host
    EDGES = "edges"  # records and waits, with the event of each
    SYNCS = "syncs"  # host waits of every kind
    QUERIES = "queries"  # event and stream queries, with their answer
    STREAMS = "streams"  # class and priority of each stream
    THREADS = "threads"  # which thread called
    CAPTURES = "captures"  # capture begin and end, and what was issued inside
    GRAPHS = "graphs"  # graph launches and destroys
    REGIONS = "regions"  # regions of the program
    ITERATIONS = "iterations"  # with their iteration numbers
    SITES = "sites"  # stacks
    CALL_TIMES = "call_times"  # begin and span of calls
    WORK_TIMES = "work_times"  # begin and end of the work itself
    DRIVER_CALLS = "driver_calls"  # every driver memory call, by whoever made it
    CAPACITY = "capacity"  # what the device has, and had free
    SETTINGS = "settings"  # the allocator's settings
    OOMS = "ooms"  # failed requests
    BEGINNING = "beginning"  # the history starts at the program's first allocation


class Promise(NamedTuple):
    """What a tape that sees something holds: rows of these kinds, these columns known in rows whose kind fills them, and these
    fields of side tables (`streams.kind`: of some stream at least)."""

    kinds: frozenset[Kind]
    columns: frozenset[str] = frozenset()
    sides: frozenset[str] = frozenset()


def _promise(kinds: str, columns: str = "", sides: str = "") -> Promise:
    return Promise(frozenset(Kind[kind] for kind in kinds.split()), frozenset(columns.split()), frozenset(sides.split()))


# A row of each kind need not be there: the program may never have done it. Whatever of it was done is.
PROMISES: Final[dict[Sees, Promise]] = {
    Sees.ALLOCS: _promise("alloc free", "address size stream"),
    Sees.RECLAIMS: _promise("reclaim", "address"),
    Sees.SEGMENTS: _promise("reserve release map unmap", "address size"),
    Sees.PINNED: _promise("pin unpin", "address"),
    Sees.LENDS: _promise("lend", "address stream"),
    Sees.WORK: _promise("launch copy memset host_func graph_launch", "stream"),
    Sees.USES: _promise("launch copy memset host_func graph_launch", "uses"),
    Sees.HOST_ACCESSES: _promise("host_access", "uses"),
    Sees.EDGES: _promise("record wait", "stream ref"),
    Sees.SYNCS: _promise("sync_event sync_stream sync_device"),
    Sees.QUERIES: _promise("query", "flags"),
    Sees.STREAMS: _promise("", "stream", "streams.kind"),
    Sees.THREADS: _promise("", "thread"),
    Sees.CAPTURES: _promise("capture_begin capture_end", "stream ref capture"),
    Sees.GRAPHS: _promise("graph_instantiate graph_launch graph_destroy", "ref"),
    Sees.REGIONS: _promise("region_begin region_end", "name"),
    Sees.ITERATIONS: _promise("region_begin region_end", "ref"),
    Sees.SITES: _promise("", "site", "sites.frames"),
    Sees.CALL_TIMES: _promise("", "time_ns span_ns"),
    Sees.WORK_TIMES: _promise("launch copy memset host_func graph_launch", "begin_ns end_ns"),
    Sees.DRIVER_CALLS: _promise("reserve release map unmap pin unpin", "name"),
    Sees.CAPACITY: _promise("capacity", "name size device"),
    Sees.SETTINGS: _promise("settings", "name"),
    Sees.OOMS: _promise("oom", "size"),
    Sees.BEGINNING: _promise(""),
}
