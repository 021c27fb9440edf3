// _core.order: the order engine over tapes, chunk by chunk.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <tuple>
#include <utility>

#include "bind/module.hpp"
#include "bind/view.hpp"
#include "order/engine.hpp"
#include "order/needed.hpp"
#include "order/relation.hpp"

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

void bind_needed(nb::module_& o) {
  nb::enum_<order::Need>(o, "Need", "What becomes of a unit of edges.")
      .value("needed", order::Need::needed)
      .value("needless", order::Need::needless)
      .value("idle", order::Need::idle)
      .value("not_judged", order::Need::not_judged);
  nb::class_<order::Needed>(o, "Needed", "Which waits and syncs of a tape are needed.")
      .def(
          "__init__",
          [](order::Needed* self, const Streams& streams, const Pools& pools, std::uint32_t threads, bool uses) {
            new (self)
                order::Needed(tables_of(streams, pools), threads, uses ? order::Uses::shown : order::Uses::unseen);
          },
          nb::arg("streams"), nb::arg("pools"), nb::arg("threads"), nb::arg("uses"),
          "Tables as for Engine, holding every stream of the tape; how many threads it has; whether it shows uses.")
      .def(
          "feed", [](order::Needed& self, nb::handle tape) { self.feed(view_of(tape)); }, nb::arg("tape"),
          "The next rows.")
      .def(
          "judge",
          [](order::Needed& self, const std::vector<std::tuple<std::vector<order::RowId>, int, bool>>& units) {
            std::vector<order::Unit> given;
            for (const auto& [rows, rank, judged] : units) given.push_back({rows, rank, judged});
            std::vector<std::pair<order::Need, std::uint64_t>> verdicts;
            for (const order::Verdict& v : self.judge(given)) verdicts.emplace_back(v.need, v.effect);
            return verdicts;
          },
          nb::arg("units"), "Of units as (rows, rank, judged): (need, orderings that it alone adds) each. Once only.")
      .def_prop_ro("visits", &order::Needed::visits, "Steps that were worked out again, over all trials.")
      .def(
          "carries",
          [](order::Needed& self, const std::vector<order::RowId>& rows, std::size_t most) {
            std::vector<std::pair<order::RowId, order::RowId>> pairs;
            for (const order::Kept& kept : self.carries({.rows = rows}, most)) pairs.emplace_back(kept.a, kept.b);
            return pairs;
          },
          nb::arg("rows"), nb::arg("most"), "Pairs of rows that nothing but these rows and what is dropped orders.");
}

void bind_relation(nb::module_& o) {
  nb::enum_<order::Sure>(o, "Sure", "Whether one row is before another.")
      .value("no", order::Sure::no)
      .value("possible", order::Sure::possible)
      .value("certain", order::Sure::certain);
  nb::class_<order::Relation>(o, "Relation", "Which work items of a tape are before which others.")
      .def(
          "__init__",
          [](order::Relation* self, const Streams& streams, const Pools& pools, std::uint32_t threads) {
            new (self) order::Relation(tables_of(streams, pools), threads);
          },
          nb::arg("streams"), nb::arg("pools"), nb::arg("threads"), "As for Needed.")
      .def(
          "feed", [](order::Relation& self, nb::handle tape) { self.feed(view_of(tape)); }, nb::arg("tape"),
          "The next rows.")
      .def("before", &order::Relation::before, nb::arg("a"), nb::arg("b"), "Whether row a is before row b.")
      .def("item", &order::Relation::item, nb::arg("row"), "Whether the row is an item that runs.")
      .def("way", &order::Relation::way, nb::arg("a"), nb::arg("b"),
           "Rows on one way from a to b, b first, at which order comes in from another stream or thread.");
}

}  // namespace

void bind_order(nb::module_& m) {
  nb::module_ o = m.def_submodule("order", "Which event is sure to have happened before which.");
  bind_race(o);
  bind_needed(o);
  bind_relation(o);
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
