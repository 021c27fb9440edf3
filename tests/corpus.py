"""corpus: where the larger set of real artifacts lies, if it lies anywhere. Tests pass without it."""

import os
from pathlib import Path

_DEFAULT = Path(__file__).resolve().parent.parent.parent / "shared" / "data"
CORPUS = Path(os.environ.get("FOREBAY_CORPUS", _DEFAULT))


def artifacts(folder: str, pattern: str = "*") -> list[Path]:
    """The corpus's files of one folder, sorted; empty where there is no corpus."""
    return sorted((CORPUS / folder).glob(pattern))
