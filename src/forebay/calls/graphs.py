"""graphs: the calls on captures, graphs and code modules."""

from forebay._core.tape import Kind
from forebay.calls.entry import AGAIN, NEVER, NODE, UNSAFE, Condition, Place, Waits, family

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
        inside=AGAIN,
        note="900 on the legacy default stream",
    ),
    *family(
        _STREAM,
        "cuStreamEndCapture cudaStreamEndCapture",
        Kind.capture_end,
        place=Place.ARGUMENT,
        note="901 where it was invalidated, 903 on another stream, 904 with unjoined work, 908 on another thread, which ends it",
    ),
    *family(
        _STREAM,
        "cuStreamIsCapturing cudaStreamIsCapturing cuStreamGetCaptureInfo cudaStreamGetCaptureInfo",
        place=Place.ARGUMENT,
        note="of the legacy default stream while a blocking stream captures: 906, and nothing is invalidated",
    ),
    *family(
        _STREAM,
        "cuStreamUpdateCaptureDependencies cudaStreamUpdateCaptureDependencies",
        place=Place.ARGUMENT,
        inside=NODE,
        certain=False,
    ),
    *family(_STREAM, "cuThreadExchangeStreamCaptureMode cudaThreadExchangeStreamCaptureMode"),
    *family(_GRAPH, "cuGraphLaunch cudaGraphLaunch", Kind.graph_launch, place=Place.ARGUMENT, inside=NEVER),
    *family(_GRAPH, "cuGraphUpload cudaGraphUpload", place=Place.ARGUMENT, inside=NEVER),
    *family(
        _GRAPH,
        "cuGraphInstantiate cuGraphInstantiateWithFlags cuGraphInstantiateWithParams cudaGraphInstantiate cudaGraphInstantiateWithFlags",
        Kind.graph_instantiate,
        law=UNSAFE,
        note="executables take device memory outside every pool",
    ),
    *family(_GRAPH, "cuGraphExecUpdate cudaGraphExecUpdate"),
    *family(_GRAPH, "cuGraphExecDestroy cudaGraphExecDestroy", Kind.graph_destroy, law=UNSAFE),
    *family(_GRAPH, "cuGraphCreate cudaGraphCreate cuGraphDestroy cudaGraphDestroy cuGraphGetNodes cudaGraphGetNodes"),
    *family(_GRAPH, _NODES),
    *family(
        _MODULE,
        "cuModuleLoad cuModuleLoadData cuModuleLoadDataEx cuModuleLoadFatBinary",
        waits=Waits.DEVICE,
        note="takes device memory outside every pool",
    ),
    *family(_MODULE, "cuModuleUnload", waits=Waits.DEVICE, law=UNSAFE),
    *family(_MODULE, "cuModuleGetFunction"),
    *family(_MODULE, "cuModuleGetGlobal", certain=False),
    *family(_LIBRARY, "cuLibraryLoadData cuLibraryLoadFromFile cuLibraryGetKernel", note="the module is loaded at first use"),
    *family(_LIBRARY, "cuLibraryGetModule", waits=Waits.DEVICE, when=Condition.FIRST_USE, certain=False),
    *family(_LIBRARY, "cuLibraryUnload", waits=Waits.DEVICE, when=Condition.LOADED, law=UNSAFE, certain=False),
)
