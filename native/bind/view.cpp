// view: how the arrays of a Python Tape become spans.
#include "bind/view.hpp"

#include <nanobind/ndarray.h>

#include <string>

namespace nb = nanobind;

namespace forebay {
namespace {

template <class T>
std::span<const T> span_of(nb::handle array, const char* column) {
  using Array = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
  Array values;
  if (!nb::try_cast<Array>(array, values, /*convert=*/false))
    throw nb::type_error((std::string("column ") + column + ": expected a contiguous array of its own type").c_str());
  return {values.data(), values.shape(0)};
}

bool has(nb::handle columns, const char* name) { return nb::cast<bool>(columns.attr("__contains__")(name)); }

void add_uses(View& v, nb::handle uses) {
  v.use_offsets = span_of<std::uint64_t>(uses.attr("offsets"), "uses.offsets");
  v.use_address = span_of<std::uint64_t>(uses.attr("address"), "uses.address");
  v.use_size = span_of<std::uint64_t>(uses.attr("size"), "uses.size");
  v.use_mode = span_of<std::uint8_t>(uses.attr("mode"), "uses.mode");
  v.use_extent = span_of<std::uint8_t>(uses.attr("extent"), "uses.extent");
  v.use_space = span_of<std::uint8_t>(uses.attr("space"), "uses.space");
}

}  // namespace

View view_of(nb::handle tape) {
  const nb::object columns = tape.attr("columns"), uses = tape.attr("uses"), known = tape.attr("known");
  View v;
  v.kind = span_of<std::uint8_t>(columns["kind"], "kind");
  v.rows = v.kind.size();
#define X(column, type) \
  if (has(columns, #column)) v.column = span_of<type>(columns[#column], #column);
  FOREBAY_SCALARS(X)
#undef X
  if (!uses.is_none()) add_uses(v, uses);
  if (!known.is_none()) v.known = span_of<ColumnSet>(known, "known");
  return v;
}

}  // namespace forebay
