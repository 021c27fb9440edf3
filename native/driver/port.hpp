// port: the few driver calls that a pool and a stream need. Everything above it (pools, runtime, what-if) knows no
// other driver. What a call costs and how work is scheduled is each driver's own; pools, lifetimes and rows on a tape
// are not its business: tape rows are taped.hpp's, planned faults are faulty.hpp's, both drivers around a driver.
//
// Pre-conditions, stated once for every implementation (and checked by none of the callers twice):
//  - Sizes are in bytes and not zero. `create`, `map`, `unmap` and `set_access` take multiples of `granularity`; `map`
//    covers one whole frame at offset 0 and the range is reserved and not mapped; `unmap` names whole mappings;
//    `release_range` an unmapped range exactly as reserved. A frame lives until it is released and mapped nowhere.
//  - A handle is used on the device that made it, save that a stream may wait for another device's event. A destroyed
//    handle answers `invalid_handle`, and its number may come back.
//  - Every call may come from any thread, save from inside work (a kernel, a host function), where whatever waits
//    answers `not_permitted`. None throws.
//  - Calls that wait or ask (syncs, queries, `free`, `host_free`, `download`) and, on a seeded simulated device, calls
//    that issue work may run work that is due on the calling thread: make them under no lock that work may want.
//  - `free`, `host_free` wait for the device's earlier work; `unmap` and `release` wait for nothing: the caller knows
//    that no work still touches the bytes.
//  - After a sticky error every call answers that error and changes nothing.
//  - Between `capture_begin` and `capture_end` what goes into a stream, and into streams that wait there for an event
//    recorded there, is noted and not run; what the host may not do meanwhile is Note [What a capture forbids]. A
//    driver that captures nothing leaves these calls as they are: `not_supported`.
//
// Note [What a capture forbids], as an H200 answered (benchmarks/results/{calls,capture}-h200.json). `malloc`, `free`,
// `host_alloc`, `host_free`, `graph_instantiate`, `executable_destroy`, and syncs and queries of what takes no part are
// *unsafe*: `capture_unsupported` on the thread of a capture that is not relaxed, and on every thread during a global
// one, save for a thread that exchanged its mode (to thread_local: others' captures do not count; to relaxed: none).
// Whatever the mode: `stream_sync`, `stream_query`, `stream_id` of a stream that takes part, `graph_launch` into it and
// `device_sync` answer `capture_unsupported`; syncs and queries of an event recorded in a capture `captured_event`; a
// wait for an event recorded outside `capture_isolation`, in another capture `capture_merge`; anything on the legacy
// stream while a blocking stream takes part `capture_implicit`, as does its wait for a captured event. Each of these
// invalidates the captures that forbid it: work, records and waits there answer `capture_invalidated` from then on, and
// so does the end. Mapping calls, and making streams and events, are always legal.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "driver/status.hpp"
#include "tape/columns.hpp"

namespace forebay {

class Watch;

using Address = std::uint64_t;  // of device memory; never to be dereferenced on the host

// Strong handles: a stream is not an event, and neither is an integer.
struct StreamHandle {
  std::uint64_t value = 0;
  auto operator<=>(const StreamHandle&) const = default;
};
struct EventHandle {
  std::uint64_t value = 0;
  auto operator<=>(const EventHandle&) const = default;
};
struct FrameHandle {
  std::uint64_t value = 0;
  auto operator<=>(const FrameHandle&) const = default;
};
struct GraphHandle {
  std::uint64_t value = 0;
  auto operator<=>(const GraphHandle&) const = default;
};
struct ExecutableHandle {
  std::uint64_t value = 0;
  auto operator<=>(const ExecutableHandle&) const = default;
};
struct DriverPoolHandle {
  std::uint64_t value = 0;
  auto operator<=>(const DriverPoolHandle&) const = default;
};

// The handles that every device has: 0 and 1 are its legacy default stream, 2 is the calling thread's default stream.
inline constexpr StreamHandle kLegacyStream{1}, kPerThreadStream{2};

enum class StreamKind : std::uint8_t { blocking, nonblocking };

// Whose unsafe calls a capture forbids (every thread's, its own thread's, nobody's); a thread's own mode says which
// captures it heeds. The numbers are CUDA's.
enum class CaptureMode : std::uint8_t { global, thread_local_, relaxed };
enum class CaptureStatus : std::uint8_t { none, active, invalidated };
struct CaptureInfo {
  CaptureStatus status = CaptureStatus::none;
  std::uint64_t id = 0;  // unique for the process's life; 0: none
};

// What a pool of the driver's own can be told and asked. The numbers are CUDA's (CUmemPool_attribute). The first three
// are 0 or 1: may memory freed in one stream go to another that an event made wait for it; that finds it complete; that
// the driver then makes wait. Above the threshold idle bytes go back whenever somebody waits. The rest are bytes now,
// and their peak, which only 0 can be written to.
enum class PoolAttribute : std::int32_t {
  follow_events = 1,
  opportunistic,
  internal_waits,
  release_threshold,
  reserved,
  reserved_high,
  used,
  used_high,
};

struct DeviceFacts {
  std::uint64_t total_bytes = 0;
  std::uint64_t granularity = 0;  // of frames and mappings, bytes; 0 where the device has no virtual memory management
  std::string name;
};
struct MemoryInfo {
  std::uint64_t free_bytes = 0, total_bytes = 0;
};

// A kernel whose code is a function of this process: what the simulated device runs. `run` gets one host pointer a use,
// in order, good until it returns; anything but `ok` is the device's sticky fault. The last `indexed` uses are memory
// in which a node of a graph goes where indices in other memory say: it is handed over whole, and what is touched of it
// each launch of the graph says (TapedDriver::uses_of_next_launch).
struct Work {
  std::string name;
  std::optional<std::int64_t> cost_ns;  // on the device's clock; none: what the driver takes a kernel to cost
  std::vector<Use> uses;
  std::function<Status(std::span<void* const> views)> run;
  std::size_t indexed = 0;
  bool far = false;  // a copy: it reaches other devices' mappings without having been let in
  std::span<const Use> told() const { return std::span(uses).first(uses.size() - indexed); }
};
struct WorkTimes {
  std::int64_t begin_ns = 0, end_ns = 0;
};

class Driver {
 public:
  virtual ~Driver() = default;

  virtual std::int64_t now_ns() = 0;  // the calling thread's clock

  virtual int device_count() const = 0;
  virtual Result<DeviceFacts> facts(int device) = 0;
  virtual Result<MemoryInfo> memory_info(int device) = 0;

  // Driver segments (cuMemAlloc, cuMemFree) and pinned host memory (cuMemHostAlloc, cuMemFreeHost).
  virtual Result<Address> malloc(int device, std::uint64_t bytes) = 0;
  [[nodiscard]] virtual Status free(int device, Address address) = 0;
  virtual Result<Address> host_alloc(std::uint64_t bytes) = 0;
  [[nodiscard]] virtual Status host_free(Address address) = 0;
  // Where the host finds pinned bytes (on a real device: the address itself).
  virtual Result<void*> host_pointer(Address address, std::uint64_t bytes) = 0;

  // Virtual memory: address ranges, frames (physical memory), and the mappings between them.
  virtual Result<Address> reserve_range(int device, std::uint64_t bytes) = 0;
  [[nodiscard]] virtual Status release_range(int device, Address address, std::uint64_t bytes) = 0;
  virtual Result<FrameHandle> create(int device, std::uint64_t bytes) = 0;
  [[nodiscard]] virtual Status release(int device, FrameHandle frame) = 0;
  [[nodiscard]] virtual Status map(int device, Address address, std::uint64_t bytes, FrameHandle frame) = 0;
  // The device may touch the mappings from now on, its own or a peer's. Copies reach a peer's without.
  [[nodiscard]] virtual Status set_access(int device, Address address, std::uint64_t bytes) = 0;
  [[nodiscard]] virtual Status unmap(int device, Address address, std::uint64_t bytes) = 0;

  // Pools of the driver's own (cuMemPoolCreate, cuMemAllocFromPoolAsync, cuMemFreeAsync): memory in the order of
  // streams. `most` bounds what it takes from the device, where the driver can; 0: nothing does. `pool_alloc` and
  // `pool_free` are work of their stream: not for one that captures. `pool_destroy` may come before its last free.
  virtual Result<DriverPoolHandle> pool_create(int /*device*/, std::uint64_t /*most*/) { return Status::not_supported; }
  [[nodiscard]] virtual Status pool_destroy(int /*device*/, DriverPoolHandle /*pool*/) { return Status::not_supported; }
  virtual Result<Address> pool_alloc(int /*device*/, DriverPoolHandle /*pool*/, std::uint64_t /*bytes*/,
                                     StreamHandle /*stream*/) {
    return Status::not_supported;
  }
  [[nodiscard]] virtual Status pool_free(int /*device*/, Address /*address*/, StreamHandle /*stream*/) {
    return Status::not_supported;
  }
  // Idle bytes go back until no more than `kept` are reserved.
  [[nodiscard]] virtual Status pool_trim(int /*device*/, DriverPoolHandle /*pool*/, std::uint64_t /*kept*/) {
    return Status::not_supported;
  }
  virtual Result<std::uint64_t> pool_get(int /*device*/, DriverPoolHandle /*pool*/, PoolAttribute /*attribute*/) {
    return Status::not_supported;
  }
  [[nodiscard]] virtual Status pool_set(int /*device*/, DriverPoolHandle /*pool*/, PoolAttribute /*attribute*/,
                                        std::uint64_t /*value*/) {
    return Status::not_supported;
  }

  // Streams. `stream_id` is unique for the process's life (cuStreamGetId); handles come back.
  virtual Result<StreamHandle> stream_create(int device, StreamKind kind, int priority) = 0;
  [[nodiscard]] virtual Status stream_destroy(int device, StreamHandle stream) = 0;
  virtual Result<std::uint64_t> stream_id(int device, StreamHandle stream) = 0;
  virtual Result<bool> stream_capturing(int device, StreamHandle stream) = 0;
  [[nodiscard]] virtual Status stream_sync(int device, StreamHandle stream) = 0;
  virtual Result<bool> stream_query(int device, StreamHandle stream) = 0;  // true: all its work is complete
  [[nodiscard]] virtual Status stream_wait(int device, StreamHandle stream, EventHandle event) = 0;
  [[nodiscard]] virtual Status device_sync(int device) = 0;

  // Events. An event never recorded is complete and orders nothing.
  virtual Result<EventHandle> event_create(int device) = 0;
  [[nodiscard]] virtual Status event_destroy(int device, EventHandle event) = 0;
  [[nodiscard]] virtual Status event_record(int device, EventHandle event, StreamHandle stream) = 0;
  [[nodiscard]] virtual Status event_sync(int device, EventHandle event) = 0;
  virtual Result<bool> event_query(int device, EventHandle event) = 0;  // true: complete

  // Work that needs no kernel. `copy` takes device or pinned addresses at either end. `upload` reads pageable memory
  // before it returns; `download` returns after the copy.
  [[nodiscard]] virtual Status copy(int device, Address to, Address from, std::uint64_t bytes, StreamHandle stream) = 0;
  [[nodiscard]] virtual Status upload(int device, Address to, const void* from, std::uint64_t bytes,
                                      StreamHandle stream) = 0;
  [[nodiscard]] virtual Status download(int device, void* to, Address from, std::uint64_t bytes,
                                        StreamHandle stream) = 0;
  [[nodiscard]] virtual Status memset(int device, Address to, std::uint8_t value, std::uint64_t bytes,
                                      StreamHandle stream) = 0;
  [[nodiscard]] virtual Status host_func(int device, StreamHandle stream, std::function<void()> function) = 0;

  // Captures and graphs. `capture_begin` is refused on the legacy stream (`capture_unsupported`) and on a stream that
  // takes part already (`illegal_state`, harmless). `capture_end` is for the stream that began (another one:
  // `capture_unmatched`, which invalidates) and, but for a relaxed one, its thread (`capture_wrong_thread`, which ends
  // it). Work that the stream was not made to wait for is `capture_unjoined`; after any answer but `illegal_state` and
  // `capture_unmatched` the capture is over. A graph may be empty. An executable needs its graph no more; its launches
  // come after one another, and it may be destroyed while one runs. `upload` and `download` in a capture keep the host
  // pointer: each launch reads or writes there.
  [[nodiscard]] virtual Status capture_begin(int /*device*/, StreamHandle /*stream*/, CaptureMode /*mode*/) {
    return Status::not_supported;
  }
  virtual Result<GraphHandle> capture_end(int /*device*/, StreamHandle /*stream*/) { return Status::not_supported; }
  virtual Result<CaptureInfo> capture_info(int /*device*/, StreamHandle /*stream*/) { return Status::not_supported; }
  // The calling thread's mode from now on; answers the one it had. A thread begins in `global`.
  virtual Result<CaptureMode> exchange_capture_mode(CaptureMode /*mode*/) { return Status::not_supported; }
  virtual Result<std::uint64_t> graph_nodes(int /*device*/, GraphHandle /*graph*/) { return Status::not_supported; }
  virtual Result<ExecutableHandle> graph_instantiate(int /*device*/, GraphHandle /*graph*/) {
    return Status::not_supported;
  }
  [[nodiscard]] virtual Status graph_launch(int /*device*/, ExecutableHandle /*executable*/, StreamHandle /*stream*/) {
    return Status::not_supported;
  }
  [[nodiscard]] virtual Status graph_destroy(int /*device*/, GraphHandle /*graph*/) { return Status::not_supported; }
  [[nodiscard]] virtual Status executable_destroy(int /*device*/, ExecutableHandle /*executable*/) {
    return Status::not_supported;
  }

  // Work whose code is ours: `not_supported` where the device runs only its own code. A driver over such a device may
  // call `run` at the issue instead, on the calling thread and with device addresses for views: it issues the work.
  [[nodiscard]] virtual Status launch(int /*device*/, StreamHandle /*stream*/, Work /*work*/) {
    return Status::not_supported;
  }
  // Of the work that this thread issued last, where the driver knows them at the issue: of a node of a capture it does
  // not.
  virtual std::optional<WorkTimes> work_times() { return std::nullopt; }
  // From now on the watch hears of all work, for as long as it lives. False: this driver does not know its work.
  virtual bool watch(const std::shared_ptr<Watch>& /*watch*/) { return false; }
  // What lies under this thread's last call, if that failed, in the words of whoever refused it. Empty: nothing to add.
  virtual std::string failure() { return {}; }
};

}  // namespace forebay
