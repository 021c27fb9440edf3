// segments: growth.hpp in driver segments: one allocation of the driver's for each.
#include "pool/growth.hpp"

namespace forebay {
namespace {

class SegmentGrowth final : public Growth {
 public:
  SegmentGrowth(Domain& domain, const Source& source, Budget& budget)
      : domain_(domain), source_(source), budget_(budget) {}

  std::uint64_t step() const override { return kQuantum; }

  Grown grow(Lane& lane, const Need& need) override {
    const std::uint64_t wanted = wanted_segment(need.bytes), least = least_segment(need.bytes);
    Grown grown = grow_by(lane, need, wanted);
    if (grown.status == Status::out_of_memory && least < wanted) grown = grow_by(lane, need, least);
    if (grown.status != Status::out_of_memory) return grown;
    // What the limit leaves, where that is no whole segment.
    const std::uint64_t rest = budget_.left().value_or(0) / kQuantum * kQuantum;
    return rest >= need.bytes && rest < least ? grow_by(lane, need, rest) : grown;
  }

  // The driver's free waits by itself.
  std::vector<Point> idle_points(Lane&) const override { return {}; }

  std::vector<Idle> uproot(Lane& lane, std::uint64_t bytes) override {
    std::vector<Idle> out;
    for (auto& segment : lane.uproot(bytes)) {
      const std::uint64_t size = segment->size;
      out.push_back({size, std::move(segment), nullptr});
    }
    return out;
  }

  // A refused segment stays where it was.
  bool drop(Idle idle) override {
    if (free(idle.segment->address)) {
      budget_.give(idle.bytes);
      budget_.driver_frees.fetch_add(1, std::memory_order_relaxed);
      return true;
    }
    Lane& home = *idle.segment->home;
    std::lock_guard lock(home.mutex);
    home.plant(std::move(idle.segment), home.clock().at_settle());
    return false;
  }

  void give_all(const std::vector<Lane*>& lanes) override {
    for (const Lane* lane : lanes)
      for (const auto& segment : lane->segments())
        if (!free(segment->address)) domain_.frames().keep(Refused{segment->address, segment->size, source_.space()});
  }

 private:
  Grown grow_by(Lane& lane, const Need& need, std::uint64_t bytes) {
    if (!budget_.claim(bytes)) return {nullptr, Status::out_of_memory, source_.call()};
    Result<Address> address = allocate(bytes);
    // Frames that nobody has mapped, and what was refused before, may be what is missing.
    if (address.status() == Status::out_of_memory && domain_.frames().release_idle() > 0) address = allocate(bytes);
    if (!address.ok()) {
      budget_.give(bytes);
      return {nullptr, address.status(), source_.call()};
    }
    budget_.driver_allocs.fetch_add(1, std::memory_order_relaxed);
    auto segment = std::make_unique<Segment>();
    segment->address = *address;
    segment->size = bytes;
    segment->shelf = need.shelf;
    std::lock_guard lock(lane.mutex);
    lane.plant(std::move(segment), 0);
    return {lane.take_new(need), Status::ok, {}};
  }

  Result<Address> allocate(std::uint64_t bytes) {
    Result<Address> address = source_.take(bytes);
    domain_.note(address.status());
    return address;
  }

  bool free(Address address) {
    if (domain_.dead()) return false;
    const Status status = source_.give(address);
    domain_.note(status);
    return status == Status::ok;
  }

  Domain& domain_;
  const Source& source_;
  Budget& budget_;
};

}  // namespace

std::unique_ptr<Growth> grow_by_segments(Domain& domain, const Source& source, Budget& budget) {
  return std::make_unique<SegmentGrowth>(domain, source, budget);
}

}  // namespace forebay
