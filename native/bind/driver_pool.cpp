// _core.pool's pool over the driver's own. What an error says is runtime/driver_pool.py's.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <string>
#include <utility>

#include "bind/caller.hpp"
#include "bind/module.hpp"
#include "bind/released.hpp"
#include "pool/driver_pool.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace forebay {
namespace {

using Open = nb::call_guard<Leaving>;
using BoundPool = Released<DriverPool>;

void require(bool known, const DriverPool& pool, Address address) {
  if (!known) throw PoolFault(PoolFault::Code::unknown_address, pool.options().name, address);
}

}  // namespace

void bind_driver_pool(nb::module_& m) {
  nb::class_<DriverFigures>(m, "DriverFigures",
                            "What the driver says of its pool, and what is counted beside it: bytes, then counts.")
      .def_ro("reserved", &DriverFigures::reserved)
      .def_ro("reserved_high", &DriverFigures::reserved_high)
      .def_ro("used", &DriverFigures::used)
      .def_ro("used_high", &DriverFigures::used_high)
      .def_ro("requested", &DriverFigures::requested)
      .def_ro("parked", &DriverFigures::parked)
      .def_ro("allocs", &DriverFigures::allocs)
      .def_ro("ooms", &DriverFigures::ooms);
  nb::class_<BoundPool>(m, "DriverPool", "The driver's own stream-ordered pool; streams go by their driver id.")
      .def(
          "__init__",
          [](BoundPool* self, Domain& domain, std::string name, std::uint32_t index, std::optional<std::uint64_t> limit,
             std::uint64_t release_threshold, bool follow_events, bool opportunistic, bool internal_waits,
             std::int64_t wait_limit_ns, Sink* tape) {
            DriverPoolOptions options{.name = std::move(name),
                                      .index = index,
                                      .limit = limit,
                                      .release_threshold = release_threshold,
                                      .reuse = {follow_events, opportunistic, internal_waits},
                                      .wait_limit = std::chrono::nanoseconds(wait_limit_ns),
                                      .tape = tape};
            new (self) BoundPool(domain, std::move(options));
          },
          "domain"_a, "name"_a, nb::kw_only(), "index"_a, "limit"_a.none(), "release_threshold"_a, "follow_events"_a,
          "opportunistic"_a, "internal_waits"_a, "wait_limit_ns"_a, "tape"_a.none(), nb::keep_alive<1, 2>(),
          nb::keep_alive<1, 11>())
      .def("alloc", &DriverPool::alloc, "nbytes"_a, "stream"_a, Open())
      .def(
          "free", [](BoundPool& p, Address a) { require(p.free(a), p, a); }, "address"_a, Open())
      .def(
          "lend", [](BoundPool& p, Address a, std::uint64_t s, const Domain& d) { require(p.lend(a, s, d), p, a); },
          "address"_a, "stream"_a, "domain"_a, nb::keep_alive<1, 4>(), Open())
      .def("trim", &DriverPool::trim, Open(), "Idle bytes go back to the device; returns how many did.")
      .def("figures", &DriverPool::figures, Open())
      .def("forget_highs", &DriverPool::forget_highs, Open(), "Peaks count from now.")
      .def("walk", &DriverPool::walk, Open(), "What does not agree with the driver's count, or None.");
}

}  // namespace forebay
