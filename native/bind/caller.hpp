// caller: where in the Python program a call into the core comes from, for the rows that it writes. Looked up only
// while somebody asked for it, at the call's entry: under the core's locks nobody may want the GIL.
#pragma once

#include <nanobind/nanobind.h>

#include <optional>

#include "tape/recorder.hpp"

namespace forebay {

// Holds the GIL when it is made.
class FromPython {
 public:
  FromPython();

 private:
  std::optional<Caller> caller_;
};

// Guard of a call that leaves Python.
struct Leaving {
  FromPython from;
  nanobind::gil_scoped_release open;
};

// Adds `note_callers` to a submodule.
void bind_caller(nanobind::module_& m);

}  // namespace forebay
