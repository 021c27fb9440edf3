// cursor: the bytes of a file from front to back, never past their end. What they mean is the reader's.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "ingest/fault.hpp"

namespace forebay::ingest {

class Cursor {
 public:
  explicit Cursor(std::string_view input) : input_(input) {}
  std::size_t left() const { return input_.size() - at_; }
  std::size_t at() const { return at_; }
  // The next opcode; what fails from here on is reported at its offset.
  unsigned char next_op() {
    start_ = at_;
    return static_cast<unsigned char>(take(1)[0]);
  }
  [[noreturn]] void fail(const std::string& what) const { fail_at(start_, what); }

  std::string_view take(std::uint64_t count) {
    if (count > left())
      fail("the file ends here: " + std::to_string(count) + " bytes expected, " + std::to_string(left()) + " left");
    const std::string_view taken = input_.substr(at_, count);
    at_ += count;
    return taken;
  }
  std::string_view line() {
    const std::size_t end = input_.find('\n', at_);
    if (end == std::string_view::npos) fail("the file ends inside a line");
    const std::string_view taken = input_.substr(at_, end - at_);
    at_ = end + 1;
    return taken;
  }
  std::uint64_t little(unsigned bytes) {
    const std::string_view raw = take(bytes);
    std::uint64_t value = 0;
    for (unsigned i = 0; i < bytes; ++i) value |= std::uint64_t{static_cast<unsigned char>(raw[i])} << 8 * i;
    return value;
  }

 private:
  std::string_view input_;
  std::size_t at_ = 0, start_ = 0;  // the next byte; where the current opcode stands
};

}  // namespace forebay::ingest
