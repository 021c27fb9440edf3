// fault: the one thing that a pool throws, with all that a message needs. Its words are bind/pool.cpp's.
#pragma once

#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "driver/status.hpp"
#include "pool/gauges.hpp"

namespace forebay {

// What an out-of-memory came from; in this order of precedence.
enum class Verdict : std::uint8_t {
  pending,     // a hole would do once frees on this stream's blocks have completed
  stranded,    // idle bytes that would do lie in other streams' lists, or in pools that keep theirs
  fragmented,  // as many bytes are idle, in holes each too small
  capped,      // the pool's own limit, with room left on the device
  full,        // the device has no more
};
constexpr std::string_view name_of(Verdict v) {
  constexpr std::string_view names[] = {"pending", "stranded", "fragmented", "capped", "full"};
  return names[static_cast<std::size_t>(v)];
}

struct PoolFault : std::exception {
  enum class Code : std::uint8_t { exhausted, pending, driver, unknown_stream, unknown_address, impossible };

  explicit PoolFault(Code code) : code(code) {}
  PoolFault(Code code, std::string pool, std::uint64_t asked) : code(code), asked(asked), pool(std::move(pool)) {}
  const char* what() const noexcept override { return "pool fault"; }

  Code code;
  std::uint64_t asked = 0;          // bytes; the address, or the stream's id, that is unknown
  std::string pool, stream;         // names
  Verdict verdict = Verdict::full;  // of exhausted
  Gauges gauges;                    // of exhausted and pending
  std::optional<std::uint64_t> limit;
  std::vector<std::string> awaited;  // of pending: names of the streams waited for
  std::int64_t waited_ns = 0;
  Status status = Status::ok;  // of driver
  std::string_view call;       // of driver
};

}  // namespace forebay
