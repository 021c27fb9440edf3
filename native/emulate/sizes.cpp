#include "emulate/sizes.hpp"

#include <algorithm>
#include <bit>

namespace forebay::emulate {
namespace {

std::uint64_t round_up(std::uint64_t value, std::uint64_t unit) { return (value + unit - 1) / unit * unit; }

std::uint32_t divisions_of(std::uint64_t requested, const Settings& settings) {
  const int power = std::bit_width(requested) - 1;
  return settings.roundup_divisions[static_cast<std::size_t>(std::clamp(power - 20, 0, 15))];
}

// The next of `divisions` equal steps between two powers of two; a power of two is its own step.
std::uint64_t round_in_steps(std::uint64_t requested, std::uint64_t divisions) {
  if (std::has_single_bit(requested)) return requested;
  const std::uint64_t step = std::bit_floor(requested) / divisions;
  return step == 0 ? std::bit_ceil(requested) : round_up(requested, step);
}

}  // namespace

std::uint64_t rounded_size(std::uint64_t requested, const Settings& settings) {
  if (requested < kMinBlock) return kMinBlock;
  const std::uint64_t divisions = divisions_of(requested, settings);
  if (divisions > 1 && requested > kMinBlock * divisions) return round_in_steps(requested, divisions);
  return round_up(requested, kMinBlock);
}

PoolKind pool_of(std::uint64_t rounded) { return rounded <= kSmallSize ? PoolKind::small : PoolKind::large; }

std::uint64_t segment_size(std::uint64_t rounded, const Settings& settings) {
  if (rounded <= kSmallSize) return kSmallSegment;
  if (rounded < kMinLargeAlloc) return settings.large_segment_size;
  return round_up(rounded, kRoundLarge);
}

std::uint64_t page_size(PoolKind pool, const Settings& settings) {
  return pool == PoolKind::small ? kSmallSegment : settings.large_segment_size;
}

bool may_serve(std::uint64_t rounded, std::uint64_t block, const Settings& settings) {
  if (!settings.max_split_size) return true;
  if (rounded < *settings.max_split_size) return block < *settings.max_split_size;
  return block < rounded + settings.max_non_split_rounding;
}

bool splits(std::uint64_t rounded, std::uint64_t block, PoolKind pool, bool expandable, const Settings& settings) {
  const std::uint64_t rest = block - rounded;
  if (pool == PoolKind::small || expandable) return rest >= kMinBlock;
  return (!settings.max_split_size || rounded < *settings.max_split_size) && rest > kSmallSize;
}

}  // namespace forebay::emulate
