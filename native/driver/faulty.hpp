// faulty: a driver around a driver that counts its calls by name and fails the one it was told to. What fails is never
// made: it changes nothing below. What a status means is the port's.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <utility>

#include "driver/call.hpp"
#include "driver/port.hpp"

namespace forebay {

// The `nth` call of these (1: the next one) answers `status`; where `always`, so does each of them after it.
struct Fault {
  CallSet calls = kEveryCall;
  std::uint64_t nth = 1;
  Status status = Status::out_of_memory;
  bool always = false;
};

class FaultyDriver final : public Driver {
 public:
  explicit FaultyDriver(Driver& next) : next_(next) {}

  // Plans are taken one after another: a plan counts from the call after the one before it struck. A sticky status
  // answers every call from then on.
  void plan(const Fault& fault);
  void forget_plans();
  std::size_t plans_left() const;
  std::uint64_t count(Call call) const {
    return counts_[static_cast<std::size_t>(call)].load(std::memory_order_relaxed);
  }

  std::int64_t now_ns() override { return next_.now_ns(); }
  int device_count() const override { return next_.device_count(); }
  Result<DeviceFacts> facts(int device) override {
    return made(Call::facts, [&] { return next_.facts(device); });
  }
  Result<MemoryInfo> memory_info(int device) override {
    return made(Call::memory_info, [&] { return next_.memory_info(device); });
  }
  Result<Address> malloc(int device, std::uint64_t bytes) override {
    return made(Call::malloc, [&] { return next_.malloc(device, bytes); });
  }
  Status free(int device, Address address) override {
    return made(Call::free, [&] { return next_.free(device, address); });
  }
  Result<Address> host_alloc(std::uint64_t bytes) override {
    return made(Call::host_alloc, [&] { return next_.host_alloc(bytes); });
  }
  Status host_free(Address address) override {
    return made(Call::host_free, [&] { return next_.host_free(address); });
  }
  Result<void*> host_pointer(Address address, std::uint64_t bytes) override {
    return made(Call::host_pointer, [&] { return next_.host_pointer(address, bytes); });
  }
  Result<Address> reserve_range(int device, std::uint64_t bytes) override {
    return made(Call::reserve_range, [&] { return next_.reserve_range(device, bytes); });
  }
  Status release_range(int device, Address address, std::uint64_t bytes) override {
    return made(Call::release_range, [&] { return next_.release_range(device, address, bytes); });
  }
  Result<FrameHandle> create(int device, std::uint64_t bytes) override {
    return made(Call::create, [&] { return next_.create(device, bytes); });
  }
  Status release(int device, FrameHandle frame) override {
    return made(Call::release, [&] { return next_.release(device, frame); });
  }
  Status map(int device, Address address, std::uint64_t bytes, FrameHandle frame) override {
    return made(Call::map, [&] { return next_.map(device, address, bytes, frame); });
  }
  Status set_access(int device, Address address, std::uint64_t bytes) override {
    return made(Call::set_access, [&] { return next_.set_access(device, address, bytes); });
  }
  Status unmap(int device, Address address, std::uint64_t bytes) override {
    return made(Call::unmap, [&] { return next_.unmap(device, address, bytes); });
  }
  Result<DriverPoolHandle> pool_create(int device, std::uint64_t most) override {
    return made(Call::pool_create, [&] { return next_.pool_create(device, most); });
  }
  Status pool_destroy(int device, DriverPoolHandle pool) override {
    return made(Call::pool_destroy, [&] { return next_.pool_destroy(device, pool); });
  }
  Result<Address> pool_alloc(int device, DriverPoolHandle pool, std::uint64_t bytes, StreamHandle stream) override {
    return made(Call::pool_alloc, [&] { return next_.pool_alloc(device, pool, bytes, stream); });
  }
  Status pool_free(int device, Address address, StreamHandle stream) override {
    return made(Call::pool_free, [&] { return next_.pool_free(device, address, stream); });
  }
  Status pool_trim(int device, DriverPoolHandle pool, std::uint64_t kept) override {
    return made(Call::pool_trim, [&] { return next_.pool_trim(device, pool, kept); });
  }
  Result<std::uint64_t> pool_get(int device, DriverPoolHandle pool, PoolAttribute attribute) override {
    return made(Call::pool_get, [&] { return next_.pool_get(device, pool, attribute); });
  }
  Status pool_set(int device, DriverPoolHandle pool, PoolAttribute attribute, std::uint64_t value) override {
    return made(Call::pool_set, [&] { return next_.pool_set(device, pool, attribute, value); });
  }
  Result<StreamHandle> stream_create(int device, StreamKind kind, int priority) override {
    return made(Call::stream_create, [&] { return next_.stream_create(device, kind, priority); });
  }
  Status stream_destroy(int device, StreamHandle stream) override {
    return made(Call::stream_destroy, [&] { return next_.stream_destroy(device, stream); });
  }
  Result<std::uint64_t> stream_id(int device, StreamHandle stream) override {
    return made(Call::stream_id, [&] { return next_.stream_id(device, stream); });
  }
  Result<bool> stream_capturing(int device, StreamHandle stream) override {
    return made(Call::stream_capturing, [&] { return next_.stream_capturing(device, stream); });
  }
  Status stream_sync(int device, StreamHandle stream) override {
    return made(Call::stream_sync, [&] { return next_.stream_sync(device, stream); });
  }
  Result<bool> stream_query(int device, StreamHandle stream) override {
    return made(Call::stream_query, [&] { return next_.stream_query(device, stream); });
  }
  Status stream_wait(int device, StreamHandle stream, EventHandle event) override {
    return made(Call::stream_wait, [&] { return next_.stream_wait(device, stream, event); });
  }
  Status device_sync(int device) override {
    return made(Call::device_sync, [&] { return next_.device_sync(device); });
  }
  Result<EventHandle> event_create(int device) override {
    return made(Call::event_create, [&] { return next_.event_create(device); });
  }
  Status event_destroy(int device, EventHandle event) override {
    return made(Call::event_destroy, [&] { return next_.event_destroy(device, event); });
  }
  Status event_record(int device, EventHandle event, StreamHandle stream) override {
    return made(Call::event_record, [&] { return next_.event_record(device, event, stream); });
  }
  Status event_sync(int device, EventHandle event) override {
    return made(Call::event_sync, [&] { return next_.event_sync(device, event); });
  }
  Result<bool> event_query(int device, EventHandle event) override {
    return made(Call::event_query, [&] { return next_.event_query(device, event); });
  }
  Status copy(int device, Address to, Address from, std::uint64_t bytes, StreamHandle stream) override {
    return made(Call::copy, [&] { return next_.copy(device, to, from, bytes, stream); });
  }
  Status upload(int device, Address to, const void* from, std::uint64_t bytes, StreamHandle stream) override {
    return made(Call::upload, [&] { return next_.upload(device, to, from, bytes, stream); });
  }
  Status download(int device, void* to, Address from, std::uint64_t bytes, StreamHandle stream) override {
    return made(Call::download, [&] { return next_.download(device, to, from, bytes, stream); });
  }
  Status memset(int device, Address to, std::uint8_t value, std::uint64_t bytes, StreamHandle stream) override {
    return made(Call::memset, [&] { return next_.memset(device, to, value, bytes, stream); });
  }
  Status host_func(int device, StreamHandle stream, std::function<void()> function) override {
    return made(Call::host_func, [&] { return next_.host_func(device, stream, std::move(function)); });
  }
  Status launch(int device, StreamHandle stream, Work work) override {
    return made(Call::launch, [&] { return next_.launch(device, stream, std::move(work)); });
  }
  Status capture_begin(int device, StreamHandle stream, CaptureMode mode) override {
    return made(Call::capture_begin, [&] { return next_.capture_begin(device, stream, mode); });
  }
  Result<GraphHandle> capture_end(int device, StreamHandle stream) override {
    return made(Call::capture_end, [&] { return next_.capture_end(device, stream); });
  }
  Result<CaptureInfo> capture_info(int device, StreamHandle stream) override {
    return made(Call::capture_info, [&] { return next_.capture_info(device, stream); });
  }
  Result<CaptureMode> exchange_capture_mode(CaptureMode mode) override {
    return made(Call::exchange_capture_mode, [&] { return next_.exchange_capture_mode(mode); });
  }
  Result<std::uint64_t> graph_nodes(int device, GraphHandle graph) override {
    return made(Call::graph_nodes, [&] { return next_.graph_nodes(device, graph); });
  }
  Result<ExecutableHandle> graph_instantiate(int device, GraphHandle graph) override {
    return made(Call::graph_instantiate, [&] { return next_.graph_instantiate(device, graph); });
  }
  Status graph_launch(int device, ExecutableHandle executable, StreamHandle stream) override {
    return made(Call::graph_launch, [&] { return next_.graph_launch(device, executable, stream); });
  }
  Status graph_destroy(int device, GraphHandle graph) override {
    return made(Call::graph_destroy, [&] { return next_.graph_destroy(device, graph); });
  }
  Status executable_destroy(int device, ExecutableHandle executable) override {
    return made(Call::executable_destroy, [&] { return next_.executable_destroy(device, executable); });
  }
  std::optional<WorkTimes> work_times() override { return next_.work_times(); }
  bool watch(const std::shared_ptr<Watch>& watch) override { return next_.watch(watch); }
  std::string failure() override { return planned() ? "as planned" : next_.failure(); }

 private:
  template <class F>
  auto made(Call call, F&& f) -> decltype(f()) {
    counts_[static_cast<std::size_t>(call)].fetch_add(1, std::memory_order_relaxed);
    planned() = false;
    if (planned_.load(std::memory_order_acquire))
      if (const auto status = struck(call)) {
        planned() = true;
        return *status;
      }
    return f();
  }
  std::optional<Status> struck(Call call);
  static bool& planned() {  // whether this thread's last call was answered by a plan
    thread_local bool planned = false;
    return planned;
  }

  Driver& next_;
  std::array<std::atomic<std::uint64_t>, kCallNames.size()> counts_{};
  std::atomic<bool> planned_{false};  // a plan is left or a fault stays: else no call takes the lock
  mutable std::mutex lock_;
  std::deque<Fault> plans_;
  std::deque<Fault> lasting_;
};

}  // namespace forebay
