"""recording: forebay's own files, a recording that may have been cut short or a closed tape. How they lie on disk is tape.file's."""

from __future__ import annotations

from forebay.tape import Tape, file

__all__ = ["read", "recognises"]


def recognises(data: bytes) -> bool:
    """Whether these are the bytes of a recording or a closed tape, or of another Arrow file."""
    return file.starts_as_tape(data)


def read(data: bytes) -> Tape:
    """The tape. Raises BadInput where the bytes are damaged, or an Arrow file of something else."""
    return file.read(data)
