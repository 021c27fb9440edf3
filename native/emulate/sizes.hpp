// sizes: how PyTorch's caching allocator rounds a request, which pool and segment serve it, and when a block is split.
// Pure arithmetic: it holds no block and no device.
//
// Source of every number: c10/cuda/CUDACachingAllocator.cpp as of PyTorch 2.11, sections "constants", "round_size",
// "get_allocation_size", "should_split".
#pragma once

#include <array>
#include <cstdint>
#include <optional>

namespace forebay::emulate {

inline constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
inline constexpr std::uint64_t kMinBlock = 512;           // rounding unit; smallest remainder that is split off
inline constexpr std::uint64_t kSmallSize = kMiB;         // largest rounded request of the small pool
inline constexpr std::uint64_t kSmallSegment = 2 * kMiB;  // also the page of an expandable small segment
inline constexpr std::uint64_t kMinLargeAlloc = 10 * kMiB;
inline constexpr std::uint64_t kRoundLarge = 2 * kMiB;

// What the settings string of the allocator says, in bytes. Defaults are PyTorch's.
struct Settings {
  std::optional<std::uint64_t> max_split_size;  // none: every block may be split
  std::uint64_t large_segment_size = 20 * kMiB;
  std::uint64_t max_non_split_rounding = 20 * kMiB;
  // Slot i: into how many steps sizes in [2^(20+i), 2^(21+i)) are rounded; 0 or 1: not at all. Below 1 MiB slot 0.
  std::array<std::uint32_t, 16> roundup_divisions{};
  double gc_threshold = 0;     // 0: off
  double memory_fraction = 1;  // of the device's total memory
  bool expandable_segments = false;
};

enum class PoolKind : std::uint8_t { small, large };

// Bytes of the block for a request of `requested` > 0 bytes, before any unsplit tail.
std::uint64_t rounded_size(std::uint64_t requested, const Settings& settings);
PoolKind pool_of(std::uint64_t rounded);
// Bytes of the driver segment that a miss of `rounded` bytes takes (not of an expandable one, which maps pages).
std::uint64_t segment_size(std::uint64_t rounded, const Settings& settings);
std::uint64_t page_size(PoolKind pool, const Settings& settings);

// Whether a free block of `block` bytes may serve `rounded` at all; block >= rounded.
bool may_serve(std::uint64_t rounded, std::uint64_t block, const Settings& settings);
// Whether the rest of the block is split off and stays free; otherwise it goes along as an unsplit tail.
bool splits(std::uint64_t rounded, std::uint64_t block, PoolKind pool, bool expandable, const Settings& settings);

}  // namespace forebay::emulate
