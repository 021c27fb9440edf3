// pool_options: a pool's options from the arguments of its Python class, one list for ordinary pools and those in debug
// mode.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "pool/pool.hpp"

namespace forebay {

inline PoolOptions options_of(std::string name, std::uint32_t index, std::optional<std::uint64_t> limit,
                              std::vector<std::uint64_t> buckets, std::int64_t wait_limit_ns, bool shared, Sink* tape,
                              Space space, GrowBy growth) {
  PoolOptions o;
  o.name = std::move(name);
  o.index = index;
  o.limit = limit;
  o.buckets = std::move(buckets);
  o.wait_limit = std::chrono::nanoseconds(wait_limit_ns);
  o.idle = shared ? IdleBytes::shared : IdleBytes::kept;
  o.growth = growth;
  o.tape = tape;
  o.space = space;
  return o;
}

}  // namespace forebay
