import pytest

from forebay._core.tape import Kind, StreamClass
from forebay.calls import CALLS, Condition, Place, Waits, lookup, stem


def test_the_table_is_large_and_no_name_carries_a_suffix():
    assert len(CALLS) >= 120
    assert [name for name in CALLS if stem(name) != name] == []


@pytest.mark.parametrize(
    ("entry_point", "name"),
    [
        ("cudaMalloc_v3020", "cudaMalloc"),
        ("cuMemAlloc_v2", "cuMemAlloc"),
        ("cuMemcpyHtoDAsync_v2_ptsz", "cuMemcpyHtoDAsync"),
        ("cudaMemcpy_v3020_ptds", "cudaMemcpy"),
        ("cudaLaunchKernelExC_v11060", "cudaLaunchKernelExC"),
        ("cudaStreamSynchronize", "cudaStreamSynchronize"),
    ],
)
def test_an_entry_point_is_found_under_its_call(entry_point, name):
    call = lookup(entry_point)
    assert call is not None
    assert call.name == name


@pytest.mark.parametrize("unknown", ["", "_v2", "cudaMallocc", "malloc", "cuMemAlloc_v", "cudamalloc"])
def test_what_is_no_call_is_not_found(unknown):
    assert lookup(unknown) is None


def test_the_suffixed_entry_points_mean_the_threads_own_default_stream():
    assert lookup("cudaMemcpy_ptds").default is StreamClass.per_thread
    assert lookup("cuLaunchKernel_ptsz").default is StreamClass.per_thread
    assert lookup("cudaMemcpy").default is StreamClass.legacy


# What each call puts on a tape, where its stream comes from, what the host waits for: read off the manuals by hand.
HAND = {
    "cudaMalloc": (Kind.reserve, None, Waits.NOTHING),
    "cudaFree": (Kind.release, None, Waits.DEVICE),
    "cudaMallocAsync": (Kind.alloc, "stream", Waits.NOTHING),
    "cuMemFreeAsync": (Kind.free, "hStream", Waits.NOTHING),
    "cudaHostAlloc": (Kind.pin, None, Waits.NOTHING),
    "cudaFreeHost": (Kind.unpin, None, Waits.DEVICE),
    "cuMemCreate": (Kind.reserve, None, Waits.NOTHING),
    "cuMemMap": (Kind.map, None, Waits.NOTHING),
    "cuMemUnmap": (Kind.unmap, None, Waits.NOTHING),
    "cuMemRelease": (Kind.release, None, Waits.NOTHING),
    "cudaLaunchKernel": (Kind.launch, "stream", Waits.NOTHING),
    "cuLaunchKernelEx": (Kind.launch, "hStream", Waits.NOTHING),
    "cudaLaunchHostFunc": (Kind.host_func, "stream", Waits.NOTHING),
    "cudaMemcpy": (Kind.copy, None, Waits.WORK),
    "cuMemcpyDtoD": (Kind.copy, None, Waits.NOTHING),
    "cudaMemcpyAsync": (Kind.copy, "stream", Waits.WORK),
    "cuMemcpyDtoDAsync": (Kind.copy, "hStream", Waits.NOTHING),
    "cudaMemset": (Kind.memset, None, Waits.WORK),
    "cudaMemsetAsync": (Kind.memset, "stream", Waits.NOTHING),
    "cudaStreamWaitEvent": (Kind.wait, "stream", Waits.NOTHING),
    "cudaEventRecord": (Kind.record, "stream", Waits.NOTHING),
    "cudaEventQuery": (Kind.query, None, Waits.NOTHING),
    "cudaEventSynchronize": (Kind.sync_event, None, Waits.EVENT),
    "cuStreamSynchronize": (Kind.sync_stream, "hStream", Waits.STREAM),
    "cudaDeviceSynchronize": (Kind.sync_device, None, Waits.DEVICE),
    "cudaStreamBeginCapture": (Kind.capture_begin, "stream", Waits.NOTHING),
    "cuGraphLaunch": (Kind.graph_launch, "hStream", Waits.NOTHING),
    "cudaGraphExecDestroy": (Kind.graph_destroy, None, Waits.NOTHING),
}


@pytest.mark.parametrize("name", HAND)
def test_kind_stream_and_wait_are_as_the_manuals_say(name):
    call = CALLS[name]
    assert (call.kind, call.stream, call.waits) == HAND[name]


def test_a_wait_is_implied_unless_the_call_is_a_sync():
    assert [CALLS[name].implied for name in ("cudaFree", "cudaMemcpy", "cudaDeviceSynchronize", "cudaMalloc")] == [
        True,
        True,
        False,
        False,
    ]


def test_copies_wait_as_the_page_on_synchronization_behaviour_says():
    assert CALLS["cudaMemcpy"].when is Condition.HOST_END
    assert CALLS["cudaMemcpyAsync"].when is Condition.PAGEABLE
    assert CALLS["cudaMemset"].when is Condition.HOST_TARGET


def test_only_relaxed_mode_lets_an_unsafe_call_pass():
    assert [CALLS["cudaMalloc"].inside.code(mode) for mode in ("global", "thread_local", "relaxed")] == [900, 900, 0]


def test_a_device_sync_breaks_a_capture_in_every_mode():
    assert [CALLS["cudaDeviceSynchronize"].inside.code(mode) for mode in ("global", "thread_local", "relaxed")] == [900] * 3


def test_work_in_the_default_stream_is_refused_as_an_implicit_dependency():
    default = [call for call in CALLS.values() if call.place is Place.DEFAULT]
    assert {call.inside.code("relaxed") for call in default} == {906}
    assert {"cudaMemcpy", "cuMemcpyDtoH", "cudaMemset"} <= {call.name for call in default}


def test_work_of_a_given_stream_becomes_a_node():
    work = [c for c in CALLS.values() if c.kind in {Kind.launch, Kind.memset, Kind.record, Kind.wait} and c.stream]
    assert len(work) >= 20
    assert {call.inside.name for call in work} == {"node"}


def test_an_unknown_capture_mode_is_an_error():
    with pytest.raises(KeyError, match="lazy"):
        CALLS["cudaMalloc"].inside.code("lazy")


# The runtime's takes a host symbol, whose module it may have to load; the driver's a function that is loaded.
DIFFERENT = ["cuFuncSetAttribute"]


def test_every_driver_call_with_a_twin_in_the_runtime_says_the_same():
    pairs = [(call, CALLS["cuda" + call.name[2:]]) for call in CALLS.values() if "cuda" + call.name[2:] in CALLS]
    assert len(pairs) >= 25
    facts = [[(c.kind, c.place, c.waits, c.when, c.inside, c.beside, c.certain) for c in pair] for pair in pairs]
    assert [pair[0].name for pair, (driver, runtime) in zip(pairs, facts, strict=True) if driver != runtime] == DIFFERENT


def test_a_source_names_the_manual_and_the_call():
    assert CALLS["cuStreamBeginCapture"].source == "CUDA Driver API: Stream Management, cuStreamBeginCapture"
