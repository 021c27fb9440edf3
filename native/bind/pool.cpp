// _core.pool: pools, the domain of one device, gauges, and the replay of a history. What an error says to people is
// runtime/pool.py's.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "bind/arrays.hpp"
#include "bind/caller.hpp"
#include "bind/module.hpp"
#include "bind/pool_options.hpp"
#include "bind/released.hpp"
#include "driver/sim.hpp"
#include "pool/pool.hpp"
#include "pool/replay.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace forebay {
namespace {

using Open = nb::call_guard<Leaving>;
using BoundPool = Released<Pool>;

// Opaque in Python: what a domain's `mark` gives and its other methods take.
struct KeptMark {
  Mark mark;
};

constexpr const char* name_of_code(PoolFault::Code code) {
  constexpr const char* names[] = {"exhausted", "pending", "driver", "unknown_stream", "unknown_address", "impossible"};
  return names[static_cast<std::size_t>(code)];
}

void translate(const std::exception_ptr& thrown, void*) {
  try {
    std::rethrow_exception(thrown);
  } catch (const PoolFault& f) {
    const nb::object words = nb::module_::import_("forebay.runtime.pool").attr("error_of");
    const nb::object error =
        words("code"_a = name_of_code(f.code), "pool"_a = f.pool, "asked"_a = f.asked, "stream"_a = f.stream,
              "verdict"_a = std::string(name_of(f.verdict)), "gauges"_a = f.gauges, "limit"_a = f.limit,
              "awaited"_a = f.awaited, "waited_ns"_a = f.waited_ns, "status"_a = static_cast<int>(f.status),
              "status_name"_a = std::string(name_of(f.status)), "sticky"_a = sticky(f.status),
              "call"_a = std::string(f.call));
    PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error.ptr())), error.ptr());
  }
}

void bind_gauges(nb::module_& m) {
  nb::class_<Gauges> gauges(m, "Gauges", "The figures of a pool at one moment: bytes, then counts (forebay.gauges).");
#define X(name) gauges.def_ro(#name, &Gauges::name);
  FOREBAY_POOL_GAUGES(X)
#undef X
  gauges.def_prop_ro("utilisation", &Gauges::utilisation).def_prop_ro("fragmentation", &Gauges::fragmentation);
  std::vector<std::string> names;
#define X(name) names.emplace_back(#name);
  FOREBAY_POOL_GAUGES(X)
#undef X
  m.attr("GAUGES") = nb::cast(names);
}

// The time of a simulated device passes because somebody spends it; other threads get their turn all the same.
Domain::Nap nap_of(SimDriver& sim) {
  return [&sim](std::chrono::nanoseconds time) {
    sim.spend(time.count());
    std::this_thread::yield();
  };
}

void bind_domain(nb::module_& m) {
  nb::enum_<Lifetime>(m, "Lifetime", "Whether a stream's end will be told (`ours`), or may go unseen (`foreign`).")
      .value("ours", Lifetime::ours)
      .value("foreign", Lifetime::foreign);
  nb::class_<KeptMark>(m, "Mark", "A place in a device's order.");
  nb::class_<Domain>(m, "Domain", "What all pools of one device share: streams, and the edges between them.")
      .def(nb::init<Driver&, int>(), "driver"_a, "device"_a, nb::keep_alive<1, 2>())
      .def(
          "__init__",
          [](Domain* self, Driver& driver, int device, SimDriver& sim) {
            new (self) Domain(driver, device, nap_of(sim));
          },
          "driver"_a, "device"_a, "sim"_a, nb::keep_alive<1, 2>(), nb::keep_alive<1, 4>(),
          "Waits pass on the simulated clock.")
      .def(
          "adopt",
          [](Domain& d, std::uint64_t handle, Lifetime lifetime, std::string name) {
            const auto id = d.adopt(StreamHandle{handle}, lifetime, std::move(name));
            if (id.ok()) return *id;
            PoolFault fault(PoolFault::Code::driver);
            fault.call = "stream_id";
            fault.status = id.status();
            throw fault;
          },
          "handle"_a, "lifetime"_a, "name"_a = "", Open(), "Makes a stream known; returns its id.")
      .def(
          "knows", [](const Domain& d, std::uint64_t stream) { return d.clock(stream) != nullptr; }, "stream"_a)
      .def(
          "capture_begins", [](Domain& d, std::uint64_t stream) { d.capturing(stream, Capturing::begins); }, "stream"_a,
          "Just before the stream takes part in a capture: no pool asks it anything until that ends.")
      .def(
          "capture_ends", [](Domain& d, std::uint64_t stream) { d.capturing(stream, Capturing::ends); }, "stream"_a)
      .def("ending", &Domain::ending, "stream"_a, Open(), "To be called before the stream is destroyed.")
      .def(
          "mark", [](Domain& d, std::uint64_t stream) { return KeptMark{d.mark(stream)}; }, "stream"_a,
          "Just before a record or a sync: all that the stream was given.")
      .def(
          "mark_all", [](Domain& d) { return KeptMark{d.mark_all()}; }, "Just before the device is synchronised.")
      .def(
          "ordered", [](Domain& d, std::uint64_t stream, const KeptMark& m) { d.ordered(stream, m.mark); }, "stream"_a,
          "mark"_a, "After the stream was told to wait for the record at `mark`.")
      .def(
          "reached", [](Domain& d, const KeptMark& m) { d.reached(m.mark); }, "mark"_a,
          "The host knows all before `mark` complete.")
      .def(
          "note", [](Domain& d, int status) { d.note(static_cast<Status>(status)); }, "status"_a,
          "What a driver call of the program answered: after a sticky error the device's pools make none.")
      .def_prop_ro("forked", &Domain::forked, "Whether this process is a child of the one that made it.")
      .def_prop_ro("dead", &Domain::dead)
      .def_prop_ro(
          "idle_frame_bytes", [](const Domain& d) { return d.frames().idle_bytes(); },
          "Frames that are mapped nowhere, kept for the device's pools.")
      .def_prop_ro(
          "quarantined_bytes", [](const Domain& d) { return d.frames().quarantined_bytes(Space::device); },
          "Device memory whose clean-up failed: of no use until it succeeds.")
      .def_prop_ro(
          "quarantined_pinned_bytes", [](const Domain& d) { return d.frames().quarantined_bytes(Space::pinned); },
          "Pinned memory whose clean-up failed.");
}

[[noreturn]] void unknown(const Pool& pool, Address address) {
  throw PoolFault(PoolFault::Code::unknown_address, pool.options().name, address);
}

[[noreturn]] void unknown(const Pool& pool, nb::handle no_address) {
  const nb::object type = nb::module_::import_("forebay.errors").attr("BadInput");
  const std::string text = "pool " + pool.options().name + ": " + nb::cast<std::string>(nb::repr(no_address)) +
                           " is no address; free what `alloc_address` gave, once";
  PyErr_SetString(type.ptr(), text.c_str());
  throw nb::python_error();
}

// A hit and a free keep the GIL: they never wait, and nothing that needs it is done under a pool's lock.
Granted granted(Pool& pool, std::uint64_t bytes, std::uint64_t stream) {
  if (const auto hit = pool.hit(bytes, stream)) return *hit;
  const nb::gil_scoped_release open;
  return pool.refill(bytes, stream);
}

void bind_pools(nb::module_& m) {
  nb::enum_<GrowBy>(m, "GrowBy", "How a pool gets memory from the device.")
      .value("segments", GrowBy::segments)
      .value("frames", GrowBy::frames);
  nb::class_<BoundPool>(m, "Pool", "Device memory in stream order; streams go by their driver id.")
      .def(
          "__init__",
          [](BoundPool* self, Domain& domain, std::string name, std::uint32_t index, std::optional<std::uint64_t> limit,
             std::vector<std::uint64_t> buckets, std::int64_t wait_limit_ns, bool idle_shared, Sink* tape, Space space,
             GrowBy growth, bool of_a_graph) {
            PoolOptions options = options_of(std::move(name), index, limit, std::move(buckets), wait_limit_ns,
                                             idle_shared, tape, space, growth);
            if (of_a_graph) options.when_full = WhenFull::raises;
            new (self) BoundPool(domain, std::move(options));
          },
          "domain"_a, "name"_a, nb::kw_only(), "index"_a = 0, "limit"_a = nb::none(),
          "buckets"_a = std::vector<std::uint64_t>{}, "wait_limit_ns"_a = std::int64_t{10'000'000'000},
          "idle_shared"_a = true, "tape"_a = nb::none(), "space"_a = Space::device, "growth"_a = GrowBy::segments,
          "of_a_graph"_a = false, nb::keep_alive<1, 2>(), nb::keep_alive<1, 9>(),
          "That of a graph asks nobody to make room: it grows, or raises at once.")
      .def(
          "alloc", [](BoundPool& p, std::uint64_t n, std::uint64_t stream) { return granted(p, n, stream).address; },
          "nbytes"_a, "stream"_a, nb::call_guard<FromPython>(),
          "The address of a block for `stream`. Raises PoolExhausted, Pending, DriverError.")
      .def(
          "free",
          [](BoundPool& p, nb::handle a) {
            Address address = 0;
            if (!nb::try_cast(a, address)) unknown(p, a);
            if (!p.free(address)) unknown(p, address);
          },
          "address"_a, nb::call_guard<FromPython>(), nb::sig("def free(self, address: int) -> None"),
          "Gives a block back in stream order; never waits. Raises BadInput for an unknown address.")
      .def(
          "lend",
          [](BoundPool& p, Address a, std::uint64_t stream, const Domain& domain) {
            if (!p.lend(a, stream, domain)) unknown(p, a);
          },
          "address"_a, "stream"_a, "domain"_a, nb::keep_alive<1, 4>(), nb::call_guard<FromPython>(),
          "`stream`, of that domain, uses the block too: its free waits for that stream.")
      .def("trim", &Pool::trim, Open(), "Gives wholly idle memory back to the driver; returns the bytes.")
      .def("gauges", nb::overload_cast<>(&Pool::gauges), Open())
      .def("gauges", nb::overload_cast<std::uint64_t>(&Pool::gauges), "stream"_a, Open())
      .def("walk", &Pool::walk, Open(), "The full check: what is wrong, or None. No other thread may be in the pool.")
      .def_prop_ro("reserved", &Pool::reserved);
}

void bind_replay(nb::module_& m) {
  nb::enum_<Move>(m, "Move", nb::is_arithmetic(), "What a row of a history does to a block.")
      .value("alloc", Move::alloc)
      .value("free", Move::free)
      .value("lend", Move::lend)
      .value("let_go", Move::let_go)
      .value("trim", Move::trim);
  nb::class_<Outcome>(m, "Outcome", "What a history took from its pools. Bytes; events count from 0.")
      .def_ro("events", &Outcome::events)
      .def_ro("peak_reserved", &Outcome::peak_reserved)
      .def_ro("peak_allocated", &Outcome::peak_allocated)
      .def_ro("peak_active", &Outcome::peak_active)
      .def_ro("peak_requested", &Outcome::peak_requested)
      .def_ro("peak_allocated_event", &Outcome::peak_allocated_event)
      .def_ro("largest_free_at_peak", &Outcome::largest_free_at_peak)
      .def_ro("largest_free_at_end", &Outcome::largest_free_at_end)
      .def_ro("hits", &Outcome::hits)
      .def_ro("misses", &Outcome::misses)
      .def_ro("driver_allocs", &Outcome::driver_allocs)
      .def_ro("driver_frees", &Outcome::driver_frees)
      .def_ro("retries", &Outcome::retries)
      .def_ro("ooms", &Outcome::ooms)
      .def_ro("unknown_frees", &Outcome::unknown_frees)
      .def_ro("oom_event", &Outcome::oom_event)
      .def_prop_ro("oom_verdict", [](const Outcome& o) {
        return o.oom_verdict ? std::optional<std::string>(name_of(*o.oom_verdict)) : std::nullopt;
      });
  nb::class_<Replay>(m, "Replay", "A history through pools of its own on a driver, chunk by chunk.")
      .def(
          "__init__",
          [](Replay* self, Driver& driver, int device, const std::vector<std::optional<std::uint64_t>>& limits,
             const std::vector<std::uint64_t>& buckets, GrowBy growth, const std::vector<GrowBy>& growths,
             const std::vector<bool>& keeps) {
            std::vector<PoolOptions> pools;
            for (std::size_t i = 0; i < limits.size(); ++i)
              pools.push_back(options_of(std::to_string(i), static_cast<std::uint32_t>(i), limits[i], buckets,
                                         10'000'000'000, i >= keeps.size() || !keeps[i], nullptr, Space::device,
                                         i < growths.size() ? growths[i] : growth));
            new (self) Replay(driver, device, std::move(pools));
          },
          "driver"_a, "device"_a, "limits"_a = std::vector<std::optional<std::uint64_t>>(1),
          "buckets"_a = std::vector<std::uint64_t>{}, "growth"_a = GrowBy::segments,
          "growths"_a = std::vector<GrowBy>{}, "keeps"_a = std::vector<bool>{}, nb::keep_alive<1, 2>(),
          "One pool a limit (bytes, or None); `growths` are the pools' own, and one that keeps shares no idle memory.")
      .def(
          "feed",
          [](Replay& r, Given<std::uint8_t> move, Given<std::uint64_t> address, Given<std::uint64_t> bytes,
             Given<std::uint32_t> stream, Given<std::uint32_t> pool) {
            const std::size_t n = move.size();
            if (address.size() != n || bytes.size() != n || stream.size() != n || pool.size() != n)
              throw nb::value_error("columns of one length are needed");
            const nb::gil_scoped_release open;
            r.feed({seen(move), seen(address), seen(bytes), seen(stream), seen(pool)});
          },
          "move"_a, "address"_a, "bytes"_a, "stream"_a, "pool"_a)
      .def("outcome", &Replay::outcome, Open())
      .def(
          "samples",
          [](const Replay& r) {
            std::vector<std::tuple<std::uint64_t, std::uint64_t, std::uint64_t, std::uint64_t>> rows;
            for (const Sample& s : r.samples()) rows.emplace_back(s.event, s.reserved, s.allocated, s.requested);
            return rows;
          },
          "(event, reserved, allocated, requested), evenly spread over the events so far.");
}

}  // namespace

void bind_pool(nb::module_& m) {
  nb::module_ p = m.def_submodule("pool", "Pools, the order they go by, gauges, and replays.");
  nb::register_exception_translator(translate);
  bind_gauges(p);
  bind_domain(p);
  bind_pools(p);
  bind_guarded(p);
  bind_driver_pool(p);
  bind_replay(p);
}

}  // namespace forebay
