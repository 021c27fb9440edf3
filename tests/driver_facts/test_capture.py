"""What a capture makes of calls, on the fake and on a GPU: the cases that benchmarks/results/calls-h200.json recorded, and the rules that
forebay leans on, said in words."""

import ctypes
import json
from pathlib import Path

import pytest

from driver_facts.raw import (
    ACCESS,
    BLOCKING,
    CAPTURED_EVENT,
    FRAME,
    GLOBAL,
    GRANULE,
    IMPLICIT,
    INVALIDATED,
    ISOLATION,
    LEGACY,
    NONBLOCKING,
    OK,
    RELAXED,
    THREAD_LOCAL,
    UNJOINED,
    UNSUPPORTED,
    Captured,
    HostFunction,
    Raw,
)

MIB = 2**20
RECORDED = json.loads((Path(__file__).resolve().parents[2] / "benchmarks/results/calls-h200.json").read_text())
KINDS = {"blocking": BLOCKING, "nonblocking": NONBLOCKING}
MODES = {"global": GLOBAL, "thread_local": THREAD_LOCAL, "relaxed": RELAXED}


class World:
    """Objects for the recorded cases: those of the probe that made them, by the same names."""

    def __init__(self, cu: Raw) -> None:
        self.cu, self.out = cu, ctypes.c_uint64()
        self.device, self.loose = cu.malloc(MIB), cu.malloc(MIB)
        self.pinned, self.loose_pinned = cu.pinned(MIB), cu.pinned(MIB)
        self.pageable = ctypes.create_string_buffer(MIB)
        self.range, self.frame, self.mapped = cu.range(GRANULE), cu.frame(GRANULE), cu.mapped(GRANULE)
        self.other, self.doomed = cu.stream(), cu.stream()
        self.outside, self.inside = cu.event(), cu.event()
        self.capturing = 0
        assert cu.call("cuEventRecord", self.outside, self.other) == OK
        assert cu.call("cuCtxSynchronize") == OK


def made(w: World, name: str, *arguments: object) -> int:
    return w.cu.call(name, ctypes.byref(w.out), *arguments)


ZERO, ONE = ctypes.c_uint(0), ctypes.c_ubyte(1)
CASES = {
    ("cuMemAlloc", ""): lambda w: made(w, "cuMemAlloc_v2", MIB),
    ("cuMemFree", ""): lambda w: w.cu.call("cuMemFree_v2", w.loose),
    ("cuMemHostAlloc", ""): lambda w: made(w, "cuMemHostAlloc", MIB, ZERO),
    ("cuMemFreeHost", ""): lambda w: w.cu.call("cuMemFreeHost", w.loose_pinned),
    ("cuMemGetInfo", ""): lambda w: made(w, "cuMemGetInfo_v2", ctypes.byref(ctypes.c_uint64())),
    ("cuMemAddressReserve", ""): lambda w: made(w, "cuMemAddressReserve", GRANULE, 0, 0, 0),
    ("cuMemAddressFree", ""): lambda w: w.cu.call("cuMemAddressFree", w.range, GRANULE),
    ("cuMemCreate", ""): lambda w: made(w, "cuMemCreate", GRANULE, ctypes.byref(FRAME), 0),
    ("cuMemMap", ""): lambda w: w.cu.map(w.range, GRANULE, w.frame),
    ("cuMemSetAccess", ""): lambda w: w.cu.call("cuMemSetAccess", w.mapped, GRANULE, ctypes.byref(ACCESS), 1),
    ("cuMemUnmap", ""): lambda w: w.cu.call("cuMemUnmap", w.mapped, GRANULE),
    ("cuMemRelease", ""): lambda w: w.cu.call("cuMemRelease", w.frame),
    ("cuMemsetD8Async", "capturing"): lambda w: w.cu.call("cuMemsetD8Async", w.device, ONE, MIB, w.capturing),
    ("cuMemcpyHtoDAsync", "pageable, other"): lambda w: w.cu.call("cuMemcpyHtoDAsync_v2", w.device, w.pageable, MIB, w.other),
    ("cuMemcpyHtoDAsync", "pinned, capturing"): lambda w: w.cu.call("cuMemcpyHtoDAsync_v2", w.device, w.pinned, MIB, w.capturing),
    ("cuMemcpyDtoHAsync", "pinned, other"): lambda w: w.cu.call("cuMemcpyDtoHAsync_v2", w.pinned, w.device, MIB, w.other),
    ("cudaLaunchHostFunc", "capturing"): lambda w: w.cu.call("cuLaunchHostFunc", w.capturing, NOTHING, None),
    ("cuStreamCreate", ""): lambda w: made(w, "cuStreamCreateWithPriority", ctypes.c_uint(1), ctypes.c_int(0)),
    ("cuStreamDestroy", "other"): lambda w: w.cu.call("cuStreamDestroy_v2", w.doomed),
    ("cuStreamSynchronize", "capturing"): lambda w: w.cu.call("cuStreamSynchronize", w.capturing),
    ("cuStreamSynchronize", "other"): lambda w: w.cu.call("cuStreamSynchronize", w.other),
    ("cuStreamSynchronize", "legacy"): lambda w: w.cu.call("cuStreamSynchronize", 0),
    ("cuStreamQuery", "capturing"): lambda w: w.cu.call("cuStreamQuery", w.capturing),
    ("cuStreamQuery", "other"): lambda w: w.cu.call("cuStreamQuery", w.other),
    ("cuStreamQuery", "legacy"): lambda w: w.cu.call("cuStreamQuery", 0),
    ("cuStreamWaitEvent", "capturing, event outside"): lambda w: w.cu.call("cuStreamWaitEvent", w.capturing, w.outside, ZERO),
    ("cuStreamWaitEvent", "other, event outside"): lambda w: w.cu.call("cuStreamWaitEvent", w.other, w.outside, ZERO),
    ("cuStreamWaitEvent", "legacy, event outside"): lambda w: w.cu.call("cuStreamWaitEvent", 0, w.outside, ZERO),
    ("cuStreamGetId", "capturing"): lambda w: w.cu.call("cuStreamGetId", w.capturing, ctypes.byref(w.out)),
    ("cuStreamIsCapturing", "capturing"): lambda w: w.cu.call("cuStreamIsCapturing", w.capturing, ctypes.byref(w.out)),
    ("cuStreamIsCapturing", "legacy"): lambda w: w.cu.call("cuStreamIsCapturing", 0, ctypes.byref(w.out)),
    ("cuEventCreate", ""): lambda w: made(w, "cuEventCreate", ZERO),
    ("cuEventDestroy", "outside"): lambda w: w.cu.call("cuEventDestroy_v2", w.outside),
    ("cuEventDestroy", "captured"): lambda w: w.cu.call("cuEventDestroy_v2", w.inside),
    ("cuEventRecord", "capturing"): lambda w: w.cu.call("cuEventRecord", w.outside, w.capturing),
    ("cuEventRecord", "other"): lambda w: w.cu.call("cuEventRecord", w.outside, w.other),
    ("cuEventRecord", "legacy"): lambda w: w.cu.call("cuEventRecord", w.outside, 0),
    ("cuEventQuery", "outside"): lambda w: w.cu.call("cuEventQuery", w.outside),
    ("cuEventQuery", "captured"): lambda w: w.cu.call("cuEventQuery", w.inside),
    ("cuEventSynchronize", "outside"): lambda w: w.cu.call("cuEventSynchronize", w.outside),
    ("cuEventSynchronize", "captured"): lambda w: w.cu.call("cuEventSynchronize", w.inside),
    ("cuCtxSynchronize", ""): lambda w: w.cu.call("cuCtxSynchronize"),
}
NOTHING = HostFunction(lambda data: None)


def recorded(call: str, on: str) -> dict[str, str]:
    """What the call and the end of the capture came to, by stream kind, mode and thread; "all" for all of them."""
    case = next(c for c in RECORDED["cases"] if (c["call"], c["on"]) == (call, on))
    return {where: answers for answers, places in case["captures"].items() for where in places}


@pytest.mark.parametrize(("call", "on"), CASES, ids=lambda part: part.replace(" ", "-") or "x")
@pytest.mark.parametrize("kind", KINDS)
def test_the_recorded_answers_are_those_of_today(cu: Raw, call: str, on: str, kind: str):
    expected, seen = recorded(call, on), {}
    for mode in MODES:
        for thread in ("same", "other"):
            w = World(cu)
            with cu.capture(MODES[mode], KINDS[kind]) as captured:
                w.capturing = captured.stream
                assert cu.call("cuMemsetD8Async", w.device, ctypes.c_ubyte(0), 512, captured.stream) == OK
                assert cu.call("cuEventRecord", w.inside, captured.stream) == OK
                answer = CASES[call, on](w) if thread == "same" else cu.on_thread(lambda w=w: CASES[call, on](w))
            seen[f"{kind} {mode} {thread}"] = f"{answer} {captured.ended}"
    assert seen == {place: expected.get("all", expected.get(place)) for place in seen}


# ---- in words


def node(cu: Raw, stream: int, address: int) -> None:
    assert cu.call("cuMemsetD8Async", address, ctypes.c_ubyte(0), 512, stream) == OK


def test_a_thread_that_relaxed_itself_may_ask_wait_and_allocate_beside_a_global_capture(cu: Raw):
    other, event = cu.stream(), cu.event()
    with cu.capture(GLOBAL) as captured:
        mode = ctypes.c_int(RELAXED)
        assert cu.call("cuThreadExchangeStreamCaptureMode", ctypes.byref(mode)) == OK
        assert mode.value == GLOBAL  # what it was
        address = cu.malloc(MIB)
        for call in ("cuStreamQuery", "cuStreamSynchronize"):
            assert cu.call(call, other) == OK
        assert cu.call("cuEventQuery", event) == OK
        assert cu.call("cuMemFree_v2", address) == OK
        assert cu.call("cuThreadExchangeStreamCaptureMode", ctypes.byref(mode)) == OK
        assert mode.value == RELAXED
    assert captured.ended == OK


def test_no_mode_lets_a_wait_for_the_device_or_a_question_to_a_captured_event_pass(cu: Raw):
    for call, answer in (("device", UNSUPPORTED), ("event", CAPTURED_EVENT), ("stream", UNSUPPORTED)):
        event, mode = cu.event(), ctypes.c_int(RELAXED)
        with cu.capture(RELAXED) as captured:
            assert cu.call("cuEventRecord", event, captured.stream) == OK
            cu.call("cuThreadExchangeStreamCaptureMode", ctypes.byref(mode))
            if call == "device":
                assert cu.call("cuCtxSynchronize") == answer
            elif call == "event":
                assert cu.call("cuEventQuery", event) == answer
            else:
                assert cu.call("cuStreamQuery", captured.stream) == answer
            cu.call("cuThreadExchangeStreamCaptureMode", ctypes.byref(mode))
        assert captured.ended == INVALIDATED


def forked(cu: Raw, captured: Captured, side: int, address: int) -> None:
    event = cu.event()
    assert cu.call("cuEventRecord", event, captured.stream) == OK
    assert cu.call("cuStreamWaitEvent", side, event, ctypes.c_uint(0)) == OK
    node(cu, side, address)


def test_a_stream_that_waits_for_a_captured_event_captures_too_and_must_be_joined(cu: Raw):
    for joins, end in ((True, OK), (False, UNJOINED)):
        side, address, back, status = cu.stream(), cu.malloc(MIB), cu.event(), ctypes.c_int()
        with cu.capture(THREAD_LOCAL) as captured:
            node(cu, captured.stream, address)
            forked(cu, captured, side, address)
            assert cu.call("cuStreamIsCapturing", side, ctypes.byref(status)) == OK
            assert status.value == 1
            if joins:
                assert cu.call("cuEventRecord", back, side) == OK
                assert cu.call("cuStreamWaitEvent", captured.stream, back, ctypes.c_uint(0)) == OK
        assert captured.ended == end
        assert cu.call("cuStreamIsCapturing", side, ctypes.byref(status)) == OK
        assert status.value == 0


def test_work_of_a_capture_does_not_run(cu: Raw):
    address = cu.malloc(MIB)
    assert cu.call("cuMemsetD8Async", address, ctypes.c_ubyte(1), 512, LEGACY) == OK
    with cu.capture(THREAD_LOCAL) as captured:
        assert cu.call("cuMemsetD8Async", address, ctypes.c_ubyte(2), 512, captured.stream) == OK
    assert captured.ended == OK
    assert cu.read(address, 512) == b"\1" * 512


def test_a_wait_on_work_outside_ends_the_capture(cu: Raw):
    other, event = cu.stream(), cu.event()
    assert cu.call("cuEventRecord", event, other) == OK
    with cu.capture(RELAXED) as captured:
        assert cu.call("cuStreamWaitEvent", captured.stream, event, ctypes.c_uint(0)) == ISOLATION
    assert captured.ended == INVALIDATED


def test_the_legacy_stream_ends_the_capture_of_a_blocking_stream_and_of_no_other(cu: Raw):
    address = cu.malloc(MIB)
    for kind, answer, end in ((BLOCKING, IMPLICIT, INVALIDATED), (NONBLOCKING, OK, OK)):
        with cu.capture(RELAXED, kind) as captured:
            node(cu, captured.stream, address)
            assert cu.call("cuMemsetD8Async", address, ctypes.c_ubyte(1), 512, LEGACY) == answer
        assert captured.ended == end
