// One function a room, each in its own file: it adds a submodule to _core.
#pragma once

#include <nanobind/nanobind.h>

namespace forebay {

void bind_tape(nanobind::module_& m);

}  // namespace forebay
