// One function a room, each in its own file: it adds a submodule to _core.
#pragma once

#include <nanobind/nanobind.h>

namespace forebay {

void bind_driver(nanobind::module_& m);
void bind_cuda(nanobind::module_& m);
void bind_tape(nanobind::module_& m);
void bind_order(nanobind::module_& m);
void bind_recorder(nanobind::module_& tape);  // into _core.tape
void bind_emulate(nanobind::module_& m);
void bind_allocator(nanobind::module_& m);
void bind_ingest(nanobind::module_& m);
void bind_pool(nanobind::module_& m);
void bind_guarded(nanobind::module_& m);      // into the pools' submodule
void bind_driver_pool(nanobind::module_& m);  // likewise
void bind_paged(nanobind::module_& m);
void bind_bench(nanobind::module_& m);

}  // namespace forebay
