"""torch_library: the shared library that PyTorch calls, and what Python asks of it. What it does is native/torch's; who gives PyTorch its
functions is torch.py."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from forebay.errors import NotSupported

__all__ = ["HOOKS", "Library", "path"]

_NONE: Final = 2**64 - 1
_ROOM: Final = 512  # of every text that the library writes, as control.cpp has it
_LONGEST: Final = 4096  # bytes of a report
_GROWTHS: Final = {"segments": 0, "frames": 1, None: 2}
HOOKS: Final = {  # by PyTorch's setter
    "set_init_fn": "forebay_torch_init",
    "set_reset_fn": "forebay_torch_reset",
    "set_memory_fraction_fn": "forebay_torch_memory_fraction",
    "set_base_alloc_fn": "forebay_torch_base_alloc",
    "set_record_stream_fn": "forebay_torch_record_stream",
    "set_begin_allocate_to_pool": "forebay_torch_begin",
    "set_end_allocate_to_pool_fn": "forebay_torch_end",
    "set_release_pool": "forebay_torch_release",
}
_AskSite = ctypes.CFUNCTYPE(None, ctypes.POINTER(ctypes.c_char), ctypes.c_size_t)


def path() -> Path:
    """Where the library was installed. Raises NotSupported."""
    from forebay import _core

    library = Path(str(_core.__file__)).with_name("libforebay_torch.so")
    if not library.exists():
        raise NotSupported(
            f"{library.name} is not beside forebay's native core: this build has no adapter for PyTorch; install again"
        )
    return library


class Library:
    """One loaded copy of it. Raises NotSupported with the library's own words where a call is refused."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self._lib = ctypes.CDLL(str(file))
        self._why = ctypes.create_string_buffer(_ROOM)
        for name in ("set", "started", "try", "vouch", "gauges", "check", "report"):
            self._function(name).restype = ctypes.c_bool
        self._function("consumer").restype = ctypes.c_size_t
        self._function("unknown_frees").restype = ctypes.c_uint64
        self._function("gauge_names").restype = ctypes.c_char_p
        self._gauge_names = self._function("gauge_names")().decode().split()
        self._site: Any = None

    def _function(self, name: str) -> Any:
        return getattr(self._lib, f"forebay_torch_{name}")

    def address(self, symbol: str) -> int:
        """Of one of its functions, as PyTorch's setters take it."""
        return int(ctypes.cast(getattr(self._lib, symbol), ctypes.c_void_p).value or 0)

    def _told(self, name: str, *arguments: object) -> Any:
        done = self._function(name)(*arguments, self._why)
        if not done:
            raise NotSupported(self._why.value.decode(errors="replace"))
        return done

    def set(self, *, libcuda: str, limit: int | None, growth: str | None, quarantine: int | None) -> None:
        """What it is to be; before a device was used."""
        self._told("set", libcuda.encode(), _bytes(limit), _GROWTHS[growth], _bytes(quarantine))

    @property
    def started(self) -> bool:
        """Whether it has opened libcuda."""
        return bool(self._function("started")())

    def alloc(self, nbytes: int, device: int, stream: int) -> int:
        """As PyTorch's call, but it says why not."""
        address = ctypes.c_uint64()
        self._told("try", ctypes.c_size_t(nbytes), device, ctypes.c_uint64(stream), ctypes.byref(address))
        return address.value

    def free(self, address: int, device: int) -> None:
        """As PyTorch's call: of an unknown address it only counts."""
        self._function("free")(ctypes.c_void_p(address), ctypes.c_size_t(0), device, ctypes.c_void_p(0))

    def vouch(self, device: int, stream: int) -> None:
        """This handle is this stream for as long as the process lives."""
        self._told("vouch", device, ctypes.c_uint64(stream))

    def consumer(self, name: str, limit: int | None, growth: str | None) -> int:
        """The number of the pools of that name."""
        return int(self._told("consumer", name.encode(), _bytes(limit), _GROWTHS[growth]))

    def enter(self, consumer: int) -> None:
        """From now on this thread's allocations go there."""
        self._function("enter")(ctypes.c_size_t(consumer))

    def leave(self) -> None:
        """They go where they went before the latest `enter`."""
        self._function("leave")()

    def trim(self) -> None:
        """Gives wholly idle memory back."""
        self._function("reset")()

    def figures(self, device: int) -> dict[str, dict[str, int]]:
        """The figures of each pool of the device, by the pool's name."""
        figures = (ctypes.c_uint64 * len(self._gauge_names))()
        name = ctypes.create_string_buffer(_ROOM)
        pools: dict[str, dict[str, int]] = {}
        while self._function("gauges")(device, ctypes.c_size_t(len(pools)), name, figures):
            pools[name.value.decode()] = dict(zip(self._gauge_names, figures, strict=True))
        return pools

    def reserved(self, device: int) -> tuple[int, int]:
        """Bytes that all pools of the device hold together: now, and at most since the last `reset_peak`."""
        now, peak = ctypes.c_uint64(), ctypes.c_uint64()
        self._function("reserved")(device, ctypes.byref(now), ctypes.byref(peak))
        return now.value, peak.value

    def reset_peak(self, device: int) -> None:
        """The peak is what is reserved now."""
        self._function("reset_peak")(device)

    @property
    def unknown_frees(self) -> int:
        """Frees of what is no live block."""
        return int(self._function("unknown_frees")())

    def walk(self, device: int) -> str:
        """What is wrong with the device's pools, or "": for when no other thread is in them."""
        self._function("walk")(device, self._why)
        return self._why.value.decode()

    def used(self, device: int, address: int, stream: int, name: str, site: str) -> None:
        """In debug mode: work was issued on the stream and uses the block around this address."""
        self._function("used")(device, ctypes.c_uint64(address), ctypes.c_uint64(stream), name.encode(), site.encode())

    def check(self, device: int) -> None:
        """In debug mode: looks at every block now, and waits for that."""
        self._told("check", device)

    def reports(self, device: int) -> tuple[str, ...]:
        """In debug mode: a line for each misuse that was found so far."""
        text = ctypes.create_string_buffer(_LONGEST)
        found: list[str] = []
        while self._function("report")(device, ctypes.c_size_t(len(found)), text, ctypes.c_size_t(_LONGEST)):
            found.append(text.value.decode(errors="replace"))
        return tuple(found)

    def ask_sites(self, site: Callable[[], str] | None) -> None:
        """In debug mode `site()` says where in the program a call comes from."""
        if site is None:
            self._function("sites")(_AskSite())
            return

        def ask(text: Any, room: int) -> None:
            said = site().encode()[: room - 1]
            ctypes.memmove(text, said + b"\0", len(said) + 1)

        self._site = _AskSite(ask)
        self._function("sites")(self._site)


def _bytes(limit: int | None) -> ctypes.c_uint64:
    return ctypes.c_uint64(_NONE if limit is None else limit)
