// walk: the full check of a pool's structure: every byte of every segment in exactly one block, every block where its
// state says, every figure equal to a recount from the segments.
#include <algorithm>
#include <array>
#include <string>
#include <unordered_map>

#include "pool/pool.hpp"

namespace forebay {
namespace {
BlockState state_of(const Block& b) { return b.state.load(std::memory_order_relaxed); }

// What a lane should hold, counted from the segments of all lanes.
struct Recount {
  std::uint64_t allocated = 0, requested = 0, pending = 0, releasable = 0;
  std::array<std::size_t, 2> shelves{};
  std::array<std::size_t, kClassCount> slots{};
  std::size_t guests = 0, slabs = 0, waiting = 0;
};
}  // namespace

class Walk {
 public:
  explicit Walk(const Pool& pool) : pool_(pool) {}

  std::optional<std::string> run() {
    const std::vector<Lane*> lanes = pool_.lanes();
    for (Lane* lane : lanes) {
      std::lock_guard lock(lane->mutex);
      lane->drain();
      counts_[lane];
    }
    for (const Lane* lane : lanes)
      for (const auto& segment : lane->segments_) segment_of(*lane, *segment);
    for (const Lane* lane : lanes) {
      figures(lane->figures, counts_.at(lane));
      lists(*lane, counts_.at(lane));
    }
    expect(bytes_ == pool_.reserved(), "reserved is not the sum of the segments and frames", 0);
    expect(mapped_ == pool_.map_.count(), "the address map holds more than the segments", 0);
    return broken_;
  }

 private:
  void expect(bool holds, const char* what, Address where) {
    if (!holds && !broken_) broken_ = std::string(what) + " (at " + std::to_string(where) + ")";
  }

  void segment_of(const Lane& home, const Segment& segment) {
    Address next = segment.address;
    std::uint32_t busy = 0;
    if (segment.mapped != nullptr) range_of(home, segment);
    const Block* before = nullptr;
    expect(segment.home == &home, "a segment stands with a lane that is not its home", segment.address);
    for (const Block* b = segment.first; b != nullptr; before = b, b = b->next) {
      expect(b->address == next && b->size > 0 && b->size % kQuantum == 0, "blocks leave a gap or overlap", b->address);
      expect(b->prev == before && b->segment == &segment, "a block does not know its neighbours", b->address);
      expect(b->away ? b->holder != &home : b->holder == &home, "a block is held by the wrong lane", b->address);
      expect(before == nullptr || !mergeable(*b) || !mergeable(*before), "free neighbours were not merged", b->address);
      next = b->address + b->size;
      busy += nowhere(*b) ? 0 : block_of(*b);
    }
    expect(next == segment.address + segment.size, "blocks do not fill their segment", segment.address);
    if (segment.mapped != nullptr) return;
    expect(busy == segment.busy, "the busy blocks of a segment are miscounted", segment.address);
    bytes_ += segment.size;
    if (busy == 0) counts_[&home].releasable += segment.size;
  }

  // Every frame's worth of addresses counted from the bytes: mapped or not, and whose.
  void range_of(const Lane& home, const Segment& range) {
    const Mapped& mapped = *range.mapped;
    std::vector<bool> busy(mapped.handles.size()), usable(mapped.handles.size());
    std::size_t holes = 0;
    for (const Block* b = range.first; b != nullptr; b = b->next) {
      const std::uint64_t begin = (b->address - range.address) / mapped.frame;
      const std::uint64_t end = (b->address + b->size - range.address + mapped.frame - 1) / mapped.frame;
      const bool hole = state_of(*b) == BlockState::hole;
      holes += hole;
      expect(!hole || b->prev == nullptr || state_of(*b->prev) != BlockState::hole, "holes were not merged",
             b->address);
      for (std::uint64_t i = begin; i < std::min<std::uint64_t>(end, busy.size()); ++i) {
        expect((mapped.handles[i] == FrameHandle{}) == hole, "a frame where none should be, or none", b->address);
        if (!nowhere(*b)) usable[i] = true;
      }
      expect(hole || end <= busy.size(), "memory beyond the frames", b->address);
      in_use(*b, range, busy);
    }
    expect(holes == mapped.holes.size(), "the list of holes is not the holes", range.address);
    for (std::size_t i = 0; i < busy.size(); ++i) {
      if (usable[i]) bytes_ += mapped.frame;
      if (usable[i] && !busy[i]) counts_[&home].releasable += mapped.frame;
      expect(busy[i] || mapped.edges[i] == 0, "an idle frame counts as busy", range.address + i * mapped.frame);
    }
  }

  // Marks the frames that a block, or what lives in a slab, lies in.
  void in_use(const Block& b, const Segment& range, std::vector<bool>& busy) {
    if (state_of(b) == BlockState::slab && !b.away) {
      for (const Block* s = b.slots; s != nullptr; s = s->next) in_use(*s, range, busy);
    } else if (b.away || state_of(b) == BlockState::live || state_of(b) == BlockState::pending) {
      const std::uint64_t last = (b.address + b.size - 1 - range.address) / range.mapped->frame;
      for (std::uint64_t i = (b.address - range.address) / range.mapped->frame; i <= last; ++i) busy[i] = true;
    }
  }

  // No block that somebody could own.
  static bool nowhere(const Block& b) {
    const BlockState state = state_of(b);
    return state == BlockState::hole || state == BlockState::moving || state == BlockState::stuck;
  }

  static bool mergeable(const Block& b) { return !b.away && state_of(b) == BlockState::free; }

  // How many busy blocks of the segment it is.
  std::uint32_t block_of(const Block& b) {
    Recount& holder = counts_[b.holder];
    const BlockState state = state_of(b);
    if (state == BlockState::slab) {
      ++holder.slabs;
      const std::uint32_t used = slots_of(b);
      return b.away ? 1 : used;
    }
    leaf(b);
    if (state == BlockState::free)
      ++(b.away ? holder.guests : holder.shelves[static_cast<std::size_t>(b.segment->shelf)]);
    return b.away || state != BlockState::free;
  }

  std::uint32_t slots_of(const Block& slab) {
    Address next = slab.address;
    std::uint32_t used = 0, busy = 0;
    for (const Block* s = slab.slots; s != nullptr; s = s->next) {
      expect(s->address == next && s->slab == &slab && s->holder == slab.holder, "slots do not tile a slab",
             s->address);
      next = s->address + s->size;
      leaf(*s);
      used += state_of(*s) != BlockState::free;
      busy += state_of(*s) != BlockState::free;
      counts_[slab.holder].slots[slab.size_class] += state_of(*s) == BlockState::free;
    }
    expect(next == slab.address + slab.size, "slots do not fill their slab", slab.address);
    expect(used == slab.slots_in_use, "the slots in use of a slab are miscounted", slab.address);
    return busy;
  }

  // A block or slot that somebody can own.
  void leaf(const Block& b) {
    Recount& holder = counts_[b.holder];
    ++mapped_;
    expect(pool_.map_.find(b.address) == &b, "a block is not in the address map", b.address);
    expect(!b.parked.load(), "a parked block was not drained", b.address);
    if (state_of(b) == BlockState::live) {
      holder.allocated += b.size;
      holder.requested += b.requested;
    } else if (state_of(b) == BlockState::pending) {
      holder.pending += b.size;
      ++holder.waiting;
      expect(!b.points.empty(), "a pending block waits for nothing", b.address);
    }
  }

  void figures(const LaneFigures& f, const Recount& r) {
    expect(f.allocated == r.allocated, "allocated differs from a recount", f.allocated);
    expect(f.requested == r.requested, "requested differs from a recount", f.requested);
    expect(f.pending == r.pending, "pending differs from a recount", f.pending);
    expect(f.releasable == r.releasable, "releasable differs from a recount", f.releasable);
  }

  void lists(const Lane& lane, const Recount& r) {
    for (std::size_t s = 0; s < 2; ++s)
      expect(length(lane.shelves_[s]) == r.shelves[s], "a shelf does not hold the free blocks", s);
    expect(length(lane.guests_) == r.guests, "the idle guests are not those lent out", r.guests);
    expect(lane.pending_.size() == r.waiting, "the pending list is not the pending blocks", r.waiting);
    std::size_t slabs = 0;
    for (const Block* slab = lane.slabs_; slab != nullptr; slab = slab->right) ++slabs;
    expect(slabs == r.slabs, "the list of slabs is not the slabs", slabs);
    for (std::size_t c = 0; c < kClassCount; ++c) {
      std::size_t free = 0;
      for (const Block* slot = lane.free_slots_[c]; slot != nullptr; slot = slot->right)
        free += state_of(*slot) == BlockState::free;
      expect(free == r.slots[c], "a class's list is not its free slots", c);
    }
  }

  std::size_t length(const BestFit& list) {
    std::size_t n = 0;
    std::uint64_t size = 0;
    for (const Block* b = list.find(kQuantum); b != nullptr; b = list.after(b), ++n) {
      expect(b->size >= size && state_of(*b) == BlockState::free, "a list of free blocks is out of order", b->address);
      size = b->size;
    }
    expect(n == list.count() && size == list.largest(), "a list of free blocks miscounts itself", n);
    return n;
  }

  const Pool& pool_;
  std::unordered_map<const Lane*, Recount> counts_;
  std::uint64_t bytes_ = 0;
  std::size_t mapped_ = 0;
  std::optional<std::string> broken_;
};

std::optional<std::string> Pool::walk() const { return Walk(*this).run(); }

}  // namespace forebay
