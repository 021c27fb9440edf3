import io
import json
import lzma
import shutil
import sys

import jsonschema
import pytest

import corpus
from forebay import cli
from forebay.report.json import shipped
from forebay.sources import nvml
from forebay.sources.nvml import Gpu, Nvml, Process

HEALTHY = [path for path in corpus.artifacts("incidents", "*.xz") if "steady_healthy" in path.name]
ILL = [path for path in corpus.artifacts("incidents", "*.xz") if "checkerboard" in path.name]
LINE = (
    "[rank0]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 40.00 GiB of which "
    "1.00 GiB is free. Including non-PyTorch memory, this process has 39.00 GiB memory in use. Of the allocated memory 38.00 GiB is "
    "allocated by PyTorch, and 500.00 MiB is reserved by PyTorch but unallocated.\n"
)


def doctor(capsys, *arguments):
    status = cli.run(["doctor", *map(str, arguments)])
    told = capsys.readouterr()
    return status, told.out, told.err


def answer(capsys, *arguments):
    status, out, err = doctor(capsys, *arguments, "--format", "json")
    assert err == ""
    output = json.loads(out)
    jsonschema.validate(output, shipped("doctor"))
    return status, output


def say(monkeypatch, text):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))


@pytest.mark.parametrize("path", HEALTHY, ids=lambda path: path.name)
def test_a_healthy_snapshot_is_exit_status_0_and_its_gap_is_called_cache(path, capsys):
    status, output = answer(capsys, path)
    assert (status, output["verdict"], output["findings"]) == (0, None, [])
    assert "are cache" in output["why"][0]


@pytest.mark.parametrize("path", ILL, ids=lambda path: path.name)
def test_an_incident_is_exit_status_1_with_its_evidence(path, capsys):
    status, output = answer(capsys, path)
    assert (status, output["verdict"]) == (1, "checkerboard-fragmentation")
    assert output["findings"][0]["evidence"]["request_bytes"] == 200 * 2**20
    assert output["findings"][0]["docs"] == "forebay explain checkerboard-fragmentation"
    assert doctor(capsys, path)[1].startswith("verdict: checkerboard-fragmentation")


@pytest.mark.parametrize("path", ILL, ids=lambda path: path.name)
def test_of_a_folder_the_odd_one_is_named(path, tmp_path, capsys):
    for n in range(4):
        shutil.copy(HEALTHY[0], tmp_path / f"rank{n}.pickle.xz")
    shutil.copy(path, tmp_path / "rank4.pickle.xz")
    status, out, _ = doctor(capsys, tmp_path)
    assert status == 1
    assert "4 × healthy" in out
    assert "1 × checkerboard-fragmentation: rank4.pickle.xz" in out
    assert "are cache" not in out  # the odd one in full, the others counted


def test_the_text_of_a_log_is_read_from_standard_input(monkeypatch, capsys):
    say(monkeypatch, f"epoch 3\n{LINE}more\n")
    status, output = answer(capsys, "-")
    assert (status, output["verdict"]) == (1, "capacity-oom")
    assert output["ledger"]["used"] == 39 * 2**30
    ledger = output["ledger"]
    held = (ledger[name] or 0 for name in ("other_processes", "outside_pools", "cached", "pending", "live"))
    assert sum(held) == pytest.approx(ledger["used"], abs=2 * 5368710)


def test_a_log_may_be_a_file_too(tmp_path, capsys):
    path = tmp_path / "train.log"
    path.write_text(f"epoch 3\n{LINE}")
    assert answer(capsys, path)[1]["verdict"] == "capacity-oom"


def test_a_broken_capture_in_a_log_is_named_with_its_line(monkeypatch, capsys):
    say(monkeypatch, "warm\nCUDA error: capturing stream has unjoined work\n")
    status, output = answer(capsys, "-")
    assert (status, output["verdict"]) == (1, "dirty-capture")
    assert output["why"] == [
        "line 2: cudaErrorStreamCaptureUnjoined (904): a stream that was forked into the capture was not joined before its end"
    ]


@pytest.mark.parametrize("text", ["", "all is well\n", "\x00\xff"])
def test_a_log_without_a_failure_is_one_line_and_status_2(text, monkeypatch, capsys):
    say(monkeypatch, text)
    status, out, err = doctor(capsys, "-")
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert err.startswith("forebay: -: looks like ")


@pytest.mark.parametrize("path", ILL, ids=lambda path: path.name)
def test_what_comes_on_standard_input_is_judged_and_priced_like_a_file(path, monkeypatch, capsys):
    _, named = answer(capsys, path)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(path.read_bytes())))
    status, piped = answer(capsys, "-")
    assert (status, piped["findings"]) == (1, named["findings"])
    assert piped["findings"][0]["evidence"]["remedies"]


def test_a_file_that_cannot_be_used_is_one_line_and_status_2(tmp_path, capsys):
    path = tmp_path / "oom.pickle.xz"
    path.write_bytes(lzma.compress(b"\x80\x04nonsense"))
    for argument in (path, tmp_path / "missing", tmp_path / "empty"):
        (tmp_path / "empty").mkdir(exist_ok=True)
        status, out, err = doctor(capsys, argument)
        assert (status, out, err.count("\n")) == (2, "", 1)


def test_with_nothing_to_read_it_shows_this_machine_and_exits_with_0(monkeypatch, capsys):
    gpu = Gpu(0, "NVIDIA H200", 140 * 2**30, 30 * 2**30, 110 * 2**30, (Process(77, 12 * 2**30),))
    monkeypatch.setattr(nvml, "look", lambda: Nvml("580.95", (gpu,)))
    status, output = answer(capsys)
    assert (status, output["verdict"], output["blind"]) == (0, "cannot-tell", [])
    lines = output["source"]["machine"]["ledgers"]["0"]["77"]
    assert (lines["other_processes"], lines["live"], lines["unknown_together"]) == (18 * 2**30, None, 12 * 2**30)
    _, out, _ = doctor(capsys)
    assert "GPU 0, NVIDIA H200: 30 GiB of 140 GiB used, 110 GiB free" in out
    assert out.count("not known") == 4
    assert "together 12 GiB" in out


def test_without_a_gpu_it_says_what_it_cannot_see_and_what_would_let_it(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "pynvml", None)
    status, out, err = doctor(capsys)
    assert (status, err) == (0, "")
    words = " ".join(out.split())
    assert "cannot see: the package nvidia-ml-py is not installed. To see it: pip install 'forebay[nvml]'" in words
    _, output = answer(capsys)
    assert output["blind"][0]["advice"].startswith("pip install 'forebay[nvml]'")


def test_of_ranks_each_verdict_is_a_line_with_its_ranks(tmp_path, capsys):
    for rank in (0, 1, 2, 5):
        (tmp_path / f"{rank}.log").write_text(f"step\n{LINE.replace('rank0', f'rank{rank}')}")
    (tmp_path / "6.log").write_text("[rank6]: CUDA error: capturing stream has unjoined work\n")
    (tmp_path / "notes.md").write_text("nothing went wrong\n")
    status, out, _ = doctor(capsys, tmp_path)
    assert status == 1
    assert "4 × capacity-oom: ranks 0-2, 5" in out
    assert "1 × dirty-capture: ranks 6" in out
    assert "6.log: dirty-capture" in "".join(out.split("\n"))  # the odd one, in full
    assert "notes.md:looksliketext,withnoout-of-memoryerror" in "".join(out.split())
    _, output = answer(capsys, tmp_path)
    assert output["source"]["ranks"][str(tmp_path / "5.log")] == 5
    assert len(output["source"]["unread"]) == 1


def test_a_folder_of_nothing_that_can_be_read_is_status_2(tmp_path, capsys):
    (tmp_path / "a.md").write_text("hello\n")
    status, out, err = doctor(capsys, tmp_path)
    assert (status, out, err.count("\n")) == (2, "", 1)
