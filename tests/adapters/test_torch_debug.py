"""The debug mode of PyTorch's pools over the fake libcuda: what is named, and above all what is not."""

import ctypes

import pytest

from adapters.torch_world import LATE, Torch
from driver_facts.raw import MIB


@pytest.fixture
def torch(tmp_path):
    return Torch(tmp_path, quarantine=64 * MIB)


def wait(torch, later, earlier):
    event = torch.raw.event()
    assert torch.raw.call("cuEventRecord", event, earlier) == 0
    assert torch.raw.call("cuStreamWaitEvent", later, event, ctypes.c_uint(0)) == 0


def reports(torch):
    torch.raw.fake.settle()
    torch.library.check(0)
    return torch.library.reports(0)


def stash(torch, before_the_free=lambda block, home, user: None):
    """A use on another stream, late, and a free on the block's own."""
    home, user = torch.stream(), torch.stream()
    block = torch.alloc(MIB, home)
    wait(torch, user, home)
    torch.raw.busy(user, LATE)
    torch.library.used(0, block + 4096, user, "copy_", "serve.py:7 (send)")
    before_the_free(block, home, user)
    torch.free(block, home)
    return block, home, user


def test_a_use_that_the_free_did_not_wait_for_is_named_with_block_and_streams(torch):
    torch.library.ask_sites(iter(["model.py:3 (make)", "model.py:9 (drop)", ""]).__next__)
    block, home, user = stash(torch)
    (said,) = reports(torch)
    home_id, user_id = (torch.raw.made_second("cuStreamGetId", ctypes.c_uint64(s)) for s in (home, user))
    assert said == (
        f"pool torch: copy_ on stream {user_id} (serve.py:7 (send)) still used a block that was freed: 1.0 MiB at {block:#x}, allocated at "
        f"model.py:3 (make) for stream {home_id}, freed at model.py:9 (drop); that stream reached the free first. Call record_stream for "
        "the using stream before the free, or make the block's stream wait for it"
    )
    kind, _, raised = torch.tried(512, home)
    assert (kind, raised) == (2, said)
    torch.library.ask_sites(None)
    assert torch.tried(512, home)[0] == 0  # it is raised once


@pytest.mark.parametrize(
    "ordered",
    [
        lambda torch, block, home, user: torch.record_stream(block, user),
        lambda torch, block, home, user: wait(torch, home, user),
        lambda torch, block, home, user: torch.raw.call("cuStreamSynchronize", user),
        lambda torch, block, home, user: torch.raw.fake.settle(),
    ],
    ids=["recorded", "waited for by the stream", "waited for by the host", "done"],
)
def test_a_use_that_comes_before_the_free_is_accused_of_nothing(torch, ordered):
    stash(torch, lambda block, home, user: ordered(torch, block, home, user))
    assert reports(torch) == ()


def test_a_use_on_the_block_s_own_stream_needs_no_look(torch):
    home = torch.stream()
    block = torch.alloc(MIB, home)
    torch.raw.busy(home, LATE)
    torch.library.used(0, block, home, "mul", "")
    torch.free(block, home)
    assert reports(torch) == ()


def test_the_last_use_of_a_stream_counts(torch):
    def once_more(block, home, user):
        torch.library.used(0, block, user, "sum", "late.py:1 (f)")

    stash(torch, once_more)
    (said,) = reports(torch)
    assert said.startswith("pool torch: sum on stream ")


@pytest.mark.parametrize(("at", "nbytes", "words"), [(0, 4, "was written after that, at byte 0"), (5000, 1, "at byte 5000")])
def test_a_write_after_the_free_is_found_by_its_byte(torch, at, nbytes, words):
    block = torch.alloc(8192)
    torch.free(block)
    torch.raw.fake.fill(1, block + at, 1, nbytes)
    (said,) = reports(torch)
    assert words in said


@pytest.mark.parametrize(("at", "words"), [(-8, "first 8 bytes before its begin"), (1000, "first 1 bytes beyond its end")])
def test_a_write_beyond_a_block_is_found(torch, at, words):
    block = torch.alloc(1000)
    torch.raw.fake.fill(1, block + at, 1, 1)
    (said,) = reports(torch)
    assert words in said
    assert "the block of 1000 B" in said


def test_an_ordinary_program_is_accused_of_nothing_and_its_memory_goes_back(torch):
    streams = [0, torch.stream(), torch.stream(vouched=False)]
    for step in range(120):
        stream, other = streams[step % 3], streams[(step + 1) % 2]
        block = torch.alloc(1000 + 40_000 * (step % 7), stream)
        torch.fill(block, 3, 1000, stream)
        if step % 4 == 0:
            wait(torch, other, stream)
            torch.record_stream(block, other)
            torch.fill(block, 4, 1000, other)
            torch.library.used(0, block, other, "fill", "")
        torch.free(block, stream)
    assert reports(torch) == ()
    torch.walk()
    assert torch.figures()["allocated"] == 0


def test_captures_are_left_alone(torch):
    stream = torch.stream()
    outside = torch.alloc(MIB, stream)
    with torch.capture(1, stream) as made:
        block = torch.alloc(MIB, stream)
        torch.fill(block, 1, MIB, stream)
        torch.library.used(0, outside, stream, "add", "")
        torch.free(outside, stream)
    nodes = torch.raw.call("cuGraphLaunch", made[0], stream)
    assert nodes == 0
    assert torch.raw.fake.read(block, 64) == b"\1" * 64
    assert reports(torch) == ()
