// fault: the one thing that reading a foreign file throws. What the caller makes of it is bind/'s.
#pragma once

#include <cstddef>
#include <stdexcept>
#include <string>

namespace forebay::ingest {

// The message names the place (byte offset, or path in the structure) and what stands there.
class Fault : public std::invalid_argument {
 public:
  using std::invalid_argument::invalid_argument;
};

[[noreturn]] inline void fail_at(std::size_t offset, const std::string& what) {
  throw Fault("byte " + std::to_string(offset) + ": " + what);
}

}  // namespace forebay::ingest
