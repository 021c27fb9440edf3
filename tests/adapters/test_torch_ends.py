"""PyTorch's allocator from our pools where something ends: a fork, the driver, the device; and a fault at any call."""

import ctypes
import os

import pytest

from adapters.torch_world import Torch
from driver_facts.raw import MIB


def in_child(call) -> str:
    """What `call()` says in a forked child."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writer, str(call()).encode())
        finally:
            os._exit(0)
    os.close(writer)
    os.waitpid(child, 0)
    said = os.read(reader, 4000).decode()
    os.close(reader)
    return said


def test_a_child_of_a_process_that_used_cuda_is_refused_and_its_frees_do_nothing(torch):
    block = torch.alloc(MIB)
    calls = torch.raw.fake.calls

    def child():
        torch.free(block)
        torch.record_stream(block, 0)
        torch.library.trim()
        return *torch.tried(512)[::2], torch.raw.fake.calls - calls

    said = in_child(child)
    assert said.startswith("(2, 'forebay pool torch of device 0: alloc answered not initialized (3); this process was forked")
    assert said.endswith(", 0)")
    torch.free(block)
    assert torch.figures()["allocated"] == 0


def test_a_child_of_a_process_that_did_not_yet_may_use_it(torch):
    assert not torch.library.started

    def child():
        torch.raw.call("cuInit", ctypes.c_uint(0))
        return torch.tried(MIB)[0], torch.figures()["allocated"]

    assert in_child(child) == f"(0, {MIB})"


def test_after_the_driver_shut_down_frees_do_nothing_and_allocations_say_so(torch):
    block = torch.alloc(MIB)
    torch.raw.fake.exit()
    kind, _, what = torch.tried(300 * MIB)
    assert (kind, "the driver was shut down" in what) == (2, True)
    torch.free(block)
    torch.record_stream(block, 0)
    assert torch.library.unknown_frees == 0


def test_a_lost_device_is_said_once_and_no_call_is_made_any_more(torch):
    block = torch.alloc(MIB)
    torch.raw.fake.lose(700)
    assert "lost to this process" in torch.tried(300 * MIB)[2]
    calls = torch.raw.fake.calls
    assert torch.tried(MIB)[0] == 2
    torch.free(block)
    assert torch.raw.fake.calls == calls


# ---- faults


def scenario(torch: Torch) -> None:
    """Some of everything; refusals are part of it."""
    streams = [0, torch.raw.stream(), torch.raw.stream()]
    live = [(torch.tried(n * MIB, s)[1], s) for s in streams for n in (1, 3, 30)]
    for block, stream in live[::2]:
        torch.record_stream(block, streams[0])
        torch.free(block, stream)
    live = live[1::2] + [(torch.tried(24 * MIB, s)[1], s) for s in streams]
    torch.library.trim()
    for block, stream in live:
        torch.free(block, stream)
    torch.library.trim()


@pytest.mark.parametrize("code", [2, 1, 719])
@pytest.mark.parametrize("growth", ["segments", "frames"])
def test_a_fault_at_any_call_harms_no_block_and_loses_no_memory(tmp_path, growth, code):
    torch = Torch(tmp_path, growth=growth)
    scenario(torch)
    calls, struck = torch.raw.fake.calls, 0
    for nth in range(1, calls, 3):
        torch = Torch(tmp_path, growth=growth)
        made = torch.alloc(512)
        torch.raw.fake.plan("", nth=nth, code=code)
        scenario_under_a_fault(torch)
        struck += torch.raw.fake.plans_left() == 0
        torch.raw.fake.forget_plans()
        torch.free(made)
        if code == 719 or "torch" not in torch.library.figures(0):
            continue
        torch.walk()
        assert torch.figures()["allocated"] == 0, nth
        torch.library.trim()
        assert torch.raw.fake.account()["used_bytes"] == 0, nth
    assert struck > calls // 4


def scenario_under_a_fault(torch: Torch) -> None:
    try:
        scenario(torch)
    except AssertionError:  # a raw call of the scenario's own was struck
        return
