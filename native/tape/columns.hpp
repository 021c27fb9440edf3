// columns: rows of a tape in memory. Row is one event being written, Columns owns many, View looks at many.
// What the words mean is events.hpp's; the file on disk is arrow.hpp's.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tape/events.hpp"

namespace forebay {

// One access of a work item: `size` bytes from `address`.
struct Use {
  std::uint64_t address = 0, size = 0;
  Mode mode = Mode::read;
  Extent extent = Extent::exact;
  Space space = Space::device;
};

// One event. `known` says which columns hold a value; a column that the kind does not fill is ignored.
struct Row {
  Kind kind{};
  std::uint16_t thread = 0;
  std::int16_t device = 0;
  std::int32_t status = 0;
  std::uint32_t name = 0, site = 0, flags = 0, stream = 0, capture = 0, pool = 0, ref = 0;
  ColumnSet known = 0;
  std::uint64_t seq = 0, address = 0, size = 0, requested = 0, cause = 0;
  std::int64_t time_ns = 0, span_ns = 0, begin_ns = 0, end_ns = 0;
  std::span<const Use> uses{};
  std::string_view text{};
};

// Whoever wants rows as they happen. Called under no lock of the caller's; an implementation locks for itself.
class Sink {
 public:
  virtual ~Sink() = default;
  virtual void write(const Row& row) = 0;
};

// Columns seen, not owned: n rows. An absent column is an empty span; `known[i]` is the ColumnSet of row i (an empty
// span where every present column is known in every row whose kind fills it). Row i's accesses are
// uses[use_offsets[i]..i+1).
struct View {
  std::size_t rows = 0;
  std::span<const std::uint8_t> kind;
  std::span<const std::uint32_t> name, site, flags, stream, capture, pool, ref;
  std::span<const std::uint16_t> thread;
  std::span<const std::int16_t> device;
  std::span<const std::int32_t> status;
  std::span<const std::uint64_t> seq, address, size, requested, cause;
  std::span<const std::int64_t> time_ns, span_ns, begin_ns, end_ns;
  std::span<const std::uint64_t> use_offsets, use_address, use_size;
  std::span<const std::uint8_t> use_mode, use_extent, use_space;
  std::span<const ColumnSet> known;

  Kind kind_at(std::size_t i) const { return static_cast<Kind>(kind[i]); }
};

}  // namespace forebay
