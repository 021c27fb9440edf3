"""forebay: pools and a DAG, the runtime layer of a GPU program. The front door; every name is loaded when it is first used."""

from importlib import import_module
from typing import Any

# Not lazy: a module and a name of the front door are both called `region`, and the later import would win.
from forebay.region import region as region

_HOMES = {
    "Buffer": "forebay.runtime",
    "CudaDevice": "forebay.runtime",
    "Event": "forebay.runtime",
    "Graph": "forebay.runtime",
    "GraphCache": "forebay.runtime",
    "PagedPool": "forebay.runtime",
    "PinnedPool": "forebay.runtime",
    "Pool": "forebay.runtime",
    "SimDevice": "forebay.runtime",
    "Stream": "forebay.runtime",
    "Tape": "forebay.tape",
    "recording": "forebay.runtime",
}

__all__ = sorted([*_HOMES, "region"])
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'forebay' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
