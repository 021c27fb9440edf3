#include "emulate/history.hpp"

#include <algorithm>
#include <map>
#include <utility>

namespace forebay::emulate {
namespace {

std::uint32_t pool_number(std::uint32_t owner, bool large) { return 2 * owner + (large ? 1 : 0); }

class Walk {
 public:
  Walk(const Recorded& events, Heap heap, const Settings& settings)
      : events_(events), settings_(settings), heap_(std::move(heap)), owner_(events.owner.begin(), events.owner.end()) {
    for (std::size_t i = 0; i < events.action.size(); ++i) {
      if (action(i) == Action::map) mapped_[events.address[i]] = events.size[i] != kSmallSegment;
      requests_ |= action(i) == Action::free_requested;
    }
  }

  std::vector<std::size_t> backward() {
    std::vector<std::size_t> misfits;
    for (std::size_t i = events_.action.size(); i-- > 0;)
      if (!undo(i)) misfits.push_back(i);
    std::reverse(misfits.begin(), misfits.end());
    return misfits;
  }

  std::vector<std::size_t> forward(Settled& out) {
    std::vector<std::size_t> misfits;
    out.size.assign(events_.size.begin(), events_.size.end());
    out.pool.assign(owner_.size(), 0);
    for (std::size_t i = 0; i < events_.action.size(); ++i)
      if (!redo(i, out)) misfits.push_back(i);
    return misfits;
  }

  Heap& heap() { return heap_; }
  void use_owners_of(const Walk& other) { owner_ = other.owner_; }

 private:
  Action action(std::size_t i) const { return static_cast<Action>(events_.action[i]); }

  bool undo(std::size_t i) {
    switch (action(i)) {
      case Action::alloc:
        return undo_alloc(events_.address[i]);
      case Action::free_completed:
        return undo_completed(i);
      case Action::free_requested:
        return set_pending(events_.address[i], Freed::no);
      case Action::reserve:
      case Action::map:
        return undo_reserve(i);
      case Action::release:
      case Action::unmap:
        return undo_release(i);
      case Action::other:
        return true;
    }
    return true;
  }

  bool redo(std::size_t i, Settled& out) {
    switch (action(i)) {
      case Action::alloc:
        return redo_alloc(i, out);
      case Action::free_completed:
      case Action::free_requested:
        return redo_free(i, out);
      case Action::reserve:
      case Action::map: {
        const Segment made = segment(i);
        out.pool[i] = pool_number(made.pool, made.large);
        return heap_.reserve(events_.address[i], made);
      }
      case Action::release:
      case Action::unmap: {
        const auto* from = heap_.segment_of(events_.address[i]);
        const Segment known = from != nullptr ? from->second : segment(i);
        out.pool[i] = pool_number(known.pool, known.large);
        return heap_.release(events_.address[i], events_.size[i]);
      }
      case Action::other:
        return true;
    }
    return true;
  }

  enum class Freed { no, pending };
  bool set_pending(std::uint64_t address, Freed state) {
    Block* block = heap_.find(address);
    if (block == nullptr || block->pending == (state == Freed::pending)) return false;
    block->pending = state == Freed::pending;
    return true;
  }

  // Backwards
  // ----------------------------------------------------------------------------------------------------------
  bool undo_alloc(std::uint64_t address) {
    if (heap_.find(address) == nullptr) return false;
    heap_.erase(address);
    const auto* segment = heap_.segment_of(address);
    if (segment == nullptr) return true;
    // The free block that it came from began here, so a block before it reaches up to here.
    if (auto* previous = heap_.before(address, *segment)) extend(*previous, address);
    return true;
  }

  void extend(Heap::Blocks::value_type& entry, std::uint64_t edge) {
    Block& block = entry.second;
    const std::uint64_t available = edge - entry.first;
    if (!block.inferred || available < block.size) return;
    if (splits(block.size, available, PoolKind::large, false, settings_)) return;
    block.size = available;
    block.inferred = false;
  }

  bool undo_completed(std::size_t i) {
    const std::uint64_t address = events_.address[i], rounded = rounded_size(events_.size[i], settings_);
    const auto* segment = heap_.segment_of(address);
    Block block{rounded, events_.size[i], events_.stream[i], pool_at(i, segment), events_.site[i], requests_, false};
    if (segment == nullptr) return heap_.place(address, block);
    const std::uint64_t edge = heap_.next_edge(address, *segment);
    if (edge - address < rounded) return false;
    auto* previous = heap_.before(address, *segment);
    if (previous != nullptr) extend(*previous, address);
    block.inferred = segment->second.large && !segment->second.expandable;
    if (!heap_.place(address, block)) return false;
    if (block.inferred) extend(*heap_.before(address + 1, *segment), edge);
    return true;
  }

  bool undo_reserve(std::size_t i) {
    const auto* found = heap_.segment_of(events_.address[i]);
    if (found == nullptr) return false;
    if (events_.has_owner[i] == 0) owner_[i] = found->second.pool;
    return heap_.release(events_.address[i], events_.size[i]);
  }

  bool undo_release(std::size_t i) {
    Segment segment = this->segment(i);
    if (events_.has_owner[i] == 0 && segment.expandable) segment.pool = owner_[i] = owner_beside(i, segment);
    return heap_.reserve(events_.address[i], segment);
  }

  // An unmapped range belongs to the same expandable segment as a range that it touches.
  std::uint32_t owner_beside(std::size_t i, const Segment& segment) const {
    const std::uint64_t begin = events_.address[i], end = begin + events_.size[i];
    for (const auto* near : {begin == 0 ? nullptr : heap_.segment_of(begin - 1), heap_.segment_of(end)})
      if (near != nullptr && near->second.expandable && near->second.stream == segment.stream &&
          near->second.large == segment.large)
        return near->second.pool;
    return owner_[i];
  }

  // Forwards
  // -----------------------------------------------------------------------------------------------------------
  bool redo_alloc(std::size_t i, Settled& out) {
    const std::uint64_t address = events_.address[i], requested = events_.size[i];
    const auto* segment = heap_.segment_of(address);
    out.pool[i] = pool_at(i, segment);
    out.size[i] = rounded_size(requested, settings_);
    Block block{out.size[i], requested, events_.stream[i], out.pool[i], events_.site[i]};
    if (segment == nullptr) return heap_.place(address, block);
    const std::uint64_t available = heap_.next_edge(address, *segment) - address;
    if (available < block.size) return false;
    const PoolKind kind = segment->second.large ? PoolKind::large : PoolKind::small;
    if (!splits(block.size, available, kind, segment->second.expandable, settings_)) block.size = available;
    out.size[i] = block.size;
    return heap_.place(address, block);
  }

  bool redo_free(std::size_t i, Settled& out) {
    const std::uint64_t address = events_.address[i];
    const Block* block = heap_.find(address);
    if (block == nullptr) {
      out.size[i] = rounded_size(events_.size[i], settings_);
      out.pool[i] = pool_at(i, heap_.segment_of(address));
      return false;
    }
    out.size[i] = block->size;
    out.pool[i] = block->pool;
    if (action(i) == Action::free_requested) return set_pending(address, Freed::pending);
    const bool asked = block->pending || !requests_;
    heap_.erase(address);
    return asked;
  }

  // Both
  // ---------------------------------------------------------------------------------------------------------------
  std::uint32_t pool_at(std::size_t i, const Heap::Segments::value_type* segment) const {
    if (segment != nullptr) return pool_number(segment->second.pool, segment->second.large);
    return pool_number(owner_[i], pool_of(rounded_size(events_.size[i], settings_)) == PoolKind::large);
  }

  Segment segment(std::size_t i) const {
    const bool expandable = action(i) == Action::map || action(i) == Action::unmap;
    return {events_.size[i], events_.stream[i], owner_[i], events_.site[i], is_large(i), expandable};
  }

  // Only the small pool has segments of 2 MiB, and it maps such pages one at a time. It may unmap several at once.
  bool is_large(std::size_t i) const {
    const std::uint64_t begin = events_.address[i], size = events_.size[i];
    if (action(i) != Action::unmap) return size != kSmallSegment;
    const auto map = mapped_.lower_bound(begin);
    if (map != mapped_.end() && map->first < begin + size) return map->second;
    return size % settings_.large_segment_size == 0;
  }

  const Recorded& events_;
  const Settings& settings_;
  Heap heap_;
  std::vector<std::uint32_t> owner_;
  std::map<std::uint64_t, bool> mapped_;  // first byte of each range mapped in the window, and whether it is large
  bool requests_ = false;                 // whether the layout shows requests of frees apart from their completion
};

bool same_segment(const Segment& a, const Segment& b) {
  return a.size == b.size && a.stream == b.stream && a.pool == b.pool && a.large == b.large &&
         a.expandable == b.expandable;
}
bool same_block(const Block& a, const Block& b) {
  return a.size == b.size && a.requested == b.requested && a.pending == b.pending;
}

Settled finish(Walk& walk) {
  Settled out;
  out.start = walk.heap();
  out.misfits_forward = walk.forward(out);
  out.end = std::move(walk.heap());
  return out;
}

}  // namespace

Settled settle_from(const Recorded& events, Heap start, const Settings& settings) {
  Walk walk(events, std::move(start), settings);
  return finish(walk);
}

Settled settle(const Recorded& events, const Heap& last, const Settings& settings) {
  Walk back(events, last, settings);
  auto misfits = back.backward();
  Walk walk(events, std::move(back.heap()), settings);
  walk.use_owners_of(back);
  Settled out = finish(walk);
  out.misfits_back = std::move(misfits);
  return out;
}

bool same(const Heap& a, const Heap& b) {
  const auto equal = [](const auto& x, const auto& y, auto same_value) {
    return std::equal(x.begin(), x.end(), y.begin(), y.end(), [&](const auto& p, const auto& q) {
      return p.first == q.first && same_value(p.second, q.second);
    });
  };
  return equal(a.segments(), b.segments(), same_segment) && equal(a.blocks(), b.blocks(), same_block);
}

}  // namespace forebay::emulate
