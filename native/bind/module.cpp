// _core: the native rooms seen from Python, a submodule each. The rooms themselves know nothing of Python.
#include "bind/module.hpp"

NB_MODULE(_core, m) {
  m.doc() = "The native core of forebay: one submodule a room of native/.";
  forebay::bind_tape(m);
  forebay::bind_driver(m);
  forebay::bind_cuda(m);
  forebay::bind_emulate(m);
  forebay::bind_allocator(m);
  forebay::bind_ingest(m);
  forebay::bind_order(m);
  forebay::bind_pool(m);
  forebay::bind_paged(m);
  forebay::bind_bench(m);
}
