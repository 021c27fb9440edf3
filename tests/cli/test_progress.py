import contextlib
import io
import os
import sys
import time

from forebay.cli import progress as module
from forebay.cli.progress import progress


def test_short_work_says_nothing(capsys):
    with progress("replaying") as at:
        at(0.5)
    assert capsys.readouterr() == ("", "")


def until(condition):
    """Waits for what another thread does soon; a failure is the assertion that follows."""
    for _ in range(3000):
        if condition():
            return
        time.sleep(0.01)


def all_of(descriptor):
    """Everything written to a terminal whose other end is closed."""
    text = b""
    with contextlib.suppress(OSError):  # how Linux says that it is closed
        while part := os.read(descriptor, 65536):
            text += part
    return text.decode()


def test_where_no_terminal_is_long_work_says_nothing(monkeypatch):
    said = io.StringIO()
    monkeypatch.setattr(module, "_PATIENCE", 0.0)
    monkeypatch.setattr(sys, "stderr", said)
    shown = []
    monkeypatch.setattr(module._Bar, "show", lambda bar, show=module._Bar.show: shown.append(show(bar)))
    with progress("replaying 10 events"):
        until(lambda: shown)
    assert (shown, said.getvalue()) == ([None], "")


def test_on_a_terminal_it_is_a_bar_that_goes_away(monkeypatch):
    controller, terminal = os.openpty()
    monkeypatch.setattr(module, "_PATIENCE", 0.01)
    monkeypatch.setenv("TERM", "xterm")
    with os.fdopen(terminal, "w") as stderr:
        monkeypatch.setattr(sys, "stderr", stderr)
        with progress("replaying 10 events") as at:
            at(0.25)
            until(lambda: at.__self__._bar)
            at(0.5)
    written = all_of(controller)
    os.close(controller)
    assert "replaying 10 events" in written
    assert "50%" in written
    assert written.endswith("\x1b[2K")  # the line is erased
