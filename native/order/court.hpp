// court: which clashing touches nothing orders, and how sure that is. The pairs come from memory.hpp.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "order/memory.hpp"

namespace forebay::order {

enum class RaceKind : std::uint8_t {
  free,    // a use and the free of its block
  access,  // two uses
  alloc,   // an alloc and a use that does not come after it
  unmap,   // a use and the host's taking away of its bytes
};

// Rows a and b, a first on the tape, touch bytes within [lo, hi) and nothing orders them.
struct Race {
  RowId a = 0, b = 0;
  std::uint64_t lo = 0, hi = 0;
  RaceKind kind = RaceKind::access;
  bool certain = false;
};

class Court : public Judge {
 public:
  void row(RowId row) override;
  void gap() override { lossy_ = true; }
  void incomplete(const Moment& m) override;
  void allocated(const Block& block, const Moment& m) override;
  void pair(const Access& a, const Access& b, std::uint64_t lo, std::uint64_t hi, const Moment& m) override;
  void late(const Block& block, const Access& b, std::uint64_t lo, std::uint64_t hi, const Moment& m) override;
  void freed(const Access& a, const Block& block, std::uint64_t lo, std::uint64_t hi, const Moment& m) override;
  void reclaimed(const Access& a, const Block& block, const Moment& m) override;
  void unmapped(const Access& a, RowId row, std::uint64_t lo, std::uint64_t hi, const Moment& m) override;

  // All so far, in the order of b; those of open frees may still become certain, or be withdrawn at a reclaim.
  std::vector<Race> races() const;

 private:
  // A free that a use is not ordered before, until the freeing stream comes to know the use.
  struct Open {
    std::size_t race = 0;
    Epoch use;
    std::uint64_t size = 0;
    PoolId pool = 0;
    bool can_be_certain = false;
  };
  // The smallest alloc since a row: rows rise, sizes rise.
  struct Smallest {
    RowId row = 0;
    std::uint64_t size = 0;
  };
  using Key = std::uint64_t;  // of a stream and a pool
  static constexpr PoolId kAnyPool = ~PoolId{0};
  static Key key(StreamId s, PoolId p) { return Key{s} << 32 | p; }

  std::size_t add(const Race& race);
  bool given_since(RowId row, const Block& freed) const;
  bool can_be_certain(const Access& a, const Moment& m) const;

  std::vector<Race> races_;
  std::vector<bool> withdrawn_;
  std::size_t row_start_ = 0;  // races_ of the present row begin here
  RowId row_ = 0;
  bool lossy_ = false;
  Clock incomplete_;                                            // what some incomplete item came after
  std::unordered_map<StreamId, std::vector<Open>> open_;        // by freeing stream
  std::unordered_map<RowId, std::vector<Open>> until_reclaim_;  // by free
  std::unordered_map<Key, std::vector<Smallest>> smallest_;
};

}  // namespace forebay::order
