// _core.emulate: PyTorch's size rules, and heaps along recorded histories.
#include <nanobind/nanobind.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/tuple.h>

#include <cstring>

#include "bind/arrays.hpp"
#include "bind/module.hpp"
#include "emulate/fold.hpp"
#include "emulate/history.hpp"
#include "emulate/sizes.hpp"

namespace nb = nanobind;

namespace forebay {
namespace {

using namespace emulate;  // NOLINT: this file binds that room and no other

// How heaps travel: rows of NumPy's SEGMENT and BLOCK types (tape sources' state.py), as bytes.
struct SegmentRow {
  std::uint64_t address, size;
  std::uint32_t stream, pool, site;
  std::uint8_t large, expandable;
  std::int16_t device;
};
struct BlockRow {
  std::uint64_t address, size, requested;
  std::uint32_t stream, pool, site;
  std::uint8_t pending, inferred;
  std::int16_t device;
};
static_assert(sizeof(SegmentRow) == 32 && sizeof(BlockRow) == 40);

template <class RowType>
std::vector<RowType> rows_of(const Given<std::uint8_t>& bytes) {
  if (bytes.size() % sizeof(RowType) != 0) throw nb::value_error("heap rows of another size");
  std::vector<RowType> rows(bytes.size() / sizeof(RowType));
  if (!rows.empty()) std::memcpy(rows.data(), bytes.data(), bytes.size());
  return rows;
}

template <class RowType>
Made<std::uint8_t> bytes_of(const std::vector<RowType>& rows) {
  std::vector<std::uint8_t> bytes(rows.size() * sizeof(RowType));
  if (!rows.empty()) std::memcpy(bytes.data(), rows.data(), bytes.size());
  return made(std::move(bytes));
}

Heap heap_of(const Given<std::uint8_t>& segments, const Given<std::uint8_t>& blocks) {
  Heap heap;
  for (const SegmentRow& s : rows_of<SegmentRow>(segments))
    if (!heap.reserve(s.address, {s.size, s.stream, s.pool, s.site, s.large != 0, s.expandable != 0}))
      throw nb::value_error(("segment at " + std::to_string(s.address) + " overlaps another or is empty").c_str());
  for (const BlockRow& b : rows_of<BlockRow>(blocks))
    if (!heap.place(b.address, {b.size, b.requested, b.stream, b.pool, b.site, b.pending != 0, b.inferred != 0}))
      throw nb::value_error(("block at " + std::to_string(b.address) + " overlaps another or is empty").c_str());
  return heap;
}

Made<std::uint8_t> segments_of(const Heap& heap) {
  std::vector<SegmentRow> rows;
  for (const auto& [address, s] : heap.segments())
    rows.push_back({address, s.size, s.stream, s.pool, s.site, s.large, s.expandable, 0});
  return bytes_of(rows);
}

Made<std::uint8_t> blocks_of(const Heap& heap) {
  std::vector<BlockRow> rows;
  for (const auto& [address, b] : heap.blocks())
    rows.push_back({address, b.size, b.requested, b.stream, b.pool, b.site, b.pending, b.inferred, 0});
  return bytes_of(rows);
}

std::vector<std::uint64_t> indices(const std::vector<std::size_t>& from) { return {from.begin(), from.end()}; }

nb::dict settled(const Given<std::uint8_t>& action, const Given<std::uint8_t>& has_owner,
                 const Given<std::uint64_t>& address, const Given<std::uint64_t>& size,
                 const Given<std::uint32_t>& stream, const Given<std::uint32_t>& owner,
                 const Given<std::uint32_t>& site, const Given<std::uint8_t>& segments,
                 const Given<std::uint8_t>& blocks, const Settings& settings) {
  const Heap last = heap_of(segments, blocks);
  const Recorded events{seen(action), seen(has_owner), seen(address), seen(size),
                        seen(stream), seen(owner),     seen(site)};
  Settled result;
  {
    nb::gil_scoped_release unlocked;
    result = settle(events, last, settings);
  }
  nb::dict out;
  out["exact"] = same(result.end, last);
  out["size"] = made(std::move(result.size));
  out["pool"] = made(std::move(result.pool));
  out["start_segments"] = segments_of(result.start);
  out["start_blocks"] = blocks_of(result.start);
  out["end_segments"] = segments_of(result.end);
  out["end_blocks"] = blocks_of(result.end);
  out["misfits_back"] = made(indices(result.misfits_back));
  out["misfits_forward"] = made(indices(result.misfits_forward));
  return out;
}

nb::tuple run_fold(Fold& fold, const Given<std::uint8_t>& kind, const Given<std::uint64_t>& address,
                   const Given<std::uint64_t>& size, const Given<std::uint64_t>& requested,
                   const Given<std::uint32_t>& stream, const Given<std::uint32_t>& pool,
                   const Given<std::uint32_t>& site) {
  const std::size_t n = kind.size();
  std::vector<std::int64_t> reserved(n), allocated(n), active(n), asked(n);
  fold.run({seen(kind), seen(address), seen(size), seen(requested), seen(stream), seen(pool), seen(site)},
           {reserved, allocated, active, asked});
  return nb::make_tuple(made(std::move(reserved)), made(std::move(allocated)), made(std::move(active)),
                        made(std::move(asked)));
}

nb::dict levels(const Levels& l) {
  nb::dict out;
  out["reserved"] = l.reserved;
  out["allocated"] = l.allocated;
  out["active"] = l.active;
  out["requested"] = l.requested;
  out["segments"] = l.segments;
  out["blocks"] = l.blocks;
  return out;
}

nb::dict totals(const Fold& fold) {
  nb::dict out;
  out["now"] = levels(fold.totals().now);
  out["peak"] = levels(fold.totals().peak);
  out["driver_allocs"] = fold.totals().driver_allocs;
  out["driver_frees"] = fold.totals().driver_frees;
  out["allocs"] = fold.totals().allocs;
  out["misfits"] = fold.totals().misfits;
  return out;
}

void bind_sizes(nb::module_& e) {
  nb::enum_<PoolKind>(e, "PoolKind", nb::is_arithmetic(), "PyTorch's two pools a device.")
      .value("small", PoolKind::small)
      .value("large", PoolKind::large);
  nb::class_<Settings>(e, "Settings", "PyTorch's allocator settings that decide sizes, in bytes.")
      .def(nb::init<>())
      .def_rw("max_split_size", &Settings::max_split_size, nb::arg().none())
      .def_rw("large_segment_size", &Settings::large_segment_size)
      .def_rw("max_non_split_rounding", &Settings::max_non_split_rounding)
      .def_rw("roundup_divisions", &Settings::roundup_divisions)
      .def_rw("gc_threshold", &Settings::gc_threshold)
      .def_rw("memory_fraction", &Settings::memory_fraction)
      .def_rw("expandable_segments", &Settings::expandable_segments);
  e.def("rounded_size", &rounded_size, nb::arg("requested"), nb::arg("settings"),
        "Bytes of the block for a request, before any unsplit tail.");
  e.def("pool_of", &pool_of, nb::arg("rounded"), "Which pool serves a rounded request.");
  e.def("segment_size", &segment_size, nb::arg("rounded"), nb::arg("settings"),
        "Bytes of the driver segment that a miss takes.");
  e.def("page_size", &page_size, nb::arg("pool"), nb::arg("settings"), "Bytes of a page of an expandable segment.");
  e.def("may_serve", &may_serve, nb::arg("rounded"), nb::arg("block"), nb::arg("settings"),
        "Whether a free block may serve a request at all.");
  e.def("splits", &splits, nb::arg("rounded"), nb::arg("block"), nb::arg("pool"), nb::arg("expandable"),
        nb::arg("settings"), "Whether the rest of the block is split off and stays free.");
}

void bind_fold(nb::module_& e) {
  nb::enum_<Reuse>(e, "Reuse", "When freed bytes may be used again.")
      .value("at_free", Reuse::at_free)
      .value("at_reclaim", Reuse::at_reclaim);
  nb::class_<Fold>(e, "Fold", "The heap of one device along its rows.")
      .def(
          "__init__",
          [](Fold* self, const Given<std::uint8_t>& segments, const Given<std::uint8_t>& blocks, Reuse reuse) {
            new (self) Fold(heap_of(segments, blocks), reuse);
          },
          nb::arg("segments"), nb::arg("blocks"), nb::arg("reuse"))
      .def("run", &run_fold, nb::arg("kind"), nb::arg("address"), nb::arg("size"), nb::arg("requested"),
           nb::arg("stream"), nb::arg("pool"), nb::arg("site"),
           "Bytes reserved, allocated, active and requested after each row, in four arrays.")
      .def("segments", [](const Fold& f) { return segments_of(f.heap()); })
      .def("blocks", [](const Fold& f) { return blocks_of(f.heap()); })
      .def("totals", &totals, "Levels now and at their peaks, and counts of driver calls, allocs and misfits.");
}

}  // namespace

void bind_emulate(nb::module_& m) {
  nb::module_ e =
      m.def_submodule("emulate", "PyTorch's allocator: its size rules, and heaps along recorded histories.");
  bind_sizes(e);
  bind_fold(e);
  e.def("settle", &settled, nb::arg("action"), nb::arg("has_owner"), nb::arg("address"), nb::arg("size"),
        nb::arg("stream"), nb::arg("owner"), nb::arg("site"), nb::arg("segments"), nb::arg("blocks"),
        nb::arg("settings"),
        "One device's recorded history, settled against the heap it ends with: block sizes with unsplit tails, pools,\n"
        "the heap before the first event, events that do not fit, and whether the run forwards ends `exact`.");
}

}  // namespace forebay
