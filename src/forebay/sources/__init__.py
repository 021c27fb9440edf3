"""sources: files that others wrote, read as tapes; one module a format. Analysis is views'.

A file's format is recognised by its content, plain or compressed (gzip, xz, zstd); its name is not looked at. A new format is a
module and one line in `FORMATS`.
"""

from __future__ import annotations

import gzip
import lzma
import zlib
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple, cast

from forebay import examples
from forebay.errors import BadInput
from forebay.sources import recording, tape_text, torch_snapshot
from forebay.tape import Tape

__all__ = ["FORMATS", "Format", "open_artifact", "unpacked"]


class Format(NamedTuple):
    """A kind of file: its name for people, whether these bytes are one, and its reader (which raises BadInput)."""

    name: str
    recognises: Callable[[bytes], bool]
    read: Callable[[bytes], Tape]


FORMATS: Final[list[Format]] = [
    Format("PyTorch memory snapshot", torch_snapshot.recognises, torch_snapshot.read),
    Format("forebay recording or tape", recording.recognises, recording.read),
    Format("tape as text", tape_text.recognises, tape_text.read),
]

# What else people hand over, by its first bytes: not read, but named.
_FOREIGN = (
    (b"PK\x03\x04", "a zip archive (torch.save, a folder of traces): hand over the file inside it"),
    (b"SQLite format 3\0", "an SQLite database (an Nsight Systems export)"),
    (b"ARROW1", "an Arrow file"),
    (b"\x7fELF", "a program"),
    (b"{", "JSON (a profiler trace)"),
    (b"[", "JSON"),
)
_MOST_UNPACKED = 8 << 30  # bytes: what a compressed file may grow to


def _zstd(packed: BinaryIO) -> BinaryIO:
    import pyarrow as pa  # the one zstd among the dependencies; loaded for such a file alone

    return cast(BinaryIO, pa.input_stream(packed, compression="zstd"))


def _gzip(packed: BinaryIO) -> BinaryIO:
    return cast(BinaryIO, gzip.GzipFile(fileobj=packed))


def _xz(packed: BinaryIO) -> BinaryIO:
    return cast(BinaryIO, lzma.LZMAFile(packed))  # noqa: SIM115: the caller drains it, and it holds no file


_PACKED: tuple[tuple[bytes, str, Callable[[BinaryIO], BinaryIO]], ...] = (
    (b"\x1f\x8b", "gzip", _gzip),
    (b"\xfd7zXZ\0", "xz", _xz),
    (b"\x28\xb5\x2f\xfd", "zstd", _zstd),
)


def _drained(stream: BinaryIO) -> bytes:
    out = BytesIO()
    while chunk := stream.read(16 << 20):
        if out.tell() + len(chunk) > _MOST_UNPACKED:
            raise BadInput(f"unpacks to more than {_MOST_UNPACKED >> 30} GiB: unpack it, and check that it is what you think")
        out.write(chunk)
    return out.getvalue()


def unpacked(data: bytes) -> bytes:
    """The bytes themselves, or what they are the gzip, xz or zstd of. Raises BadInput where the packing is broken."""
    for magic, name, opened in _PACKED:
        if data.startswith(magic):
            try:
                return _drained(opened(BytesIO(data)))
            except (OSError, EOFError, ValueError, lzma.LZMAError, zlib.error) as error:
                raise BadInput(f"broken {name} file ({error}): copy or download it again") from None
    return data


def _looks_like(data: bytes) -> str:
    if not data:
        return "an empty file"
    head = data[:512].lstrip()
    for magic, name in _FOREIGN:
        if head.startswith(magic):
            return name
    return "text" if head.isascii() and b"\0" not in head else "binary data of a kind that no source knows"


def _read(data: bytes) -> Tape:
    data = unpacked(data)
    for form in FORMATS:
        if form.recognises(data):
            return form.read(data)
    raise BadInput(f"looks like {_looks_like(data)}; forebay reads: {', '.join(form.name for form in FORMATS)}")


def _bytes_of(path: Path | str) -> bytes:
    if str(path).startswith("example:"):
        return examples.bytes_of(str(path).removeprefix("example:"))
    try:
        return Path(path).read_bytes()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise BadInput(f"{path}: cannot be read ({reason})") from None


def open_artifact(path: Path | str) -> Tape:
    """The tape of a file, or of `example:NAME`, whatever format it has. Raises BadInput, one line that begins with the path."""
    data = _bytes_of(path)
    try:
        return _read(data)
    except BadInput as error:
        raise BadInput(f"{path}: {error}") from None
    except MemoryError:
        raise BadInput(f"{path}: not enough memory to read it") from None
