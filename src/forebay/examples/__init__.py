"""examples: real recordings that ship with the package, so that every command can be tried at once. It reads none of them.

Made by this project on one H200 under small memory caps; `example:NAME` names one wherever an artifact is asked for.
"""

from importlib.resources import files
from typing import Final

from forebay.errors import BadInput

__all__ = ["EXAMPLES", "bytes_of"]

EXAMPLES: Final[dict[str, str]] = {
    "day3-oom": "an out-of-memory in a pool whose free memory is a checkerboard",
    "healthy": "a steady training loop: nothing is wrong",
    "mixed": "long-lived blocks between short-lived big ones, up to the out-of-memory at a cap",
}


def bytes_of(name: str) -> bytes:
    """The file of an example, compressed as it ships. Raises BadInput, naming those there are."""
    if name not in EXAMPLES:
        raise BadInput(f"example:{name}: there is no such example; there are {', '.join(sorted(EXAMPLES))}")
    return (files(__name__) / f"{name}.pickle.xz").read_bytes()
