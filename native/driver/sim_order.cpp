// sim_order: the part of the simulated driver that knows streams, events and the edges between what is put into them.
#include <algorithm>
#include <cstring>
#include <utility>

#include "driver/sim.hpp"
#include "driver/thread_index.hpp"

namespace forebay {

namespace {

// Handles start above the three that every device has; a stream's and an event's number never coincide.
constexpr std::uint64_t kFirstStream = 0x1000, kFirstEvent = 0x2000'0000;
constexpr std::uint64_t stream_value(int device, std::uint32_t slot) {
  return (static_cast<std::uint64_t>(device) << 32) + kFirstStream + slot;
}
constexpr std::uint64_t event_value(int device, std::uint32_t slot) {
  return (static_cast<std::uint64_t>(device) << 32) + kFirstEvent + slot;
}

template <class T>
std::uint32_t take_slot(std::vector<T>& slots, std::vector<std::uint32_t>& free_slots) {
  if (free_slots.empty()) {
    slots.emplace_back();
    free_slots.push_back(static_cast<std::uint32_t>(slots.size() - 1));
  }
  const std::uint32_t slot = free_slots.back();
  free_slots.pop_back();
  return slot;
}

}  // namespace

Use SimDriver::use(Address address, std::uint64_t bytes, Mode mode) const {
  return {address, bytes, mode, Extent::exact, index_of(address) == 0 ? Space::pinned : Space::device};
}

// ---- streams and events

SimDriver::LanePtr SimDriver::new_lane(int device, sim::LaneKind kind, int priority) {
  auto lane = std::make_shared<sim::Lane>();
  lane->device = device, lane->kind = kind, lane->priority = priority, lane->id = ++lanes_;
  devices_[static_cast<std::size_t>(device)]->lanes.push_back(lane);
  return lane;
}

SimDriver::LanePtr SimDriver::lane_of(int device, StreamHandle stream) {
  Device& d = *devices_[static_cast<std::size_t>(device)];
  if (stream.value <= kLegacyStream.value) return d.legacy;
  if (stream == kPerThreadStream) {
    LanePtr& lane = d.per_thread[thread_index()];
    if (!lane) lane = new_lane(device, sim::LaneKind::per_thread, 0);
    return lane;
  }
  const std::uint64_t slot = stream.value - stream_value(device, 0);
  return slot < d.streams.size() ? d.streams[slot] : nullptr;
}

Result<StreamHandle> SimDriver::stream_create(int device, StreamKind kind, int priority) {
  const Lock lock(lock_);
  if (const Status s = enter(device); s != Status::ok) return s;
  charge(costs_.stream_create);
  Device& d = *devices_[static_cast<std::size_t>(device)];
  const std::uint32_t slot = take_slot(d.streams, d.free_streams);
  d.streams[slot] =
      new_lane(device, kind == StreamKind::blocking ? sim::LaneKind::blocking : sim::LaneKind::nonblocking, priority);
  return StreamHandle{stream_value(device, slot)};
}

// Work that is in the stream still runs; device syncs and the legacy stream still count it.
Status SimDriver::stream_destroy(int device, StreamHandle stream) {
  sim::Nodes nodes;  // of a capture that goes with it; they go after the lock
  const Lock lock(lock_);
  if (const Status s = enter(device); s != Status::ok) return s;
  const LanePtr lane = lane_of(device, stream);
  if (!lane || stream.value < kFirstStream) return Status::invalid_handle;
  Device& d = *devices_[static_cast<std::size_t>(device)];
  const auto slot = static_cast<std::uint32_t>(stream.value - stream_value(device, 0));
  lane->open = false;
  if (const CapturePtr capture = std::exchange(lane->part, {}).capture; capture && capture->origin == lane.get())
    nodes = finish(capture);
  d.streams[slot] = nullptr;
  d.free_streams.push_back(slot);
  std::erase_if(d.lanes, [](const LanePtr& l) { return !l->open && l->idle(); });
  return Status::ok;
}

Result<std::uint64_t> SimDriver::stream_id(int device, StreamHandle stream) {
  const Lock lock(lock_);
  if (const Status s = enter(device); s != Status::ok) return s;
  const LanePtr lane = lane_of(device, stream);
  if (!lane) return Status::invalid_handle;
  if (const Status s = refuse_in(*lane); s != Status::ok) return s;
  return lane->id;
}

Result<bool> SimDriver::stream_capturing(int device, StreamHandle stream) {
  const Lock lock(lock_);
  if (const Status s = enter(device); s != Status::ok) return s;
  const LanePtr lane = lane_of(device, stream);
  if (!lane) return Status::invalid_handle;
  if (lane->kind == sim::LaneKind::legacy && blocking_captures(device)) return Status::capture_implicit;
  return lane->part.capture != nullptr;
}

SimDriver::Event* SimDriver::event_of(int device, EventHandle event) {
  if (device < 0 || device >= device_count()) return nullptr;
  Device& d = *devices_[static_cast<std::size_t>(device)];
  const std::uint64_t slot = event.value - event_value(device, 0);
  return slot < d.events.size() && d.events[slot].live ? &d.events[slot] : nullptr;
}

SimDriver::Event* SimDriver::event_of(EventHandle event) {
  return event_of(static_cast<int>((event.value - kFirstEvent) >> 32), event);
}

Result<EventHandle> SimDriver::event_create(int device) {
  const Lock lock(lock_);
  if (const Status s = enter(device); s != Status::ok) return s;
  charge(costs_.event_create);
  Device& d = *devices_[static_cast<std::size_t>(device)];
  const std::uint32_t slot = take_slot(d.events, d.free_events);
  d.events[slot] = {.live = true, .record = nullptr, .part = {}};
  return EventHandle{event_value(device, slot)};
}

Status SimDriver::event_destroy(int device, EventHandle event) {
  const Lock lock(lock_);
  if (const Status s = enter(device); s != Status::ok) return s;
  Event* e = event_of(device, event);
  if (!e) return Status::invalid_handle;
  *e = {};
  devices_[static_cast<std::size_t>(device)]->free_events.push_back(
      static_cast<std::uint32_t>(event.value - event_value(device, 0)));
  return Status::ok;
}

// ---- edges

// What a device-wide wait waits for.
std::vector<SimDriver::ItemPtr> SimDriver::tails_of_device(int device) {
  std::vector<ItemPtr> tails;
  for (const LanePtr& lane : devices_[static_cast<std::size_t>(device)]->lanes)
    if (lane->tail) tails.push_back(lane->tail);
  return tails;
}

// What a wait for one stream, or the next item in it, comes after: its last item, and across the legacy stream. Marks
// are items too, so the legacy stream's tail alone covers every blocking stream's work before it.
std::vector<SimDriver::ItemPtr> SimDriver::tails_of(const sim::Lane& lane) {
  const Device& d = *devices_[static_cast<std::size_t>(lane.device)];
  std::vector<ItemPtr> tails;
  if (lane.tail) tails.push_back(lane.tail);
  if (lane.joins_legacy() && d.legacy->tail) tails.push_back(d.legacy->tail);
  if (lane.kind == sim::LaneKind::legacy)
    for (const LanePtr& other : d.lanes)
      if (other->joins_legacy() && other->tail) tails.push_back(other->tail);
  return tails;
}

SimDriver::ItemPtr SimDriver::add(int device, std::uint64_t stream, Work work, std::span<const ItemPtr> after) {
  auto item = std::make_shared<sim::Item>();
  item->seq = ++items_, item->device = device, item->stream = stream;
  item->begin_ns = me().clock_ns;
  for (const ItemPtr& before : after) sim::Backlog::order(before, item);
  item->end_ns = item->begin_ns + work.cost_ns.value_or(0);
  me().last = {item->begin_ns, item->end_ns};
  item->work = std::move(work);
  const bool mark = !item->work.run;
  if (!mark) item->told = told(stream, item->work);
  if (!mark && Upkeep::now() == 0) schedule_->issued(*item);  // a pool's checks do not count where work is counted
  if (mark && item->before == 0 && item->end_ns <= me().clock_ns && schedule_->marks_complete_at_issue())
    item->done = true;
  else
    backlog_.put(item);
  return item;
}

SimDriver::ItemPtr SimDriver::put(const LanePtr& lane, Work work, const ItemPtr& also_after) {
  std::vector<ItemPtr> after = tails_of(*lane);
  after.push_back(also_after);
  return lane->tail = add(lane->device, lane->id, std::move(work), after);
}

bool SimDriver::complete(const std::vector<ItemPtr>& targets) {
  if (!std::all_of(targets.begin(), targets.end(), [](const ItemPtr& t) { return t->done; })) return false;
  for (const ItemPtr& target : targets) me().clock_ns = std::max(me().clock_ns, target->end_ns);
  return true;
}

Status SimDriver::stream_sync(int device, StreamHandle stream) {
  Lock lock(lock_);
  if (const Status s = enter(device); s != Status::ok) return s;
  const LanePtr lane = lane_of(device, stream);
  if (!lane) return Status::invalid_handle;
  if (const Status s = refuse_asking(*lane); s != Status::ok) return s;
  charge(costs_.sync);
  return wait_for(lock, device, tails_of(*lane));
}

Result<bool> SimDriver::stream_query(int device, StreamHandle stream) {
  Lock lock(lock_);
  if (const Status s = enter(device); s != Status::ok) return s;
  const LanePtr lane = lane_of(device, stream);
  if (!lane) return Status::invalid_handle;
  if (const Status s = refuse_asking(*lane); s != Status::ok) return s;
  charge(costs_.query);
  const auto targets = tails_of(*lane);
  stray(lock, sim::Point::query);
  if (const Status s = enter(device); s != Status::ok) return s;
  return complete(targets);
}

Status SimDriver::stream_wait(int device, StreamHandle stream, EventHandle event) {
  const Lock lock(lock_);
  if (const Status s = enter(device); s != Status::ok) return s;
  const LanePtr lane = lane_of(device, stream);
  const Event* e = event_of(event);
  if (!lane || !e) return Status::invalid_handle;
  charge(costs_.wait);
  if (const auto noted = note_wait(lane, *e)) return *noted;
  put(lane, {}, e->record);
  return Status::ok;
}

Status SimDriver::device_sync(int device) {
  Lock lock(lock_);
  if (const Status s = enter(device); s != Status::ok) return s;
  if (const Status s = refuse_device(device); s != Status::ok) return s;
  charge(costs_.sync);
  return wait_for(lock, device, tails_of_device(device));
}

Status SimDriver::event_record(int device, EventHandle event, StreamHandle stream) {
  const Lock lock(lock_);
  if (const Status s = enter(device); s != Status::ok) return s;
  const LanePtr lane = lane_of(device, stream);
  Event* e = event_of(device, event);
  if (!lane || !e) return Status::invalid_handle;
  charge(costs_.record);
  if (const Status s = refuse_legacy(*lane); s != Status::ok) return s;
  if (lane->part.capture && !lane->part.capture->valid) return Status::capture_invalidated;
  e->part = lane->part;
  e->record = e->part.capture ? nullptr : put(lane, {}, nullptr);
  return Status::ok;
}

Status SimDriver::event_sync(int device, EventHandle event) {
  Lock lock(lock_);
  if (const Status s = enter(device); s != Status::ok) return s;
  const Event* e = event_of(event);
  if (!e) return Status::invalid_handle;
  if (const Status s = refuse_asking(*e); s != Status::ok) return s;
  charge(costs_.sync);
  return e->record ? wait_for(lock, device, {e->record}) : Status::ok;
}

Result<bool> SimDriver::event_query(int device, EventHandle event) {
  Lock lock(lock_);
  if (const Status s = enter(device); s != Status::ok) return s;
  const Event* e = event_of(event);
  if (!e) return Status::invalid_handle;
  if (const Status s = refuse_asking(*e); s != Status::ok) return s;
  charge(costs_.query);
  if (!e->record) return true;
  const std::vector<ItemPtr> targets{e->record};
  stray(lock, sim::Point::query);
  if (const Status s = enter(device); s != Status::ok) return s;
  return complete(targets);
}

// ---- work

Status SimDriver::issue(int device, StreamHandle stream, Work work) {
  Lock lock(lock_);
  if (const Status s = enter(device); s != Status::ok) return s;
  const LanePtr lane = lane_of(device, stream);
  if (!lane) return Status::invalid_handle;
  if (const auto noted = note(lane, work)) return *noted;
  charge(costs_.launch);
  stray(lock, sim::Point::issue);
  if (const Status s = enter(device); s != Status::ok) return s;
  const auto told = put(lane, std::move(work), nullptr)->told;
  lock.unlock();
  tell_issued(told);
  return Status::ok;
}

Status SimDriver::launch(int device, StreamHandle stream, Work work) {
  if (!work.cost_ns) work.cost_ns = costs_.kernel;
  if (!work.run || *work.cost_ns < 0) return Status::invalid_value;
  return issue(device, stream, std::move(work));
}

Status SimDriver::copy(int device, Address to, Address from, std::uint64_t bytes, StreamHandle stream) {
  if (bytes == 0) return Status::ok;
  const auto host = [this](Address a) { return index_of(a) == 0; };
  const bool within = index_of(to) == index_of(from) && !host(to);
  const Way way = within ? Way::within : host(to) ? Way::down : Way::other;
  return issue(device, stream,
               {.name = "copy",
                .cost_ns = costs_.copy(way, bytes),
                .uses = {use(from, bytes, Mode::read), use(to, bytes, Mode::write)},
                .run =
                    [bytes](std::span<void* const> views) {
                      std::memmove(views[1], views[0], bytes);
                      return Status::ok;
                    },
                .far = true});
}

Status SimDriver::upload(int device, Address to, const void* from, std::uint64_t bytes, StreamHandle stream) {
  if (bytes == 0) return Status::ok;
  Work work{
      .name = "upload", .cost_ns = costs_.copy(Way::other, bytes), .uses = {use(to, bytes, Mode::write)}, .run = {}};
  const auto* first = static_cast<const unsigned char*>(from);
  if (captures(device, stream))
    work.run = [first, bytes](std::span<void* const> views) {
      std::memcpy(views[0], first, bytes);
      return Status::ok;
    };
  else
    work.run = [staged = std::vector<unsigned char>(first, first + bytes)](std::span<void* const> views) {
      std::memcpy(views[0], staged.data(), staged.size());
      return Status::ok;
    };
  return issue(device, stream, std::move(work));
}

Status SimDriver::download(int device, void* to, Address from, std::uint64_t bytes, StreamHandle stream) {
  if (bytes == 0) return Status::ok;
  Lock lock(lock_);
  if (in_work()) return Status::not_permitted;  // before anything of it is issued
  if (const Status s = enter(device); s != Status::ok) return s;
  const LanePtr lane = lane_of(device, stream);
  if (!lane) return Status::invalid_handle;
  Work work{.name = "download",
            .cost_ns = costs_.copy(Way::down, bytes),
            .uses = {use(from, bytes, Mode::read)},
            .run = [to, bytes](std::span<void* const> views) {
              std::memcpy(to, views[0], bytes);
              return Status::ok;
            }};
  if (const auto noted = note(lane, work)) return *noted;
  charge(costs_.launch);
  const ItemPtr item = put(lane, std::move(work), nullptr);
  lock.unlock();
  tell_issued(item->told);
  lock.lock();
  return wait_for(lock, device, {item});
}

Status SimDriver::memset(int device, Address to, std::uint8_t value, std::uint64_t bytes, StreamHandle stream) {
  if (bytes == 0) return Status::ok;
  return issue(device, stream,
               {.name = "memset",
                .cost_ns = costs_.copy(Way::within, bytes),
                .uses = {use(to, bytes, Mode::write)},
                .run = [value, bytes](std::span<void* const> views) {
                  std::memset(views[0], value, bytes);
                  return Status::ok;
                }});
}

Status SimDriver::host_func(int device, StreamHandle stream, std::function<void()> function) {
  if (!function) return Status::invalid_value;
  return issue(device, stream,
               {.name = "host_func", .cost_ns = 1, .uses = {}, .run = [run = std::move(function)](auto) {
                  run();
                  return Status::ok;
                }});
}

}  // namespace forebay
