"""order_draft: a first `[order]` table, written from a run that was right, for people to edit. The run keeps every entry of it.

Left out: what host syncs alone order (a sync orders everything, so none of it need be meant), and what other entries imply.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator

from forebay.contract.order_check import Ordered, Run, breaches
from forebay.contract.order_spec import Entry, Pattern, exactly
from forebay.tape import Kind, Tape
from forebay.views.relation import Item

__all__ = ["draft", "written"]

_HEAD = "# From one run: keep what was meant, and delete the rest. `forebay explain order` says what an entry means.\n"
_HOST = (Kind.sync_event, Kind.sync_stream, Kind.sync_device, Kind.query)


def draft(tape: Tape) -> list[Entry]:
    """Entries that the run keeps: work that another stream's work waits for, then work that nothing orders with another stream."""
    run = Run(tape)
    candidates = dict.fromkeys([*_befores(run), *_overlaps(run)])
    return [entry for entry in candidates if next(breaches(run, entry), None) is None]


def written(entries: list[Entry]) -> str:
    """The table as TOML."""
    parts = [
        _list("before", [e for e in entries if e.intent == "before"]),
        _list("overlap", [e for e in entries if e.intent == "overlap"]),
    ]
    return _HEAD + "[order]\n" + "".join(parts)


def _list(key: str, entries: list[Entry]) -> str:
    lines = "".join(f"  {json.dumps(str(entry))},\n" for entry in entries)
    return f"{key} = [\n{lines}]\n" if entries else f"{key} = []\n"


def _befores(run: Run) -> Iterator[Entry]:
    """Of each piece of work, the last pieces of other streams that it comes after and the piece before it in its stream did not."""
    done: dict[int, Ordered] = defaultdict(list)
    known: dict[tuple[int, int], int] = {}
    host = {int(row) for row in run.tape.where(*_HOST)}
    for b in run.items:
        news = [a for lane, items in done.items() if lane != b.lane and (a := _new(run, known, b, lane, items)) is not None]
        for a in news:
            implied = any(run.relation.before(a, other) == "certain" for other in news)
            if not implied and host.isdisjoint(run.relation.joins(a, b)):
                yield Entry("before", exactly(a), exactly(b))
        done[b.lane].append(b)


def _new(run: Run, known: dict[tuple[int, int], int], b: Item, lane: int, items: Ordered) -> Item | None:
    """The last piece of another stream that `b` comes after, if no earlier piece of its own stream did."""
    before = known.get((b.lane, lane), 0)
    count = bisect_left(items, True, lo=before, key=lambda a: run.relation.before(a, b) != "certain")
    known[b.lane, lane] = count
    return items[count - 1] if count > before else None


def _overlaps(run: Run) -> Iterator[Entry]:
    """The work of each stream with all the work of another that has more of it."""
    lanes: dict[str, dict[str, Item]] = defaultdict(dict)
    for item in run.items:
        lanes[item.stream].setdefault(item.name, item)
    for stream, works in lanes.items():
        for other, others in lanes.items():
            if (len(works), stream) < (len(others), other):
                everything = Pattern(exactly(next(iter(others.values()))).stream, "*")
                yield from (Entry("overlap", exactly(item), everything) for item in works.values())
