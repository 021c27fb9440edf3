// _core.allocator: histories replayed through the emulated allocator of native/emulate, without the GIL. What a history
// is made from and how outcomes are compared is forebay.whatif's.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "bind/arrays.hpp"
#include "bind/module.hpp"
#include "emulate/replay.hpp"

namespace nb = nanobind;

namespace forebay {
namespace {

using namespace emulate;

// A history that owns what it looks at. Checked once, here: the replay itself checks nothing.
class OwnedHistory {
 public:
  OwnedHistory(Given<std::uint8_t> step, Given<std::uint32_t> handle, Given<std::uint32_t> place,
               Given<std::uint64_t> bytes, std::uint32_t handles,
               const std::vector<std::pair<std::uint32_t, std::uint64_t>>& places,
               const std::vector<std::pair<bool, bool>>& pools)
      : step_(std::move(step)), handle_(std::move(handle)), place_(std::move(place)), bytes_(std::move(bytes)) {
    const std::size_t n = step_.shape(0);
    if (handle_.shape(0) != n || place_.shape(0) != n || bytes_.shape(0) != n)
      throw std::invalid_argument("step, handle, place and bytes: expected arrays of one length");
    view_ = {seen(step_), seen(handle_), seen(place_), seen(bytes_), handles, {}, {}};
    for (const auto& [no_split, use_on_oom] : pools) view_.pools.push_back({no_split, use_on_oom});
    for (const auto& [pool, stream] : places) {
      if (pool >= pools.size()) throw std::invalid_argument("places: a pool that is not among the pools");
      view_.places.push_back({pool, stream});
    }
    if (const auto at = misstep(view_))
      throw std::invalid_argument("step " + std::to_string(*at) +
                                  ": a handle out of turn, an unknown place, or a size outside 1 byte to 1 TiB");
  }
  const History& view() const { return view_; }
  std::size_t size() const { return view_.step.size(); }

 private:
  Given<std::uint8_t> step_;
  Given<std::uint32_t> handle_, place_;
  Given<std::uint64_t> bytes_;
  History view_;
};

// Addresses are used up as a replay runs, so Python holds how to make them.
struct AddressPolicy {
  std::string name;
  std::function<std::unique_ptr<Addresses>()> make;
};

template <class T, class Rows, class Field>
auto column_of(const Rows& rows, Field field) {
  std::vector<T> values;
  values.reserve(rows.size());
  for (const auto& row : rows) values.push_back(static_cast<T>(row.*field));
  return made(std::move(values));
}

// What the replay divides by, and _core.emulate.Settings does not check.
const Settings& checked(const Settings& settings) {
  if (settings.large_segment_size < kRoundLarge || settings.large_segment_size % kRoundLarge != 0)
    throw std::invalid_argument("large_segment_size: expected a multiple of 2 MiB");
  return settings;
}

Outcome run(const OwnedHistory& history, const Settings& settings, const Limits& limits, const AddressPolicy& policy,
            std::size_t samples) {
  const std::unique_ptr<Addresses> addresses = policy.make();
  return replay(history.view(), checked(settings), limits, *addresses, samples);
}

Outcome run_traced(const OwnedHistory& history, const Settings& settings, const Limits& limits,
                   const AddressPolicy& policy) {
  const std::unique_ptr<Addresses> addresses = policy.make();
  return replay_traced(history.view(), checked(settings), limits, *addresses);
}

std::vector<std::uint8_t> find_flushes(const OwnedHistory& history, const Settings& settings, const Limits& limits,
                                       const AddressPolicy& policy) {
  const std::unique_ptr<Addresses> addresses = policy.make();
  return flushes(history.view(), checked(settings), limits, *addresses);
}

std::uint64_t or_unlimited(std::optional<std::uint64_t> bytes) { return bytes.value_or(kUnlimited); }

void bind_limits(nb::module_& a) {
  nb::class_<Limits>(
      a, "Limits",
      "Bytes: what the memory fraction allows, what the driver can give, what the device has. None: no "
      "limit. `routing_is_capture`: up to torch 2.12 nothing is released for a request to a private pool.")
      .def(
          "__init__",
          [](Limits* self, std::optional<std::uint64_t> cap, std::optional<std::uint64_t> capacity,
             std::optional<std::uint64_t> device_total, bool routing_is_capture) {
            new (self) Limits{or_unlimited(cap), or_unlimited(capacity), device_total.value_or(Limits{}.device_total),
                              routing_is_capture};
          },
          nb::kw_only(), nb::arg("cap") = nb::none(), nb::arg("capacity") = nb::none(),
          nb::arg("device_total") = nb::none(), nb::arg("routing_is_capture") = true);
}

void bind_addresses(nb::module_& a) {
  nb::class_<AddressPolicy>(a, "Addresses", "Where new segments lie: which of equally large free blocks is lowest.")
      .def_ro("name", &AddressPolicy::name)
      .def_static(
          "recorded",
          [](const Given<std::uint64_t>& column) {
            std::vector<std::uint64_t> all(seen(column).begin(), seen(column).end());
            return AddressPolicy{"recorded", [all] { return recorded_addresses(all); }};
          },
          nb::arg("addresses"), "The recorded addresses of segment_alloc and segment_map, in order.")
      .def_static(
          "driver",
          [](const Given<std::uint64_t>& addresses, const Given<std::uint64_t>& sizes) {
            if (addresses.shape(0) != sizes.shape(0))
              throw std::invalid_argument("addresses and sizes: expected arrays of one length");
            std::vector<SegmentAt> all;
            for (std::size_t i = 0; i < sizes.shape(0); ++i) all.push_back({addresses(i), sizes(i)});
            return AddressPolicy{"driver", [all] { return driver_addresses(all); }};
          },
          nb::arg("addresses"), nb::arg("sizes"),
          "As the CUDA driver hands them out, the recorded segments first as long as the replay makes the same.")
      .def_static("descending", [] { return AddressPolicy{"descending", descending_addresses}; })
      .def_static("ascending", [] { return AddressPolicy{"ascending", ascending_addresses}; })
      .def_static(
          "shuffled",
          [](std::uint64_t seed) {
            return AddressPolicy{"shuffled-" + std::to_string(seed), [seed] { return shuffled_addresses(seed); }};
          },
          nb::arg("seed"));
}

void bind_history(nb::module_& a) {
  nb::enum_<Step>(a, "Step", nb::is_arithmetic(), "What the program did: the codes of History's `step`.")
      .value("alloc", Step::alloc)
      .value("free", Step::free)
      .value("request", Step::request)
      .value("complete", Step::complete)
      .value("flush", Step::flush)
      .value("refused", Step::refused)
      .value("burst", Step::burst);
  nb::class_<OwnedHistory>(a, "History",
                           "What a program asked of its allocator, step by step. Raises ValueError, naming the first "
                           "step that makes no sense.")
      .def(nb::init<Given<std::uint8_t>, Given<std::uint32_t>, Given<std::uint32_t>, Given<std::uint64_t>,
                    std::uint32_t, const std::vector<std::pair<std::uint32_t, std::uint64_t>>&,
                    const std::vector<std::pair<bool, bool>>&>(),
           nb::kw_only(), nb::arg("step"), nb::arg("handle"), nb::arg("place"), nb::arg("bytes"), nb::arg("handles"),
           nb::arg("places"), nb::arg("pools"))
      .def("__len__", &OwnedHistory::size);
}

template <class Read>
void read_only(nb::class_<Outcome>& outcome, const char* name, Read read) {
  outcome.def_prop_ro(name, read, nb::rv_policy::automatic);
}

void bind_outcome(nb::module_& a) {
  nb::class_<Outcome> o(a, "Outcome", "What would have happened. Bytes and counts; arrays are of one length each.");
  o.def_ro("oom", &Outcome::oom).def_ro("steps", &Outcome::steps);
  read_only(o, "reserved", [](const Outcome& x) { return x.stats.reserved; });
  read_only(o, "allocated", [](const Outcome& x) { return x.stats.allocated; });
  read_only(o, "peak_reserved", [](const Outcome& x) { return x.stats.peak_reserved; });
  read_only(o, "peak_allocated", [](const Outcome& x) { return x.stats.peak_allocated; });
  read_only(o, "peak_active", [](const Outcome& x) { return x.stats.peak_active; });
  read_only(o, "peak_requested", [](const Outcome& x) { return x.stats.peak_requested; });
  read_only(o, "driver_allocs", [](const Outcome& x) { return x.stats.driver_allocs; });
  read_only(o, "driver_frees", [](const Outcome& x) { return x.stats.driver_frees; });
  read_only(o, "retries", [](const Outcome& x) { return x.stats.retries; });
  read_only(o, "ooms", [](const Outcome& x) { return x.stats.ooms; });
  read_only(o, "idle_free", [](const Outcome& x) { return x.idle.free; });
  read_only(o, "idle_releasable", [](const Outcome& x) { return x.idle.releasable; });
  read_only(o, "largest_free", [](const Outcome& x) { return x.idle.largest; });
  read_only(o, "sample_step", [](const Outcome& x) { return column_of<std::uint64_t>(x.samples, &Sample::step); });
  read_only(o, "sample_reserved",
            [](const Outcome& x) { return column_of<std::uint64_t>(x.samples, &Sample::reserved); });
  read_only(o, "sample_allocated",
            [](const Outcome& x) { return column_of<std::uint64_t>(x.samples, &Sample::allocated); });
  read_only(o, "sample_largest_free",
            [](const Outcome& x) { return column_of<std::uint64_t>(x.samples, &Sample::largest_free); });
  read_only(o, "served_at", [](const Outcome& x) { return made(std::vector<std::uint64_t>(x.served_at)); });
  read_only(o, "event_step", [](const Outcome& x) { return made(std::vector<std::uint64_t>(x.event_steps)); });
  read_only(o, "event_action",
            [](const Outcome& x) { return column_of<std::uint8_t>(x.events, &SegmentEvent::action); });
  read_only(o, "event_address",
            [](const Outcome& x) { return column_of<std::uint64_t>(x.events, &SegmentEvent::address); });
  read_only(o, "event_size", [](const Outcome& x) { return column_of<std::uint64_t>(x.events, &SegmentEvent::size); });
}

}  // namespace

void bind_allocator(nb::module_& m) {
  nb::module_ a = m.def_submodule("allocator", "PyTorch's caching allocator, emulated, fed with histories.");
  bind_limits(a);
  bind_addresses(a);
  bind_history(a);
  bind_outcome(a);
  nb::enum_<SegmentAction>(a, "SegmentAction", nb::is_arithmetic(), "The codes of Outcome's `event_action`.")
      .value("alloc", SegmentAction::alloc)
      .value("free", SegmentAction::free)
      .value("map", SegmentAction::map)
      .value("unmap", SegmentAction::unmap);
  a.def("replay", &run, nb::arg("history"), nb::arg("settings"), nb::arg("limits"), nb::arg("addresses"), nb::kw_only(),
        nb::arg("samples") = 256, nb::call_guard<nb::gil_scoped_release>(),
        "The history under these settings; `samples` points of it along the way.");
  a.def("flushes", &find_flushes, nb::arg("history"), nb::arg("settings"), nb::arg("limits"), nb::arg("addresses"),
        nb::call_guard<nb::gil_scoped_release>(),
        "Of each burst of the history, in order, whether it was a flush (1) or the next request's own doing (0).");
  a.def("replay_traced", &run_traced, nb::arg("history"), nb::arg("settings"), nb::arg("limits"), nb::arg("addresses"),
        nb::call_guard<nb::gil_scoped_release>(),
        "The same with every address given out and every segment event, to be compared with a recording.");
}

}  // namespace forebay
