"""nvml: what NVIDIA's management library says of this machine's GPUs right now, by its own Python package (nvidia-ml-py), where that is.

It reads and never sets anything. A figure that NVML does not give is None. What it means for a process is doctor/machine.py's.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, NamedTuple, TypeVar

__all__ = ["Blind", "Gpu", "Nvml", "Process", "look"]

_NOT_TOLD: Final = 2**64 - 1  # bytes: NVML's word for "not available"
T = TypeVar("T")


class Process(NamedTuple):
    """A process on a GPU, and the bytes of the GPU's memory that it has."""

    pid: int
    used: int | None


class Gpu(NamedTuple):
    """One GPU and its memory in bytes. `processes` is None where NVML does not tell them."""

    number: int
    name: str
    total: int
    used: int
    free: int
    processes: tuple[Process, ...] | None


class Nvml(NamedTuple):
    """All GPUs, and the driver's version."""

    driver: str | None
    gpus: tuple[Gpu, ...]


class Blind(NamedTuple):
    """Why nothing can be seen, and what would let it be seen."""

    why: str
    advice: str


def look() -> Nvml | Blind:
    """The GPUs of this machine, or why they cannot be seen."""
    try:
        nvml = importlib.import_module("pynvml")
    except ImportError:
        return Blind("the package nvidia-ml-py is not installed", "pip install 'forebay[nvml]', on the machine with the GPUs")
    try:
        with _begun(nvml):
            count = int(nvml.nvmlDeviceGetCount())
            gpus = tuple(_gpu(nvml, number) for number in range(count))
            return Nvml(_asked(lambda: _text(nvml.nvmlSystemGetDriverVersion()), nvml), gpus)
    except nvml.NVMLError as error:
        return Blind(
            f"NVML answers: {_text(error)}",
            "look on a machine with an NVIDIA driver, or hand over a snapshot, a recording or a log",
        )


@contextmanager
def _begun(nvml: Any) -> Iterator[None]:
    nvml.nvmlInit()
    try:
        yield
    finally:
        nvml.nvmlShutdown()


def _gpu(nvml: Any, number: int) -> Gpu:
    handle = nvml.nvmlDeviceGetHandleByIndex(number)
    memory = nvml.nvmlDeviceGetMemoryInfo(handle)
    name = _asked(lambda: _text(nvml.nvmlDeviceGetName(handle)), nvml)
    return Gpu(number, name or "unnamed", int(memory.total), int(memory.used), int(memory.free), _processes(nvml, handle))


def _processes(nvml: Any, handle: Any) -> tuple[Process, ...] | None:
    """Those that compute and those that draw; one that does both is told twice and counted once."""
    compute = _asked(lambda: nvml.nvmlDeviceGetComputeRunningProcesses(handle), nvml)
    graphics = _asked(lambda: nvml.nvmlDeviceGetGraphicsRunningProcesses(handle), nvml)
    if compute is None and graphics is None:
        return None
    found: dict[int, int | None] = {}
    for process in (*(graphics or ()), *(compute or ())):
        used = process.usedGpuMemory
        found[int(process.pid)] = None if used is None or int(used) == _NOT_TOLD else int(used)
    return tuple(Process(pid, used) for pid, used in sorted(found.items()))


def _asked(question: Callable[[], T], nvml: Any) -> T | None:
    """The answer; None where this GPU, or this user, gets none."""
    try:
        return question()
    except nvml.NVMLError:
        return None


def _text(told: object) -> str:
    return told.decode("utf-8", "replace") if isinstance(told, bytes) else str(told)
