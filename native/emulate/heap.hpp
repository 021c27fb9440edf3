// heap: segments and live blocks of one device at one moment, and the moves that change them, forwards and backwards.
// It decides nothing: where a block lies is the history's, what it costs sizes.hpp's.
//
// Note [The free layout follows]: free neighbours never coexist (they merge), so free memory is what live blocks leave
// of their segments, and a live block always begins where the free block that it came from began. Both directions of
// time rest on this.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

namespace forebay::emulate {

struct Segment {
  std::uint64_t size = 0;
  std::uint32_t stream = 0, pool = 0, site = 0;
  bool large = false, expandable = false;
};
struct Block {
  std::uint64_t size = 0, requested = 0;
  std::uint32_t stream = 0, pool = 0, site = 0;
  bool pending = false;   // freed by the program, not yet reusable
  bool inferred = false;  // its unsplit tail is not known, so `size` is the least that it can be
};

class Heap {
 public:
  using Segments = std::map<std::uint64_t, Segment>;  // by address; a contiguous mapped range of one segment is one
  using Blocks = std::map<std::uint64_t, Block>;

  // False where the move contradicts what is there: nothing was changed then.
  [[nodiscard]] bool reserve(std::uint64_t address, const Segment& segment);
  [[nodiscard]] bool release(std::uint64_t address,
                             std::uint64_t size);  // the range, of one segment, without live blocks
  [[nodiscard]] bool place(std::uint64_t address, const Block& block);  // over free bytes only
  Block* find(std::uint64_t address);
  void erase(std::uint64_t address) { blocks_.erase(address); }

  const Segments::value_type* segment_of(std::uint64_t address) const;
  // First byte behind `address` that is not free: of the next live block, or the end of the segment.
  std::uint64_t next_edge(std::uint64_t address, const Segments::value_type& segment) const;
  // The live block that lies before `address` in the same segment.
  Blocks::value_type* before(std::uint64_t address, const Segments::value_type& segment);

  const Segments& segments() const { return segments_; }
  const Blocks& blocks() const { return blocks_; }

 private:
  void join(Segments::iterator left);
  bool live_in(std::uint64_t begin, std::uint64_t end) const;

  Segments segments_;
  Blocks blocks_;
};

}  // namespace forebay::emulate
