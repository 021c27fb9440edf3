// frame_growth: growth.hpp in frames mapped into address ranges. Every lane has ranges of its own; frames are the
// device's and go from pool to pool through it.
//
// Note [Undoing a growth]. Frames are gathered, mapped one by one, and opened together. Whatever fails, those not
// mapped go back to the device's idle ones, and those mapped are unmapped; where that fails too they are quarantined:
// their addresses are sealed, their bytes leave `reserved`, and the next give-back tries them again.
#include <algorithm>

#include "pool/fault.hpp"
#include "pool/growth.hpp"

namespace forebay {
namespace {

// A range is as large as the device, so that a lane seldom needs a second one; larger devices than this would leave
// few addresses to others.
constexpr std::uint64_t kLargestRange = std::uint64_t{512} << 30;
constexpr std::uint64_t kLeastSlack = 4 * kMiB, kMostSlack = 16 * kMiB;  // measured on recorded histories

Remains remains_of(const Segment& range) {
  Remains remains{range.address, range.size, {}};
  const std::vector<FrameHandle>& handles = range.mapped->handles;
  for (std::size_t i = 0; i < handles.size(); ++i) {
    if (handles[i] == FrameHandle{}) continue;
    if (i == 0 || handles[i - 1] == FrameHandle{})
      remains.mapped.push_back({range.address + i * range.mapped->frame, range.mapped->frame, {}});
    remains.mapped.back().frames.push_back(handles[i]);
  }
  return remains;
}
std::uint64_t stuck_bytes(const Segment& range) {
  std::uint64_t bytes = 0;
  for (const Block* b = range.first; b != nullptr; b = b->next)
    if (b->state.load(std::memory_order_relaxed) == BlockState::stuck) bytes += b->size;
  return bytes;
}

class FrameGrowth final : public Growth {
 public:
  FrameGrowth(Domain& domain, Budget& budget, const DeviceFacts& facts)
      : domain_(domain),
        budget_(budget),
        frame_(facts.granularity),
        range_(std::min(facts.total_bytes, kLargestRange)) {}

  // One shelf: small and large pack one range, for memory that strands can be had back by the frame.
  Need fit(Need need) const override {
    need.shelf = Shelf::large;
    return need;
  }
  std::uint64_t step() const override { return frame_; }

  Grown grow(Lane& lane, const Need& need) override {
    const std::uint64_t slack = std::clamp(budget_.reserved() / 64, kLeastSlack, kMostSlack) / frame_ * frame_;
    const Grown grown = grow_by(lane, need, slack);
    return grown.status == Status::out_of_memory && slack > 0 ? grow_by(lane, need, 0) : grown;
  }

  std::vector<Point> idle_points(Lane& lane) const override {
    const std::optional<Point> point = lane.idle_point(frame_);
    return point ? std::vector<Point>{*point} : std::vector<Point>{};
  }

  std::vector<Idle> uproot(Lane& lane, std::uint64_t bytes) override {
    std::vector<Idle> out;
    for (Block* run : lane.unstick()) {
      budget_.take_back(run->size);
      domain_.frames().mended(run->size);
      out.push_back({run->size, nullptr, run});
    }
    for (Block* run : lane.part(bytes)) out.push_back({run->size, nullptr, run});
    return out;
  }

  bool drop(Idle idle) override {
    Lane& home = *idle.run->segment->home;
    const Status status = unmap(idle.run->address, idle.bytes);
    budget_.give(idle.bytes);
    if (status != Status::ok) {
      domain_.frames().quarantine(idle.bytes);
      std::lock_guard lock(home.mutex);
      home.seal(idle.run);
      return false;
    }
    budget_.driver_frees.fetch_add(1, std::memory_order_relaxed);
    std::lock_guard lock(home.mutex);
    domain_.frames().put(home.close(idle.run));
    return true;
  }

  // An unmap waits for nothing: the device must be idle first.
  void give_all(const std::vector<Lane*>& lanes) override {
    const bool idle = has_ranges(lanes) && domain_.frames().synchronised();
    for (Lane* lane : lanes)
      for (const auto& range : lane->segments()) {
        domain_.frames().mended(stuck_bytes(*range));
        if (idle)
          domain_.frames().dismantle(remains_of(*range));
        else
          domain_.frames().abandon(remains_of(*range));
      }
    domain_.frames().release_idle();
  }

 private:
  static bool has_ranges(const std::vector<Lane*>& lanes) {
    return std::any_of(lanes.begin(), lanes.end(), [](const Lane* lane) { return !lane->segments().empty(); });
  }

  Grown grow_by(Lane& lane, const Need& need, std::uint64_t slack) {
    const std::uint64_t bytes = need.size_class ? kSlabBytes : need.bytes;
    Block* place = open(lane, bytes, slack);
    if (place == nullptr) {
      if (const Grown refused = add_range(lane, bytes); refused.status != Status::ok) return refused;
      place = open(lane, bytes, slack);
    }
    if (place == nullptr) return {nullptr, Status::out_of_memory, "reserve_range"};
    if (!budget_.claim(place->size)) {
      close(lane, place);
      return {nullptr, Status::out_of_memory, "create"};
    }
    return back(lane, place, need);
  }

  // Puts frames behind the place.
  Grown back(Lane& lane, Block* place, const Need& need) {
    std::vector<FrameHandle> frames;
    Grown grown = gather(place->size / frame_, frames);
    std::size_t mapped = 0;
    if (grown.status == Status::ok) grown = map(place->address, frames, mapped);
    if (grown.status != Status::ok) {
      undo(lane, place, frames, mapped);
      return grown;
    }
    budget_.driver_allocs.fetch_add(1, std::memory_order_relaxed);
    std::lock_guard lock(lane.mutex);
    lane.fill(place, frames);
    grown.block = lane.take_new(need);
    return grown;
  }

  Block* open(Lane& lane, std::uint64_t bytes, std::uint64_t slack) {
    std::lock_guard lock(lane.mutex);
    return lane.open(bytes, slack);
  }
  void close(Lane& lane, Block* place) {
    std::lock_guard lock(lane.mutex);
    lane.close(place);
  }

  Grown add_range(Lane& lane, std::uint64_t bytes) {
    if (domain_.dead()) return {nullptr, domain_.fatal(), "reserve_range"};
    const std::uint64_t size = round_up(std::max(bytes, range_), frame_);
    const Result<Address> address = domain_.driver().reserve_range(domain_.device(), size);
    domain_.note(address.status());
    if (!address.ok()) return {nullptr, address.status(), "reserve_range"};
    auto range = std::make_unique<Segment>();
    range->address = *address;
    range->size = size;
    range->shelf = Shelf::large;
    range->mapped = std::make_unique<Mapped>();
    range->mapped->frame = frame_;
    std::lock_guard lock(lane.mutex);
    lane.plant_range(std::move(range));
    return {};
  }

  Grown gather(std::uint64_t count, std::vector<FrameHandle>& frames) {
    while (frames.size() < count) {
      const Result<FrameHandle> frame = domain_.frames().take();
      if (!frame.ok()) return {nullptr, frame.status(), "create"};
      frames.push_back(*frame);
    }
    return {};
  }

  Grown map(Address address, const std::vector<FrameHandle>& frames, std::size_t& mapped) {
    Driver& driver = domain_.driver();
    for (; mapped < frames.size(); ++mapped) {
      const Status status = driver.map(domain_.device(), address + mapped * frame_, frame_, frames[mapped]);
      domain_.note(status);
      if (status != Status::ok) return {nullptr, status, "map"};
    }
    const Status status = driver.set_access(domain_.device(), address, frames.size() * frame_);
    domain_.note(status);
    return {nullptr, status, "set_access"};
  }

  // See Note [Undoing a growth].
  void undo(Lane& lane, Block* place, const std::vector<FrameHandle>& frames, std::size_t mapped) {
    const auto border = frames.begin() + static_cast<std::ptrdiff_t>(mapped);
    const bool clean = mapped == 0 || unmap(place->address, mapped * frame_) == Status::ok;
    domain_.frames().put({clean ? frames.begin() : border, frames.end()});
    if (!clean) domain_.frames().quarantine(mapped * frame_);
    budget_.give(place->size);
    std::lock_guard lock(lane.mutex);
    if (clean)
      lane.close(place);
    else
      lane.seal(place, {frames.begin(), border});
  }

  Status unmap(Address address, std::uint64_t bytes) {
    if (domain_.dead()) return domain_.fatal();
    const Status status = domain_.driver().unmap(domain_.device(), address, bytes);
    domain_.note(status);
    return status;
  }

  Domain& domain_;
  Budget& budget_;
  const std::uint64_t frame_, range_;
};

}  // namespace

std::unique_ptr<Growth> grow_by_frames(Domain& domain, Budget& budget, const std::string& pool) {
  const Result<DeviceFacts> facts = domain.frames().facts();
  if (facts.ok() && facts->granularity > 0) return std::make_unique<FrameGrowth>(domain, budget, *facts);
  PoolFault fault(PoolFault::Code::driver);
  fault.pool = pool;
  fault.call = facts.ok() ? "create" : "facts";
  fault.status = facts.ok() ? Status::not_supported : facts.status();
  throw fault;
}

}  // namespace forebay
