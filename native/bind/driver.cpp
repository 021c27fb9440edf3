// _core.driver: the driver port, the simulated driver and the driver that fails on demand, seen from Python. Statuses
// become DriverError, handles are numbers, the GIL is free in every call.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <string>
#include <vector>

#include "bind/caller.hpp"
#include "bind/fault.hpp"
#include "bind/lent_bytes.hpp"
#include "bind/module.hpp"
#include "bind/uses.hpp"
#include "driver/faulty.hpp"
#include "driver/pool_rows.hpp"
#include "driver/sim.hpp"
#include "driver/taped.hpp"

namespace nb = nanobind;

// A handle is its number in Python.
#define FOREBAY_HANDLE(Handle)                                                     \
  template <>                                                                      \
  struct nanobind::detail::type_caster<forebay::Handle> {                          \
    NB_TYPE_CASTER(forebay::Handle, const_name("int"))                             \
    bool from_python(handle src, uint8_t flags, cleanup_list* cleanup) noexcept {  \
      make_caster<std::uint64_t> number;                                           \
      if (!number.from_python(src, flags, cleanup)) return false;                  \
      value.value = number.value;                                                  \
      return true;                                                                 \
    }                                                                              \
    static handle from_cpp(forebay::Handle h, rv_policy, cleanup_list*) noexcept { \
      return PyLong_FromUnsignedLongLong(h.value);                                 \
    }                                                                              \
  }
FOREBAY_HANDLE(StreamHandle);
FOREBAY_HANDLE(EventHandle);
FOREBAY_HANDLE(FrameHandle);
FOREBAY_HANDLE(GraphHandle);
FOREBAY_HANDLE(ExecutableHandle);

namespace forebay {
namespace {

using Open = nb::call_guard<Leaving>;

std::string shown(std::uint64_t v) { return std::to_string(v); }
template <class Handle>
  requires requires(Handle h) { h.value; }
std::string shown(Handle h) {
  return std::to_string(h.value);
}
std::string shown(CaptureMode m) { return std::to_string(static_cast<int>(m)); }
std::string shown(StreamKind k) { return k == StreamKind::blocking ? "blocking" : "nonblocking"; }

template <class... A>
[[noreturn]] void fail(Driver& d, Call call, Status status, const std::vector<const char*>& names,
                       const A&... arguments) {
  std::string text;
  std::size_t i = 0;
  ((text += (i ? ", " : "") + std::string(names[i]) + "=" + shown(arguments), ++i), ...);
  throw CallFailed(call, status, text, d.failure());
}

// One method of the port. `names` are the names of its arguments.
template <auto Method, Call call, class R, class... A, class... Names>
void bind_call(nb::class_<Driver>& c, R (Driver::*)(A...), Names... names) {
  static_assert(sizeof...(A) == sizeof...(Names));
  static const std::vector<const char*> kept{names...};
  const auto method = [](Driver& d, A... a) {
    const R result = (d.*Method)(a...);
    if constexpr (std::is_same_v<R, Status>) {
      if (result != Status::ok) fail(d, call, result, kept, a...);
    } else {
      if (!result.ok()) fail(d, call, result.status(), kept, a...);
      return *result;
    }
  };
  c.def(name_of(call).data(), method, nb::arg(names)..., Open());
}
#define FOREBAY_BIND(name, ...) bind_call<&Driver::name, Call::name>(c, &Driver::name __VA_OPT__(, ) __VA_ARGS__)

void bind_port(nb::class_<Driver>& c) {
  FOREBAY_BIND(facts, "device");
  FOREBAY_BIND(memory_info, "device");
  FOREBAY_BIND(malloc, "device", "bytes");
  FOREBAY_BIND(free, "device", "address");
  FOREBAY_BIND(host_alloc, "bytes");
  FOREBAY_BIND(host_free, "address");
  FOREBAY_BIND(reserve_range, "device", "bytes");
  FOREBAY_BIND(release_range, "device", "address", "bytes");
  FOREBAY_BIND(create, "device", "bytes");
  FOREBAY_BIND(release, "device", "frame");
  FOREBAY_BIND(map, "device", "address", "bytes", "frame");
  FOREBAY_BIND(set_access, "device", "address", "bytes");
  FOREBAY_BIND(unmap, "device", "address", "bytes");
  FOREBAY_BIND(stream_create, "device", "kind", "priority");
  FOREBAY_BIND(stream_destroy, "device", "stream");
  FOREBAY_BIND(stream_id, "device", "stream");
  FOREBAY_BIND(stream_capturing, "device", "stream");
  FOREBAY_BIND(stream_sync, "device", "stream");
  FOREBAY_BIND(stream_query, "device", "stream");
  FOREBAY_BIND(stream_wait, "device", "stream", "event");
  FOREBAY_BIND(device_sync, "device");
  FOREBAY_BIND(event_create, "device");
  FOREBAY_BIND(event_destroy, "device", "event");
  FOREBAY_BIND(event_record, "device", "event", "stream");
  FOREBAY_BIND(event_sync, "device", "event");
  FOREBAY_BIND(event_query, "device", "event");
  FOREBAY_BIND(copy, "device", "to", "from_", "bytes", "stream");
  FOREBAY_BIND(memset, "device", "to", "value", "bytes", "stream");
  FOREBAY_BIND(capture_begin, "device", "stream", "mode");
  FOREBAY_BIND(capture_end, "device", "stream");
  FOREBAY_BIND(capture_info, "device", "stream");
  FOREBAY_BIND(exchange_capture_mode, "mode");
  FOREBAY_BIND(graph_nodes, "device", "graph");
  FOREBAY_BIND(graph_instantiate, "device", "graph");
  FOREBAY_BIND(graph_launch, "device", "executable", "stream");
  FOREBAY_BIND(graph_destroy, "device", "graph");
  FOREBAY_BIND(executable_destroy, "device", "executable");
}

void require(Driver& d, Call call, Status status, int device) {
  if (status != Status::ok) throw CallFailed(call, status, "device=" + std::to_string(device), d.failure());
}

// A Python callable that may be copied and dropped without the GIL.
std::shared_ptr<nb::object> keep(nb::object callable) {
  return {new nb::object(std::move(callable)), [](nb::object* object) {
            if (!Py_IsInitialized()) return;  // the interpreter took it along
            const nb::gil_scoped_acquire gil;
            delete object;
          }};
}

// Hands the callable one LentBytes a use, writable where the use may write. The callable answers whether it worked.
Status call_with_views(const nb::object& callable, std::span<const Use> uses, std::span<void* const> views) {
  const nb::gil_scoped_acquire gil;
  try {
    nb::list memory;
    for (std::size_t i = 0; i < views.size(); ++i)
      memory.append(nb::cast(LentBytes{views[i], uses[i].size, uses[i].mode != Mode::read}));
    return nb::cast<bool>(callable(memory)) ? Status::ok : Status::launch_failed;
  } catch (nb::python_error& error) {
    // An interrupt may come before the callable's first line: it is kept where the callable keeps its failures.
    if (nb::hasattr(callable, "failed"))
      callable.attr("failed")(error.value());
    else
      error.discard_as_unraisable(callable);
    return Status::launch_failed;
  }
}

void launch(Driver& d, int device, StreamHandle stream, std::string name, std::optional<std::int64_t> cost_ns,
            nb::list uses, nb::object callable, std::size_t indexed) {
  Work work{.name = std::move(name), .cost_ns = cost_ns, .uses = {}, .run = {}, .indexed = indexed};
  work.uses.reserve(uses.size());
  for (nb::handle row : uses) work.uses.push_back(use_of(row));
  work.run = [kept = keep(std::move(callable)), uses = work.uses](std::span<void* const> views) {
    return call_with_views(*kept, uses, views);
  };
  const Leaving open{};
  require(d, Call::launch, d.launch(device, stream, std::move(work)), device);
}

void host_func(Driver& d, int device, StreamHandle stream, nb::object callable) {
  auto run = [kept = keep(std::move(callable))] {
    if (call_with_views(*kept, {}, {}) != Status::ok) throw CallFailed(Call::host_func, Status::launch_failed, {});
  };
  const Leaving open{};
  require(d, Call::host_func, d.host_func(device, stream, std::move(run)), device);
}

// Contiguous bytes of any object with the buffer protocol.
class Bytes {
 public:
  Bytes(nb::handle object, int flags) {
    if (PyObject_GetBuffer(object.ptr(), &buffer_, flags) != 0) throw nb::python_error();
  }
  ~Bytes() { PyBuffer_Release(&buffer_); }
  Bytes(const Bytes&) = delete;
  Bytes& operator=(const Bytes&) = delete;
  void* data() const { return buffer_.buf; }
  std::uint64_t size() const { return static_cast<std::uint64_t>(buffer_.len); }

 private:
  Py_buffer buffer_{};
};

void upload(Driver& d, int device, Address to, nb::handle from, StreamHandle stream) {
  const Bytes bytes(from, PyBUF_C_CONTIGUOUS);
  const Leaving open{};
  require(d, Call::upload, d.upload(device, to, bytes.data(), bytes.size(), stream), device);
}

void download(Driver& d, int device, nb::handle to, Address from, StreamHandle stream) {
  const Bytes bytes(to, PyBUF_C_CONTIGUOUS | PyBUF_WRITABLE);
  const Leaving open{};
  require(d, Call::download, d.download(device, bytes.data(), from, bytes.size(), stream), device);
}

LentBytes host_memory(Driver& d, Address address, std::uint64_t bytes) {
  const auto pointer = d.host_pointer(address, bytes);
  if (!pointer) fail(d, Call::host_pointer, pointer.status(), {"address", "bytes"}, address, bytes);
  return {*pointer, bytes, true};
}

CallSet calls_of(const std::vector<std::string>& names) {
  CallSet set = 0;
  for (const std::string& name : names) {
    const auto call = call_named(name);
    if (!call) throw nb::value_error(("no such driver call: " + name).c_str());
    set |= bit(*call);
  }
  return set;
}

nb::dict counts_of(const FaultyDriver& d) {
  nb::dict counts;
  for (std::size_t i = 0; i < kCallNames.size(); ++i) counts[kCallNames[i].data()] = d.count(static_cast<Call>(i));
  return counts;
}

Costs costs_or_raise(const std::string& preset) {
  const auto costs = costs_named(preset);
  if (!costs) throw nb::value_error(("no such cost table: " + preset + "; there are guide and h200").c_str());
  return *costs;
}

std::unique_ptr<sim::Schedule> schedule_of(std::optional<std::uint64_t> seed,
                                           const std::vector<std::pair<std::string, std::uint64_t>>& held) {
  if (seed) return sim::seeded_schedule(*seed);
  if (held.empty()) return sim::fifo_schedule();
  std::vector<sim::WorkName> names;
  for (const auto& [name, nth] : held) names.push_back({name, nth});
  return sim::holding_schedule(names);
}

void bind_values(nb::module_& m) {
  nb::enum_<Status> status(m, "Status", nb::is_arithmetic(), "What a driver call came to: CUDA's CUresult numbers.");
#define X(name, number, words) status.value(#name, Status::name, words);
  FOREBAY_STATUS_TABLE(X)
#undef X
  nb::enum_<StreamKind>(m, "StreamKind", "Whether a stream joins its device's legacy default stream.")
      .value("blocking", StreamKind::blocking)
      .value("nonblocking", StreamKind::nonblocking);
  nb::enum_<CaptureMode>(m, "CaptureMode", "Whose unsafe calls a capture forbids, or which captures a thread heeds.")
      .value("global_", CaptureMode::global)
      .value("thread_local", CaptureMode::thread_local_)
      .value("relaxed", CaptureMode::relaxed);
  nb::enum_<CaptureStatus>(m, "CaptureStatus",
                           "Whether a stream takes part in a capture, and whether that can still end well.")
      .value("none", CaptureStatus::none)
      .value("active", CaptureStatus::active)
      .value("invalidated", CaptureStatus::invalidated);
  nb::class_<CaptureInfo>(m, "CaptureInfo", "The capture that a stream takes part in; `id` is 0 for none.")
      .def_ro("status", &CaptureInfo::status)
      .def_ro("id", &CaptureInfo::id);
  nb::class_<DeviceFacts>(m, "DeviceFacts", "What a device is; figures in bytes.")
      .def_ro("total_bytes", &DeviceFacts::total_bytes)
      .def_ro("granularity", &DeviceFacts::granularity)
      .def_ro("name", &DeviceFacts::name);
  nb::class_<MemoryInfo>(m, "MemoryInfo", "What a device has, and has free, in bytes.")
      .def_ro("free_bytes", &MemoryInfo::free_bytes)
      .def_ro("total_bytes", &MemoryInfo::total_bytes);
  nb::class_<Account>(m, "Account", "What lives on a simulated device now: bytes and counts.")
      .def_ro("used_bytes", &Account::used_bytes)
      .def_ro("pinned_bytes", &Account::pinned_bytes)
      .def_ro("segments", &Account::segments)
      .def_ro("ranges", &Account::ranges)
      .def_ro("frames", &Account::frames)
      .def_ro("mappings", &Account::mappings)
      .def_ro("streams", &Account::streams)
      .def_ro("events", &Account::events)
      .def_ro("backlog", &Account::backlog)
      .def_ro("graphs", &Account::graphs)
      .def_ro("executables", &Account::executables);
}

void bind_drivers(nb::module_& m) {
  nb::class_<Driver> driver(m, "Driver",
                            "The driver port. Sizes in bytes; a failed call raises DriverError with its status.");
  bind_port(driver);
  driver.def("now_ns", &Driver::now_ns, Open(), "The calling thread's clock.")
      .def("device_count", &Driver::device_count)
      .def("host_memory", &host_memory, nb::arg("address"), nb::arg("bytes"),
           "The pinned bytes: good until they are freed.")
      .def("upload", &upload, nb::arg("device"), nb::arg("to"), nb::arg("from_"), nb::arg("stream"),
           "From pageable memory, read before this returns.")
      .def("download", &download, nb::arg("device"), nb::arg("to"), nb::arg("from_"), nb::arg("stream"),
           "To pageable memory; returns after the copy.")
      .def("launch", &launch, nb::arg("device"), nb::arg("stream"), nb::arg("name"), nb::arg("cost_ns").none(),
           nb::arg("uses"), nb::arg("run"), nb::arg("indexed") = 0,
           "`uses` are (address, size, mode, space), the last two as numbers; `run` gets a list of LentBytes and "
           "answers whether it worked. The last `indexed` uses are handed over, and on no tape.")
      .def("host_func", &host_func, nb::arg("device"), nb::arg("stream"), nb::arg("run"),
           "`run` gets an empty list and answers whether it worked.");
  nb::class_<SimDriver, Driver>(m, "SimDriver", "Simulated devices. Work runs when it is due, never at its issue.")
      .def(
          "__init__",
          [](SimDriver* self, const std::vector<std::uint64_t>& capacities, std::optional<std::uint64_t> seed,
             const std::vector<std::pair<std::string, std::uint64_t>>& held, const std::string& cost) {
            new (self) SimDriver(capacities, costs_or_raise(cost), schedule_of(seed, held));
          },
          nb::arg("capacities"), nb::kw_only(), nb::arg("seed") = nb::none(),
          nb::arg("held") = std::vector<std::pair<std::string, std::uint64_t>>{}, nb::arg("cost") = "guide",
          "One device a capacity, in bytes. No seed: work runs in the order of virtual time, but for the work that is "
          "held, named by its name and how many of that name were issued before it.")
      .def("account", &SimDriver::account, nb::arg("device"), Open())
      .def("fault_of", &SimDriver::fault_of, nb::arg("device"), Open(), "The device's sticky fault, or ok.")
      .def("spend", &SimDriver::spend, nb::arg("ns"), Open(), "Host work of the calling thread, on its virtual clock.")
      .def("host_access", &SimDriver::host_access, Open(), "The host is about to touch bytes: due work may run now.");
  nb::class_<FaultyDriver, Driver>(m, "FaultyDriver",
                                   "Counts the calls to the driver below, and fails those it is told to.")
      .def(nb::init<Driver&>(), nb::arg("next"), nb::keep_alive<1, 2>())
      .def(
          "plan",
          [](FaultyDriver& self, const std::vector<std::string>& calls, std::uint64_t nth, Status status, bool always) {
            self.plan({calls.empty() ? kEveryCall : calls_of(calls), nth, status, always});
          },
          nb::arg("calls"), nb::arg("nth"), nb::arg("status"), nb::kw_only(), nb::arg("always") = false,
          "The nth call of these (none named: of all) answers `status`. Plans are taken one after another.")
      .def("forget_plans", &FaultyDriver::forget_plans)
      .def("plans_left", &FaultyDriver::plans_left)
      .def("counts", &counts_of, "Calls made so far, by name.");
  nb::class_<TapedDriver, Driver>(m, "TapedDriver", nb::is_weak_referenceable(),
                                  "Writes the calls to the driver below to a recorder, while one is attached.")
      .def(nb::init<Driver&>(), nb::arg("next"), nb::keep_alive<1, 2>())
      .def("attach", &TapedDriver::attach, nb::arg("recorder").none(), nb::arg("mid_life") = false,
           nb::keep_alive<1, 2>(), Open(),
           "From now on rows go there; None: nowhere. `mid_life`: memory is held already, which a recorder is to know.")
      .def(
          "name_next_stream", [](TapedDriver&, std::string name) { TapedDriver::name_next_stream(std::move(name)); },
          nb::arg("name"), "What the tape calls the next stream that this thread makes.")
      .def(
          "uses_of_next_launch",
          [](TapedDriver&, const nb::list& uses) {
            std::vector<Use> given;
            for (nb::handle row : uses) given.push_back(use_of(row));
            TapedDriver::uses_of_next_launch(std::move(given));
          },
          nb::arg("uses"), "What the next launch of a graph by this thread touches besides what its nodes say.")
      .def("stream_number", nb::overload_cast<int, StreamHandle>(&TapedDriver::stream_number), nb::arg("device"),
           nb::arg("stream"), Open(), "The id that rows on this stream carry; 0 while nothing is attached.")
      .def(
          "host_access",
          [](TapedDriver& self, Address address, std::uint64_t bytes, Mode mode) {
            self.host_access({address, bytes, mode, Extent::exact, Space::pinned});
          },
          nb::arg("address"), nb::arg("bytes"), nb::arg("mode"), Open(),
          "A row: the host reads or writes pinned bytes.");
  nb::class_<PoolRows, Sink>(m, "PoolRows", "The rows of one pool on the tape of a taped driver.")
      .def(
          "__init__",
          [](PoolRows* self, TapedDriver& driver, int device, std::string name, std::optional<std::string> consumer,
             std::optional<std::string> kind, std::string space, std::optional<std::uint64_t> limit, bool trusted) {
            new (self) PoolRows(driver, device,
                                {.name = std::move(name),
                                 .consumer = std::move(consumer),
                                 .kind = std::move(kind),
                                 .device = device,
                                 .space = std::move(space),
                                 .parent = {},
                                 .private_id = {},
                                 .trusted = trusted},
                                limit);
          },
          nb::arg("driver"), nb::arg("device"), nb::arg("name"), nb::arg("consumer").none(), nb::arg("kind").none(),
          nb::arg("space"), nb::arg("limit").none() = nb::none(), nb::kw_only(), nb::arg("trusted") = false,
          nb::keep_alive<1, 2>(), "`trusted`: its own edges are not on the tape.")
      .def(
          "captured",
          [](PoolRows& self, Kind kind, std::uint64_t stream, Address address, std::uint64_t size) {
            Row row{.kind = kind};
            row.stream = static_cast<std::uint32_t>(stream), row.address = address, row.size = row.requested = size;
            row.flags = kGraphPool;
            row.known = columns(Column::device, Column::stream, Column::capture, Column::address, Column::size,
                                Column::requested, Column::flags);
            if (self.wants()) self.write(row);
          },
          nb::arg("kind"), nb::arg("stream"), nb::arg("address"), nb::arg("size"), Open(),
          "A row of a block of a graph's memory, while the stream (by its id) takes part in the capture.");
}

}  // namespace

void bind_driver(nb::module_& m) {
  nb::module_ d = m.def_submodule("driver", "The driver port, the simulated driver, and drivers around a driver.");
  bind_faults();
  nb::set_leak_warnings(false);  // work that a program never waited for holds its kernels at exit
  bind_lent_bytes(d);
  bind_values(d);
  bind_drivers(d);
}

}  // namespace forebay
