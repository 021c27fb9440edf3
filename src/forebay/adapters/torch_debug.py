"""torch_debug: what PyTorch does with blocks, for the debug mode of its pools: each dispatched operation, the stream that it was issued on,
the line that asked for it. What that proves is native/torch's (far_uses.hpp).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from forebay.adapters.torch_library import Library

__all__ = ["Watch", "site"]

_OWN: Final = str(Path(__file__).parent)
_UNREAD: Final = (
    "empty",
    "new_",
    "record_stream",
    "is_pinned",
    "set_",
    "resize",
    "sym_",
    "detach",
    "alias",
)  # beginnings of names


def site() -> str:
    """The innermost line of the program on this thread: "file:line (function)"; "" where there is none."""
    frame: Any = sys._getframe(1)
    while frame is not None:
        file = frame.f_code.co_filename
        if not file.startswith(_OWN) and "/torch/" not in file:
            return f"{file}:{frame.f_lineno} ({frame.f_code.co_qualname})"
        frame = frame.f_back
    return ""


class Watch:
    """Tells the library of every operation that uses a block, from `begin` to `end`, on this thread and in its backward passes."""

    def __init__(self, torch: Any, library: Library) -> None:
        self.devices: set[int] = set()
        self._torch, self._library = torch, library
        self._mode = _mode_of(torch, self._note)

    def begin(self) -> None:
        self._mode.__enter__()

    def end(self) -> None:
        self._mode.__exit__(None, None, None)

    def _note(self, function: Any, arguments: Any, result: Any) -> None:
        name = str(function).removeprefix("aten.")
        if name.startswith(_UNREAD) or name.partition(".")[0].endswith("_like") or getattr(function, "is_view", False):
            return
        tensors = [t for t in self._tensors((arguments, result)) if t.is_cuda and t.numel()]
        if not tensors or self._waited(arguments, result):
            return
        line = site()
        for device, address in {(t.device.index, t.untyped_storage().data_ptr()) for t in tensors}:
            self.devices.add(device)
            stream = self._torch.cuda.current_stream(device).cuda_stream
            self._library.used(device, address, stream, name, line)

    def _waited(self, arguments: Any, result: Any) -> bool:
        """Whether the host had the result when the operation returned: it was done by then."""
        positional, named = arguments
        if named.get("non_blocking") or any(argument is True for argument in positional):
            return False
        return not any(t.is_cuda for t in self._tensors(result))

    def _tensors(self, tree: Any) -> Iterator[Any]:
        leaves = self._torch.utils._pytree.tree_iter(tree)
        return (leaf for leaf in leaves if isinstance(leaf, self._torch.Tensor) and not leaf.is_sparse and not leaf.is_meta)


def _mode_of(torch: Any, note: Callable[[Any, Any, Any], None]) -> Any:
    from torch.utils._python_dispatch import TorchDispatchMode

    class Operations(TorchDispatchMode):  # type: ignore[misc,unused-ignore]
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            result = func(*args, **(kwargs or {}))
            note(func, (args, kwargs or {}), result)
            return result

    return Operations()
