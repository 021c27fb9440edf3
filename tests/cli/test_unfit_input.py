"""What a command line is handed that cannot be used: one line on standard error, status 2, and no long work before it."""

import gzip
import json
import lzma
import os
import signal
import socket
import subprocess
import sys
import time

import pytest

from forebay import cli, examples
from forebay.cli import COMMANDS
from forebay.errors import BadInput
from forebay.sources import open_artifact, unpacked

READERS = [name for name in COMMANDS if name in {"check", "doctor", "show", "whatif"}]


def forebay(*arguments, **options):
    command = [sys.executable, "-m", "forebay", *arguments]
    return subprocess.run(command, stderr=subprocess.PIPE, timeout=120, **options)


def refused(capsys, *arguments):
    assert cli.run(list(map(str, arguments))) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.count("\n") == 1
    return told.err


@pytest.fixture(params=["pipe", "socket", "device"])
def no_file(request, tmp_path):
    path = tmp_path / request.param
    if request.param == "pipe":
        os.mkfifo(path)
    elif request.param == "socket":
        with socket.socket(socket.AF_UNIX) as bound:
            bound.bind(os.path.relpath(path))
    else:
        return request.param, "/dev/zero"
    return request.param, path


@pytest.mark.parametrize("command", READERS)
def test_what_is_no_file_is_refused_at_once(command, no_file, capsys):
    what, path = no_file
    assert f"{path}: a {what}, not a file" in refused(capsys, command, path)


@pytest.mark.parametrize("command", ["check", "show", "whatif"])
def test_a_folder_where_a_file_is_asked_for(command, tmp_path, capsys):
    assert f"{tmp_path}: a folder, not a file" in refused(capsys, command, tmp_path)


@pytest.mark.parametrize(
    "size", ["0", "99999999999999999999999GiB", "9" * 5000, "2000T", "-1", "1e9", "٣", "0.0000001", "9" * 400 + ".5"]
)
def test_a_cap_that_no_device_has(size, capsys):
    assert "--cap" in refused(capsys, "whatif", "example:mixed", f"--cap={size}")


@pytest.mark.parametrize("seed", ["-1", "9" * 30, "1.5"])
def test_a_seed_that_is_none(seed, tmp_path, capsys):
    assert "--seed" in refused(capsys, "demo", "--out", tmp_path, "--seed", seed)


@pytest.mark.parametrize("buckets", ["0", "-1", "9" * 5000, "4097", "٣x"])
def test_a_number_of_buckets_that_is_none(buckets, capsys):
    assert "--buckets" in refused(capsys, "whatif", "example:mixed", f"--buckets={buckets}")


@pytest.mark.parametrize("packed", [gzip.compress, lzma.compress], ids=["gzip", "xz"])
def test_zeros_are_recognised_before_they_are_unpacked(packed, tmp_path):
    path = tmp_path / "zeros"
    path.write_bytes(packed(bytes(80 << 20)))
    with pytest.raises(BadInput, match=r"zeros: looks like binary data"):
        open_artifact(path)


def test_a_file_that_unpacks_to_more_than_any_artifact_does(tmp_path):
    path = tmp_path / "bomb.gz"
    path.write_bytes(gzip.compress(b"\x80\x04]" + b"0]" * (64 << 20)))
    with pytest.raises(BadInput, match=r"bomb.gz: [\d,]+ packed bytes unpack to more than [\d,]+: no artifact shrinks so far"):
        open_artifact(path)


@pytest.mark.parametrize(
    ("name", "packed"), [("plain", bytes), ("gzip", gzip.compress), ("xz", lzma.compress)], ids=lambda case: str(case)[:5]
)
def test_what_can_be_unpacked_is_the_same_whole(name, packed):
    whole = lzma.decompress(examples.bytes_of("healthy"))
    assert unpacked(packed(whole)) == whole


@pytest.mark.parametrize(
    "body",
    [b"N" * (2 << 20), b"]0" * (1 << 20), b"}0" * (1 << 20), b")0" * (1 << 20)],
    ids=["None", "lists", "dicts", "tuples"],
)
def test_more_values_than_the_bytes_of_a_snapshot_hold(body, tmp_path):
    path = tmp_path / "dense.pickle"
    path.write_bytes(b"\x80\x04](" + body + b"e.")
    with pytest.raises(BadInput, match=r"dense.pickle: byte \d+: more values than a snapshot of so few bytes has"):
        open_artifact(path)


@pytest.mark.parametrize("command", READERS)
def test_a_name_that_is_no_text_is_shown_in_escapes(command, tmp_path):
    path = os.fsencode(tmp_path) + b"/caf\xe9.pickle"
    with open(path, "wb") as file:
        file.write(examples.bytes_of("day3-oom"))
    style = [] if command == "show" else ["--format", "json"]
    extra = ["--settings", "forebay"] if command == "whatif" else []
    done = forebay(command, path, *style, *extra, stdout=subprocess.PIPE)
    assert (done.returncode in (0, 1), done.stderr) == (True, b"")
    if command != "show":
        assert "caf\\udce9.pickle" in json.dumps(json.loads(done.stdout)["source"]).replace("\\\\", "\\")


@pytest.mark.parametrize("closed", [1, 2, 12])
def test_a_closed_output_is_no_defect(closed):
    redirects = {1: ">&-", 2: "2>&-", 12: ">&- 2>&-"}[closed]
    done = subprocess.run(
        ["/bin/sh", "-c", f'"$0" -m forebay explain free {redirects}', sys.executable], capture_output=True, timeout=60
    )
    says = b"forebay: standard output is closed: nothing can be told\n" if closed == 1 else b""
    assert (done.returncode, done.stderr) == (0 if closed == 2 else 2, says)


def test_a_full_disk_is_one_line():
    with open("/dev/full", "wb") as full:
        done = forebay("explain", stdout=full)
    assert (done.returncode, done.stderr) == (2, b"forebay: No space left on device\n")


def test_signs_that_an_output_cannot_hold_are_escaped():
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = forebay("whatif", "example:day3-oom", "--settings", "forebay", stdout=subprocess.PIPE, env=environment)
    assert (done.returncode, done.stderr) == (0, b"")


def test_a_closed_standard_input_is_one_line():
    done = subprocess.run(["/bin/sh", "-c", '"$0" -m forebay doctor - <&-', sys.executable], capture_output=True, timeout=60)
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.startswith(b"forebay: -: standard input is closed")
    assert done.stderr.count(b"\n") == 1


@pytest.mark.parametrize("after", [0.15, 0.3, 0.6])
def test_an_interrupt_at_any_moment_is_one_line(after, tmp_path):
    """The moment counts from when Python itself has begun: before that no line of ours runs."""
    code = (
        "print(flush=True); import runpy, sys; sys.argv = ['forebay', 'demo', '--out', sys.argv[1]]; "
        "runpy.run_module('forebay', run_name='__main__')"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    process.stdout.readline()
    time.sleep(after)
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=60)
    assert (process.returncode, told) == (2, b"forebay: interrupted\n")


def test_a_failure_after_long_work_is_one_line_too(tmp_path):
    """No line about progress where nobody looks at a terminal."""
    path = tmp_path / "late.pickle"
    path.write_bytes(b"\x80\x04]" + b"]0" * (1 << 20))
    done = forebay("whatif", str(path), stdout=subprocess.PIPE)
    assert (done.returncode, done.stdout, done.stderr.count(b"\n")) == (2, b"", 1)
