// addresses: where new segments lie. Ties between free blocks of one size go to the lowest address, so this decides
// layouts; when a segment is made and how large is caching.hpp's.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <unordered_set>
#include <vector>

namespace forebay::emulate {

class Addresses {
 public:
  virtual ~Addresses() = default;
  // An address for `bytes` (a multiple of 2 MiB) that nothing else holds; `ordinal` is how many segments and mappings
  // the driver has made before.
  virtual std::uint64_t take(std::uint64_t bytes, std::uint64_t ordinal) = 0;
  virtual void give(std::uint64_t address, std::uint64_t bytes) = 0;
};

// The addresses that a recording shows, by ordinal; beyond its end, below all of them.
std::unique_ptr<Addresses> recorded_addresses(std::vector<std::uint64_t> addresses);
// Each below, or above, all before it. No address comes twice.
std::unique_ptr<Addresses> descending_addresses();
std::unique_ptr<Addresses> ascending_addresses();
std::unique_ptr<Addresses> shuffled_addresses(std::uint64_t seed);
// Note [The driver's addresses]: as the recordings show them, the CUDA driver (580) hands out address space in chunks,
// the size rounded up to 32 MiB. A request goes into the newest chunk with room, at the lowest address there; where
// none has room a new chunk is cut from the top of the highest hole that is strictly larger, at last below everything.
// A chunk that becomes empty is a hole again. As long as the replay makes the same segments as the recording, they lie
// where they were recorded: that is how the address space of the program's other tenants is known. The oldest chunk is
// the context's: recordings show it with its first 6 or 8 MiB taken, so where none of theirs could show it, it is
// there.
struct SegmentAt {
  std::uint64_t address, size;
};
std::unique_ptr<Addresses> driver_addresses(std::vector<SegmentAt> recorded);

}  // namespace forebay::emulate
