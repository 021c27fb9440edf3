// memory: who touched which bytes last, across free and reuse, and which block they belong to. Whether a pair of
// touches is ordered, and what that makes of it, is the judge's (court.hpp, needed.hpp).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "order/access.hpp"
#include "order/actors.hpp"
#include "order/few.hpp"
#include "order/ranges.hpp"

namespace forebay::order {

using PoolId = std::uint32_t;

// A block from its alloc on.
struct Block {
  std::uint64_t address = 0, size = 0;
  std::optional<RowId> alloc;  // absent where the tape began later
  std::optional<StreamId> stream;
  std::optional<PoolId> pool;
  bool trusted = false;
  std::vector<StreamId> lent;
  std::optional<RowId> freed;       // or unmapped
  std::optional<StreamId> freeing;  // the stream that orders the free
  Role end = Role::free;
  bool ground =
      false;  // no block that the tape shows: memory that a graph baked in, told apart so that its end is seen
};

// Hears of every touch that meets an earlier one, the earlier one still standing. Bytes are [lo, hi); `m` is the moment
// of the later.
class Judge {
 public:
  virtual ~Judge() = default;
  // Two uses that clash if nothing orders them, or an alloc and a use.
  virtual void pair(const Access& a, const Access& b, std::uint64_t lo, std::uint64_t hi, const Moment& m) = 0;
  // A use of a block that was freed, or of bytes that were unmapped, before on the tape.
  virtual void late(const Block& block, const Access& b, std::uint64_t lo, std::uint64_t hi, const Moment& m) = 0;
  // A use and the free of its block; later, the host's reclaiming of it.
  virtual void freed(const Access& a, const Block& block, std::uint64_t lo, std::uint64_t hi, const Moment& m) = 0;
  virtual void reclaimed(const Access& a, const Block& block, const Moment& m) = 0;
  // A use, and the row in which the host takes its bytes away.
  virtual void unmapped(const Access& a, RowId row, std::uint64_t lo, std::uint64_t hi, const Moment& m) = 0;

  // What else a walk over a tape passes: each row before its touches; lost rows; an item with uses that the tape does
  // not show;
  // an alloc.
  virtual void row(RowId) {}
  virtual void gap() {}
  virtual void incomplete(const Moment&) {}
  virtual void vague(const Moment&) {}  // an item with a use that may be a read or a write
  virtual void allocated(const Block&, const Moment&) {}
};

// Which earlier touches are forgotten once a later one is ordered after them.
//   statement7  those that it stands for: what is left are the pairs to report.
//   every       only those of the same actor or under a write: what is left implies every pair that must stay ordered.
enum class Keep : std::uint8_t { statement7, every };

// One address space.
class Memory {
 public:
  Memory(Judge& judge, Keep keep) : judge_(&judge), keep_(keep) {}

  void touch(const Access& b, std::uint64_t lo, std::uint64_t hi, const Moment& m);
  void alloc(Block block, const Moment& m);
  void lend(std::uint64_t address, StreamId to);
  // The block that a free at `address` would end: the live one there, or none.
  std::shared_ptr<Block> live_at(std::uint64_t address);
  void free(RowId row, const std::shared_ptr<Block>& block, std::optional<StreamId> in, const Moment& m);
  void reclaim(std::uint64_t address, const Moment& m);
  void unmap(RowId row, std::uint64_t lo, std::uint64_t hi, const Moment& m);
  void mapped(std::uint64_t lo, std::uint64_t hi);

  // The lives of these bytes as they are now: what a graph that bakes them in relies on. Calls f(block, lo, hi).
  template <class F>
  void bake(std::uint64_t lo, std::uint64_t hi, F f) {
    std::shared_ptr<Block> ground;
    bytes_.cover(lo, hi, [&](Piece& piece) {
      std::shared_ptr<Block>& life = piece.value.life;
      if (!life) {
        if (!ground) ground = std::make_shared<Block>(Block{.address = lo, .size = hi - lo, .ground = true});
        life = ground;
      }
      f(life, piece.lo, piece.hi);
    });
  }
  // The life of the byte at `address`, if it has one.
  const Block* life(std::uint64_t address);
  // Forgets what nothing can still race with: touches that `known_to_all` knows, and old marks of freed blocks.
  void prune(const Clock& known_to_all, RowId now);
  bool crowded() const { return bytes_.size() > limit_; }
  std::size_t pieces() const { return bytes_.size(); }

 private:
  struct Cell {
    std::shared_ptr<Block> life;
    Few<Access, 3> touches;
  };
  using Piece = Ranges<Cell>::Piece;

  void touch(Piece& piece, const Access& b, const Moment& m);
  bool forgets(const Access& earlier, const Access& later, const Moment& m) const;
  void begin(Piece& piece, const std::shared_ptr<Block>& block);
  void tidy(std::uint64_t lo, std::uint64_t hi, std::size_t pieces);

  Judge* judge_;
  Keep keep_;
  Ranges<Cell> bytes_;
  std::size_t limit_ = std::size_t{1} << 16;
  RowId last_prune_ = 0;
};

}  // namespace forebay::order
