"""__main__: `python -m forebay` is the command `forebay`: it starts, and an interrupt while it starts is one line too."""

from __future__ import annotations

import os
import signal
from types import FrameType


def _interrupted(_: int, __: FrameType | None) -> None:
    """Whatever is half imported is left alone: nothing was begun that would have to be undone."""
    os.write(2, b"forebay: interrupted\n")
    os._exit(2)


def main() -> None:
    """The entry point that the package installs."""
    before = signal.signal(signal.SIGINT, _interrupted)
    from forebay import cli

    signal.signal(signal.SIGINT, before)
    cli.main()


if __name__ == "__main__":
    main()
