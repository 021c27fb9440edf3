// lent_bytes: memory lent to Python for a while, as an object with the buffer protocol that knows whether somebody
// still looks at it. Whose memory it is, and for how long, is the lender's.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>

namespace forebay {

struct LentBytes {
  void* data = nullptr;
  std::uint64_t size = 0;
  bool writable = false;
  Py_ssize_t lookers = 0;  // buffers taken and not given back
};

// Adds the class to a submodule.
void bind_lent_bytes(nanobind::module_& m);

}  // namespace forebay
