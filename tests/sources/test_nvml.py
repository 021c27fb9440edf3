"""NVML through a module that answers like nvidia-ml-py: what is told, what is not, and why nothing can be seen."""

import sys
from types import SimpleNamespace

import pytest

from forebay.sources.nvml import Blind, Process, look

GIB = 2**30


class NVMLError(Exception):
    pass


class Fake:
    """nvidia-ml-py, as far as it is asked; `refuses` names the questions that get an error for an answer."""

    NVMLError = NVMLError

    def __init__(self, gpus, refuses=()):
        self.gpus, self.refuses, self.open = gpus, refuses, 0

    def __getattr__(self, name):
        if name in self.refuses:
            return self._refuse
        if name.startswith("__"):
            raise AttributeError(name)
        if name in ("nvmlInit", "nvmlShutdown"):
            return lambda: setattr(self, "open", self.open + (1 if name == "nvmlInit" else -1))
        answers = {
            "nvmlDeviceGetCount": lambda: len(self.gpus),
            "nvmlDeviceGetHandleByIndex": lambda index: self.gpus[index],
            "nvmlDeviceGetMemoryInfo": lambda gpu: SimpleNamespace(
                total=gpu["total"], used=gpu["used"], free=gpu["total"] - gpu["used"]
            ),
            "nvmlDeviceGetName": lambda gpu: gpu["name"],
            "nvmlSystemGetDriverVersion": lambda: b"580.95",
            "nvmlDeviceGetComputeRunningProcesses": lambda gpu: gpu["compute"],
            "nvmlDeviceGetGraphicsRunningProcesses": lambda gpu: gpu.get("graphics", []),
        }
        return answers[name]

    def _refuse(self, *_):
        raise NVMLError("Insufficient Permissions")


def process(pid, used):
    return SimpleNamespace(pid=pid, usedGpuMemory=used)


def gpu(**more):
    return {"name": b"NVIDIA H200", "total": 140 * GIB, "used": 30 * GIB, "compute": [process(7, 20 * GIB)], **more}


@pytest.fixture
def installed(monkeypatch):
    def put(fake):
        monkeypatch.setitem(sys.modules, "pynvml", fake)
        return fake

    return put


def test_gpus_and_their_processes_are_told(installed):
    fake = installed(Fake([gpu(), gpu(name="GB200", compute=[], graphics=[])]))
    seen = look()
    assert seen.driver == "580.95"
    assert [(g.number, g.name, g.total, g.used, g.free) for g in seen.gpus] == [
        (0, "NVIDIA H200", 140 * GIB, 30 * GIB, 110 * GIB),
        (1, "GB200", 140 * GIB, 30 * GIB, 110 * GIB),
    ]
    assert [g.processes for g in seen.gpus] == [(Process(7, 20 * GIB),), ()]
    assert fake.open == 0  # what was begun was ended


@pytest.mark.parametrize("sentinel", [None, 2**64 - 1])
def test_what_is_not_available_is_none_and_never_a_number(installed, sentinel):
    installed(Fake([gpu(compute=[process(7, sentinel)])]))
    assert look().gpus[0].processes == (Process(7, None),)


def test_a_process_that_computes_and_draws_is_one(installed):
    installed(Fake([gpu(graphics=[process(7, 20 * GIB), process(3, GIB)])]))
    assert look().gpus[0].processes == (Process(3, GIB), Process(7, 20 * GIB))


def test_processes_that_nobody_may_see_are_none(installed):
    refuses = ("nvmlDeviceGetComputeRunningProcesses", "nvmlDeviceGetGraphicsRunningProcesses", "nvmlDeviceGetName")
    fake = installed(Fake([gpu()], refuses))
    (seen,) = look().gpus
    assert (seen.processes, seen.name) == (None, "unnamed")
    assert fake.open == 0


@pytest.mark.parametrize("question", ["nvmlInit", "nvmlDeviceGetCount", "nvmlDeviceGetMemoryInfo"])
def test_an_error_of_nvml_is_a_reason_and_no_traceback(installed, question):
    fake = installed(Fake([gpu()], (question,)))
    seen = look()
    assert isinstance(seen, Blind)
    assert "Insufficient Permissions" in seen.why
    assert fake.open == 0


def test_without_the_package_it_says_which(monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", None)
    seen = look()
    assert isinstance(seen, Blind)
    assert "nvidia-ml-py is not installed" in seen.why
    assert "forebay[nvml]" in seen.advice
