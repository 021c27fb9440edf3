// _core.ingest: foreign files read natively. A file that cannot be used is a ValueError whose message says where.
#include <nanobind/nanobind.h>
#include <nanobind/stl/vector.h>

#include <unordered_map>

#include "bind/arrays.hpp"
#include "bind/module.hpp"
#include "ingest/fault.hpp"
#include "ingest/pickle.hpp"
#include "ingest/snapshot.hpp"

namespace nb = nanobind;

namespace forebay {
namespace {

nb::object text(std::string_view utf8) {
  // Lone surrogates are legal in a pickle, and cannot be printed.
  return nb::steal(PyUnicode_DecodeUTF8(utf8.data(), static_cast<Py_ssize_t>(utf8.size()), "replace"));
}

// Values of a document as Python objects; a node that is referred to twice is made once.
class Plain {
 public:
  explicit Plain(const ingest::Document& document) : document_(document) {}
  nb::object make(ingest::Cell cell, int depth = 0);

 private:
  nb::object list(ingest::Cell cell, int depth);
  nb::object tuple(ingest::Cell cell, int depth);
  nb::object dict(ingest::Cell cell, int depth);
  nb::object whole(ingest::Cell cell) const;

  const ingest::Document& document_;
  std::unordered_map<std::uint64_t, nb::object> runs_, dicts_;
};

nb::object Plain::whole(ingest::Cell cell) const {
  const auto value = *document_.whole_of(cell);
  return value.negative ? nb::cast(static_cast<std::int64_t>(value.bits)) : nb::cast(value.bits);
}

nb::object Plain::list(ingest::Cell cell, int depth) {
  if (const auto known = runs_.find(cell.index()); known != runs_.end()) return known->second;
  nb::list out;
  runs_[cell.index()] = out;
  for (const ingest::Cell item : document_.run_of(cell)) out.append(make(item, depth + 1));
  return out;
}

nb::object Plain::tuple(ingest::Cell cell, int depth) {
  if (const auto known = runs_.find(cell.index()); known != runs_.end()) return known->second;
  nb::list items;
  for (const ingest::Cell item : document_.run_of(cell)) items.append(make(item, depth + 1));
  return runs_[cell.index()] = nb::tuple(items);
}

nb::object Plain::dict(ingest::Cell cell, int depth) {
  if (const auto known = dicts_.find(cell.index()); known != dicts_.end()) return known->second;
  nb::dict out;
  dicts_[cell.index()] = out;
  const ingest::Dict& dict = document_.dict_of(cell);
  const auto keys = document_.keys(dict.shape);
  for (std::size_t i = 0; i < keys.size(); ++i) out[text(document_.text_at(keys[i]))] = make(dict.values[i], depth + 1);
  return out;
}

nb::object Plain::make(ingest::Cell cell, int depth) {
  constexpr int kDeepest = 200;
  if (depth > kDeepest) throw ingest::Fault("values nested deeper than 200");
  switch (cell.tag()) {
    case ingest::Tag::none:
      return nb::none();
    case ingest::Tag::boolean:
      return nb::cast(cell.small() != 0);
    case ingest::Tag::integer:
    case ingest::Tag::wide:
      return whole(cell);
    case ingest::Tag::real:
      return nb::cast(document_.real_of(cell));
    case ingest::Tag::text:
      return text(document_.text_of(cell));
    case ingest::Tag::bytes:
      return nb::bytes(document_.bytes_of(cell).data(), document_.bytes_of(cell).size());
    case ingest::Tag::list:
      return list(cell, depth);
    case ingest::Tag::tuple:
      return tuple(cell, depth);
    case ingest::Tag::dict:
      return dict(cell, depth);
  }
  return nb::none();
}

template <class T>
void put(nb::dict& out, const char* name, std::vector<T>& column) {
  out[name] = made(std::move(column));
}

nb::dict events_of(ingest::EventColumns& e) {
  nb::dict out;
  put(out, "action", e.action);
  put(out, "device", e.device);
  put(out, "address", e.address);
  put(out, "size", e.size);
  put(out, "stream", e.stream);
  put(out, "time_us", e.time_us);
  put(out, "site", e.site);
  put(out, "name", e.name);
  put(out, "has_pool", e.has_pool);
  put(out, "pool_first", e.pool.first);
  put(out, "pool_second", e.pool.second);
  return out;
}

nb::dict segments_of(ingest::SegmentColumns& s) {
  nb::dict out;
  put(out, "device", s.device);
  put(out, "address", s.address);
  put(out, "size", s.size);
  put(out, "stream", s.stream);
  put(out, "large", s.large);
  put(out, "expandable", s.expandable);
  put(out, "site", s.site);
  put(out, "pool_first", s.pool.first);
  put(out, "pool_second", s.pool.second);
  return out;
}

nb::dict blocks_of(ingest::BlockColumns& b) {
  nb::dict out;
  put(out, "segment", b.segment);
  put(out, "address", b.address);
  put(out, "size", b.size);
  put(out, "requested", b.requested);
  put(out, "state", b.state);
  put(out, "site", b.site);
  return out;
}

nb::dict annotations_of(ingest::AnnotationColumns& a) {
  nb::dict out;
  put(out, "name", a.name);
  put(out, "end", a.end);
  put(out, "device", a.device);
  put(out, "time_us", a.time_us);
  return out;
}

nb::dict sites_of(ingest::SiteColumns& s) {
  nb::dict out;
  put(out, "file", s.file);
  put(out, "function", s.function);
  put(out, "line", s.line);
  put(out, "offsets", s.offsets);
  put(out, "index", s.index);
  return out;
}

std::string_view view_of(const nb::bytes& data) { return {data.c_str(), data.size()}; }

nb::dict torch_snapshot(const nb::bytes& data) {
  ingest::Document document;
  ingest::Snapshot read;
  {
    nb::gil_scoped_release unlocked;
    document = ingest::read_pickle(view_of(data));
    read = ingest::read_snapshot(document, data.size());
  }
  nb::dict out;
  nb::list strings;
  for (const std::string_view s : read.strings) strings.append(text(s));
  out["strings"] = strings;
  out["settings"] = Plain(document).make(read.settings);
  out["devices"] = read.devices;
  out["bare"] = read.bare;
  out["has_traces"] = read.has_traces;
  out["has_times"] = read.has_times;
  out["has_annotations"] = read.has_annotations;
  out["events"] = events_of(read.events);
  out["segments"] = segments_of(read.segments);
  out["blocks"] = blocks_of(read.blocks);
  out["annotations"] = annotations_of(read.annotations);
  out["sites"] = sites_of(read.sites);
  return out;
}

nb::object plain_pickle(const nb::bytes& data) {
  const ingest::Document document = ingest::read_pickle(view_of(data));
  return Plain(document).make(document.root);
}

}  // namespace

void bind_ingest(nb::module_& m) {
  nb::module_ i = m.def_submodule("ingest", "Foreign files read natively, into columns.");
  i.def("torch_snapshot", &torch_snapshot, nb::arg("data"),
        "A PyTorch memory snapshot (a pickle) as columns: a dict of `events`, `segments`, `blocks`, `annotations`,\n"
        "`sites` (each a dict of arrays; bytes and microseconds), `strings`, `settings`. Raises ValueError.");
  i.def("plain_pickle", &plain_pickle, nb::arg("data"),
        "The value of a pickle of None, bool, int, float, str, bytes, list, tuple and dict with str keys. Anything\n"
        "that names a class is refused and nothing is executed. Raises ValueError, naming the byte offset.");
}

}  // namespace forebay
