#include "emulate/fold.hpp"

#include <algorithm>
#include <utility>

namespace forebay::emulate {

Fold::Fold(Heap start, Reuse reuse) : heap_(std::move(start)), reuse_(reuse) {
  for (const auto& entry : heap_.segments()) add(entry.second);
  for (const auto& entry : heap_.blocks()) add(entry.second);
  totals_.peak = totals_.now;
}

void Fold::add(const Segment& segment) {
  totals_.now.reserved += static_cast<std::int64_t>(segment.size);
  totals_.now.segments += segment.expandable ? 0 : 1;  // PyTorch counts no expandable ones
}

void Fold::add(const Block& block) {
  const auto size = static_cast<std::int64_t>(block.size);
  totals_.now.active += size;
  totals_.now.requested += static_cast<std::int64_t>(block.requested);
  if (!block.pending) totals_.now.allocated += size, totals_.now.blocks += 1;
}

void Fold::raise_peaks() {
  const Levels& now = totals_.now;
  Levels& peak = totals_.peak;
  peak.reserved = std::max(peak.reserved, now.reserved);
  peak.allocated = std::max(peak.allocated, now.allocated);
  peak.active = std::max(peak.active, now.active);
  peak.requested = std::max(peak.requested, now.requested);
  peak.segments = std::max(peak.segments, now.segments);
  peak.blocks = std::max(peak.blocks, now.blocks);
}

void Fold::run(const Rows& rows, const Curves& curves) {
  for (std::size_t i = 0; i < rows.kind.size(); ++i) {
    if (!step(rows, i)) ++totals_.misfits;
    raise_peaks();
    curves.reserved[i] = totals_.now.reserved;
    curves.allocated[i] = totals_.now.allocated;
    curves.active[i] = totals_.now.active;
    curves.requested[i] = totals_.now.requested;
  }
}

bool Fold::step(const Rows& rows, std::size_t i) {
  switch (static_cast<Kind>(rows.kind[i])) {
    case Kind::reserve:
    case Kind::map:
      return reserve(rows, i);
    case Kind::release:
    case Kind::unmap:
      return release(rows, i);
    case Kind::alloc:
      return alloc(rows, i);
    case Kind::free:
      return free(rows.address[i]) && (reuse_ == Reuse::at_reclaim || reclaim(rows.address[i]));
    case Kind::reclaim:
      return reclaim(rows.address[i]);
    default:
      return true;
  }
}

bool Fold::reserve(const Rows& rows, std::size_t i) {
  const bool expandable = static_cast<Kind>(rows.kind[i]) == Kind::map;
  const Segment made{rows.size[i], rows.stream[i], rows.pool[i], rows.site[i], false, expandable};
  ++totals_.driver_allocs;
  if (!heap_.reserve(rows.address[i], made)) return false;
  add(made);
  return true;
}

bool Fold::release(const Rows& rows, std::size_t i) {
  const auto* found = heap_.segment_of(rows.address[i]);
  const bool expandable = found != nullptr && found->second.expandable;
  ++totals_.driver_frees;
  if (!heap_.release(rows.address[i], rows.size[i])) return false;
  totals_.now.reserved -= static_cast<std::int64_t>(rows.size[i]);
  totals_.now.segments -= expandable ? 0 : 1;
  return true;
}

bool Fold::alloc(const Rows& rows, std::size_t i) {
  const Block made{rows.size[i], rows.requested[i], rows.stream[i], rows.pool[i], rows.site[i]};
  ++totals_.allocs;
  if (!heap_.place(rows.address[i], made)) return false;
  add(made);
  return true;
}

bool Fold::free(std::uint64_t address) {
  Block* block = heap_.find(address);
  if (block == nullptr || block->pending) return false;
  block->pending = true;
  totals_.now.allocated -= static_cast<std::int64_t>(block->size);
  totals_.now.blocks -= 1;
  return true;
}

bool Fold::reclaim(std::uint64_t address) {
  Block* block = heap_.find(address);
  if (block == nullptr) return false;
  const bool asked = block->pending || free(address);
  totals_.now.active -= static_cast<std::int64_t>(block->size);
  totals_.now.requested -= static_cast<std::int64_t>(block->requested);
  heap_.erase(address);
  return asked;
}

}  // namespace forebay::emulate
