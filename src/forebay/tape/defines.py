"""defines: a tape from the rows that a recorder wrote: rows in the order of `seq`, ids from `define` rows folded into side tables,
causes turned from `seq` into row numbers. (What a recording holds: native/tape/recorder.hpp.)

Where the rows come from, a file or memory, is file.py's and the runtime's.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from forebay._core.tape import COLUMNS as NAMES
from forebay.errors import BadInput
from forebay.tape.events import COLUMNS, Kind, Sees, StreamClass
from forebay.tape.parse import pack_sites
from forebay.tape.rows import Array, Frame, Pool, Sides, Stream, Tape, Thread, Uses

__all__ = ["Raw", "join", "settled"]

_NO_SEQ = np.iinfo("u8").max


class Raw(NamedTuple):
    """Some rows as recorded, define rows included, and the text of each define row. `tape.known` is there always."""

    tape: Tape
    texts: Sequence[bytes]


class _Survey(NamedTuple):
    """What a first pass over a recording learns."""

    sides: Sides
    present: frozenset[str]
    earliest: list[int]  # after each batch, the smallest seq still to come
    seqs: Array | None  # of every row, sorted, where a cause must be found


def settled(raws: Callable[[], Iterable[Raw]], sees: frozenset[Sees], provenance: Mapping[str, Any]) -> Iterator[Tape]:
    """Chunks of the tape, at least one, in order. `raws` is gone through twice. Rows that came late wait for no more than the
    batches that they are late by. Raises BadInput where define rows make no sense.
    """
    survey = _survey(raws())
    done, waiting = 0, _frame(survey, sees, provenance)
    for raw, earliest in zip(raws(), survey.earliest, strict=True):
        rows = join([waiting, _select(raw.tape, survey)])
        order = np.argsort(rows.columns["seq"], kind="stable")
        ready = int(np.searchsorted(rows.columns["seq"][order], earliest, side="left")) if earliest < _NO_SEQ else len(order)
        yield _caused(replace(rows.take(order[:ready]), first=done, picked=None), survey)
        done, waiting = done + ready, rows.take(order[ready:])
    if not survey.earliest:
        yield waiting


def join(tapes: Sequence[Tape]) -> Tape:
    """Runs of rows of one tape as one: the same columns and side tables; `known` in all of them or none."""
    columns = {name: np.concatenate([tape.columns[name] for tape in tapes]) for name in tapes[0].columns}
    known = None if tapes[0].known is None else np.concatenate([tape.known for tape in tapes if tape.known is not None])
    uses = None if tapes[0].uses is None else _join_uses([tape.uses for tape in tapes if tape.uses is not None])
    return replace(tapes[0], columns=columns, known=known, uses=uses, picked=None)


def _join_uses(parts: Sequence[Uses]) -> Uses:
    counts = np.concatenate([np.diff(uses.offsets) for uses in parts])
    cuts = [slice(int(uses.offsets[0]), int(uses.offsets[-1])) for uses in parts]
    fields = ("address", "size", "mode", "extent", "space")
    return Uses(
        np.concatenate([[0], np.cumsum(counts)]).astype("u8"),
        *(np.concatenate([getattr(uses, name)[cut] for uses, cut in zip(parts, cuts, strict=True)]) for name in fields),
    )


def _survey(raws: Iterable[Raw]) -> _Survey:
    entries: list[tuple[int, bytes]] = []
    least: list[int] = []
    seqs: list[Array] = []
    bits = 0
    for tape, texts in raws:
        defines = tape.where(Kind.define)
        entries += zip(tape.columns["ref"][defines].tolist() if len(defines) else [], texts, strict=True)
        rest = tape.columns["kind"] != Kind.define
        seqs.append(tape.columns["seq"][rest])
        least.append(int(seqs[-1].min()) if len(seqs[-1]) else _NO_SEQ)
        bits |= int(np.bitwise_or.reduce(tape.known[rest])) if tape.known is not None else 0
    present = frozenset(name for bit, name in enumerate(NAMES) if bits >> bit & 1) - {"text"} | {"kind", "seq"}  # of define rows
    earliest = np.minimum.accumulate([*least[1:], _NO_SEQ][::-1])[::-1].tolist() if least else []
    return _Survey(_sides(entries), present, earliest, np.sort(np.concatenate(seqs)) if "cause" in present else None)


def _frame(survey: _Survey, sees: frozenset[Sees], provenance: Mapping[str, Any]) -> Tape:
    """No rows, with everything else."""
    columns = {name: np.zeros(0, column.dtype) for name, column in COLUMNS.items() if name in survey.present}
    parts = [np.zeros(0, kind) for kind in ("u8", "u8", "u1", "u1", "u1")]
    uses = Uses(np.zeros(1, "u8"), *parts) if "uses" in survey.present else None
    return Tape(columns, survey.sides, sees, provenance, uses, np.zeros(0, "u4"))


def _select(tape: Tape, survey: _Survey) -> Tape:
    """The rows that are no define rows, with the columns that the whole tape has."""
    rows = tape.take(np.flatnonzero(tape.columns["kind"] != Kind.define))
    zeros = {name: np.zeros(len(rows), COLUMNS[name].dtype) for name in survey.present - set(rows.columns) - {"uses"}}
    columns = {name: zeros[name] if name in zeros else rows.columns[name] for name in COLUMNS if name in survey.present}
    empty = Uses(np.zeros(len(rows) + 1, "u8"), *(np.zeros(0, kind) for kind in ("u8", "u8", "u1", "u1", "u1")))
    return replace(rows, columns=columns, uses=(rows.uses or empty) if "uses" in survey.present else None, picked=None)


def _caused(tape: Tape, survey: _Survey) -> Tape:
    """The tape with row numbers in `cause`; unknown where the row that it names is not there."""
    if survey.seqs is None or tape.known is None:
        return tape
    at = np.searchsorted(survey.seqs, tape.columns["cause"])
    found = survey.seqs[np.minimum(at, len(survey.seqs) - 1)] == tape.columns["cause"]
    bit = np.uint32(1 << NAMES.index("cause"))
    known = np.where(found, tape.known, tape.known & ~bit)
    cause = np.where(found & ((known & bit) != 0), at, 0).astype("u8")
    return replace(tape, columns={**tape.columns, "cause": cause}, known=known)


def _sides(entries: Iterable[tuple[int, bytes]]) -> Sides:
    tables: dict[str, dict[int, Any]] = {name: {} for name in ("string", "site", "stream", "pool", "thread")}
    tables["string"][0], tables["site"][0] = "", ()
    for ref, text in entries:
        table, _, entry = text.decode(errors="replace").partition(" ")
        if table not in tables:
            raise BadInput(f"a define row of no table: {table[:40]!r}; the recording is damaged")
        tables[table][ref] = entry if table == "string" else _entry(table, entry)
    if any(sorted(table) != list(range(len(table))) for table in tables.values()):
        raise BadInput("define rows are missing: the recording is damaged")
    rows = {name: [table[i] for i in range(len(table))] for name, table in tables.items()}
    return Sides(rows["stream"], rows["pool"], rows["string"], pack_sites(rows["site"]), rows["thread"])


def _entry(table: str, text: str) -> Any:
    try:
        entry = json.loads(text)
        if table == "site":
            return tuple(Frame(str(file), int(line), str(function)) for file, line, function in entry)
        return {"stream": stream, "pool": pool, "thread": _thread}[table](entry)
    except (ValueError, TypeError, KeyError) as error:
        raise BadInput(f"a define row that makes no {table}: {text[:80]!r} ({error}); the recording is damaged") from None


def stream(entry: dict[str, Any]) -> Stream:
    """A stream of its JSON form."""
    kind = entry.get("kind")
    return Stream(**{**entry, "kind": None if kind is None else StreamClass(kind)})


def pool(entry: dict[str, Any]) -> Pool:
    """A pool of its JSON form."""
    low_high = entry.get("private")
    private = None if low_high is None else (int(low_high[0]), int(low_high[1]))
    return Pool(**{**entry, "private": private, "trusted": bool(entry.get("trusted"))})


def _thread(entry: dict[str, Any]) -> Thread:
    return Thread(**entry)
