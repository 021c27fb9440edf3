import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import click
import pytest

import forebay
from forebay import cli
from forebay.errors import BadInput, PoolExhausted


def forebay_command(*arguments, **kwargs):
    return subprocess.run([sys.executable, "-m", "forebay", *arguments], capture_output=True, text=True, timeout=60, **kwargs)


def test_version_is_the_packages_version(capsys):
    assert cli.run(["--version"]) == 0
    assert capsys.readouterr().out == f"forebay {forebay.__version__}\n"


def test_the_installed_command_runs():
    script = Path(sys.executable).with_name("forebay")
    done = subprocess.run([script, "--version"], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, f"forebay {forebay.__version__}\n")


def test_without_a_command_the_commands_are_listed(capsys):
    assert cli.run([]) == 0
    listed = capsys.readouterr().out
    assert [name for name in cli.COMMANDS if name not in listed] == []


@pytest.mark.parametrize("name", sorted(cli.COMMANDS))
def test_a_command_is_a_file_of_its_own_with_help(name, capsys):
    assert isinstance(import_module(f"forebay.cli.{name}").command, click.Command)
    assert cli.run([name, "--help"]) == 0
    assert capsys.readouterr().out.startswith(f"Usage: forebay {name} ")


def test_every_file_of_the_room_that_defines_a_command_is_listed():
    files = {path.stem for path in Path(cli.__file__).parent.glob("*.py")} - {"__init__"}
    assert {name for name in files if hasattr(import_module(f"forebay.cli.{name}"), "command")} == set(cli.COMMANDS)


@pytest.mark.parametrize(
    "arguments",
    [
        ["nonsense"],
        ["--nonsense"],
        ["explain", "--format", "xml", "free"],
        ["explain", "a", "b"],
        ["whatif"],
        ["explain", "frea"],
    ],
)
def test_usage_that_cannot_be_used_is_one_line_and_2(arguments, capsys):
    assert cli.run(arguments) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith("forebay: ")
    assert told.err.count("\n") == 1


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (BadInput("oom.pickle: expected int,\n  got str"), "oom.pickle: expected int, got str"),
        (PoolExhausted("asked 96 MiB"), "asked 96 MiB"),
        (FileNotFoundError(2, "No such file or directory", "a\nb"), "a b: No such file or directory"),
        (IsADirectoryError(21, "Is a directory", b"x\xff"), "x?: Is a directory"),
        (OSError("odd"), "odd"),
        (BadInput("esc \x1b[31m red"), "esc ?[31m red"),
        (KeyboardInterrupt(), "interrupted"),
    ],
)
def test_an_error_is_one_line_whatever_it_holds(error, line, capsys, monkeypatch):
    def fail(_):
        raise error

    monkeypatch.setattr(cli, "_invoke", fail)
    assert cli.run([]) == 2
    assert capsys.readouterr().err == f"forebay: {line}\n"


def test_a_defect_is_not_hidden(monkeypatch):
    def fail(_):
        raise ZeroDivisionError

    monkeypatch.setattr(cli, "_invoke", fail)
    with pytest.raises(ZeroDivisionError):
        cli.run([])


def test_a_reader_that_goes_away_is_one_line_and_2():
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "forebay", "explain"]
    done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True, timeout=60)
    os.close(writer)
    assert (done.returncode, done.stderr) == (2, "forebay: whoever read the output went away\n")


def test_the_command_line_loads_no_command_that_was_not_asked_for():
    code = "import sys; from forebay import cli; cli.run(['--version']); print([m for m in sys.modules if m.startswith('forebay.cli.')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.splitlines()[-1] == "[]"


def test_python_m_is_the_same_command():
    assert forebay_command("--version").stdout == f"forebay {forebay.__version__}\n"
