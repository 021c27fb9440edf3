// uses: what a launch touches, as Python says it.
#pragma once

#include <nanobind/nanobind.h>

#include "tape/columns.hpp"

namespace forebay {

// One use from (address, size, mode, space).
inline Use use_of(nanobind::handle row) {
  Use use;
  use.address = nanobind::cast<std::uint64_t>(row[0]), use.size = nanobind::cast<std::uint64_t>(row[1]);
  use.mode = static_cast<Mode>(nanobind::cast<int>(row[2])),
  use.space = static_cast<Space>(nanobind::cast<int>(row[3]));
  return use;
}

}  // namespace forebay
