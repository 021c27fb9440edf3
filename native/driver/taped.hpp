// taped: a driver around a driver that writes each call to a recorder as a row of the tape, while one is attached.
// Pools and regions write their own rows; what a row means is tape/events.hpp's.
//
// Note [Rows of a driver's calls]. `seq` is drawn and the clock read when the call begins (of a query, when it
// returned); the row is written when it returned. Names are CUDA's. Events, frames and segments get a `ref` that is
// never used again, devices and streams an id of the tape; what was made before the recorder came gets its number at
// first sight. The drivers of one recording share these numbers: none of their rows can be mistaken for another's.
// Address ranges, access rights and questions about the device are no rows. A row of a stream that takes part in a
// capture names it; the launch of an executable that was made before the recorder came is incomplete.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "driver/capture_watch.hpp"
#include "driver/port.hpp"
#include "tape/recorder.hpp"

namespace forebay {

class TapedDriver final : public Driver {
 public:
  explicit TapedDriver(Driver& next) : next_(next) {}

  // From now on rows go there; null: nowhere. A recorder outlives the calls that were under way when it was replaced.
  // `mid_life`: memory is held already, and the recorder is to know once a row tells of this driver's devices.
  void attach(Recorder* recorder, bool mid_life = false);
  Recorder* recorder() const { return recorder_.load(std::memory_order_acquire); }
  const std::atomic<Recorder*>& attached() const { return recorder_; }
  // What the tape calls the next stream that this thread makes.
  static void name_next_stream(std::string name);
  // What the next launch of a graph by this thread touches of memory that its nodes go through by indices.
  static void uses_of_next_launch(std::vector<Use> uses);
  // What rows call this device; none while nothing is attached, or where a recording has seen too many.
  std::optional<std::int16_t> device_number(int device);
  // The id that rows on this stream carry, for whoever writes rows of their own; 0 while nothing is attached.
  std::uint32_t stream_number(int device, StreamHandle stream);
  std::uint32_t stream_number(int device, std::uint64_t id);  // by the driver's id
  // The capture that a stream takes part in, by the driver's id of it; none while nothing is attached.
  std::optional<std::uint32_t> capture_number(int device, std::uint64_t id);
  // Grows with every `attach`: numbers of another attachment mean nothing.
  std::uint64_t attachment() const { return attachment_.load(std::memory_order_acquire); }
  // The host reads or writes pinned bytes.
  void host_access(const Use& use);

  std::int64_t now_ns() override { return next_.now_ns(); }
  int device_count() const override { return next_.device_count(); }
  Result<DeviceFacts> facts(int device) override { return next_.facts(device); }
  Result<MemoryInfo> memory_info(int device) override { return next_.memory_info(device); }
  Result<Address> malloc(int device, std::uint64_t bytes) override;
  Status free(int device, Address address) override;
  Result<Address> host_alloc(std::uint64_t bytes) override;
  Status host_free(Address address) override;
  Result<void*> host_pointer(Address address, std::uint64_t bytes) override {
    return next_.host_pointer(address, bytes);
  }
  Result<Address> reserve_range(int device, std::uint64_t bytes) override { return next_.reserve_range(device, bytes); }
  Status release_range(int device, Address address, std::uint64_t bytes) override {
    return next_.release_range(device, address, bytes);
  }
  Result<FrameHandle> create(int device, std::uint64_t bytes) override;
  Status release(int device, FrameHandle frame) override;
  Status map(int device, Address address, std::uint64_t bytes, FrameHandle frame) override;
  Status set_access(int device, Address address, std::uint64_t bytes) override {
    return next_.set_access(device, address, bytes);
  }
  Status unmap(int device, Address address, std::uint64_t bytes) override;
  // What pools of the driver's own hand out and take back their owner tells (pool/driver_pool.hpp).
  Result<DriverPoolHandle> pool_create(int device, std::uint64_t most) override {
    return next_.pool_create(device, most);
  }
  Status pool_destroy(int device, DriverPoolHandle pool) override { return next_.pool_destroy(device, pool); }
  Result<Address> pool_alloc(int device, DriverPoolHandle pool, std::uint64_t bytes, StreamHandle stream) override {
    return next_.pool_alloc(device, pool, bytes, stream);
  }
  Status pool_free(int device, Address address, StreamHandle stream) override {
    return next_.pool_free(device, address, stream);
  }
  Status pool_trim(int device, DriverPoolHandle pool, std::uint64_t kept) override {
    return next_.pool_trim(device, pool, kept);
  }
  Result<std::uint64_t> pool_get(int device, DriverPoolHandle pool, PoolAttribute attribute) override {
    return next_.pool_get(device, pool, attribute);
  }
  Status pool_set(int device, DriverPoolHandle pool, PoolAttribute attribute, std::uint64_t value) override {
    return next_.pool_set(device, pool, attribute, value);
  }
  Result<StreamHandle> stream_create(int device, StreamKind kind, int priority) override;
  Status stream_destroy(int device, StreamHandle stream) override;
  Result<std::uint64_t> stream_id(int device, StreamHandle stream) override;
  Result<bool> stream_capturing(int device, StreamHandle stream) override {
    return next_.stream_capturing(device, stream);
  }
  Status stream_sync(int device, StreamHandle stream) override;
  Result<bool> stream_query(int device, StreamHandle stream) override;
  Status stream_wait(int device, StreamHandle stream, EventHandle event) override;
  Status device_sync(int device) override;
  Result<EventHandle> event_create(int device) override;
  Status event_destroy(int device, EventHandle event) override;
  Status event_record(int device, EventHandle event, StreamHandle stream) override;
  Status event_sync(int device, EventHandle event) override;
  Result<bool> event_query(int device, EventHandle event) override;
  Status copy(int device, Address to, Address from, std::uint64_t bytes, StreamHandle stream) override;
  Status upload(int device, Address to, const void* from, std::uint64_t bytes, StreamHandle stream) override;
  Status download(int device, void* to, Address from, std::uint64_t bytes, StreamHandle stream) override;
  Status memset(int device, Address to, std::uint8_t value, std::uint64_t bytes, StreamHandle stream) override;
  Status host_func(int device, StreamHandle stream, std::function<void()> function) override;
  Status launch(int device, StreamHandle stream, Work work) override;
  Status capture_begin(int device, StreamHandle stream, CaptureMode mode) override;
  Result<GraphHandle> capture_end(int device, StreamHandle stream) override;
  Result<CaptureInfo> capture_info(int device, StreamHandle stream) override {
    return next_.capture_info(device, stream);
  }
  Result<CaptureMode> exchange_capture_mode(CaptureMode mode) override { return next_.exchange_capture_mode(mode); }
  Result<std::uint64_t> graph_nodes(int device, GraphHandle graph) override { return next_.graph_nodes(device, graph); }
  Result<ExecutableHandle> graph_instantiate(int device, GraphHandle graph) override;
  Status graph_launch(int device, ExecutableHandle executable, StreamHandle stream) override;
  Status graph_destroy(int device, GraphHandle graph) override;
  Status executable_destroy(int device, ExecutableHandle executable) override;
  std::optional<WorkTimes> work_times() override { return next_.work_times(); }
  bool watch(const std::shared_ptr<Watch>& watch) override { return next_.watch(watch); }
  std::string failure() override { return next_.failure(); }

 private:
  using Refs = std::unordered_map<std::uint64_t, std::uint32_t>;
  using StreamKey = std::tuple<int, std::uint64_t, std::uint32_t>;  // device, handle, thread of a per-thread stream
  static StreamKey stream_key(int device, StreamHandle stream);

  // Makes the call; while recording, `before` and `after` fill its row.
  template <class Made, class Before, class After>
  auto row(Kind kind, std::string_view name, Made&& made, Before&& before, After&& after) -> decltype(made());
  template <class Made, class Before>
  auto row(Kind kind, std::string_view name, Made&& made, Before&& before) -> decltype(made());
  template <class Made>
  Status work(Kind kind, std::string_view name, int device, StreamHandle stream, std::span<const Use> uses,
              Made&& made);
  void on_device(Row& row, int device);
  void on_stream(Row& row, int device, StreamHandle stream);
  void on_event(Row& row, EventHandle event);
  void on_frame(Row& row, FrameHandle frame);
  void of_bytes(Row& row, Address address, std::uint64_t bytes);
  void on_ref(Row& row, Refs& refs, std::uint64_t handle);
  void on_capture(Row& row, int device, StreamHandle stream);
  void on_capture(Row& row, std::uint64_t capture);
  std::optional<std::uint32_t> ref_of(Refs& refs, std::uint64_t handle);
  Result<std::uint64_t> id_of(int device, StreamHandle stream);
  template <class Destroy>
  Status graph_row(std::string_view name, Refs& refs, std::uint64_t handle, Destroy&& destroy);
  std::optional<std::int16_t> number_of(Recorder& recorder, int device);
  std::uint32_t define_stream(Recorder& recorder, int device, StreamHandle stream, std::uint64_t id);
  void keep_size(Address address, std::uint64_t bytes);
  std::uint64_t drop_size(Address address);
  Use use_of(Address address, std::uint64_t bytes, Mode mode);

  Driver& next_;
  std::atomic<Recorder*> recorder_{nullptr};
  std::atomic<std::uint64_t> attachment_{0};
  std::mutex lock_;                                            // of what follows
  std::optional<std::int16_t> first_device_;                   // of this attachment, once a row needed it
  bool mid_life_ = false;                                      // when it was attached
  Refs events_, frames_, streams_;                             // streams by the driver's id
  Refs captures_, graphs_, executables_;                       // captures by the watch's number
  std::map<StreamKey, std::uint64_t> ids_;                     // of streams
  std::unordered_map<std::uint64_t, std::uint64_t> ended_in_;  // by graph, the capture
  std::unordered_map<std::uint64_t, StreamFacts> facts_;       // of the streams made here, by the driver's id
  std::unordered_map<std::uint64_t, StreamHandle> defaults_;   // the default streams, by the driver's id
  std::unordered_map<Address, std::uint64_t> sizes_;           // of segments and pinned allocations
  std::map<Address, std::uint64_t> pinned_;
  CaptureWatch watch_;
};

}  // namespace forebay
