// sim: the simulated driver. Devices with a capacity, memory that exists, streams, events and a virtual clock; legality
// as the real driver has it. Bytes are sim_memory's, the choice of what runs next sim_schedule's, what a capture
// forbids and notes sim_capture's, prices cost's.
//
// Note [Work runs late]. Nothing runs at its issue. Virtual begin and end are known then (the latest of the host's
// clock and the ends of what comes before, plus the cost), but the code runs when a wait demands it, when a query or a
// host access finds it due, or when the seed says so, on whichever host thread is there, under no lock. Note [Sticky
// faults]. A fault belongs to its device: every later call on it answers the fault, its work that has not run never
// does (it only lets go of what waited for it), and its memory stays as it was until the driver is gone. Calls without
// a device answer the fault of any.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <unordered_map>
#include <vector>

#include "driver/cost.hpp"
#include "driver/port.hpp"
#include "driver/sim_memory.hpp"
#include "driver/sim_schedule.hpp"
#include "driver/watch.hpp"

namespace forebay {

// What lives on a device now; `pinned_bytes`, `backlog` and graphs are the whole driver's.
struct Account {
  std::uint64_t used_bytes = 0, pinned_bytes = 0;
  std::size_t segments = 0, ranges = 0, frames = 0, mappings = 0, streams = 0, events = 0, backlog = 0;
  std::size_t graphs = 0, executables = 0;  // likewise
};

class SimDriver final : public Driver {
 public:
  // One device a capacity, in bytes. Throws std::length_error where the process has too many (sim_memory's
  // AddressSlots).
  SimDriver(std::span<const std::uint64_t> capacities, Costs costs, std::unique_ptr<sim::Schedule> schedule);
  ~SimDriver() override;

  // Beyond the port.
  Account account(int device);
  Status fault_of(int device);
  void spend(std::int64_t ns);  // host work of the calling thread, on its virtual clock
  void host_access();           // the host is about to touch bytes: work may have run by now, or not
  const Costs& costs() const { return costs_; }

  std::int64_t now_ns() override;
  int device_count() const override { return static_cast<int>(devices_.size()); }
  Result<DeviceFacts> facts(int device) override;
  Result<MemoryInfo> memory_info(int device) override;
  Result<Address> malloc(int device, std::uint64_t bytes) override;
  Status free(int device, Address address) override;
  Result<Address> host_alloc(std::uint64_t bytes) override;
  Status host_free(Address address) override;
  Result<void*> host_pointer(Address address, std::uint64_t bytes) override;
  Result<Address> reserve_range(int device, std::uint64_t bytes) override;
  Status release_range(int device, Address address, std::uint64_t bytes) override;
  Result<FrameHandle> create(int device, std::uint64_t bytes) override;
  Status release(int device, FrameHandle frame) override;
  Status map(int device, Address address, std::uint64_t bytes, FrameHandle frame) override;
  Status set_access(int device, Address address, std::uint64_t bytes) override;
  Status unmap(int device, Address address, std::uint64_t bytes) override;
  Result<StreamHandle> stream_create(int device, StreamKind kind, int priority) override;
  Status stream_destroy(int device, StreamHandle stream) override;
  Result<std::uint64_t> stream_id(int device, StreamHandle stream) override;
  Result<bool> stream_capturing(int device, StreamHandle stream) override;
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
  Result<CaptureInfo> capture_info(int device, StreamHandle stream) override;
  Result<CaptureMode> exchange_capture_mode(CaptureMode mode) override;
  Result<std::uint64_t> graph_nodes(int device, GraphHandle graph) override;
  Result<ExecutableHandle> graph_instantiate(int device, GraphHandle graph) override;
  Status graph_launch(int device, ExecutableHandle executable, StreamHandle stream) override;
  Status graph_destroy(int device, GraphHandle graph) override;
  Status executable_destroy(int device, ExecutableHandle executable) override;
  std::optional<WorkTimes> work_times() override;
  bool watch(const std::shared_ptr<Watch>& watch) override;

 private:
  using Lock = std::unique_lock<std::mutex>;
  using LanePtr = std::shared_ptr<sim::Lane>;
  using ItemPtr = std::shared_ptr<sim::Item>;
  struct HostThread {
    bool known = false;
    std::int64_t clock_ns = 0;
    CaptureMode mode = CaptureMode::global;
    std::optional<WorkTimes> last;
  };
  struct Event {
    bool live = false;
    ItemPtr record;  // the latest; none: never recorded, or in a capture
    sim::Part part;
  };
  struct Device {
    Device(int slot, std::uint64_t capacity) : memory(slot, capacity) {}
    sim::Memory memory;
    Status fault = Status::ok;
    LanePtr legacy;
    std::vector<LanePtr> lanes;                            // every lane that has a handle or work
    std::vector<LanePtr> streams;                          // by slot; null: the slot is free
    std::vector<std::uint32_t> free_streams, free_events;  // the last given back comes out first
    std::vector<Event> events;
    std::unordered_map<std::uint32_t, LanePtr> per_thread;
  };

  // sim.cpp: entry, memory, running and waiting.
  Status enter(int device) const;  // is there such a device, and no fault on it?
  Status enter_any() const;        // of calls without a device
  HostThread& me();
  void charge(const Curve& cost, std::uint64_t bytes = 0) { me().clock_ns += cost.at(bytes); }
  int index_of(Address address) const;  // 0: pinned memory, 1: device 0, …; negative: nowhere
  sim::Memory* memory_at(Address address);
  Use use(Address address, std::uint64_t bytes, Mode mode) const;
  Status resolve(const sim::Item& item, std::vector<void*>& views);
  void run(Lock& lock, std::size_t index);
  void stray(Lock& lock, sim::Point point);
  Status wait_for(Lock& lock, int device, const std::vector<ItemPtr>& targets);
  std::shared_ptr<const Issued> told(std::uint64_t stream, const Work& work) const;  // null: nobody wants to hear
  template <class Tell>
  void tell(const std::shared_ptr<const Issued>& work, Tell how);
  void tell_issued(const std::shared_ptr<const Issued>& work);
  static bool in_work();  // this thread runs the code of some work: what waits is not permitted there
  void settle();

  // sim_order.cpp: streams, events, edges.
  LanePtr new_lane(int device, sim::LaneKind kind, int priority);
  LanePtr lane_of(int device, StreamHandle stream);
  Event* event_of(EventHandle event);
  Event* event_of(int device, EventHandle event);
  std::vector<ItemPtr> tails_of_device(int device);
  std::vector<ItemPtr> tails_of(const sim::Lane& lane);
  ItemPtr add(int device, std::uint64_t stream, Work work, std::span<const ItemPtr> after);
  ItemPtr put(const LanePtr& lane, Work work, const ItemPtr& also_after);
  bool complete(const std::vector<ItemPtr>& targets);
  Status issue(int device, StreamHandle stream, Work work);

  // sim_capture.cpp: what captures forbid, and what they note. A refusal invalidates the captures that forbid the call.
  using CapturePtr = std::shared_ptr<sim::Capture>;
  Status refuse_unsafe();                       // of an unsafe call of this thread
  Status refuse_asking(const sim::Lane& lane);  // of a sync or query of a stream
  Status refuse_asking(const Event& event);     // of an event
  Status refuse_device(int device);             // of a sync of all streams
  Status refuse_legacy(const sim::Lane& lane);  // of anything put into the legacy stream
  Status refuse_in(const sim::Lane& lane);      // of what may not be issued into a capture
  bool blocking_captures(int device) const;
  std::optional<Status> note(const LanePtr& lane, Work& work);  // as a node; none: the stream takes no part
  std::optional<Status> note_wait(const LanePtr& lane, const Event& event);  // none: an ordinary wait
  bool captures(int device, StreamHandle stream);
  sim::Nodes finish(const CapturePtr& capture);  // what it noted

  const Costs costs_;
  const std::unique_ptr<sim::Schedule> schedule_;
  std::mutex lock_;
  std::condition_variable ran_;
  const sim::AddressSlots slots_;  // pinned memory's, then a device's each
  sim::Memory pinned_;
  std::vector<std::unique_ptr<Device>> devices_;
  sim::Backlog backlog_;
  std::vector<HostThread> threads_;
  std::vector<CapturePtr> captures_;  // under way
  std::unordered_map<std::uint64_t, std::shared_ptr<const sim::Nodes>> graphs_;
  std::unordered_map<std::uint64_t, sim::Executable> executables_;
  std::uint64_t captures_made_ = 0, graphs_made_ = 0;
  std::uint64_t items_ = 0, lanes_ = 0;
  std::size_t running_ = 0;  // items whose code runs now: their views are out
  std::atomic<bool> watched_{false};
  std::mutex watches_lock_;
  std::vector<std::weak_ptr<Watch>> watches_;
};

}  // namespace forebay
