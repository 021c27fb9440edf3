// _core.order: the order engine over tapes, chunk by chunk.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>

#include <utility>

#include "bind/module.hpp"
#include "bind/view.hpp"
#include "order/engine.hpp"

namespace nb = nanobind;

namespace forebay {
namespace {

using Streams = std::vector<std::pair<std::optional<StreamClass>, std::int16_t>>;
using Pools = std::vector<std::pair<Space, bool>>;

order::Tables tables_of(const Streams& streams, const Pools& pools) {
  order::Tables tables;
  for (const auto& [kind, device] : streams) tables.streams.push_back({kind, device});
  for (const auto& [space, trusted] : pools) tables.pools.push_back({space, trusted});
  return tables;
}

void bind_race(nb::module_& o) {
  nb::enum_<order::RaceKind>(o, "RaceKind", "What two rows do that nothing orders.")
      .value("free", order::RaceKind::free)
      .value("access", order::RaceKind::access)
      .value("alloc", order::RaceKind::alloc)
      .value("unmap", order::RaceKind::unmap);
  nb::class_<order::Race>(o, "Race", "Rows a and b, a first on the tape, touch bytes within [lo, hi), unordered.")
      .def_ro("a", &order::Race::a)
      .def_ro("b", &order::Race::b)
      .def_ro("lo", &order::Race::lo)
      .def_ro("hi", &order::Race::hi)
      .def_ro("kind", &order::Race::kind)
      .def_ro("certain", &order::Race::certain);
}

}  // namespace

void bind_order(nb::module_& m) {
  nb::module_ o = m.def_submodule("order", "Which event is sure to have happened before which.");
  bind_race(o);
  nb::class_<order::Engine>(o, "Engine", "Finds races while the chunks of a tape pass.")
      .def(
          "__init__",
          [](order::Engine* self, const Streams& streams, const Pools& pools, std::uint32_t threads) {
            new (self) order::Engine(tables_of(streams, pools), threads);
          },
          nb::arg("streams"), nb::arg("pools"), nb::arg("threads"),
          "Streams as (class or None, device), pools as (space, trusted), in the order of their tables; the number of "
          "host threads that the tape is known to have.")
      .def(
          "feed", [](order::Engine& self, nb::handle tape) { self.feed(view_of(tape)); }, nb::arg("tape"),
          "The next rows.")
      .def("races", &order::Engine::races, "All pairs so far, in the order of their later row.")
      .def_prop_ro("pieces", &order::Engine::pieces, "Byte ranges that are told apart now.");
}

}  // namespace forebay
