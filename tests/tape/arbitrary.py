"""arbitrary: tapes of any shape for property tests, and what it means for two to be the same."""

import json

import numpy as np
from hypothesis import strategies as st

from forebay._core.tape import COLUMNS as NAMES
from forebay.tape import COLUMNS, Frame, Kind, Pool, Sees, Sides, Sites, Stream, StreamClass, Tape, Thread, Uses, fills

TEXT = st.text(max_size=8) | st.sampled_from(
    ["A", "t0", "at", "alloc", 'a "b"\n\\', "\u2028", "#1", "-", "k<int, 4>::f()", "legacy"]
)
SMALL = st.integers(0, 3)
FRAMES = st.builds(Frame, TEXT.filter(bool), st.integers(0, 10**6), TEXT)
STREAMS = st.builds(
    Stream, TEXT, st.none() | st.integers(0, 2**64 - 1), SMALL, st.none() | SMALL, st.none() | st.sampled_from(StreamClass),
    st.none() | st.integers(-5, 0), st.none() | SMALL,
)  # fmt: skip
POOLS = st.builds(
    Pool, TEXT, st.none() | TEXT, st.none() | TEXT, SMALL, st.sampled_from(["device", "pinned", "odd one"]), st.none() | SMALL,
    st.none() | st.tuples(SMALL, SMALL), st.booleans(),
)  # fmt: skip
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | TEXT, lambda inner: st.lists(inner, max_size=2), max_leaves=4
)


@st.composite
def sites(draw):
    frames = draw(st.lists(FRAMES, min_size=1, max_size=4))
    stacks = [[], *draw(st.lists(st.lists(st.integers(0, len(frames) - 1), max_size=3), max_size=4))]
    return Sites(frames, np.cumsum([0, *map(len, stacks)]).astype("u8"), np.array([i for stack in stacks for i in stack], "u4"))


SIDES = st.builds(
    Sides, st.lists(STREAMS, max_size=3), st.lists(POOLS, max_size=3), st.lists(TEXT, max_size=4).map(lambda names: ["", *names]),
    sites(), st.lists(st.builds(Thread, TEXT, st.none() | SMALL), max_size=2),
)  # fmt: skip


def cells(draw, name, rows, sides):
    limits = np.iinfo(COLUMNS[name].dtype)
    count = {"stream": len(sides.streams), "pool": len(sides.pools), "name": len(sides.strings), "site": len(sides.sites)}.get(
        name
    )
    value = (
        st.integers(0, 6) | st.integers(int(limits.min), int(limits.max)) if count is None else st.integers(0, max(count - 1, 0))
    )
    return np.array(draw(st.lists(value, min_size=rows, max_size=rows)), COLUMNS[name].dtype)


@st.composite
def uses(draw, rows):
    counts = draw(st.lists(SMALL, min_size=rows, max_size=rows))
    total, big = sum(counts), st.integers(0, 9) | st.integers(0, 2**64 - 1)
    numbers = [draw(st.lists(of, min_size=total, max_size=total)) for of in (big, big, SMALL, st.integers(0, 2), SMALL)]
    parts = (np.array(part, kind) for part, kind in zip(numbers, ("u8", "u8", "u1", "u1", "u1"), strict=True))
    return Uses(np.cumsum([0, *counts]).astype("u8"), *parts)


@st.composite
def tapes(draw):
    """Any tape that is sound: indices lie in their tables, cells that a kind does not fill or does not know hold 0."""
    rows, sides = draw(st.integers(0, 8)), draw(SIDES)
    kinds = [Kind(draw(st.integers(0, len(Kind) - 1))) for _ in range(rows)]
    names = draw(st.sets(st.sampled_from([name for name in COLUMNS if name != "kind"])))
    names -= {name for name, table in (("stream", sides.streams), ("pool", sides.pools)) if not table}
    columns = {"kind": np.array(kinds, "u1")} | {name: cells(draw, name, rows, sides) for name in sorted(names)}
    some = draw(st.none() | uses(rows))
    known = draw(
        st.none() | st.lists(st.integers(0, 2 ** len(NAMES) - 1), min_size=rows, max_size=rows).map(lambda s: np.array(s, "u4"))
    )
    return normal(Tape(
        columns, sides, draw(st.frozensets(st.sampled_from(Sees))), draw(st.dictionaries(TEXT, JSON, max_size=2)), some, known,
        draw(st.integers(0, 9)),
    ))  # fmt: skip


def normal(tape):
    """The same tape with 0 in every cell that holds no value, no uses in rows without them, and `known` only where it says anything."""
    knows = {name: tape.knows(name) for name in [*tape.columns, *(["uses"] if tape.uses else [])]}
    columns = {name: np.where(knows[name], column, 0).astype(column.dtype) for name, column in tape.columns.items()}
    filled = {name: np.array([name in fills(Kind(k)) for k in columns["kind"]], bool) for name in knows if name != "kind"}
    known = sum((knows[name].astype("u4") << np.uint32(NAMES.index(name)) for name in filled), np.zeros(len(tape), "u4"))
    complete = all(np.array_equal(knows[name], filled[name]) for name in filled)
    return Tape(
        columns, tape.sides, tape.sees, tape.provenance, tape.uses and _cut(tape.uses, knows["uses"]), None if complete else known,
        tape.first,
    )  # fmt: skip


def _cut(uses, keep):
    counts = np.where(keep, np.diff(uses.offsets), 0)
    mask = np.repeat(keep, np.diff(uses.offsets).astype(int))
    parts = (getattr(uses, part)[mask] for part in ("address", "size", "mode", "extent", "space"))
    return Uses(np.concatenate([[0], np.cumsum(counts)]).astype("u8"), *parts)


def story(tape):
    """A tape as plain values that == compares; equal stories are equal tapes."""
    tape = normal(tape)
    parts = (
        [getattr(tape.uses, part).tolist() for part in ("offsets", "address", "size", "mode", "extent", "space")]
        if tape.uses
        else None
    )
    table = tape.sides.sites
    return {
        "columns": {name: column.tolist() for name, column in sorted(tape.columns.items())},
        "uses": parts,
        "known": None if tape.known is None else tape.known.tolist(),
        "sides": [list(tape.sides.streams), list(tape.sides.pools), list(tape.sides.strings), list(tape.sides.threads)],
        "sites": [table.stack(site) for site in range(len(table))],
        "sees": tape.sees,
        "provenance": json.dumps(dict(tape.provenance), sort_keys=True),
        "first": tape.first,
    }
