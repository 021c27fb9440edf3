"""machine: what can be said with nothing to read: each GPU's memory by process, what forebay can see on this machine, and what it lacks.

What NVML says is sources/nvml.py's; how it is shown is report's. A process that is not this one tells nothing of its pools: its cached,
pending and live bytes are then unknown together, and never zero.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from forebay import gauges
from forebay.errors import BadInput
from forebay.sources.nvml import Blind, Gpu, Nvml
from forebay.whatif.settings import apply

__all__ = ["LEDGER", "Machine", "Sight", "as_json", "machine"]

# The lines of the ledger of one process, in the order in which they sum to what is used of the GPU.
LEDGER: Final = tuple(gauges.LEDGER)
_NAMES: Final = ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF")


@dataclass(frozen=True, slots=True)
class Sight:
    """A thing that forebay could look with here: whether it is there, what it would show, and how to get it."""

    name: str
    there: bool
    shows: str
    get: str


@dataclass(frozen=True, slots=True)
class Machine:
    """`ledgers` by GPU and process: the lines of LEDGER in bytes, None where not known, with `used` and `unknown_together`, the bytes that
    the lines that are None add up to. `sights` says what is there to look with; `warnings` what is wrong with the environment."""

    driver: str | None
    gpus: tuple[Gpu, ...]
    ledgers: dict[int, dict[int, dict[str, int | None]]]
    blind: tuple[Blind, ...]
    sights: tuple[Sight, ...]
    warnings: tuple[str, ...]


def machine(seen: Nvml | Blind, environment: Mapping[str, str], root: Path = Path("/")) -> Machine:
    """This machine, from what NVML says and from what lies about. `root` is where the file system begins."""
    gpus = seen.gpus if isinstance(seen, Nvml) else ()
    return Machine(
        driver=seen.driver if isinstance(seen, Nvml) else None,
        gpus=gpus,
        # NVML tells a process from everybody else, the driver's own share included; of its inside nothing.
        ledgers={gpu.number: {p.pid: gauges.ledger(gpu.used, p.used) for p in gpu.processes or ()} for gpu in gpus},
        blind=tuple(_blind(seen, gpus)),
        sights=tuple(_sights(root, seen)),
        warnings=tuple(_warnings(environment)),
    )


def _blind(seen: Nvml | Blind, gpus: tuple[Gpu, ...]) -> Iterator[Blind]:
    if isinstance(seen, Blind):
        yield seen
    elif not gpus:
        yield Blind("NVML sees no GPU", "start the container with its GPUs, or look at CUDA_VISIBLE_DEVICES and the driver")
    for gpu in gpus:
        if gpu.processes is None:
            yield Blind(f"NVML does not tell the processes on GPU {gpu.number}", "look outside of the container, or as root")
        elif any(process.used is None for process in gpu.processes):
            yield Blind(f"NVML does not tell how much each process has on GPU {gpu.number} (WDDM, vGPU)", "look at the host")


def _sights(root: Path, seen: Nvml | Blind) -> Iterator[Sight]:
    yield Sight("NVML", isinstance(seen, Nvml), "memory by process", "pip install 'forebay[nvml]'")
    torch = _version("torch")
    shows = f"its own history of allocations (torch {torch})" if torch else "its own history of allocations"
    yield Sight(
        "PyTorch", torch is not None, shows, "torch.cuda.memory._record_memory_history() in the program, _dump_snapshot(FILE)"
    )
    yield Sight("CUPTI", _cupti(), "every driver call of any CUDA program", "pip install nvidia-cuda-cupti, or the CUDA toolkit")
    yield Sight("nsys", shutil.which("nsys") is not None, "a trace of a program that cannot be changed", "install Nsight Systems")
    locked = _read(root / "proc/driver/nvidia/params")
    if locked is not None and "RmProfilingAdminOnly: 1" in locked:
        yield Sight("profiling", False, "counters of the GPU", "as root, or NVreg_RestrictProfilingToAdminUsers=0")
    scope = _read(root / "proc/sys/kernel/yama/ptrace_scope")
    if scope is not None and scope.strip() not in ("", "0"):
        get = "kernel.yama.ptrace_scope=0, or --cap-add=SYS_PTRACE; without it expandable segments cannot be shared between processes"
        yield Sight("ptrace", False, "memory handles of another process", get)


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _cupti() -> bool:
    for name in ("nvidia.cuda_cupti", "nvidia.cu13"):
        try:
            if find_spec(name) is not None:
                return True
        except ModuleNotFoundError:
            continue
    return False


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None


def _warnings(environment: Mapping[str, str]) -> Iterator[str]:
    """What is wrong with the allocator's settings in this environment; whether a program took them only its snapshot says."""
    told = {name: environment[name] for name in _NAMES if environment.get(name)}
    for name, text in told.items():
        try:
            settings = apply(text)
        except BadInput as error:
            yield f"{name}: {error}"
            continue
        if settings.grows_without_end:
            yield f"{name}: expandable_segments with max_split_size_mb makes reserved memory grow without end: keep one of them"
        if settings.collects_nothing:
            yield f"{name}: garbage_collection_threshold does nothing without a memory fraction below 1"
    if len(set(told.values())) > 1:
        yield f"{' and '.join(told)} differ: each part of PyTorch reads another one of them"
    elif set(told) == {_NAMES[0]}:
        yield f"{_NAMES[0]} is read from torch 2.10 on; older ones ignore it: a snapshot's allocator_settings tell what is in force"


def as_json(found: Machine) -> dict[str, Any]:
    """The machine as plain values."""
    return {
        "driver": found.driver,
        "gpus": [
            {**gpu._asdict(), "processes": None if gpu.processes is None else [process._asdict() for process in gpu.processes]}
            for gpu in found.gpus
        ],
        "ledgers": {str(gpu): {str(pid): lines for pid, lines in each.items()} for gpu, each in found.ledgers.items()},
        "sights": [{"name": s.name, "there": s.there, "shows": s.shows, "get": s.get} for s in found.sights],
        "warnings": list(found.warnings),
    }
