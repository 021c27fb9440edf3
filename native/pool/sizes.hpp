// sizes: how many bytes a request takes, and how large the segment is that a miss asks the driver for.
// Which free block serves it is lane.hpp's.
//
// Sources: 512 B, 1 MiB, 2 MiB, 10 MiB and 20 MiB are the thresholds of PyTorch's caching allocator (so that histories
// compare); the 4 KiB limit of size classes was measured on recorded histories (larger classes waste more than they
// save).
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace forebay {

inline constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
inline constexpr std::uint64_t kQuantum = 512;                            // every block is a multiple of it
inline constexpr std::uint64_t kLargestClass = 4096;                      // requests up to here have a size class
inline constexpr std::size_t kClassCount = kLargestClass / kQuantum;      // class c serves (c + 1) * kQuantum bytes
inline constexpr std::uint64_t kSlabBytes = 32 * 1024;                    // a class carves its slots from slabs
inline constexpr std::uint64_t kLargestSmall = kMiB;                      // requests up to here share small segments
inline constexpr std::uint64_t kLargestRequest = std::uint64_t{1} << 48;  // no device has more addresses

// Small and large requests live in segments apart, so that a long-lived small block strands 2 MiB and not 20.
enum class Shelf : std::uint8_t { small, large };

// What a request takes.
struct Need {
  std::uint64_t requested = 0;
  std::uint64_t bytes = 0;  // rounded
  Shelf shelf = Shelf::small;
  std::optional<std::uint8_t> size_class;
};

constexpr std::uint64_t round_up(std::uint64_t n, std::uint64_t step) { return (n + step - 1) / step * step; }

// A guest of another stream is handed out whole, so it serves only requests that leave little of it.
constexpr std::uint64_t most_for_guest(std::uint64_t bytes) { return bytes + bytes / 8; }

constexpr Need need_of(std::uint64_t requested, std::uint64_t rounded) {
  Need need{requested, rounded, rounded <= kLargestSmall ? Shelf::small : Shelf::large, std::nullopt};
  if (rounded <= kLargestClass) need.size_class = static_cast<std::uint8_t>(rounded / kQuantum - 1);
  return need;
}

// The size of the segment that a miss of `bytes` asks for, and the least that would do where that is refused.
constexpr std::uint64_t wanted_segment(std::uint64_t bytes) {
  if (bytes <= kLargestSmall) return 2 * kMiB;
  return bytes < 10 * kMiB ? 20 * kMiB : round_up(bytes, 2 * kMiB);
}
constexpr std::uint64_t least_segment(std::uint64_t bytes) { return round_up(bytes, 2 * kMiB); }

// Rounding of one pool: to 512 B, or to the smallest bucket that holds the request.
class Rounding {
 public:
  Rounding() = default;
  explicit Rounding(std::vector<std::uint64_t> buckets) : buckets_(std::move(buckets)) {
    for (auto& b : buckets_) b = round_up(std::max(b, kQuantum), kQuantum);
    std::sort(buckets_.begin(), buckets_.end());
  }
  // Requests above the largest bucket round to 512 B.
  Need need(std::uint64_t requested) const {
    const std::uint64_t plain = round_up(std::max<std::uint64_t>(requested, 1), kQuantum);
    if (buckets_.empty()) return need_of(requested, plain);
    const auto bucket = std::lower_bound(buckets_.begin(), buckets_.end(), plain);
    return need_of(requested, bucket == buckets_.end() ? plain : *bucket);
  }
  const std::vector<std::uint64_t>& buckets() const { return buckets_; }

 private:
  std::vector<std::uint64_t> buckets_;
};

}  // namespace forebay
