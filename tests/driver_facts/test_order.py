"""What libcuda does with streams, events, contexts and processes, as far as forebay leans on it. Each on the fake and on a GPU."""

import ctypes
import os
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from conformance.instances import LIBCUDA
from driver_facts.raw import BLOCKING, GRANULE, LEGACY, NO_CONTEXT, NONBLOCKING, NOT_INITIALIZED, NOT_READY, OK, Raw
from fake_cuda.library import path

MIB = 2**20
DEINITIALIZED = 4
MS = 1_000_000
TESTS = Path(__file__).resolve().parent.parent


# ---- streams and events


def test_a_stream_s_id_is_never_seen_again_though_its_number_comes_back(cu: Raw):
    """How soon it comes back depends on what else was destroyed: at once in one process of an H200, not among a hundred in another."""
    numbers, ids = [], []
    for _ in range(1000):
        numbers.append(cu.stream())
        ids.append(cu.made_second("cuStreamGetId", numbers[-1]))
        assert cu.call("cuStreamDestroy_v2", numbers[-1]) == OK
    assert len(set(numbers)) < len(numbers)
    assert len(set(ids)) == len(ids)


def test_zero_and_one_are_one_stream_and_two_is_each_thread_s(cu: Raw):
    def id_of(stream: int) -> int:
        return cu.made_second("cuStreamGetId", stream)

    assert id_of(0) == id_of(1)
    assert id_of(2) not in (id_of(1), cu.on_thread(lambda: id_of(2)))
    assert id_of(2) == id_of(2)


def test_a_stream_that_works_is_not_ready_and_one_that_was_waited_for_is(cu: Raw):
    stream, event = cu.stream(), cu.event()
    cu.busy(stream, 50 * MS)
    assert cu.call("cuEventRecord", event, stream) == OK
    assert (cu.call("cuStreamQuery", stream), cu.call("cuEventQuery", event)) == (NOT_READY, NOT_READY)
    assert cu.call("cuEventSynchronize", event) == OK
    assert (cu.call("cuEventQuery", event), cu.call("cuStreamQuery", stream)) == (OK, OK)


def test_an_event_never_recorded_is_complete(cu: Raw):
    event = cu.event()
    assert (cu.call("cuEventQuery", event), cu.call("cuEventSynchronize", event)) == (OK, OK)
    assert cu.call("cuStreamWaitEvent", LEGACY, event, ctypes.c_uint(0)) == OK


def test_a_wait_holds_the_stream_back_until_the_record(cu: Raw):
    first, second, event, out = cu.stream(), cu.stream(), cu.event(), cu.malloc(4096)
    cu.busy(first, 50 * MS)
    assert cu.call("cuMemsetD8Async", out, ctypes.c_ubyte(1), 4096, first) == OK
    assert cu.call("cuEventRecord", event, first) == OK
    assert cu.call("cuStreamWaitEvent", second, event, ctypes.c_uint(0)) == OK
    assert cu.call("cuMemsetD8Async", out, ctypes.c_ubyte(2), 4096, second) == OK
    assert cu.call("cuStreamQuery", second) == NOT_READY
    assert cu.call("cuStreamSynchronize", second) == OK
    assert cu.read(out, 4096) == b"\2" * 4096


def test_the_legacy_stream_waits_for_blocking_streams_and_not_for_others(cu: Raw):
    for kind, answer in ((BLOCKING, NOT_READY), (NONBLOCKING, OK)):
        cu.busy(cu.stream(kind), 50 * MS)
        event = cu.event()
        assert cu.call("cuEventRecord", event, LEGACY) == OK
        time.sleep(0.01)  # the record itself takes a moment
        assert cu.call("cuEventQuery", event) == answer
        assert cu.call("cuCtxSynchronize") == OK


def test_what_is_in_a_stream_runs_after_its_end(cu: Raw):
    stream, out = cu.stream(), cu.malloc(4096)
    cu.busy(stream, 20 * MS)
    assert cu.call("cuMemsetD8Async", out, ctypes.c_ubyte(3), 4096, stream) == OK
    assert cu.call("cuStreamDestroy_v2", stream) == OK
    assert cu.call("cuCtxSynchronize") == OK
    assert cu.read(out, 4096) == b"\3" * 4096


# ---- what waits


def ready_after(cu: Raw, call) -> bool:
    """Whether a stream that has much to do is done when `call()` returns."""
    stream = cu.stream()
    cu.busy(stream, 60 * MS)
    assert call() == OK
    return cu.call("cuStreamQuery", stream) == OK


def test_frees_of_segments_and_pinned_memory_wait_for_the_device(cu: Raw):
    segment, pinned = cu.malloc(MIB), cu.pinned(MIB)
    assert ready_after(cu, lambda: cu.call("cuMemFree_v2", segment))
    assert ready_after(cu, lambda: cu.call("cuMemFreeHost", pinned))


def test_no_mapping_call_waits(cu: Raw):
    address, frame = cu.range(GRANULE), cu.frame(GRANULE)
    assert not ready_after(cu, lambda: cu.map(address, GRANULE, frame))
    assert not ready_after(cu, lambda: cu.open(address, GRANULE))
    assert not ready_after(cu, lambda: cu.call("cuMemUnmap", address, GRANULE))
    assert not ready_after(cu, lambda: cu.call("cuMemRelease", frame))
    assert not ready_after(cu, lambda: cu.call("cuMemAddressFree", address, GRANULE))


def test_allocations_do_not_wait(cu: Raw):
    assert not ready_after(cu, lambda: cu.malloc(MIB) and OK)
    assert not ready_after(cu, lambda: cu.frame(GRANULE) and OK)


# ---- copies and the host


def test_a_pageable_source_may_change_when_the_call_returned_and_a_pinned_one_may_not(cu: Raw):
    stream, pinned = cu.stream(), cu.pinned(MIB)
    pageable = ctypes.create_string_buffer(b"a" * MIB, MIB)
    ctypes.memset(pinned, ord("a"), MIB)
    outs = {}
    for source in (ctypes.addressof(pageable), pinned):
        outs[source] = cu.malloc(MIB)
        cu.busy(stream, 50 * MS)
        assert cu.call("cuMemcpyHtoDAsync_v2", outs[source], source, MIB, stream) == OK
        ctypes.memset(source, ord("b"), MIB)
    assert cu.call("cuStreamSynchronize", stream) == OK
    assert cu.read(outs[ctypes.addressof(pageable)], 16) == b"a" * 16
    assert cu.read(outs[pinned], 16) == b"b" * 16


# ---- contexts and processes


def test_calls_without_a_context_are_refused(cu: Raw):
    calls = {
        "cuMemAlloc_v2": lambda: cu.call("cuMemAlloc_v2", ctypes.byref(ctypes.c_uint64()), MIB),
        "cuCtxSynchronize": lambda: cu.call("cuCtxSynchronize"),
        "cuEventCreate": lambda: cu.call("cuEventCreate", ctypes.byref(ctypes.c_uint64()), ctypes.c_uint(0)),
        "cuMemHostAlloc": lambda: cu.call("cuMemHostAlloc", ctypes.byref(ctypes.c_uint64()), 4096, ctypes.c_uint(0)),
    }
    for name, call in calls.items():
        assert cu.on_thread(call, context=False) == NO_CONTEXT, name


def test_a_forked_child_can_call_nothing(cu: Raw):
    child = os.fork()
    if child == 0:
        answers = [
            cu.call("cuMemGetInfo_v2", ctypes.byref(ctypes.c_uint64()), ctypes.byref(ctypes.c_uint64())),
            cu.call("cuMemAlloc_v2", ctypes.byref(ctypes.c_uint64()), MIB),
        ]
        os._exit(0 if answers == [NOT_INITIALIZED] * 2 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


_LAST = r"""
#include <dlfcn.h>
#include <cstdio>
#include <cstdlib>
static int (*free_memory)(unsigned long long);
static void last() { std::printf("%d\n", free_memory(0)), std::fflush(stdout); }
int main(int, char** argv) {
  std::atexit(last);  // before libcuda is there: after libcuda is gone
  void* cuda = dlopen(argv[1], RTLD_NOW);
  using Init = int (*)(unsigned);
  if (reinterpret_cast<Init>(dlsym(cuda, "cuInit"))(0) != 0) return 2;
  free_memory = reinterpret_cast<int (*)(unsigned long long)>(dlsym(cuda, "cuMemFree_v2"));
  return 0;
}
"""


def test_after_the_end_of_the_process_s_work_everything_answers_that(tmp_path):
    source, program = tmp_path / "last.cpp", tmp_path / "last"
    source.write_text(_LAST)
    subprocess.run([os.environ.get("CXX", "c++"), str(source), "-o", str(program), "-ldl"], check=True)
    library = LIBCUDA or str(path())
    done = subprocess.run([str(program), library], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout == f"{DEINITIALIZED}\n"


@pytest.mark.parametrize("call", ["cuStreamSynchronize", "cuMemAlloc_v2", "cuMemFree_v2", "cuStreamCreateWithPriority"])
def test_after_a_sticky_error_every_call_answers_it(call: str):
    """In a process of its own: nothing else can follow."""
    program = f"""
        import ctypes, sys
        sys.path.insert(0, {str(TESTS)!r})
        from driver_facts.raw import Raw, LEGACY
        cu = Raw()
        segment = cu.malloc(4096)
        if cu.fake is None:
            assert cu.poke(0x10, LEGACY) == 0
            assert cu.call("cuCtxSynchronize") == 700
        else:
            cu.fake.lose(700)
        out = ctypes.c_uint64()
        arguments = {{
            "cuStreamSynchronize": (LEGACY,),
            "cuMemAlloc_v2": (ctypes.byref(out), 4096),
            "cuMemFree_v2": (segment,),
            "cuStreamCreateWithPriority": (ctypes.byref(out), ctypes.c_uint(0), ctypes.c_int(0)),
        }}
        print(cu.call({call!r}, *arguments[{call!r}]))
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.stdout, done.stderr) == ("700\n", "")
