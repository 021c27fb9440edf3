"""file: tapes on disk. A recording is an Arrow IPC stream, readable up to its last whole batch; a closed tape is an Arrow IPC file
with dictionaries and zstd, which polars and DuckDB read too.

A recording's rows are made a tape by defines.py, and written by native/tape/arrow.hpp. pyarrow is imported when a file is opened.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from forebay._core.tape import COLUMNS as NAMES
from forebay.errors import BadInput
from forebay.tape.defines import Raw, join, pool, settled, stream
from forebay.tape.events import COLUMNS, Extent, Kind, Mode, Sees, Space
from forebay.tape.rows import Array, Frame, Sides, Sites, Tape, Thread, Uses

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["SCHEMA", "compact", "is_tape", "open_chunks", "read", "starts_as_tape", "write"]

SCHEMA: Final = 1
_FILE_MAGIC: Final = b"ARROW1\0\0"
_STREAM_MAGIC: Final = b"\xff\xff\xff\xff"
_END: Final = b"\xff\xff\xff\xff\0\0\0\0"
_ROWS: Final = 65536
_USE_PARTS: Final[dict[str, Any]] = {"address": "u8", "size": "u8", "mode": Mode, "extent": Extent, "space": Space}


def is_tape(path: str | os.PathLike[str]) -> bool:
    """Whether the file begins as a recording or a closed tape does."""
    return starts_as_tape(_magic(Path(path)))


def starts_as_tape(data: bytes) -> bool:
    """Whether a file that begins with these bytes may be a tape."""
    return data.startswith((_FILE_MAGIC[:6], _STREAM_MAGIC))


def read(path: str | os.PathLike[str] | bytes) -> Tape:
    """The whole tape of a recording or a closed file, by its path or its bytes. Raises BadInput where it is neither, and OSError."""
    whole = join(list(open_chunks(path)))
    return replace(whole, known=None if _says_nothing(whole) else whole.known).check()


def open_chunks(path: str | os.PathLike[str] | bytes) -> Iterator[Tape]:
    """The tape of a file in runs of rows, at least one, for tapes that do not fit in memory. Raises as `read` does."""
    place, name = (path, "") if isinstance(path, bytes) else (Path(path), f"{os.fspath(path)}: ")
    chunks = _file_chunks if _magic(place).startswith(_FILE_MAGIC[:6]) else _stream_chunks
    import pyarrow as pa

    try:
        yield from chunks(place)
    except (pa.ArrowException, OSError, ValueError, RecursionError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        told = (str(error).splitlines() or [type(error).__name__])[0]
        raise BadInput(f"{name}not a whole tape: {told[:200]}") from None
    except BadInput as error:
        raise BadInput(f"{name}{error}") from None


def write(tape: Tape, path: str | os.PathLike[str]) -> None:
    """A closed file. It is there whole or not at all. Raises BadInput where the tape is not sound, OSError where the disk is full."""
    _write(path, tape.check().chunks(_ROWS) if len(tape) else iter([tape]))


def compact(recording: str | os.PathLike[str], path: str | os.PathLike[str], more: frozenset[Sees] = frozenset()) -> None:
    """A recording as a closed file, a batch at a time. `more` is what it turned out to see besides. Raises as `read` and `write` do."""
    _write(path, (replace(chunk, sees=chunk.sees | more) for chunk in open_chunks(recording)))


def _magic(place: Path | bytes) -> bytes:
    if isinstance(place, bytes):
        return place[:8]
    with place.open("rb") as file:
        return file.read(8)


def _input(place: Path | bytes) -> pa.NativeFile:
    import pyarrow as pa

    return pa.BufferReader(place) if isinstance(place, bytes) else pa.memory_map(str(place))


# -- writing


def _write(path: str | os.PathLike[str], chunks: Iterator[Tape]) -> None:
    import pyarrow as pa

    first = next(chunks)
    schema, tables = _schema(first), _tables(first.sides)
    handle, part = tempfile.mkstemp(dir=Path(path).parent, prefix=f".{Path(path).name}.")
    try:
        with (
            os.fdopen(handle, "wb") as file,
            pa.ipc.new_file(file, schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as out,
        ):
            for chunk in chain([first], chunks):
                out.write_batch(_batch(chunk, schema, tables))
        if os.path.exists(path):  # else it stays private, as temporary files are
            shutil.copymode(path, part)
        os.replace(part, path)
    except BaseException:
        Path(part).unlink(missing_ok=True)
        raise


def _tables(sides: Sides) -> dict[str, pa.Array]:
    """What the ids of each column with a dictionary stand for, as people read it."""
    import pyarrow as pa

    tops = [sides.sites.stack(site)[:1] for site in range(len(sides.sites))]
    return {
        "kind": pa.array([kind.name for kind in Kind]),
        "name": pa.array([name.encode(errors="surrogatepass").decode(errors="replace") for name in sides.strings]),
        "site": pa.array([f"{top[0].file}:{top[0].line} {top[0].function}" if top else "" for top in tops]),
        "stream": pa.array([stream.name for stream in sides.streams], pa.string()),
        "pool": pa.array([pool.name for pool in sides.pools], pa.string()),
    }


def _schema(tape: Tape) -> pa.Schema:
    import pyarrow as pa

    names = [name for name in COLUMNS if name in tape.columns] + (["uses"] if tape.uses is not None else [])
    fields = [pa.field(name, _closed_type(name), nullable=name != "kind") for name in names]
    metadata = {
        "forebay.schema": str(SCHEMA),
        "forebay.sees": json.dumps(sorted(tape.sees)),
        "forebay.provenance": json.dumps(dict(tape.provenance)),
        "forebay.first": str(tape.first),
        "forebay.sides": _pack_sides(tape.sides),
    }
    return pa.schema(fields, metadata)


def _closed_type(name: str) -> pa.DataType:
    """How a column lies in a closed file: ids and codes as dictionaries, so that other tools see words."""
    import pyarrow as pa

    if name in ("kind", "name", "site", "stream", "pool"):
        return pa.dictionary(pa.uint8() if name == "kind" else pa.uint32(), pa.string())
    return _uses_type(pa.dictionary(pa.uint8(), pa.string())) if name == "uses" else _recorded_type(name)


def _recorded_type(name: str) -> pa.DataType:
    """How a column lies in a recording: ids and codes as numbers."""
    import pyarrow as pa

    if name in COLUMNS:
        return pa.from_numpy_dtype(COLUMNS[name].dtype)
    return pa.string() if name == "text" else _uses_type(pa.uint8())


def _uses_type(code: pa.DataType) -> pa.DataType:
    import pyarrow as pa

    parts = [pa.field(name, pa.uint64() if kind == "u8" else code, nullable=False) for name, kind in _USE_PARTS.items()]
    return pa.list_(pa.field("item", pa.struct(parts), nullable=False))


def _batch(tape: Tape, schema: pa.Schema, tables: dict[str, pa.Array]) -> pa.RecordBatch:
    import pyarrow as pa

    arrays = []
    for name in schema.names:
        unknown = ~tape.knows(name)
        if name == "uses":
            arrays.append(_uses_array(tape, unknown, schema.field("uses").type))
            continue
        values = pa.array(np.where(unknown, 0, tape.columns[name]).astype(COLUMNS[name].dtype), mask=unknown)
        arrays.append(pa.DictionaryArray.from_arrays(values, tables[name]) if name in tables else values)
    return pa.record_batch(arrays, schema=schema)


def _uses_array(tape: Tape, unknown: Array, of: pa.DataType) -> pa.Array:
    import pyarrow as pa

    uses = tape.uses
    assert uses is not None
    cut = slice(int(uses.offsets[0]), int(uses.offsets[-1]))
    parts = [
        pa.array(getattr(uses, name)[cut]) if kind == "u8" else _coded(getattr(uses, name)[cut], list(kind.__members__))
        for name, kind in _USE_PARTS.items()
    ]
    offsets = pa.array((uses.offsets - uses.offsets[0]).astype("i4"))
    return pa.ListArray.from_arrays(
        offsets, pa.StructArray.from_arrays(parts, fields=list(of.value_type)), type=of, mask=pa.array(unknown)
    )


def _coded(codes: Array, names: Sequence[str]) -> pa.Array:
    import pyarrow as pa

    return pa.DictionaryArray.from_arrays(pa.array(codes), pa.array(names))


def _pack_sides(sides: Sides) -> str:
    """The side tables as base64 of zstd of JSON: metadata is text, and stacks are many and alike."""
    import pyarrow as pa

    table = sides.sites
    streams = [{**asdict(s), "kind": None if s.kind is None else int(s.kind)} for s in sides.streams]
    sites = [[list(frame) for frame in table.frames], table.offsets.tolist(), table.index.tolist()]
    entries = {"streams": streams, "pools": [asdict(p) for p in sides.pools], "strings": list(sides.strings), "sites": sites}
    text = json.dumps({**entries, "threads": [list(thread) for thread in sides.threads]}).encode()
    return f"{len(text)}:" + base64.b64encode(pa.compress(text, codec="zstd", asbytes=True)).decode()


# -- reading


def _file_chunks(path: Path | bytes) -> Iterator[Tape]:
    import pyarrow as pa

    with _input(path) as source, pa.ipc.open_file(source) as reader:
        frame = _frame(reader.schema)
        _check_types(reader.schema, ["kind"], _closed_type)
        for number in range(reader.num_record_batches):
            chunk = _tape(reader.get_batch(number), frame)
            yield chunk
            frame = replace(frame, first=frame.first + len(chunk))
        if reader.num_record_batches == 0:
            yield _tape(pa.RecordBatch.from_pylist([], schema=reader.schema), frame)


def _stream_chunks(path: Path | bytes) -> Iterator[Tape]:
    import pyarrow as pa

    if not _magic(path).startswith(_STREAM_MAGIC):
        raise BadInput("neither a recording nor a closed tape")
    with _input(path) as source, pa.ipc.open_stream(source) as reader:
        frame, codes = _frame(reader.schema), _kind_codes(reader.schema)
    complete = _ends(path)
    provenance = {**frame.provenance, "complete": complete}
    yield from settled(lambda: _raws(path, frame, codes, complete=complete), frame.sees, provenance)


def _ends(path: Path | bytes) -> bool:
    """Whether the recorder closed the file. If not, its process was killed, or still runs."""
    if isinstance(path, bytes):
        return path.endswith(_END)
    with path.open("rb") as file:
        file.seek(-len(_END), os.SEEK_END)
        return file.read() == _END


def _raws(path: Path | bytes, frame: Tape, codes: Array, *, complete: bool) -> Iterator[Raw]:
    """The whole batches of a recording. Of one that is not complete the last may be cut short, and is left out."""
    import pyarrow as pa

    with _input(path) as source, pa.ipc.open_stream(source) as reader:
        while True:
            try:
                batch = reader.read_next_batch()
            except StopIteration:
                return
            except (pa.ArrowInvalid, OSError):
                if complete:
                    raise
                return
            tape = _tape(batch, frame)
            if len(tape) and int(tape.columns["kind"].max()) >= len(codes):
                raise BadInput(f"kind {int(tape.columns['kind'].max())} is no kind of this recording")
            tape = replace(tape, columns={**tape.columns, "kind": codes[tape.columns["kind"]]})
            texts = batch.column("text").cast(pa.binary()).filter(pa.array(tape.columns["kind"] == Kind.define))
            yield Raw(tape, [text or b"" for text in texts.to_pylist()])


def _kind_codes(schema: pa.Schema) -> Array:
    """Our code of each kind that the recording names."""
    _check_types(schema, ["kind", *NAMES], _recorded_type)
    return _codes_of((schema.metadata or {}).get(b"forebay.kinds", b"").decode().split(","))


def _check_types(schema: pa.Schema, needed: Sequence[str], type_of: Callable[[str], pa.DataType]) -> None:
    names = schema.names
    if len(set(names)) != len(names) or not set(needed) <= set(names) <= {"kind", *NAMES}:
        raise BadInput(f"columns {', '.join(names)[:200]} are not a tape's")
    for field in schema:
        if field.type != type_of(field.name):
            raise BadInput(f"column {field.name} is {field.type}, expected {type_of(field.name)}")


def _codes_of(names: Sequence[str]) -> Array:
    """Our codes of these kinds: codes may differ between versions, names do not."""
    if unknown := [name for name in names if name not in Kind.__members__]:
        raise BadInput(f"a tape of another version (kind {', '.join(unknown)}); upgrade forebay")
    return np.array([Kind[name] for name in names], "u1")


def _frame(schema: pa.Schema) -> Tape:
    """What the metadata says, as a tape without rows."""
    said = {key.decode(): value.decode() for key, value in (schema.metadata or {}).items() if key.startswith(b"forebay.")}
    if "forebay.schema" not in said:
        raise BadInput("an Arrow file, but not a tape: it has no forebay.schema")
    if said["forebay.schema"] != str(SCHEMA):
        raise BadInput(f"a tape of schema {said['forebay.schema']}, this version reads {SCHEMA}; upgrade forebay")
    try:
        sees = frozenset(Sees(name) for name in json.loads(said.get("forebay.sees", "[]")) if name in list(Sees))
        sides = _unpack_sides(said["forebay.sides"]) if "forebay.sides" in said else Sides()
        provenance, first = json.loads(said.get("forebay.provenance", "{}")), int(said.get("forebay.first", "0"))
    except (ValueError, TypeError, KeyError, IndexError, AttributeError) as error:
        raise BadInput(f"its metadata is damaged ({error})") from None
    return Tape({"kind": np.zeros(0, "u1")}, sides, sees, provenance, first=first)


def _unpack_sides(packed: str) -> Sides:
    import pyarrow as pa

    length, _, text = packed.partition(":")
    said = json.loads(pa.decompress(base64.b64decode(text), decompressed_size=int(length), codec="zstd", asbytes=True))
    frames, offsets, index = said["sites"]
    sites = Sites([Frame(*frame) for frame in frames], np.array(offsets, "u8"), np.array(index, "u4"))
    threads = [Thread(*thread) for thread in said["threads"]]
    return Sides([stream(s) for s in said["streams"]], [pool(p) for p in said["pools"]], said["strings"], sites, threads)


def _tape(batch: pa.RecordBatch, frame: Tape) -> Tape:
    """One batch as rows of the tape that `frame` describes; `known` is there always."""
    import pyarrow as pa

    batch.validate(full=True)
    columns: dict[str, Array] = {}
    known, uses = np.zeros(len(batch), "u4"), None
    for name in batch.schema.names:
        array = batch.column(name)
        if name in NAMES:
            valid = array.is_valid().to_numpy(zero_copy_only=False)
            known |= valid.astype("u4") << np.uint32(NAMES.index(name))
        if name == "uses":
            uses = _uses(array)
        elif name in COLUMNS:
            values = array.indices if isinstance(array, pa.DictionaryArray) else array
            columns[name] = values.fill_null(0).to_numpy(zero_copy_only=False).astype(COLUMNS[name].dtype, copy=False)
            if name == "kind" and values is not array:
                columns[name] = _codes_of(array.dictionary.to_pylist())[columns[name]]
    return replace(frame, columns=columns, known=known, uses=uses)


def _uses(array: pa.Array) -> Uses:
    import pyarrow as pa

    offsets = array.offsets.to_numpy(zero_copy_only=False).astype("u8")
    parts = []
    for name, kind in _USE_PARTS.items():
        values = array.values.field(name)
        values = values.indices if isinstance(values, pa.DictionaryArray) else values
        parts.append(values.to_numpy(zero_copy_only=False).astype("u8" if kind == "u8" else "u1", copy=False))
    return Uses(offsets, *parts)


def _says_nothing(tape: Tape) -> bool:
    """Whether `known` only repeats which columns there are and what each kind fills."""
    plain = replace(tape, known=None)
    return all(np.array_equal(tape.knows(name), plain.knows(name)) for name in [*tape.columns, *(["uses"] if tape.uses else [])])
