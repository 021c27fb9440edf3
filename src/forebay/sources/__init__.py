"""sources: files that others wrote, read as tapes; one module a format. Analysis is views'.

A file's format is recognised by its content, plain or compressed (gzip, xz, zstd); its name is not looked at. A new format is a
module and one line in `FORMATS`.
"""

from __future__ import annotations

import gzip
import lzma
import stat
import zlib
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple, cast

from forebay import examples
from forebay.errors import BadInput
from forebay.sources import log_text, recording, tape_text, torch_snapshot
from forebay.tape import Tape

__all__ = ["FORMATS", "Format", "open_artifact", "open_bytes", "unpacked"]


class Format(NamedTuple):
    """A kind of file: its name for people, whether these bytes are one, and its reader (which raises BadInput)."""

    name: str
    recognises: Callable[[bytes], bool]
    read: Callable[[bytes], Tape]


FORMATS: Final[list[Format]] = [
    Format("PyTorch memory snapshot", torch_snapshot.recognises, torch_snapshot.read),
    Format("forebay recording or tape", recording.recognises, recording.read),
    Format("tape as text", tape_text.recognises, tape_text.read),
    Format("text of a log", log_text.recognises, log_text.read),
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
_HEAD = 64 << 10  # bytes, unpacked, by which a format is recognised
_MOST_UNPACKED = 8 << 30  # bytes: what a compressed file may grow to
# No snapshot that we know shrinks to less than a 60th. This many times what was read, and some bytes beyond, are plausible.
_MOST_TIMES, _ALWAYS = 200, 64 << 20


def _zstd(packed: BinaryIO) -> BinaryIO:
    import pyarrow as pa  # the one zstd among the dependencies; loaded for such a file alone

    return cast(BinaryIO, pa.input_stream(packed, compression="zstd"))


def _gzip(packed: BinaryIO) -> BinaryIO:
    return cast(BinaryIO, gzip.GzipFile(fileobj=packed))


def _xz(packed: BinaryIO) -> BinaryIO:
    return cast(BinaryIO, lzma.LZMAFile(packed))


_PACKED: tuple[tuple[bytes, str, Callable[[BinaryIO], BinaryIO]], ...] = (
    (b"\x1f\x8b", "gzip", _gzip),
    (b"\xfd7zXZ\0", "xz", _xz),
    (b"\x28\xb5\x2f\xfd", "zstd", _zstd),
)


def _plausible(read: int, made: int) -> None:
    """Raises BadInput where so many bytes are no unpacked artifact of so many packed ones."""
    if made > min(_MOST_UNPACKED, _ALWAYS + _MOST_TIMES * read):
        raise BadInput(
            f"{read:,} packed bytes unpack to more than {made:,}: no artifact shrinks so far; hand over the unpacked file"
        )


def _drained(stream: BinaryIO, packed: BinaryIO, head: bytes) -> bytes:
    out = BytesIO()
    out.write(head)
    while chunk := stream.read(1 << 20):
        out.write(chunk)
        _plausible(packed.tell(), out.tell())
    return out.getvalue()


def _first(stream: BinaryIO) -> bytes:
    """At most _HEAD bytes: fewer only at the end."""
    head = b""
    while len(head) < _HEAD and (chunk := stream.read(_HEAD - len(head))):
        head += chunk
    return head


def _recognised(head: bytes) -> Format:
    for form in FORMATS:
        if form.recognises(head):
            return form
    raise BadInput(f"looks like {_looks_like(head)}; forebay reads: {', '.join(form.name for form in FORMATS)}")


def _contents(file: BinaryIO) -> tuple[Format, bytes]:
    """What the file is, which its first bytes tell before the rest is read, and all its bytes, unpacked."""
    head = _first(file)
    file.seek(0)
    for magic, name, opened in _PACKED:
        if head.startswith(magic):
            try:
                stream = opened(file)
                head = _first(stream)
                return _recognised(head), _drained(stream, file, head)
            except (OSError, EOFError, ValueError, lzma.LZMAError, zlib.error) as error:
                raise BadInput(f"broken {name} file ({error}): copy or download it again") from None
    return _recognised(head), file.read()


def _looks_like(data: bytes) -> str:
    if not data:
        return "an empty file"
    head = data[:512].lstrip()
    for magic, name in _FOREIGN:
        if head.startswith(magic):
            return name
    return "text" if head.isascii() and b"\0" not in head else "binary data of a kind that no source knows"


def unpacked(data: bytes) -> bytes:
    """The bytes of an artifact themselves, or what they are the gzip, xz or zstd of. Raises BadInput where they are none."""
    return _contents(BytesIO(data))[1]


_NO_FILES = ((stat.S_ISDIR, "a folder"), (stat.S_ISFIFO, "a pipe"), (stat.S_ISSOCK, "a socket"))


def _opened(path: Path | str) -> BinaryIO:
    if str(path).startswith("example:"):
        return BytesIO(examples.bytes_of(str(path).removeprefix("example:")))
    try:
        mode = Path(path).stat().st_mode
        if stat.S_ISREG(mode):
            return Path(path).open("rb")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise BadInput(f"{path}: cannot be read ({reason})") from None
    what = next((name for holds, name in _NO_FILES if holds(mode)), "a device")
    raise BadInput(f"{path}: {what}, not a file: hand over a regular file")


def open_artifact(path: Path | str) -> Tape:
    """The tape of a file, or of `example:NAME`, whatever format it has. Raises BadInput, one line that begins with the path."""
    try:
        with _opened(path) as file:
            return _read(path, file)
    except OSError as error:
        raise BadInput(f"{path}: cannot be read ({error.strerror})") from None


def open_bytes(name: str, data: bytes) -> Tape:
    """The same of an artifact's bytes, whatever format they have; `name` is what a message calls them."""
    return _read(name, BytesIO(data))


def _read(path: Path | str, file: BinaryIO) -> Tape:
    try:
        form, data = _contents(file)
        return form.read(data)
    except BadInput as error:
        raise BadInput(f"{path}: {error}") from None
    except MemoryError:
        raise BadInput(f"{path}: not enough memory to read it") from None
