// court: judging pairs.
#include "order/court.hpp"

#include <algorithm>

namespace forebay::order {

void Court::row(RowId row) {
  row_ = row;
  row_start_ = races_.size();
}

// Any use that the item hides may stand between two that the tape shows.
void Court::incomplete(const Moment& m) {
  Clock before = *m.sure;
  before.set({m.epoch.actor, m.epoch.tick - 1});
  incomplete_.join(before);
}

// One race a pair of rows: its bytes are the hull of all that they share.
std::size_t Court::add(const Race& race) {
  for (std::size_t i = row_start_; i < races_.size(); ++i) {
    Race& known = races_[i];
    if (known.a != race.a || known.b != race.b || known.kind != race.kind) continue;
    known.lo = std::min(known.lo, race.lo);
    known.hi = std::max(known.hi, race.hi);
    known.certain |= race.certain;
    return i;
  }
  races_.push_back(race);
  withdrawn_.push_back(false);
  return races_.size() - 1;
}

bool Court::can_be_certain(const Access& a, const Moment& m) const {
  return !lossy_ && !a.hull && !a.loose && !m.plausible->knows(a.epoch);
}

void Court::pair(const Access& a, const Access& b, std::uint64_t lo, std::uint64_t hi, const Moment& m) {
  if (m.knows(a.epoch)) return;
  if (a.role == Role::alloc) {
    add({a.row, b.row, lo, hi, RaceKind::alloc, false});
    return;
  }
  const bool certain = clash(a.mode, b.mode) == Clash::certain && !b.hull && !b.loose && can_be_certain(a, m) &&
                       !incomplete_.knows(a.epoch);
  add({a.row, b.row, lo, hi, RaceKind::access, certain});
}

void Court::late(const Block& block, const Access& b, std::uint64_t lo, std::uint64_t hi, const Moment&) {
  if (block.end == Role::unmap) {
    add({*block.freed, b.row, lo, hi, RaceKind::unmap, !lossy_ && !b.hull && !b.loose});
  } else {
    const bool certain = !lossy_ && !b.hull && !b.loose && given_since(*block.freed, block);
    add({*block.freed, b.row, lo, hi, RaceKind::free, certain});
  }
}

bool Court::given_since(RowId row, const Block& freed) const {
  if (!freed.freeing) return false;
  const auto found = smallest_.find(key(*freed.freeing, freed.pool.value_or(kAnyPool)));
  if (found == smallest_.end()) return false;
  const auto after = std::upper_bound(found->second.begin(), found->second.end(), row,
                                      [](RowId r, const Smallest& s) { return r < s.row; });
  return after != found->second.end() && after->size <= freed.size;
}

void Court::freed(const Access& a, const Block& block, std::uint64_t lo, std::uint64_t hi, const Moment& m) {
  if (m.knows(a.epoch)) return;
  const std::size_t race = add({a.row, *block.freed, lo, hi, RaceKind::free, false});
  const Open open{race, a.epoch, block.size, block.pool.value_or(kAnyPool), can_be_certain(a, m)};
  until_reclaim_[*block.freed].push_back(open);
  if (block.freeing && open.can_be_certain) open_[*block.freeing].push_back(open);
}

// The pool did not give the bytes out before this: what the host has seen by now is ordered, and the gap opens here.
void Court::reclaimed(const Access& a, const Block& block, const Moment& m) {
  const auto found = until_reclaim_.find(*block.freed);
  if (found == until_reclaim_.end()) return;
  for (const Open& open : found->second) {
    if (open.use.actor != a.epoch.actor || open.use.tick != a.epoch.tick) continue;
    races_[open.race].certain = false;
    withdrawn_[open.race] = m.knows(a.epoch);
    if (block.freeing && open.can_be_certain && !m.knows(a.epoch)) open_[*block.freeing].push_back(open);
  }
}

void Court::unmapped(const Access& a, RowId row, std::uint64_t lo, std::uint64_t hi, const Moment& m) {
  if (!m.knows(a.epoch)) add({a.row, row, lo, hi, RaceKind::unmap, can_be_certain(a, m)});
}

// The gap closes when the freeing stream may have come to know the use: under the reading with most order, since of two
// threads that take turns on a stream only the one that synchronised is sure to know.
// Was the alloc given bytes that a use of a freed block could still touch?
void Court::allocated(const Block& block, const Moment& m) {
  if (!block.stream) return;
  const PoolId pool = block.pool.value_or(kAnyPool);
  auto& smallest = smallest_[key(*block.stream, pool)];
  while (!smallest.empty() && smallest.back().size >= block.size) smallest.pop_back();
  smallest.push_back({*block.alloc, block.size});
  const auto found = open_.find(*block.stream);
  if (found == open_.end()) return;
  std::erase_if(found->second, [&](const Open& open) {
    if (withdrawn_[open.race] || m.plausible->knows(open.use)) return true;
    const bool fits = open.pool == pool && block.size <= open.size;
    if (fits) races_[open.race].certain = true;
    return fits;
  });
}

std::vector<Race> Court::races() const {
  std::vector<Race> kept;
  for (std::size_t i = 0; i < races_.size(); ++i)
    if (!withdrawn_[i]) kept.push_back(races_[i]);
  return kept;
}

}  // namespace forebay::order
