// _core.tape.Recorder: the native recorder as Python drives it. Rows that Python writes one by one are for tests and
// for calls that are slow anyway.
#include "tape/recorder.hpp"

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <string>
#include <system_error>
#include <tuple>
#include <vector>

#include "bind/caller.hpp"
#include "bind/module.hpp"
#include "bind/view.hpp"

namespace nb = nanobind;

namespace forebay {
namespace {

using Access = std::tuple<std::uint64_t, std::uint64_t, Mode, Extent, Space>;
using FrameOf = std::tuple<std::string, std::uint32_t, std::string>;

// Fills one column of a row from a keyword; false where no column has this name.
bool set(Row& row, std::string_view name, nb::handle value) {
#define X(column, type)                                                                                             \
  if (name == #column) {                                                                                            \
    if (!nb::try_cast<type>(value, row.column)) throw nb::type_error(#column ": not a value of its column's type"); \
    row.known |= bit(Column::column);                                                                               \
    return true;                                                                                                    \
  }
  FOREBAY_SCALARS(X)
#undef X
  return false;
}

void write(Recorder& recorder, Kind kind, const std::vector<Access>& uses, const nb::kwargs& values) {
  Row row{.kind = kind};
  std::vector<Use> accesses;
  for (const auto& [address, size, mode, extent, space] : uses)
    accesses.push_back({address, size, mode, extent, space});
  for (const auto [name, value] : values)
    if (!set(row, nb::cast<std::string>(name), value))
      throw nb::type_error(("no column is named " + nb::cast<std::string>(name)).c_str());
  if (!accesses.empty()) row.known |= bit(Column::uses);
  row.uses = accesses;
  recorder.write(row);
}

void extend(Recorder& recorder, nb::handle tape) {
  const View rows = view_of(tape);
  std::vector<Use> uses;
  for (std::size_t i = 0; i < rows.rows; ++i) recorder.write(rows.row_at(i, uses));
}

std::uint32_t site(Recorder& recorder, const std::vector<FrameOf>& frames) {
  std::vector<SourceFrame> seen;
  for (const auto& [file, line, function] : frames) seen.push_back({file, line, function});
  return recorder.site(seen);
}

template <class T>
nb::object array_of(std::span<const T> values, nb::handle owner) {
  return nb::cast(nb::ndarray<nb::numpy, const T, nb::ndim<1>>(values.data(), {values.size()}, owner));
}

nb::dict uses_of(const View& v, nb::handle owner) {
  nb::dict uses;
  uses["offsets"] = array_of(v.use_offsets, owner), uses["address"] = array_of(v.use_address, owner);
  uses["size"] = array_of(v.use_size, owner), uses["mode"] = array_of(v.use_mode, owner);
  uses["extent"] = array_of(v.use_extent, owner), uses["space"] = array_of(v.use_space, owner);
  return uses;
}

nb::bytes text_of(const Columns& rows, std::size_t i) {
  const std::string_view text = rows.text(i);
  return nb::bytes(text.data(), text.size());
}

// (columns by name, uses or None, known, [text of each define row]).
nb::tuple copy(const Recorder& recorder) {
  auto rows = std::make_unique<Columns>(recorder.copy());
  const View v = rows->view();
  nb::list texts;
  for (std::size_t i = 0; i < v.rows; ++i)
    if (v.kind_at(i) == Kind::define) texts.append(text_of(*rows, i));
  const nb::capsule owner(rows.release(), [](void* p) noexcept { delete static_cast<Columns*>(p); });
  nb::dict columns;
  columns["kind"] = array_of(v.kind, owner);
#define X(column, type) \
  if (!v.column.empty()) columns[#column] = array_of(v.column, owner);
  FOREBAY_SCALARS(X)
#undef X
  const nb::object uses = v.use_offsets.empty() ? nb::none() : nb::object(uses_of(v, owner));
  return nb::make_tuple(columns, uses, array_of(v.known, owner), texts);
}

std::uint32_t stream(Recorder& recorder, std::string name, std::optional<std::uint64_t> handle, int device,
                     std::optional<StreamClass> kind, std::optional<int> priority) {
  StreamFacts facts;
  facts.name = std::move(name), facts.handle = handle, facts.device = device;
  facts.kind = kind, facts.priority = priority;
  return recorder.stream(facts);
}

std::uint32_t pool(Recorder& recorder, std::string name, std::optional<std::string> consumer,
                   std::optional<std::string> kind, int device, std::string space) {
  PoolFacts facts;
  facts.name = std::move(name), facts.consumer = std::move(consumer), facts.kind = std::move(kind);
  facts.device = device, facts.space = std::move(space);
  return recorder.pool(facts);
}

using Entries = std::vector<std::pair<std::string, std::string>>;

void open_file(Recorder* self, const std::string& path, const Entries& metadata) {
  try {
    new (self) Recorder(path, metadata);
  } catch (const std::system_error& error) {
    PyErr_SetObject(PyExc_OSError, nb::make_tuple(error.code().value(), error.code().message(), path).ptr());
    throw nb::python_error();
  }
}

}  // namespace

void bind_recorder(nb::module_& t) {
  using namespace nb::literals;
  nb::class_<Sink>(t, "Sink", "Whoever wants rows as they happen.");
  nb::class_<Recorder, Sink>(t, "Recorder", "Rows of many threads into one tape, in memory or as a growing file.")
      .def(nb::init<>(), "Rows stay in memory.")
      .def("__init__", &open_file, "path"_a, "metadata"_a, "Rows go to a file, a batch at a time. Raises OSError.")
      .def("write", &write, "kind"_a, "uses"_a = std::vector<Access>{}, "values"_a, nb::call_guard<FromPython>(),
           "One row: its columns by name, its uses as (address, size, mode, extent, space).")
      .def("extend", &extend, "tape"_a, "Every row of a tape; its ids are taken to be this recorder's.")
      .def("string", &Recorder::string, "text"_a, "The id of a string.")
      .def("site", &site, "frames"_a, "The id of a stack of (file, line, function), innermost first.")
      .def("stream", &stream, "name"_a, "handle"_a = nb::none(), "device"_a = 0, "kind"_a = nb::none(),
           "priority"_a = nb::none(), "A new id in the table of streams.")
      .def("pool", &pool, "name"_a, "consumer"_a = nb::none(), "kind"_a = nb::none(), "device"_a = 0,
           "space"_a = "device", "A new id in the table of pools.")
      .def(
          "thread",
          [](Recorder& r, std::string name, std::optional<std::uint64_t> tid) {
            return r.thread({.name = std::move(name), .tid = tid});
          },
          "name"_a = "", "tid"_a = nb::none(), "The index of the calling thread; its first call gives the facts.")
      .def("flush", &Recorder::flush, nb::call_guard<nb::gil_scoped_release>(), "What is pending goes to the file.")
      .def("close", &Recorder::close, nb::call_guard<nb::gil_scoped_release>(), "Flush and end the file; idempotent.")
      .def_prop_ro("rows", &Recorder::rows, "Rows taken so far, define rows included.")
      .def_prop_ro("flushed", &Recorder::flushed, "Rows that the file holds.")
      .def_prop_ro("mid_life", &Recorder::mid_life, "Whether rows tell of a device that held memory before they began.")
      .def_prop_ro("lost", &Recorder::lost, "Rows that no file holds: it failed, or was closed.")
      .def_prop_ro("error", &Recorder::error, "errno of the write that failed; 0 where none did.")
      .def("copy", &copy, "The rows in memory (with a file: those pending): columns, uses, known, define texts.");
  bind_caller(t);
  t.def("next_seq", &next_seq, "The next number of the process-wide order of calls.");
}

}  // namespace forebay
