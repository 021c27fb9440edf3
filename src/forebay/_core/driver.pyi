"""The driver port, the simulated driver, and drivers around a driver."""

from collections.abc import Sequence
import enum

import forebay._core.tape


class LentBytes:
    """Bytes with the buffer protocol, lent until `give_back`."""

    def give_back(self) -> bool:
        """Nobody gets at them from now on; false: somebody still looks at them."""

class Status(enum.IntEnum):
    """What a driver call came to: CUDA's CUresult numbers."""

    ok = 0
    """ok"""

    invalid_value = 1
    """invalid value"""

    out_of_memory = 2
    """out of memory"""

    not_initialized = 3
    """not initialized"""

    deinitialized = 4
    """deinitialized"""

    no_device = 100
    """no device"""

    invalid_device = 101
    """invalid device"""

    invalid_context = 201
    """invalid context"""

    already_mapped = 208
    """already mapped"""

    not_mapped = 211
    """not mapped"""

    ecc_uncorrectable = 214
    """uncorrectable memory error"""

    invalid_handle = 400
    """invalid handle"""

    illegal_state = 401
    """illegal state"""

    not_ready = 600
    """not ready"""

    illegal_address = 700
    """illegal address"""

    launch_timeout = 702
    """launch timed out"""

    context_destroyed = 709
    """context is destroyed"""

    assertion = 710
    """device-side assertion failed"""

    hardware_stack_error = 714
    """hardware stack error"""

    illegal_instruction = 715
    """illegal instruction"""

    misaligned_address = 716
    """misaligned address"""

    invalid_address_space = 717
    """invalid address space"""

    invalid_pc = 718
    """invalid program counter"""

    launch_failed = 719
    """launch failed"""

    not_permitted = 800
    """not permitted"""

    not_supported = 801
    """not supported"""

    capture_unsupported = 900
    """stream capture: unsupported call"""

    capture_invalidated = 901
    """stream capture: invalidated"""

    capture_merge = 902
    """stream capture: merge of two captures"""

    capture_unmatched = 903
    """stream capture: ended on another stream"""

    capture_unjoined = 904
    """stream capture: unjoined work"""

    capture_isolation = 905
    """stream capture: wait on work outside"""

    capture_implicit = 906
    """stream capture: implicit legacy-stream dependency"""

    captured_event = 907
    """captured event used outside its capture"""

    capture_wrong_thread = 908
    """stream capture: wrong thread"""

    unknown = 999
    """unknown error"""

class StreamKind(enum.Enum):
    """Whether a stream joins its device's legacy default stream."""

    blocking = 0

    nonblocking = 1

class CaptureMode(enum.Enum):
    """
    Whose unsafe calls a capture forbids, or which captures a thread heeds.
    """

    thread_local = 1

    relaxed = 2

class CaptureStatus(enum.Enum):
    """
    Whether a stream takes part in a capture, and whether that can still end well.
    """

    none = 0

    active = 1

    invalidated = 2

class CaptureInfo:
    """The capture that a stream takes part in; `id` is 0 for none."""

    @property
    def status(self) -> CaptureStatus: ...

    @property
    def id(self) -> int: ...

class DeviceFacts:
    """What a device is; figures in bytes."""

    @property
    def total_bytes(self) -> int: ...

    @property
    def granularity(self) -> int: ...

    @property
    def name(self) -> str: ...

class MemoryInfo:
    """What a device has, and has free, in bytes."""

    @property
    def free_bytes(self) -> int: ...

    @property
    def total_bytes(self) -> int: ...

class Account:
    """What lives on a simulated device now: bytes and counts."""

    @property
    def used_bytes(self) -> int: ...

    @property
    def pinned_bytes(self) -> int: ...

    @property
    def segments(self) -> int: ...

    @property
    def ranges(self) -> int: ...

    @property
    def frames(self) -> int: ...

    @property
    def mappings(self) -> int: ...

    @property
    def streams(self) -> int: ...

    @property
    def events(self) -> int: ...

    @property
    def backlog(self) -> int: ...

    @property
    def graphs(self) -> int: ...

    @property
    def executables(self) -> int: ...

class Driver:
    """
    The driver port. Sizes in bytes; a failed call raises DriverError with its status.
    """

    def facts(self, device: int) -> DeviceFacts: ...

    def memory_info(self, device: int) -> MemoryInfo: ...

    def malloc(self, device: int, bytes: int) -> int: ...

    def free(self, device: int, address: int) -> None: ...

    def host_alloc(self, bytes: int) -> int: ...

    def host_free(self, address: int) -> None: ...

    def reserve_range(self, device: int, bytes: int) -> int: ...

    def release_range(self, device: int, address: int, bytes: int) -> None: ...

    def create(self, device: int, bytes: int) -> int: ...

    def release(self, device: int, frame: int) -> None: ...

    def map(self, device: int, address: int, bytes: int, frame: int) -> None: ...

    def set_access(self, device: int, address: int, bytes: int) -> None: ...

    def unmap(self, device: int, address: int, bytes: int) -> None: ...

    def stream_create(self, device: int, kind: StreamKind, priority: int) -> int: ...

    def stream_destroy(self, device: int, stream: int) -> None: ...

    def stream_id(self, device: int, stream: int) -> int: ...

    def stream_capturing(self, device: int, stream: int) -> bool: ...

    def stream_sync(self, device: int, stream: int) -> None: ...

    def stream_query(self, device: int, stream: int) -> bool: ...

    def stream_wait(self, device: int, stream: int, event: int) -> None: ...

    def device_sync(self, device: int) -> None: ...

    def event_create(self, device: int) -> int: ...

    def event_destroy(self, device: int, event: int) -> None: ...

    def event_record(self, device: int, event: int, stream: int) -> None: ...

    def event_sync(self, device: int, event: int) -> None: ...

    def event_query(self, device: int, event: int) -> bool: ...

    def copy(self, device: int, to: int, from_: int, bytes: int, stream: int) -> None: ...

    def memset(self, device: int, to: int, value: int, bytes: int, stream: int) -> None: ...

    def capture_begin(self, device: int, stream: int, mode: CaptureMode) -> None: ...

    def capture_end(self, device: int, stream: int) -> int: ...

    def capture_info(self, device: int, stream: int) -> CaptureInfo: ...

    def exchange_capture_mode(self, mode: CaptureMode) -> CaptureMode: ...

    def graph_nodes(self, device: int, graph: int) -> int: ...

    def graph_instantiate(self, device: int, graph: int) -> int: ...

    def graph_launch(self, device: int, executable: int, stream: int) -> None: ...

    def graph_destroy(self, device: int, graph: int) -> None: ...

    def executable_destroy(self, device: int, executable: int) -> None: ...

    def now_ns(self) -> int:
        """The calling thread's clock."""

    def device_count(self) -> int: ...

    def host_memory(self, address: int, bytes: int) -> LentBytes:
        """The pinned bytes: good until they are freed."""

    def upload(self, device: int, to: int, from_: object, stream: int) -> None:
        """From pageable memory, read before this returns."""

    def download(self, device: int, to: object, from_: int, stream: int) -> None:
        """To pageable memory; returns after the copy."""

    def launch(self, device: int, stream: int, name: str, cost_ns: int | None, uses: list, run: object, indexed: int = 0) -> None:
        """
        `uses` are (address, size, mode, space), the last two as numbers; `run` gets a list of LentBytes and answers whether it worked. The last `indexed` uses are handed over, and on no tape.
        """

    def host_func(self, device: int, stream: int, run: object) -> None:
        """`run` gets an empty list and answers whether it worked."""

class SimDriver(Driver):
    """Simulated devices. Work runs when it is due, never at its issue."""

    def __init__(self, capacities: Sequence[int], *, seed: int | None = None, held: Sequence[tuple[str, int]] = [], cost: str = 'guide') -> None:
        """
        One device a capacity, in bytes. No seed: work runs in the order of virtual time, but for the work that is held, named by its name and how many of that name were issued before it.
        """

    def account(self, device: int) -> Account: ...

    def fault_of(self, device: int) -> Status:
        """The device's sticky fault, or ok."""

    def spend(self, ns: int) -> None:
        """Host work of the calling thread, on its virtual clock."""

    def host_access(self) -> None:
        """The host is about to touch bytes: due work may run now."""

class FaultyDriver(Driver):
    """Counts the calls to the driver below, and fails those it is told to."""

    def __init__(self, next: Driver) -> None: ...

    def plan(self, calls: Sequence[str], nth: int, status: Status, *, always: bool = False) -> None:
        """
        The nth call of these (none named: of all) answers `status`. Plans are taken one after another.
        """

    def forget_plans(self) -> None: ...

    def plans_left(self) -> int: ...

    def counts(self) -> dict:
        """Calls made so far, by name."""

class TapedDriver(Driver):
    """
    Writes the calls to the driver below to a recorder, while one is attached.
    """

    def __init__(self, next: Driver) -> None: ...

    def attach(self, recorder: forebay._core.tape.Recorder | None, mid_life: bool = False) -> None:
        """
        From now on rows go there; None: nowhere. `mid_life`: memory is held already, which a recorder is to know.
        """

    def name_next_stream(self, name: str) -> None:
        """What the tape calls the next stream that this thread makes."""

    def uses_of_next_launch(self, uses: list) -> None:
        """
        What the next launch of a graph by this thread touches besides what its nodes say.
        """

    def stream_number(self, device: int, stream: int) -> int:
        """The id that rows on this stream carry; 0 while nothing is attached."""

    def host_access(self, address: int, bytes: int, mode: forebay._core.tape.Mode) -> None:
        """A row: the host reads or writes pinned bytes."""

class PoolRows(forebay._core.tape.Sink):
    """The rows of one pool on the tape of a taped driver."""

    def __init__(self, driver: TapedDriver, device: int, name: str, consumer: str | None, kind: str | None, space: str, limit: int | None = None, *, trusted: bool = False) -> None:
        """`trusted`: its own edges are not on the tape."""

    def captured(self, kind: forebay._core.tape.Kind, stream: int, address: int, size: int) -> None:
        """
        A row of a block of a graph's memory, while the stream (by its id) takes part in the capture.
        """
