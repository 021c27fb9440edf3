"""PyTorch's allocator from our pools: the very library, called as PyTorch calls it, over the fake libcuda. What PyTorch itself then does is
tests/gpu/test_torch.py's."""

import ctypes
import random
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from adapters.torch_world import LATE, Torch, on_thread
from driver_facts.raw import MIB, NONBLOCKING, Raw
from fake_cuda.library import FakeCuda
from forebay.errors import NotSupported

TESTS = Path(__file__).resolve().parents[1]


# ---- blocks and streams


def test_a_block_serves_its_stream_again_at_once_and_without_a_call(torch):
    stream = torch.stream()
    first = torch.alloc(3 * MIB, stream)
    torch.free(first, stream)
    calls = torch.raw.fake.calls
    for _ in range(50):
        again = torch.alloc(3 * MIB, stream)
        torch.free(again, stream)
        assert again == first
    assert torch.raw.fake.calls == calls


def test_another_stream_gets_it_only_when_the_work_before_the_free_is_done(tmp_path):
    torch = Torch(tmp_path, limit=2 * MIB, growth="segments")  # room for one segment
    first, second = torch.stream(), torch.stream()
    block = torch.alloc(2 * MIB, first)
    torch.raw.busy(first, LATE)
    torch.fill(block, 1, 2 * MIB, first)
    torch.free(block, first)
    taken = torch.alloc(2 * MIB, second)  # waits: there is no other memory
    torch.fill(taken, 2, 2 * MIB, second)
    assert taken == block
    assert torch.raw.fake.read(taken, 2 * MIB) == b"\2" * 2 * MIB


@pytest.mark.parametrize("recorded", [True, False])
def test_a_recorded_stream_holds_the_block_until_it_got_there(torch, recorded):
    home, user = torch.stream(), torch.stream()
    block = torch.alloc(2 * MIB, home)
    torch.raw.busy(user, LATE)
    if recorded:
        torch.record_stream(block, user)
    torch.free(block, home)
    assert (torch.alloc(2 * MIB, home) == block) is not recorded
    assert torch.figures()["pending"] == (2 * MIB if recorded else 0)
    torch.raw.fake.settle()
    if recorded:
        assert torch.alloc(2 * MIB, torch.stream()) == block  # a miss looks, and finds it free


def test_bytes_stay_while_a_program_allocates_frees_and_lends_at_random(torch):
    """Each block is filled by its stream, and by another that it was lent to, both late; it holds what they wrote until it is freed."""
    rng, streams, live = random.Random(3), [0, *(torch.stream(vouched=i != 2) for i in range(3))], []
    for step in range(400):
        if live and (len(live) > 10 or rng.random() < 0.5):
            block, nbytes, home, last, value = live.pop(rng.randrange(len(live)))
            out = ctypes.create_string_buffer(64)
            assert torch.raw.call("cuMemcpyDtoHAsync_v2", out, block + nbytes - 64, 64, last) == 0
            assert torch.raw.call("cuStreamSynchronize", last) == 0
            assert out.raw == bytes([value]) * 64, step
            torch.free(block, home)
            continue
        home, nbytes, value = rng.choice(streams), rng.choice([512, 5_000, 300_000, 3 * MIB]), step % 250 + 1
        block, last = torch.alloc(nbytes, home), home
        torch.raw.busy(home or 1, rng.choice([0, 10**6]))
        torch.fill(block, value, nbytes, home)
        if rng.random() < 0.4:
            last = rng.choice(streams)
            event = torch.raw.event()
            assert torch.raw.call("cuEventRecord", event, home) == 0
            assert torch.raw.call("cuStreamWaitEvent", last, event, ctypes.c_uint(0)) == 0
            torch.record_stream(block, last)
            torch.fill(block, value, nbytes, last)
        live.append((block, nbytes, home, last, value))
    for block, _, home, _, _ in live:
        torch.free(block, home)
    torch.walk()
    assert torch.figures()["allocated"] == 0
    torch.library.trim()
    assert torch.library.reserved(0)[0] == torch.raw.fake.account()["used_bytes"] == 0


def test_nothing_is_nothing(torch):
    assert torch.alloc(0) == 0
    torch.free(0)
    assert torch.library.unknown_frees == 0


def test_a_free_of_what_is_no_block_is_counted_and_harms_nothing(torch):
    block = torch.alloc(512)
    torch.free(block + 512)
    torch.free(block)
    torch.free(block)
    torch.free(12345, device=7)
    assert torch.library.unknown_frees == 3
    torch.walk()


# ---- streams that nobody vouched for


def test_frees_on_vouched_streams_record_nothing(torch):
    streams = [0, torch.stream()]
    for stream in streams:
        torch.free(torch.alloc(MIB, stream), stream)
    records = torch.raw.fake.count("cuEventRecord")  # the second stream's miss asked how far the first one got
    for stream in streams * 20:
        torch.free(torch.alloc(MIB, stream), stream)
    assert torch.raw.fake.count("cuEventRecord") == records


def test_what_is_freed_on_another_stream_gets_its_record_when_that_is_named_again(torch):
    other = torch.stream(vouched=False)
    block = torch.alloc(MIB, other)
    torch.free(block, other)
    assert torch.raw.fake.count("cuEventRecord") == 0
    assert torch.alloc(MIB, other) == block
    assert torch.raw.fake.count("cuEventRecord") == 1
    torch.alloc(MIB, other)
    assert torch.raw.fake.count("cuEventRecord") == 1


def test_a_new_stream_with_an_old_one_s_handle_does_not_get_its_blocks(torch):
    old = torch.stream(vouched=False)
    block = torch.alloc(4 * MIB, old)
    torch.raw.busy(old, LATE)
    torch.fill(block, 1, 4 * MIB, old)
    torch.free(block, old)
    assert torch.raw.call("cuStreamDestroy_v2", old) == 0
    new = torch.raw.stream(NONBLOCKING)
    assert new == old  # the fake hands it out again, as the driver does
    taken = torch.alloc(4 * MIB, new)
    assert taken != block
    torch.fill(taken, 2, 4 * MIB, new)
    torch.raw.fake.settle()
    assert torch.raw.fake.read(taken, 4 * MIB) == b"\2" * 4 * MIB
    torch.free(taken, new)
    torch.library.trim()
    assert torch.library.reserved(0)[0] == 0


# ---- limits and what is said


def test_no_memory_is_pytorch_s_own_exception_with_figures_and_verdict(tmp_path):
    torch = Torch(tmp_path, limit=40 * MIB, growth="segments")
    kept = [torch.alloc(5 * MIB) for _ in range(8)]
    for block in kept[::2]:
        torch.free(block)
    kind, _, what = torch.tried(8 * MIB)
    assert kind == 1
    assert what == (
        "CUDA out of memory. Tried to allocate 8.0 MiB. forebay pool torch of device 0: largest free block 5.0 MiB (reserved 40.0 MiB, "
        "allocated 20.0 MiB, stranded 20.0 MiB, pending 0 B, limit 40.0 MiB): fragmented, not full: give the large consumers pools of "
        "their own (forebay.adapters.torch.pool)"
    )
    assert torch.hook("segment")(ctypes.c_size_t(100 * MIB), 0, None) == 0


def test_without_pytorch_s_exception_it_is_a_runtime_error_with_the_same_words(tmp_path):
    program = f"""
        import sys
        from pathlib import Path
        sys.path[:0] = [{str(TESTS)!r}]
        from adapters import torch_world
        torch_world.peer = lambda made=torch_world.peer("libpeer.so"): made
        torch = torch_world.Torch(Path({str(tmp_path)!r}), limit=2**20)
        print(*torch.tried(2**24)[::2])
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=300)
    assert done.stdout.startswith("2 CUDA out of memory. Tried to allocate 16.0 MiB. forebay pool torch"), done.stderr


def test_a_memory_fraction_bounds_the_device_s_pool_and_one_lifts_it(torch):
    fraction = torch.hook("memory_fraction")
    fraction(ctypes.c_double(0.125), 0)
    assert torch.tried(65 * MIB)[0] == 1
    block = torch.alloc(60 * MIB)
    torch.free(block)
    fraction(ctypes.c_double(1.0), 0)
    assert torch.alloc(128 * MIB)


def test_the_base_of_a_block_is_the_driver_s_memory_around_it(tmp_path):
    torch = Torch(tmp_path, growth="segments")
    base, nbytes = torch.hook("base_alloc"), ctypes.c_size_t()
    base.restype = ctypes.c_void_p
    first, second = torch.alloc(600_000), torch.alloc(600_000)
    assert base(ctypes.c_void_p(second), ctypes.byref(nbytes)) == first
    assert nbytes.value == 2 * MIB


def test_the_peak_of_what_is_reserved_is_kept_until_it_is_reset(tmp_path):
    torch = Torch(tmp_path, growth="segments")
    torch.free(torch.alloc(40 * MIB))
    torch.library.trim()
    torch.alloc(10 * MIB)
    assert torch.library.reserved(0) == (10 * MIB, 40 * MIB)
    torch.library.reset_peak(0)
    assert torch.library.reserved(0) == (10 * MIB, 10 * MIB)


def test_settings_come_before_cuda(torch):
    torch.library.set(libcuda=torch.raw.path, limit=None, growth=None, quarantine=None)
    torch.alloc(512)
    with pytest.raises(NotSupported, match="before that"):
        torch.library.set(libcuda=torch.raw.path, limit=None, growth=None, quarantine=None)


def test_no_driver_and_no_device_are_said(tmp_path):
    torch = Torch(tmp_path)
    torch.library.set(libcuda="/nowhere.so", limit=None, growth=None, quarantine=None)
    kind, _, what = torch.tried(512)
    assert (kind, "/nowhere.so" in what, "install NVIDIA's driver" in what) == (2, True, True)
    assert Torch(tmp_path).tried(512, device=3)[2] == "device 3: CUDA shows 1"


# ---- consumers


def test_a_thread_s_consumer_has_a_pool_of_its_own(torch):
    number = torch.library.consumer("kv", 8 * MIB, "segments")
    torch.library.enter(number)
    block, elsewhere = torch.alloc(2 * MIB), on_thread(lambda: torch.alloc(2 * MIB))
    assert torch.tried(16 * MIB)[0] == 1
    torch.library.leave()
    after = torch.alloc(2 * MIB)
    assert torch.figures("kv")["allocated"] == 2 * MIB
    assert torch.figures()["allocated"] == 4 * MIB
    for address in (block, elsewhere, after):
        torch.free(address)
    assert torch.figures("kv")["allocated"] == torch.figures()["allocated"] == 0


def test_a_consumer_is_made_once(torch):
    number = torch.library.consumer("kv", None, None)
    assert torch.library.consumer("kv", None, None) == number
    assert torch.library.consumer("weights", None, None) != number
    with pytest.raises(NotSupported, match="pool kv is there already, with another limit or growth"):
        torch.library.consumer("kv", MIB, None)


def test_a_consumer_in_segments_gets_each_block_in_one_allocation_of_the_driver(torch):
    torch.alloc(30 * MIB)
    assert torch.raw.fake.account()["segments"] == 0  # frames, by itself
    torch.library.enter(torch.library.consumer("exportable", None, "segments"))
    block, nbytes = torch.alloc(30 * MIB), ctypes.c_size_t()
    torch.library.leave()
    assert torch.raw.fake.account()["segments"] == 1
    base = torch.hook("base_alloc")
    base.restype = ctypes.c_void_p
    assert (base(ctypes.c_void_p(block), ctypes.byref(nbytes)), nbytes.value) == (block, 30 * MIB)


# ---- several devices


def test_two_devices_have_pools_of_their_own_in_segments_and_lend_to_each_other(tmp_path):
    raw = Raw()
    raw.fake = FakeCuda(256 * MIB, 256 * MIB)
    near, far = (raw.made("cuDevicePrimaryCtxRetain", ctypes.c_int(device)) for device in (0, 1))
    assert raw.call("cuCtxPushCurrent_v2", ctypes.c_void_p(near)) == 0
    torch = Torch(tmp_path, raw=raw)
    block, other = torch.alloc(4 * MIB, device=0), torch.alloc(4 * MIB, device=1)
    assert [raw.fake.account(device)["segments"] for device in (0, 1)] == [1, 1]
    assert raw.call("cuCtxPushCurrent_v2", ctypes.c_void_p(far)) == 0
    stream = raw.stream()
    torch.library.vouch(1, stream)
    raw.leave()
    raw.fake.busy(stream, LATE, device=1)
    torch.record_stream(block, stream)
    torch.free(block)
    torch.free(other, device=1)
    assert torch.figures(device=0)["pending"] == 4 * MIB
    assert torch.alloc(4 * MIB, device=0) != block
    raw.leave()
