"""Lines that people hand over and that state little, or something that cannot be: what the doctor says of each, worked out by hand."""

import pytest

from forebay.doctor import diagnose
from forebay.errors import BadInput
from forebay.sources.log_text import out_of_memory, read

GIB = 2**30
TORCH = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate"


def of(text):
    return diagnose(read(text.encode()))


@pytest.mark.parametrize(
    "line",
    [
        "RuntimeError: CUDA driver error: out of memory",
        "cuMemCreate failed: out of memory",
        "CUDA driver error: out of memory while calling cuMemCreate",
        "Traceback (most recent call last):\n  File 'a.py', line 3, in f\nRuntimeError: CUDA driver error: out of memory",
        "RuntimeError: CUDA error: out of memory",
    ],
)
def test_what_the_driver_refuses_is_out_of_memory_whatever_call_it_was(line):
    found = of(line)
    assert (found.verdict, found.findings[0].certainty) == ("unknown", "possible")


@pytest.mark.parametrize(
    "line", ["cuMemCreate failed: invalid argument", "cuMemCreate: out of order memory", "memory ran out of luck"]
)
def test_other_failures_of_the_same_calls_are_none(line):
    with pytest.raises(BadInput, match="no out-of-memory error"):
        of(line)


@pytest.mark.parametrize("line", ["cuMemHostAlloc failed: out of memory", "cudaHostRegister failed: out of memory"])
def test_page_locked_memory_of_the_driver_s_own_calls_is_pinned(line):
    assert of(line).verdict == "pinned-overhead"


@pytest.mark.parametrize(
    ("line", "size"),
    [
        (
            "[enforce fail at alloc_cpu.cpp:75] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to allocate "
            "34359738368 bytes. Error code 12 (Cannot allocate memory)",
            "32 GiB",
        ),
        ("$ Torch: not enough memory: you tried to allocate 4GB. Buy new RAM!", "4 GiB"),
    ],
)
def test_pageable_memory_that_ran_out_is_not_pinned(line, size):
    found = of(line)
    assert (found.verdict, found.findings[0].certainty) == ("unknown", "possible")
    assert found.why[0].startswith(f"{size} of host memory could not be had: the machine's memory")
    assert "free -g" in found.findings[0].remedy
    assert "pin" not in found.findings[0].remedy


def test_a_card_of_no_bytes_and_a_request_of_none_say_nothing():
    line = f"{TORCH} 0 bytes. GPU 0 has a total capacity of 0 bytes of which 0 bytes is free."
    assert of(line).verdict == "unknown"
    assert out_of_memory(line).figures["total_bytes"] is None


@pytest.mark.parametrize("power", [20, 42])
def test_a_request_that_no_number_of_64_bits_holds_is_stated_all_the_same(power):
    found = of(f"{TORCH} {10**power}.00 GiB. GPU 0 has a total capacity of 79.15 GiB of which 1.00 GiB is free.")
    assert (found.verdict, found.findings[0].certainty) == ("impossible-request", "certain")
    assert f"asked for {10**power}.00 GiB of a card of 79.15 GiB" in found.why[0]


@pytest.mark.parametrize(
    ("shape", "kind", "size"),
    [
        ("64,256,256,128", "float", 2 * GIB),  # 2**6 * 2**8 * 2**8 * 2**7 elements of 4 bytes
        ("1024,1024", "half", 2 * 2**20),
        ("1024,1024", "double", 8 * 2**20),
        ("3,5,7", "bool", 105),
    ],
)
def test_a_shape_and_a_type_are_a_size(shape, kind, size):
    found = of(
        f"OOM when allocating tensor with shape[{shape}] and type {kind} on /job:localhost/device:GPU:0 by allocator GPU_0_bfc"
    )
    assert (found.verdict, found.findings[0].evidence) == ("unknown", {"request_bytes": size})


def test_a_type_that_nobody_knows_has_no_size():
    assert of("OOM when allocating tensor with shape[4,4] and type int3 on device:GPU:0").findings[0].evidence == {}


@pytest.mark.parametrize(
    ("line", "advice"),
    [
        (
            "No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when initializing the engine.",
            "Try increasing `gpu_memory_utilization` when initializing the engine",
        ),
        ("Not enough memory. Please try to increase --mem-fraction-static.", "try to increase --mem-fraction-static"),
    ],
)
def test_a_server_that_counted_no_room_was_refused_nothing_and_its_own_remedy_is_passed_on(line, advice):
    found = of(f"ValueError: {line}")
    assert found.why[0].endswith("nothing was refused by the device")
    assert found.findings[0].remedy.startswith(f"the line itself says: {advice}.")


def test_what_else_a_log_tells_is_counted():
    line = f"{TORCH} 2.00 GiB. GPU 0 has a total capacity of 79.15 GiB of which 1.00 GiB is free."
    log = [line, "INFO step", "INFO step", line, "INFO step", line]
    assert not any("more" in why for why in of(line).why)
    assert of("\n".join(log[:4])).why[-1] == "and 1 more line of this log tells of memory that ran out: line 4"
    assert of("\n".join(log)).why[-1] == "and 2 more lines of this log tell of memory that ran out, the first at line 4"
