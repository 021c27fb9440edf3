// source: whom a pool takes its segments from: the device's memory, or pinned memory of the host. All else about a pool
// is the same for both.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "driver/port.hpp"
#include "pool/domain.hpp"
#include "tape/events.hpp"

namespace forebay {

class Source {
 public:
  Source(Domain& domain, Space space) : domain_(domain), pinned_(space == Space::pinned) {}

  Result<Address> take(std::uint64_t bytes) const {
    return pinned_ ? domain_.driver().host_alloc(bytes) : domain_.driver().malloc(domain_.device(), bytes);
  }
  [[nodiscard]] Status give(Address address) const {
    return pinned_ ? domain_.driver().host_free(address) : domain_.driver().free(domain_.device(), address);
  }
  Space space() const { return pinned_ ? Space::pinned : Space::device; }
  std::string_view call() const { return pinned_ ? "host_alloc" : "malloc"; }
  // How much it could still give; what the host has to pin no driver says.
  std::optional<std::uint64_t> free_bytes() const {
    if (domain_.dead()) return 0;
    if (pinned_) return std::nullopt;
    const Result<MemoryInfo> info = domain_.driver().memory_info(domain_.device());
    domain_.note(info.status());
    return info.ok() ? info->free_bytes : 0;
  }

 private:
  Domain& domain_;
  const bool pinned_;
};

}  // namespace forebay
