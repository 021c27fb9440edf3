"""ordering: the calls on streams and events: make, record, wait, ask, sync. What goes into a stream is work.py's."""

from forebay._core.tape import Kind
from forebay.calls.entry import DEVICE, ELAPSED, EVENT, NEVER, NODE, STREAM, UNSAFE, Place, Waits, family

_STREAM, _EVENT, _VALUES = "Stream Management", "Event Management", "Stream Memory Operations"
_OUTSIDE = "905 in a capture where the event was recorded outside it, and the capture is invalidated"
_STREAM_MAKERS = """cuStreamCreate cuStreamCreateWithPriority cudaStreamCreate cudaStreamCreateWithFlags
cudaStreamCreateWithPriority"""

ORDERING = (
    *family(_STREAM, _STREAM_MAKERS, Kind.stream_create),
    *family(
        _STREAM,
        "cuStreamDestroy cudaStreamDestroy",
        Kind.stream_destroy,
        place=Place.ARGUMENT,
        note="returns at once; its resources go when its work is done; a capture that began on it goes with it",
    ),
    *family(
        _STREAM,
        "cuStreamSynchronize cudaStreamSynchronize",
        Kind.sync_stream,
        place=Place.ARGUMENT,
        waits=Waits.STREAM,
        inside=STREAM,
        beside=UNSAFE,
    ),
    *family(_STREAM, "cuStreamQuery cudaStreamQuery", Kind.query, place=Place.ARGUMENT, inside=STREAM, beside=UNSAFE),
    *family(_STREAM, "cuStreamWaitEvent cudaStreamWaitEvent", Kind.wait, place=Place.ARGUMENT, inside=NODE, note=_OUTSIDE),
    *family(
        _STREAM,
        "cuStreamGetId cudaStreamGetId",
        place=Place.ARGUMENT,
        inside=STREAM,
        note="ask for the number before the capture begins",
    ),
    *family(
        _STREAM,
        "cuStreamGetPriority cudaStreamGetPriority cuStreamGetFlags cudaStreamGetFlags cuStreamGetCtx cuStreamGetDevice",
        place=Place.ARGUMENT,
        certain=False,
    ),
    *family(
        _STREAM,
        "cuStreamAttachMemAsync cudaStreamAttachMemAsync",
        place=Place.ARGUMENT,
        inside=NEVER,
    ),
    *family(_EVENT, "cuEventCreate cudaEventCreate cudaEventCreateWithFlags"),
    *family(_EVENT, "cuEventDestroy cudaEventDestroy", Kind.event_destroy, note="a record that has not run yet still completes"),
    *family(_EVENT, "cuEventRecord cudaEventRecord", Kind.record, place=Place.ARGUMENT, inside=NODE),
    *family(_EVENT, "cuEventRecordWithFlags cudaEventRecordWithFlags", Kind.record, place=Place.ARGUMENT, inside=NODE),
    *family(_EVENT, "cuEventQuery cudaEventQuery", Kind.query, inside=EVENT, beside=UNSAFE),
    *family(
        _EVENT,
        "cuEventSynchronize cudaEventSynchronize",
        Kind.sync_event,
        waits=Waits.EVENT,
        inside=EVENT,
        beside=UNSAFE,
    ),
    *family(_EVENT, "cuEventElapsedTime cudaEventElapsedTime", inside=ELAPSED),
    *family("Context Management", "cuCtxSynchronize", Kind.sync_device, waits=Waits.DEVICE, law=DEVICE),
    *family("Device Management", "cudaDeviceSynchronize cudaThreadSynchronize", Kind.sync_device, waits=Waits.DEVICE, law=DEVICE),
    *family("Context Management", "cuCtxCreate cuDevicePrimaryCtxRetain", law=UNSAFE, certain=False),
    *family("Context Management", "cuCtxDestroy cuDevicePrimaryCtxReset", waits=Waits.DEVICE, law=UNSAFE, certain=False),
    *family("Device Management", "cudaDeviceReset", waits=Waits.DEVICE, law=UNSAFE, certain=False),
    *family("Device Management", "cudaSetDevice cudaGetDevice cudaGetDeviceCount cudaDeviceGetAttribute"),
    *family(
        "Device Management",
        "cudaDeviceSetLimit",
        law=UNSAFE,
        certain=False,
        note="a new limit may need memory of its own",
    ),
    *family("Context Management", "cuCtxSetCurrent cuCtxGetCurrent cuCtxPushCurrent cuCtxPopCurrent"),
    *family("Error Handling", "cudaGetLastError cudaPeekAtLastError"),
    *family(
        _VALUES,
        "cuStreamWaitValue32 cuStreamWaitValue64",
        Kind.wait,
        place=Place.ARGUMENT,
        inside=NODE,
        note="an edge that a tape does not show: whatever writes the value may be ordered before it",
    ),
    *family(
        _VALUES,
        "cuStreamWriteValue32 cuStreamWriteValue64 cuStreamBatchMemOp",
        Kind.note,
        place=Place.ARGUMENT,
        inside=NODE,
        certain=False,
        note="whoever waits for the value is ordered after it, which a tape does not show",
    ),
)
