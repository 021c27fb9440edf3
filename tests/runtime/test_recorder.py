"""Recording: in memory, into a file, and what is left of a file whose process was killed."""

import random
import signal
import subprocess
import sys
import textwrap
import time

import pytest

from forebay.errors import BadInput
from forebay.runtime.recorder import recording
from forebay.tape import Kind, file
from tape.arbitrary import story


def work(native):
    stream = native.stream("s1")
    for i in range(5000):
        native.write(
            Kind.note, seq=2 * i + 1, thread=native.thread(), name=native.string(f"step {i % 3}"), cause=max(2 * i - 1, 0)
        )
        native.write(Kind.sync_stream, seq=2 * i, stream=stream)


def test_memory_and_file_hold_the_same_tape(tmp_path):
    runs = []
    for path in (None, tmp_path / "a.arrows"):
        with recording(path) as run:
            work(run.recorder)
        runs.append(story(run.tape))
    one, other = runs
    assert (one.pop("provenance"), other.pop("provenance")) != (None, None)
    assert one == other
    assert one["columns"]["seq"] == list(range(10_000))
    assert one["columns"]["cause"][:6] == [0, 0, 0, 1, 0, 3]


def test_a_tape_is_there_while_it_is_recorded(tmp_path):
    for path in (None, tmp_path / "a.arrows"):
        with recording(path) as going:
            assert len(going.tape) == 0
            going.recorder.write(Kind.note)
            assert len(going.tape) == 1


def test_nothing_needs_pyarrow_before_the_recording_is_over(tmp_path):
    code = f"""
        import sys
        from forebay.runtime.recorder import recording
        with recording({str(tmp_path / "a.arrows")!r}) as going:
            going.recorder.string("x")
            early = "pyarrow" in sys.modules
        sys.exit(early)"""
    assert subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=False).returncode == 0
    assert file.read(tmp_path / "a.arrows").sides.strings == ["", "x"]


def test_a_file_that_cannot_be_made_is_one_line(tmp_path):
    with pytest.raises(BadInput, match="No such file or directory; name a file"), recording(tmp_path / "no" / "a.arrows"):
        pass


def test_a_full_disk_is_said_with_the_rows_that_are_lost(tmp_path):
    code = f"""
        import resource
        from forebay.errors import BadInput
        from forebay.runtime.recorder import recording
        from forebay.tape import Kind
        resource.setrlimit(resource.RLIMIT_FSIZE, (2**20, 2**20))
        try:
            with recording({str(tmp_path / "a.arrows")!r}) as going:
                for i in range(20_000):
                    going.recorder.write(Kind.note, seq=i)
        except BadInput as error:
            print(going.recorder.flushed, going.recorder.lost, error)"""
    out = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=True, capture_output=True, text=True).stdout
    flushed, lost = map(int, out.split()[:2])
    assert flushed + lost == 20_001  # the site of the write is a row too
    assert f"File too large; {lost} of 20001 rows are lost: make room" in out
    assert len(file.read(tmp_path / "a.arrows")) + 1 == flushed > 1


# After each batch the child writes to another file how many rows the recorder had handed to the kernel: a truth that does not
# pass through the file under test. It is written after the batch, so the recording may hold one batch more.
CHILD = textwrap.dedent("""
    import os, sys
    from forebay.runtime.recorder import recording
    from forebay.tape import Kind
    said = os.open(sys.argv[2], os.O_WRONLY | os.O_CREAT)
    with recording(sys.argv[1]) as going:
        native, last = going.recorder, 0
        for i in range(10**9):
            native.write(Kind.note, seq=i, thread=native.thread(), name=native.string(f"row {i}"))
            if native.flushed != last:
                last = native.flushed
                os.pwrite(said, b"%20d" % last, 0)
""")


def test_a_killed_recording_opens_up_to_its_last_whole_batch(tmp_path):
    chance = random.Random(3)
    for attempt in range(50):
        path, said = tmp_path / f"{attempt}.arrows", tmp_path / f"{attempt}.said"
        child = subprocess.Popen([sys.executable, "-c", CHILD, path, said])
        while not (said.exists() and said.stat().st_size) and child.poll() is None:
            time.sleep(0.005)
        time.sleep(chance.uniform(0, 0.05))
        child.send_signal(signal.SIGKILL)
        child.wait()
        promised = int(said.read_bytes())
        tape = file.read(path)
        rows = len(tape)
        assert not tape.provenance["complete"]
        assert [tape.sides.strings[name] for name in tape.columns["name"]] == [f"row {i}" for i in range(rows)]
        sides = tape.sides
        defined = len(sides.strings) - 1 + len(sides.sites) - 1 + len(sides.threads)
        assert promised <= rows + defined <= promised + 4200
        path.unlink()
