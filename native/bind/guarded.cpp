// _core.pool's pools in debug mode, and what they report. Words are runtime/debug.py's.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <utility>
#include <vector>

#include "bind/caller.hpp"
#include "bind/module.hpp"
#include "bind/pool_options.hpp"
#include "bind/released.hpp"
#include "pool/guarded.hpp"
#include "tape/recorder.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace forebay {
namespace {

using Open = nb::call_guard<Leaving>;
using BoundPool = Released<GuardedPool>;

void require(bool known, const GuardedPool& pool, Address address) {
  if (!known) throw PoolFault(PoolFault::Code::unknown_address, pool.options().name, address);
}

void bind_reports(nb::module_& m) {
  nb::enum_<Misuse>(m, "Misuse", "What a pool in debug mode finds.")
      .value("read_after_free", Misuse::read_after_free)
      .value("write_after_free", Misuse::write_after_free)
      .value("overrun", Misuse::overrun);
  nb::class_<Suspect>(m, "Suspect",
                      "Work that misused a block, or may have; `touched`: it declares a use of the block.")
      .def_ro("name", &Suspect::name)
      .def_ro("stream", &Suspect::stream)
      .def_ro("site", &Suspect::site)
      .def_ro("touched", &Suspect::touched);
  nb::class_<Report>(
      m, "Report",
      "One misuse of a block. Bytes; `offset` and `last` count from the block's address: what was found changed "
      "there; `further`: nobody looked beyond.")
      .def_ro("misuse", &Report::misuse)
      .def_ro("address", &Report::address)
      .def_ro("nbytes", &Report::nbytes)
      .def_ro("stream", &Report::stream)
      .def_ro("allocated_at", &Report::allocated_at)
      .def_ro("freed_at", &Report::freed_at)
      .def_ro("offset", &Report::offset)
      .def_ro("last", &Report::last)
      .def_ro("further", &Report::further)
      .def_ro("suspects", &Report::suspects)
      .def_ro("forgotten", &Report::forgotten);
}

}  // namespace

void bind_guarded(nb::module_& m) {
  bind_reports(m);
  nb::class_<BoundPool>(m, "GuardedPool", "A pool in debug mode: what Pool has, and its checks.")
      .def(
          "__init__",
          [](BoundPool* self, Domain& domain, std::string name, std::uint64_t quarantine, std::uint32_t index,
             std::optional<std::uint64_t> limit, std::vector<std::uint64_t> buckets, std::int64_t wait_limit_ns,
             bool idle_shared, Sink* tape, Space space, GrowBy growth) {
            new (self) BoundPool(domain,
                                 options_of(std::move(name), index, limit, std::move(buckets), wait_limit_ns,
                                            idle_shared, tape, space, growth),
                                 quarantine);
          },
          "domain"_a, "name"_a, "quarantine"_a, nb::kw_only(), "index"_a = 0, "limit"_a = nb::none(),
          "buckets"_a = std::vector<std::uint64_t>{}, "wait_limit_ns"_a = std::int64_t{10'000'000'000},
          "idle_shared"_a = true, "tape"_a = nb::none(), "space"_a = Space::device, "growth"_a = GrowBy::segments,
          nb::keep_alive<1, 2>(), nb::keep_alive<1, 10>())
      .def(
          "alloc",
          [](BoundPool& p, std::uint64_t n, std::uint64_t stream) {
            return p.alloc(n, stream, Caller::place()).address;
          },
          "nbytes"_a, "stream"_a, Open())
      .def(
          "free", [](BoundPool& p, Address a) { require(p.free(a, Caller::place()), p, a); }, "address"_a, Open())
      .def(
          "lend", [](BoundPool& p, Address a, std::uint64_t s, const Domain& d) { require(p.lend(a, s, d), p, a); },
          "address"_a, "stream"_a, "domain"_a, nb::keep_alive<1, 4>(), Open())
      .def("trim", &GuardedPool::trim, Open())
      .def("gauges", nb::overload_cast<>(&GuardedPool::gauges), Open())
      .def("gauges", nb::overload_cast<std::uint64_t>(&GuardedPool::gauges), "stream"_a, Open())
      .def("walk", &GuardedPool::walk, Open())
      .def_prop_ro("reserved", &GuardedPool::reserved)
      .def_prop_ro(
          "staging_reserved", [](const BoundPool& p) { return p.staging_reserved(); },
          "Pinned bytes that its checks hold.")
      .def("check", &GuardedPool::check, Open(), "Looks at every block and waits for what that takes.")
      .def_prop_ro("reports", &GuardedPool::reports)
      .def_prop_ro("unseen", &GuardedPool::unseen, "Blocks that could not be looked at.")
      .def("freed_at", &GuardedPool::freed_at, "address"_a, "Where a block in quarantine was freed, or None.");
}

}  // namespace forebay
