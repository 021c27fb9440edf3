// _core.tape: the vocabulary of events.hpp as Python enums.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <vector>

#include "bind/module.hpp"
#include "tape/events.hpp"

namespace nb = nanobind;

namespace forebay {
namespace {

// The columns that rows of this kind can fill, `kind` itself left out.
std::vector<std::string> fills_of(Kind kind) {
  std::vector<std::string> names;
  for (std::size_t c = 0; c < kColumnNames.size(); ++c)
    if (fills(kind, static_cast<Column>(c))) names.emplace_back(kColumnNames[c]);
  return names;
}

void bind_enums(nb::module_& t) {
  nb::enum_<Kind> kinds(t, "Kind", nb::is_arithmetic(), "What a row says happened.");
  for (std::size_t k = 0; k < kKindCount; ++k) kinds.value(kKindNames[k].data(), static_cast<Kind>(k));
  nb::enum_<Flag>(t, "Flag", nb::is_flag(), nb::is_arithmetic(), "Bits of the `flags` column.")
      .value("READY", kReady)
      .value("BLOCKING", kBlocking)
      .value("POOL_MADE", kPoolMade)
      .value("TRUSTED", kTrusted)
      .value("IMPLIED", kImplied)
      .value("GRAPH_POOL", kGraphPool)
      .value("EXPANDABLE", kExpandable)
      .value("OVERLAPS", kOverlaps)
      .value("INVALIDATED", kInvalidated)
      .value("INCOMPLETE", kIncomplete)
      .value("DEPENDENT", kDependent)
      .value("EXTERNAL", kExternal);
  nb::enum_<Mode>(t, "Mode", nb::is_arithmetic(), "How a use touches its bytes.")
      .value("read", Mode::read)
      .value("write", Mode::write)
      .value("atomic", Mode::atomic)
      .value("unknown", Mode::unknown);
  nb::enum_<Extent>(t, "Extent", nb::is_arithmetic(), "How well a use's byte range is known.")
      .value("exact", Extent::exact)
      .value("hull", Extent::hull)
      .value("block", Extent::block);
  nb::enum_<Space>(t, "Space", nb::is_arithmetic(), "Where the bytes of a use lie.")
      .value("device", Space::device)
      .value("pinned", Space::pinned)
      .value("pageable", Space::pageable)
      .value("managed", Space::managed);
  nb::enum_<StreamClass>(t, "StreamClass", nb::is_arithmetic(),
                         "How a stream stands to its device's legacy default stream.")
      .value("legacy", StreamClass::legacy)
      .value("blocking", StreamClass::blocking)
      .value("nonblocking", StreamClass::nonblocking)
      .value("per_thread", StreamClass::per_thread);
}

}  // namespace

void bind_tape(nb::module_& m) {
  nb::module_ t = m.def_submodule("tape", "The tape's vocabulary: kinds, columns, flags, modes.");
  bind_enums(t);
  t.attr("COLUMNS") = nb::cast(std::vector<std::string>(kColumnNames.begin(), kColumnNames.end()));
  t.def("fills", &fills_of, nb::arg("kind"),
        "The names of the columns that rows of `kind` can fill, `kind` itself left out.");
  bind_recorder(t);
}

}  // namespace forebay
