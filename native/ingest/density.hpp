// density: how many values a file's bytes may hold. Picklers take two bytes and more for a value of a snapshot, keys
// and references included, and some ten for a list or a dict: what is denser was made to fill memory.
#pragma once

#include <cstdint>
#include <string>

#include "ingest/document.hpp"
#include "ingest/fault.hpp"

namespace forebay::ingest {

class Density {
 public:
  // A value made by the bytes up to `at`.
  void made(Cell cell, std::size_t at) { count(cell.tag() >= Tag::list ? 4 : 1, at); }
  void referred(std::size_t at) { count(1, at); }

 private:
  static constexpr std::uint64_t kAlways = 1 << 20;
  void count(std::uint64_t weight, std::size_t at) {
    weight_ += weight;
    if (weight_ > kAlways && weight_ > at / 4 * 3)
      fail_at(at, "more values than a snapshot of so few bytes has: this file was made to fill memory");
  }
  std::uint64_t weight_ = 0;
};

}  // namespace forebay::ingest
