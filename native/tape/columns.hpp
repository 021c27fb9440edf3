// columns: rows of a tape in memory. Row is one event being written, Columns owns many, View looks at many.
// What the words mean is events.hpp's; the file on disk is arrow.hpp's.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tape/events.hpp"

// Every column of one plain value a row, `kind` aside, in the order of events.hpp.
#define FOREBAY_SCALARS(X)    \
  X(name, std::uint32_t)      \
  X(thread, std::uint16_t)    \
  X(seq, std::uint64_t)       \
  X(time_ns, std::int64_t)    \
  X(span_ns, std::int64_t)    \
  X(status, std::int32_t)     \
  X(site, std::uint32_t)      \
  X(flags, std::uint32_t)     \
  X(device, std::int16_t)     \
  X(stream, std::uint32_t)    \
  X(capture, std::uint32_t)   \
  X(pool, std::uint32_t)      \
  X(address, std::uint64_t)   \
  X(size, std::uint64_t)      \
  X(requested, std::uint64_t) \
  X(ref, std::uint32_t)       \
  X(begin_ns, std::int64_t)   \
  X(end_ns, std::int64_t)     \
  X(cause, std::uint64_t)

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

class Recorder;

// Whoever wants rows as they happen. Called under no lock of the caller's; an implementation locks for itself.
class Sink {
 public:
  Sink() = default;
  explicit Sink(const std::atomic<Recorder*>& attached) : attached_(&attached) {}  // wants rows while there is one
  virtual ~Sink() = default;
  virtual void write(const Row& row) = 0;
  // False: whoever would make a row may leave it. A pool asks at every hit: no call, two loads.
  bool wants() const { return attached_ == nullptr || attached_->load(std::memory_order_acquire) != nullptr; }

 private:
  const std::atomic<Recorder*>* const attached_ = nullptr;
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
  ColumnSet present() const;  // columns that are not absent
  // The columns of row i that hold a value: present, filled by its kind, and not null.
  ColumnSet known_at(std::size_t i) const { return (known.empty() ? present() : known[i]) & kKindFills[kind[i]]; }
  Row row_at(std::size_t i, std::vector<Use>& uses) const;  // its uses are put into, and seen in, `uses`
};

// Rows owned, a vector a column. A column that no row ever knew stays empty, as it is absent in the view.
class Columns {
 public:
  void push(const Row& row);
  void clear();
  std::size_t rows() const { return kind_.size(); }
  ColumnSet present() const { return present_; }  // columns known in at least one row
  View view() const;                              // valid until the next push or clear
  std::string_view text(std::size_t row) const;   // empty where the row has none

 private:
  std::vector<std::uint8_t> kind_;
#define X(column, type) std::vector<type> column##_;
  FOREBAY_SCALARS(X)
#undef X
  std::vector<ColumnSet> known_;
  std::vector<std::uint64_t> use_offsets_{0}, use_address_, use_size_, text_offsets_{0};
  std::vector<std::uint8_t> use_mode_, use_extent_, use_space_;
  std::string text_;
  ColumnSet present_ = 0;
};

}  // namespace forebay
