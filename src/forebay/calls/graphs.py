"""graphs: the calls on captures, graphs and code modules."""

from forebay._core.tape import Kind
from forebay.calls.entry import FREE, NEVER, NODE, UNSAFE, Condition, Place, Waits, family

_STREAM, _GRAPH, _MODULE, _LIBRARY = "Stream Management", "Graph Management", "Module Management", "Library Management"
_NODES = """cuGraphAddKernelNode cuGraphAddMemcpyNode cuGraphAddMemsetNode cuGraphAddHostNode cuGraphAddChildGraphNode
cuGraphAddEmptyNode cuGraphAddMemAllocNode cuGraphAddMemFreeNode cudaGraphAddKernelNode cudaGraphAddMemcpyNode
cudaGraphAddMemsetNode cudaGraphAddHostNode cudaGraphAddMemAllocNode cudaGraphAddMemFreeNode"""

GRAPHS = (
    *family(
        _STREAM,
        "cuStreamBeginCapture cuStreamBeginCaptureToGraph cudaStreamBeginCapture cudaStreamBeginCaptureToGraph",
        Kind.capture_begin,
        place=Place.ARGUMENT,
        law=NEVER,
        note="refused on the legacy default stream",
    ),
    *family(
        _STREAM,
        "cuStreamEndCapture cudaStreamEndCapture",
        Kind.capture_end,
        place=Place.ARGUMENT,
        law=FREE,
        note="901 where the capture was invalidated before, 903 on another stream, 904 with unjoined work, 908 on another thread",
    ),
    *family(
        _STREAM,
        "cuStreamIsCapturing cudaStreamIsCapturing cuStreamGetCaptureInfo cudaStreamGetCaptureInfo",
        place=Place.ARGUMENT,
        law=FREE,
        note="of the legacy default stream while a blocking stream captures: 906, and nothing is invalidated",
    ),
    *family(
        _STREAM,
        "cuStreamUpdateCaptureDependencies cudaStreamUpdateCaptureDependencies",
        place=Place.ARGUMENT,
        law=NODE,
    ),
    *family(_STREAM, "cuThreadExchangeStreamCaptureMode cudaThreadExchangeStreamCaptureMode"),
    *family(_GRAPH, "cuGraphLaunch cudaGraphLaunch", Kind.graph_launch, place=Place.ARGUMENT, law=NODE),
    *family(_GRAPH, "cuGraphUpload cudaGraphUpload", place=Place.ARGUMENT, law=NEVER, certain=False),
    *family(
        _GRAPH,
        "cuGraphInstantiate cuGraphInstantiateWithFlags cuGraphInstantiateWithParams cudaGraphInstantiate cudaGraphInstantiateWithFlags",
        Kind.graph_instantiate,
        law=UNSAFE,
        certain=False,
        note="executables take device memory outside every pool",
    ),
    *family(_GRAPH, "cuGraphExecUpdate cudaGraphExecUpdate", law=FREE, certain=False),
    *family(_GRAPH, "cuGraphExecDestroy cudaGraphExecDestroy", Kind.graph_destroy, law=UNSAFE, certain=False),
    *family(_GRAPH, "cuGraphCreate cudaGraphCreate cuGraphDestroy cudaGraphDestroy cuGraphGetNodes cudaGraphGetNodes"),
    *family(_GRAPH, _NODES),
    *family(
        _MODULE,
        "cuModuleLoad cuModuleLoadData cuModuleLoadDataEx cuModuleLoadFatBinary",
        waits=Waits.DEVICE,
        when=Condition.FIRST_USE,
        law=UNSAFE,
        certain=False,
        note="takes device memory outside every pool; loading may wait for the context",
    ),
    *family(_MODULE, "cuModuleUnload", waits=Waits.DEVICE, law=UNSAFE, certain=False),
    *family(
        _MODULE,
        "cuModuleGetFunction cuModuleGetGlobal",
        waits=Waits.DEVICE,
        when=Condition.FIRST_USE,
        law=UNSAFE,
        certain=False,
    ),
    *family(
        _LIBRARY,
        "cuLibraryLoadData cuLibraryLoadFromFile cuLibraryGetKernel cuLibraryGetModule",
        waits=Waits.DEVICE,
        when=Condition.FIRST_USE,
        law=UNSAFE,
        certain=False,
    ),
    *family(_LIBRARY, "cuLibraryUnload", waits=Waits.DEVICE, law=UNSAFE, certain=False),
)
