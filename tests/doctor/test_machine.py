"""With nothing to read: each process's ledger sums to what is used, what is not known is never zero, and what lacks is named."""

import pytest

from forebay.doctor.machine import LEDGER, machine
from forebay.sources.nvml import Blind, Gpu, Nvml, Process

GIB = 2**30


def seen(*processes, told=True):
    gpu = Gpu(0, "NVIDIA H200", 140 * GIB, 30 * GIB, 110 * GIB, tuple(processes) if told else None)
    return Nvml("580.95", (gpu,))


@pytest.mark.parametrize("used", [None, 1, 12 * GIB, 30 * GIB])
def test_the_five_lines_sum_to_what_is_used_and_the_unknown_ones_stand_together(used):
    found = machine(seen(Process(7, used), Process(8, GIB)), {})
    lines = found.ledgers[0][7]
    assert set(lines) == {"used", "unknown_together", *LEDGER}
    known = sum(lines[name] for name in LEDGER if lines[name] is not None)
    assert known + lines["unknown_together"] == lines["used"] == 30 * GIB
    assert [name for name in LEDGER if lines[name] is None] == list(LEDGER if used is None else LEDGER[1:])


@pytest.mark.parametrize(
    ("what", "says"),
    [
        (Blind("no package", "install it"), "no package"),
        (Nvml(None, ()), "NVML sees no GPU"),
        (seen(told=False), "does not tell the processes on GPU 0"),
        (seen(Process(7, None)), "does not tell how much each process has on GPU 0"),
    ],
)
def test_what_cannot_be_seen_is_said(what, says):
    (blind,) = machine(what, {}).blind
    assert says in blind.why
    assert blind.advice


def test_a_machine_that_is_seen_whole_is_blind_to_nothing():
    assert machine(seen(Process(7, GIB)), {}).blind == ()


def sights(root):
    return {sight.name: sight.there for sight in machine(seen(), {}, root).sights}


def test_what_a_container_forbids_is_told(tmp_path):
    assert not {"profiling", "ptrace"} & set(sights(tmp_path))
    for path, text in (("proc/driver/nvidia/params", "RmProfilingAdminOnly: 1\n"), ("proc/sys/kernel/yama/ptrace_scope", "1\n")):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    found = sights(tmp_path)
    assert (found["profiling"], found["ptrace"], found["NVML"]) == (False, False, True)


@pytest.mark.parametrize(
    ("environment", "says"),
    [
        ({}, []),
        ({"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}, []),
        ({"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True,max_split_size_mb:64"}, ["keep one of them"]),
        ({"PYTORCH_CUDA_ALLOC_CONF": "garbage_collection_threshold:0.8"}, ["does nothing without a memory fraction"]),
        ({"PYTORCH_CUDA_ALLOC_CONF": "expandable_segment:True"}, ["no setting is called 'expandable_segment'"]),
        ({"PYTORCH_ALLOC_CONF": "expandable_segments:True"}, ["older ones ignore it"]),
        (
            {"PYTORCH_ALLOC_CONF": "expandable_segments:True", "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:False"},
            ["PYTORCH_ALLOC_CONF and PYTORCH_CUDA_ALLOC_CONF differ"],
        ),
    ],
)
def test_settings_of_the_environment_that_do_nothing_or_harm_are_told(environment, says):
    warnings = machine(seen(), environment).warnings
    assert len(warnings) == len(says)
    assert all(part in warning for part, warning in zip(says, warnings, strict=True))
