"""log_formats: how frameworks word an out-of-memory error and a broken graph capture: a table, one entry a wording.

Reading a log with it is log_text.py's. Sources: the wordings of PyTorch 1.0 to 2.13 (CUDA, HIP, XPU, NPU, MPS, cudaMallocAsync, CPU),
CuPy, RMM, XLA, TensorFlow, ggml, ONNX Runtime, TensorRT, Paddle, vLLM, CUDA.jl, Warp, and plain driver errors. In every one of them
KB, MB and GB are binary, whatever they are called.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

__all__ = ["CAPTURE_ERRORS", "FORMATS", "NOT_FAILURES", "WRAPPED", "Format"]

# A number with its unit; {size} in a pattern below. Every repetition is bounded: a log line must not cost more than its length.
_SIZE: Final = r"([-+]?\d[\d.,]{0,60} {0,2}(?:[Bb]ytes|[KMGTPE]i?B|[KMGTPE]|B))(?![A-Za-z])"


class Format(NamedTuple):
    """One wording: who says it, what recognises it, and where its figures are. A figure's name is the key; of several patterns for one
    figure the first that is found counts. `more` is how many further lines may belong to it."""

    framework: str
    recognises: re.Pattern[str]
    figures: dict[str, tuple[re.Pattern[str], ...]]
    more: int = 0


def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(text.replace("{size}", _SIZE).replace("{bytes}", r"(\d[\d,]{0,60})"))


def _format(framework: str, recognises: str, more: int = 0, **figures: str | tuple[str, ...]) -> Format:
    patterns = {name: tuple(map(_pattern, (texts,) if isinstance(texts, str) else texts)) for name, texts in figures.items()}
    return Format(framework, _pattern(recognises), patterns, more)


_STATS: Final[dict[str, str]] = {
    "limit_bytes": r"\bLimit: {1,40}(\d[\d.,]{0,30}(?:[KMGT]i?B|B)?)",
    "allocated_bytes": r"\bInUse: {1,40}(\d[\d.,]{0,30}(?:[KMGT]i?B|B)?)",
    "max_in_use_bytes": r"\bMaxInUse: {1,40}(\d[\d.,]{0,30}(?:[KMGT]i?B|B)?)",
    "max_alloc_bytes": r"\bMaxAllocSize: {1,40}(\d[\d.,]{0,30}(?:[KMGT]i?B|B)?)",
}

WRAPPED: Final = 12  # lines that a terminal may have made of one

_TORCH: Final[dict[str, str | tuple[str, ...]]] = {
    "tried_bytes": (r"Tried to allocate {size}", r"Tried to allocate more than (1 ?EB)\b"),
    "device": (r"\((?:GPU|NPU|XPU|MUSA|MLU) (\d{1,6});", r"\b(?:GPU|NPU|XPU|MUSA|MLU) (\d{1,6}) has a total"),
    "total_bytes": (r"{size} total capacity", r"total capaci?ty of {size}"),
    "free_bytes": (r"of which {size} is free", r"; {size} free\b"),
    "allocated_bytes": (r"{size} already allocated", r"[Oo]f the allocated memory {size} is allocated"),
    "active_bytes": r"{size} current active",
    "reserved_total_bytes": r"{size} reserved in total by PyTorch",
    "reserved_unallocated_bytes": (r"{size} is reserved by PyTorch but unallocated", r"{size} cached\b"),
    "allowed_bytes": r"{size} allowed\b",
    "process_bytes": r"this process has {size} memory in use",
    "private_pool_bytes": r"with {size} allocated in private pools",
}

FORMATS: Final = (
    _format(
        "pytorch-cudaMallocAsync",
        r"Allocation on device \d+ would exceed allowed memory",
        6,
        tried_bytes=r"Requested {0,40}: {0,4}{size}",
        device=r"Allocation on device (\d{1,6})\b",
        total_bytes=r"Device limit {0,40}: {0,4}{size}",
        free_bytes=r"Free \(according to CUDA\) {0,40}: {0,4}{size}",
        allocated_bytes=r"Currently allocated {0,40}: {0,4}{size}",
        allowed_bytes=r"PyTorch limit \([^)]{0,80}\) {0,60}: {0,4}{size}",
    ),
    _format(
        "pytorch-mps",
        r"MPS backend out of memory|Invalid buffer size: {size}",
        tried_bytes=(r"Tried to allocate {size}", r"Invalid buffer size: {size}"),
        allocated_bytes=r"MPS allocated: {size}",
        other_bytes=r"other allocations: {size}",
        allowed_bytes=r"max allowed: {size}",
    ),
    _format("torch_npu", r"NPU out of memory\.? Tried to allocate|\(NPU \d{1,6}; {size} total capacity", 2, **_TORCH),
    _format(
        "pytorch",
        r"out of memory\.? Tried to allocate|Tried to allocate {size}\.? \(?(?:GPU|XPU) ?\d"
        r"|\((?:GPU|XPU) \d{1,6}; {size} total capacity",
        WRAPPED,
        **_TORCH,
    ),
    _format(
        "pytorch-driver-log",
        r"memory allocation failed with OOM on device \d+ while trying to allocate {bytes} bytes",
        tried_bytes=r"trying to allocate {bytes} bytes",
        device=r"on device (\d{1,6})\b",
        free_bytes=r"\(free: {bytes}",
        total_bytes=r"total: {bytes}",
    ),
    _format(
        "pytorch-cpu",
        r"DefaultCPUAllocator: (?:can't allocate memory|not enough memory)",
        tried_bytes=r"you tried to allocate {bytes} bytes",
    ),
    _format(
        "torch7",
        r"cuda runtime error \(2\) ?: out of memory|not enough memory: you tried to allocate {size}\. Buy new RAM",
        tried_bytes=r"you tried to allocate {size}",
    ),
    _format(
        "jax",
        r"(?i:resource[ _]exhausted): (?:Out of memory|Failed to allocate|Attempting to)",
        tried_bytes=(
            r"Failed to allocate request for [\d.]{1,30} ?[KMGT]?i?B \({bytes}B\)",
            r"(?:trying to allocate|memory allocating|Failed to allocate) {bytes} bytes",
            r"Failed to allocate request for {size}",
            r"(?:trying to allocate|memory allocating|Attempting to (?:allocate|reserve)) {size}",
        ),
        free_bytes=r"There are {size} free",
        device=r"device ordinal (\d{1,6})",
    ),
    _format(
        "cupy",
        r"OutOfMemoryError: out of memory to allocate {bytes} bytes|^ *out of memory to allocate {bytes} bytes",
        tried_bytes=r"out of memory to allocate {bytes} bytes",
        total_including_request_bytes=r"\(total {bytes} bytes\)",
    ),
    _format(
        "cupy",
        r"Out of memory allocating {bytes} bytes",
        tried_bytes=r"Out of memory allocating {bytes} bytes",
        allocated_so_far_bytes=r"allocated so far: {bytes} bytes",
        limit_bytes=r"limit set to: {bytes} bytes",
    ),
    _format(
        "rmm-log",
        r"\[Upstream {bytes}B\]\[FAILURE",
        tried_bytes=r"\[Upstream {bytes}B\]",
        pool_current_bytes=r"current/max/try size = {size}",
        pool_max_bytes=r"current/max/try size = [\d.]{1,30} [KMGT]?i?B, {size}",
    ),
    _format(
        "rmm",
        r"std::bad_alloc: (?:out_of_memory|CUDA error)|RMM_ERROR_OUT_OF_MEMORY",
        tried_bytes=(r"failed to allocate {bytes} bytes", r"failed to allocate {size}"),
        limit_reached=r"(Maximum pool size exceeded)",
        pool_current_bytes=r"current/max/try size = {size}",
        pool_max_bytes=r"current/max/try size = [\d.]{1,30} [KMGT]?i?B, {size}",
    ),
    _format(
        "xla-tpu",
        r"Ran out of memory in memory space \w{1,20}",
        used_bytes=r"Used {size} of ",
        total_bytes=r"Used [\d.]{1,30}[KMGT]i?B? of {size}",
        exceeded_bytes=r"Exceeded \w{1,20} capacity by {size}",
    ),
    _format(
        "xla-cudaMallocAsync",
        r"cuMemAllocAsync failed to allocate {bytes} bytes",
        12,
        tried_bytes=r"failed to allocate {bytes} bytes",
        free_bytes=r"Free memory/Total memory: {bytes}/",
        total_bytes=r"Free memory/Total memory: \d{1,30}/{bytes}",
        **_STATS,
    ),
    _format(
        "tensorflow-bfc",
        r"Allocator \(\w{1,40}\) ran out of memory trying to allocate",
        tried_bytes=(r"\(rounded to {bytes}\)", r"ran out of memory trying to allocate {size}"),
        op=r"requested by op ([^\s\"]{1,200})",
    ),
    _format(
        "tensorflow",
        r"OOM when allocating tensor with shape",
        tensor=r"tensor with shape ?(\[[\d, ]{1,200}\] and type \w{1,20})",
        device=r"device:GPU:(\d{1,6})",
    ),
    _format(
        "tensorflow",
        r"failed to allocate [\d.]{1,30} ?[KMGT]?i?B? \({bytes} bytes\) from device",
        tried_bytes=r"\({bytes} bytes\) from device",
    ),
    _format(
        "tensorflow-host",
        r"failed to alloc {bytes} bytes on host|could not allocate pinned host memory of size",
        tried_bytes=(r"failed to alloc {bytes} bytes", r"host memory of size: {bytes}"),
    ),
    _format("bfc-statistics", r"\bLimit: {1,40}\d[\d.]{0,30}(?:[KMGT]i?B|B)?\s{1,3}InUse: {1,40}\d", 9, **_STATS),
    _format(
        "ggml",
        r"ggml_backend_\w{1,60}: allocating {size} on device \d+: \w{1,20} failed: out of memory",
        1,
        tried_bytes=(r"buffer of size {bytes}", r"allocation of size {bytes}", r"allocating {size} on device"),
        device=r"on device (\d{1,6})\b",
    ),
    _format(
        "ggml",
        r"failed to allocate \w{1,20} buffer of size {bytes}|ggml_vulkan: Device memory allocation of size {bytes} failed",
        tried_bytes=(r"buffer of size {bytes}", r"allocation of size {bytes}"),
    ),
    _format(
        "onnxruntime",
        r"Failed to allocate memory for requested buffer of size {bytes}|is smaller than requested bytes of {bytes}",
        tried_bytes=(r"requested buffer of size {bytes}", r"requested bytes of {bytes}"),
        limit_reached=r"(Available memory) of",  # of the arena's limit, not of the card
    ),
    _format("onnxruntime", r"CUDA failure 2: out of memory", device=r"\bGPU=(\d{1,6})\b"),
    _format(
        "tensorrt",
        r"Requested amount of (?:GPU )?memory \({bytes} bytes\) could not be allocated|Error Code 2: OutOfMemory",
        tried_bytes=(r"Requested amount of (?:GPU )?memory \({bytes} bytes\)", r"Requested size was {bytes} bytes"),
    ),
    _format(
        "paddle",
        r"Out of memory error on GPU \d+",
        1,
        tried_bytes=r"Cannot allocate {size} memory on GPU",
        device=r"Out of memory error on GPU (\d{1,6})",
        allocated_bytes=r"{size} memory has been allocated",
        free_bytes=r"available memory is only {size}",
    ),
    _format(
        "vllm",
        r"Free memory on device (?:[\w:]{1,20} )?\([\d.]{1,30}/[\d.]{1,30} GiB\) on startup is less than desired",
        free_bytes=r"Free memory on device (?:[\w:]{1,20} )?\(([\d.]{1,30}/[\d.]{1,30} GiB)\)",
        total_bytes=r"Free memory on device (?:[\w:]{1,20} )?\([\d.]{1,30}/{size}\)",
        utilization=r"GPU memory utilization \((\d\.\d{1,6}|\d)",
        desired_bytes=r"GPU memory utilization \([\d.]{1,10}, {size}\)",
    ),
    _format(
        "vllm",
        r"max seq len \(\d{1,12}\), \(?{size} KV cache is needed",
        max_seq_len=r"max seq len \((\d{1,12})\)",
        kv_needed_bytes=r"\(?{size} KV cache is needed",
        kv_available_bytes=r"available KV cache memory \({size}\)",
        estimated_max_len=r"estimated maximum model length is (\d{1,12})",
    ),
    _format(
        "vllm",
        r"max seq len \(\d{1,12}\) is larger than the maximum number of tokens",
        max_seq_len=r"max seq len \((\d{1,12})\)",
        estimated_max_len=r"stored in (?:the )?KV cache \((\d{1,12})\)",
    ),
    _format("vllm", r"No available memory for the cache blocks", advice=r"for the cache blocks\W{1,3}(Try [^.]{1,200})"),
    _format(
        "cuda.jl",
        r"Out of GPU memory trying to allocate",
        6,
        tried_bytes=r"trying to allocate {size}",
        used_bytes=r"memory usage: [\d.]{1,12}% \(([\d.]{1,30} [KMGT]?i?B|\d{1,20} bytes)/",
        total_bytes=r"memory usage: [\d.]{1,12}% \([\d.]{1,30} (?:[KMGT]?i?B|bytes)/{size}\)",
        allocator_bytes=r"allocator usage: {size}",
        allocated_bytes=r"[Mm]emory pool usage: {size}",
        reserved_total_bytes=r"[Mm]emory pool usage: [\d.]{1,30} (?:[KMGT]?i?B|bytes) \({size} reserved\)",
        limit_bytes=r"capped at {size}",
    ),
    _format(
        "warp",
        r"Warp CUDA error 2: out of memory|Failed to allocate {bytes} bytes on device",
        tried_bytes=r"Failed to allocate {bytes} bytes on device",
        device=r"on device 'cuda:(\d{1,6})'",
    ),
    _format(
        "pinned-host",
        r"(?:cudaMallocHost|(?:cuda|hip)Host(?:Alloc|Malloc|Register)|cuMem(?:AllocHost|Host(?:Alloc|Register)))\w{0,3} failed"
        r"|(?:CUDA|HIP) (?:driver |runtime )?error: out of memory"
        r" while calling (?:cudaMallocHost|cu\w{0,5}Host(?:Alloc|Register)|cuMemAllocHost)"
        r"|failed to pin {size} of host memory|failed to pin {bytes}",
        tried_bytes=(r"failed to pin {size}", r"failed to pin {bytes} bytes"),
    ),
    _format(
        "sglang",
        r"Not enough memory\. Please try to increase --mem-fraction-static",
        advice=r"Please (try to increase --mem-fraction-static)",
    ),
    _format("tgi", r"Not enough memory to handle \d{1,9} \w{1,20} tokens", advice=r"tokens\W{1,3}(You need to [^.]{1,200})"),
    # A library that could not have its workspace: it says so by a status of its own.
    _format("cuda-library", r"\bCU(?:BLAS|DNN|SPARSE|SOLVER)_STATUS_ALLOC_FAILED\b|\bCUFFT_ALLOC_FAILED\b"),
    _format("nccl", r"NCCL WARN .{0,200}Cuda failure (?:\d{1,3} )?'out of memory'"),
    _format(
        "driver",
        r"(?:CUDA|HIP) (?:driver |runtime )?error: out of memory"
        r"|(?:CUDA_ERROR_OUT_OF_MEMORY|cudaErrorMemoryAllocation|hipErrorOutOfMemory):? \(?out of memory"
        r"|\b(?:cu|cuda|hip)[A-Z]\w{0,40}(?:\(.{0,200}\))?:? {0,2}(?:retry )?(?:failed)?: out of memory|results in CUDA_ERROR_OUT_OF_MEMORY"
        r"|(?i:\berror\b|failed|failure|exception|what\(\)).{0,200}"
        r"(?:CUDA_ERROR_OUT_OF_MEMORY|cudaErrorMemoryAllocation|hipErrorOutOfMemory)",
        1,
        device=r"current device: (\d{1,6})\b",
    ),
    _format(
        "pytorch",
        r"(?:OutOfMemoryError|RuntimeError)[:)] (?:CUDA|HIP|XPU|NPU) out of memory|OutOfMemoryError: Allocation on device",
        WRAPPED,
        **_TORCH,
    ),
)

# Lines that sound like one and say themselves, or are known, to be none.
NOT_FAILURES: Final = (
    re.compile(r"caller indicates that this is not a failure"),
    re.compile(r"(?i)\btactic\b.{0,200}(?:insufficient|not enough|do not have sufficient|requested)"),
    re.compile(r"(?i)(?:skipping|skipped) tactic"),
)


class _Capture(NamedTuple):
    name: str
    says: str


# What the driver answers when a stream capture goes wrong (cudaError numbers 900 to 908), and what each means.
CAPTURE_ERRORS: Final[dict[int, _Capture]] = {
    900: _Capture(
        "cudaErrorStreamCaptureUnsupported", "a call that a capture does not allow: a sync, a query, a driver allocation"
    ),
    901: _Capture("cudaErrorStreamCaptureInvalidated", "a consequence: an earlier call broke the capture"),
    902: _Capture("cudaErrorStreamCaptureMerge", "work that would have joined two captures"),
    903: _Capture("cudaErrorStreamCaptureUnmatched", "the capture was ended on another stream than it was begun on"),
    904: _Capture("cudaErrorStreamCaptureUnjoined", "a stream that was forked into the capture was not joined before its end"),
    905: _Capture("cudaErrorStreamCaptureIsolation", "a wait on work from outside the capture"),
    906: _Capture(
        "cudaErrorStreamCaptureImplicit", "something touched the legacy default stream, which waits for the capturing one"
    ),
    907: _Capture("cudaErrorCapturedEvent", "an event that was recorded inside a capture was queried or waited for outside"),
    908: _Capture("cudaErrorStreamCaptureWrongThread", "the capture was ended by another thread than began it"),
}
