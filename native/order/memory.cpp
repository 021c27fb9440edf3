// memory: how touches meet, and how blocks begin and end.
#include "order/memory.hpp"

#include <algorithm>

namespace forebay::order {
namespace {

bool same(const Access& a, const Access& b) {
  return a.row == b.row && a.epoch.actor == b.epoch.actor && a.epoch.tick == b.epoch.tick && a.mode == b.mode &&
         a.role == b.role && a.hull == b.hull && a.released == b.released && a.retired == b.retired;
}

// Whether `a` used the block that a cell belongs to, rather than an earlier one at its address.
bool of_life(const Access& a, const Block& block) {
  return a.role == Role::use && !a.retired && (!block.alloc || a.row > *block.alloc);
}

}  // namespace

bool Memory::forgets(const Access& earlier, const Access& later, const Moment& m) const {
  if (!m.knows(earlier.epoch) || !stands_for(later, earlier)) return false;
  return keep_ == Keep::statement7 || later.mode == Mode::write || earlier.epoch.actor == later.epoch.actor;
}

void Memory::touch(Piece& piece, const Access& b, const Moment& m) {
  Cell& cell = piece.value;
  if (cell.life && cell.life->freed) judge_->late(*cell.life, b, piece.lo, piece.hi, m);
  std::size_t kept = 0;
  for (const Access& a : cell.touches) {
    if (a.row != b.row && !a.retired && (a.role != Role::use || clash(a.mode, b.mode) != Clash::none))
      judge_->pair(a, b, piece.lo, piece.hi, m);
    if (!forgets(a, b, m)) cell.touches.begin()[kept++] = a;
  }
  cell.touches.keep_first(kept);
  cell.touches.push_back(b);
}

void Memory::touch(const Access& b, std::uint64_t lo, std::uint64_t hi, const Moment& m) {
  const std::size_t pieces = bytes_.cover(lo, hi, [&](Piece& piece) { touch(piece, b, m); });
  tidy(lo, hi, pieces);
}

// Pieces that ended up alike need not stay apart: the number of pieces follows what is still told apart.
void Memory::tidy(std::uint64_t lo, std::uint64_t hi, std::size_t pieces) {
  if (pieces < 2) return;
  bytes_.join(lo, hi, [](const Cell& a, const Cell& b) {
    return a.life == b.life && std::equal(a.touches.begin(), a.touches.end(), b.touches.begin(), b.touches.end(), same);
  });
}

// A trusted pool gives bytes out after their release, whose edges the tape does not show; so does a pool whose free the
// tape missed. Any other pool's reuse is judged by the touches that stay.
void Memory::begin(Piece& piece, const std::shared_ptr<Block>& block) {
  Cell& cell = piece.value;
  cell.touches.erase_if([](const Access& a) { return a.role == Role::alloc; });
  if (block->trusted)
    for (Access& a : cell.touches) a.retired |= a.released || !cell.life || !cell.life->freed;
  cell.life = block;
}

void Memory::alloc(Block block, const Moment& m) {
  const std::uint64_t lo = block.address, hi = block.address + block.size;
  const auto life = std::make_shared<Block>(std::move(block));
  const Access begin_of{.row = *life->alloc, .epoch = m.epoch, .mode = Mode::write, .role = Role::alloc};
  const std::size_t pieces = bytes_.cover(lo, hi, [&](Piece& piece) {
    begin(piece, life);
    piece.value.touches.push_back(begin_of);
  });
  tidy(lo, hi, pieces);
}

std::shared_ptr<Block> Memory::live_at(std::uint64_t address) {
  const Cell* cell = bytes_.find(address);
  return cell != nullptr && cell->life && !cell->life->freed && !cell->life->ground ? cell->life : nullptr;
}

const Block* Memory::life(std::uint64_t address) {
  const Cell* cell = bytes_.find(address);
  return cell == nullptr ? nullptr : cell->life.get();
}

void Memory::lend(std::uint64_t address, StreamId to) {
  if (const auto block = live_at(address)) block->lent.push_back(to);
}

void Memory::free(RowId row, const std::shared_ptr<Block>& block, std::optional<StreamId> in, const Moment& m) {
  block->freed = row;
  block->freeing = in;
  const std::uint64_t lo = block->address, hi = block->address + block->size;
  const std::size_t pieces = bytes_.cover(lo, hi, [&](Piece& piece) {
    Cell& cell = piece.value;
    if (cell.life && cell.life != block && !cell.life->ground)
      return;  // reused already: the tape shows no free of that
    cell.life = block;
    cell.touches.erase_if([](const Access& a) { return a.role == Role::alloc; });
    for (Access& a : cell.touches) {
      if (!of_life(a, *block)) continue;
      judge_->freed(a, *block, piece.lo, piece.hi, m);
      a.released = m.knows(a.epoch);
    }
  });
  tidy(lo, hi, pieces);
}

void Memory::reclaim(std::uint64_t address, const Moment& m) {
  const Cell* at = bytes_.find(address);
  if (at == nullptr || !at->life || !at->life->freed || at->life->end != Role::free) return;
  const std::shared_ptr<Block> block = at->life;
  bytes_.overlapping(block->address, block->address + block->size, [&](Piece& piece) {
    if (piece.value.life != block) return;
    for (Access& a : piece.value.touches) {
      if (!of_life(a, *block) || a.released || a.row > *block->freed) continue;
      judge_->reclaimed(a, *block, m);
      a.released = m.knows(a.epoch);
    }
  });
}

// The host takes the bytes away: stream order is not enough, so every use that ever was must be known to it.
void Memory::unmap(RowId row, std::uint64_t lo, std::uint64_t hi, const Moment& m) {
  bytes_.cover(lo, hi, [&](Piece& piece) {
    for (const Access& a : piece.value.touches)
      if (a.role == Role::use) judge_->unmapped(a, row, piece.lo, piece.hi, m);
    if (const auto& life = piece.value.life; life && !life->freed) life->freed = row, life->end = Role::unmap;
  });
  bytes_.clear(lo, hi);
  const auto gone = std::make_shared<Block>();
  gone->address = lo;
  gone->size = hi - lo;
  gone->freed = row;
  gone->end = Role::unmap;
  bytes_.cover(lo, hi, [&](Piece& piece) { piece.value.life = gone; });
}

void Memory::mapped(std::uint64_t lo, std::uint64_t hi) {
  bytes_.overlapping(lo, hi, [](Piece& piece) {
    if (piece.value.life && piece.value.life->freed && piece.value.life->end == Role::unmap) piece.value.life = nullptr;
  });
}

// A mark of a freed block is kept for late uses of it; those older than the last pruning have been late long enough.
void Memory::prune(const Clock& known_to_all, RowId now) {
  bytes_.erase_if([&](Piece& piece) {
    Cell& cell = piece.value;
    cell.touches.erase_if([&](const Access& a) { return known_to_all.knows(a.epoch); });
    const bool old = cell.life && cell.life->freed && *cell.life->freed < last_prune_;
    return cell.touches.empty() && (!cell.life || old);
  });
  last_prune_ = now;
  limit_ = std::max(limit_, 2 * bytes_.size());
}

}  // namespace forebay::order
