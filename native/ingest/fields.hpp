// fields: one dict of a document read by name, with errors that say where in the structure it stands.
// Which fields a snapshot has is snapshot.cpp's.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>

#include "ingest/document.hpp"
#include "ingest/fault.hpp"

namespace forebay::ingest {

enum class Field : std::uint8_t {
  action,
  addr,
  size,
  stream,
  time_us,
  frames,
  pool_id,
  device_free,
  user_metadata,  // events
  device,
  address,
  total_size,
  segment_type,
  segment_pool_id,
  is_expandable,
  blocks,  // segments
  requested_size,
  state,
  history,
  real_size,  // blocks
  filename,
  line,
  name,
  stage,
  segments,
  device_traces,
  allocator_settings,
  external_annotations,  // frames, top
  count,
};
inline constexpr std::array<std::string_view, static_cast<std::size_t>(Field::count)> kFieldNames = {
    "action",
    "addr",
    "size",
    "stream",
    "time_us",
    "frames",
    "pool_id",
    "device_free",
    "user_metadata",
    "device",
    "address",
    "total_size",
    "segment_type",
    "segment_pool_id",
    "is_expandable",
    "blocks",
    "requested_size",
    "state",
    "history",
    "real_size",
    "filename",
    "line",
    "name",
    "stage",
    "segments",
    "device_traces",
    "allocator_settings",
    "external_annotations"};

// Where a dict stands, written out only when something is wrong: name[first], or name[first][second].
struct Place {
  std::string_view name;
  std::size_t first = 0, second = SIZE_MAX;
  const Place* within = nullptr;
  std::string text() const;
};

// The dicts of one document, read by field. Remembers where each shape keeps each field.
class Fields {
 public:
  explicit Fields(const Document& document) : document_(document) {}
  void open(Cell dict, const Place& place);  // throws where it is not a dict
  const Cell* find(Field field) const;       // null where the dict has none, or None
  const Cell& need(Field field) const;
  std::uint64_t whole(Field field) const;  // of the 64 bits, whatever the sign
  std::uint64_t whole_or(Field field, std::uint64_t otherwise) const;
  std::uint64_t size(Field field) const;  // not negative, below 2^62
  std::string_view text(Field field) const;
  const Run& run(Field field) const;  // of a list or a tuple
  [[noreturn]] void fail(Field field, std::string_view expected, Cell got) const;

 private:
  using Slots = std::array<std::int16_t, static_cast<std::size_t>(Field::count)>;
  const Slots& slots_of(std::uint32_t shape);

  const Document& document_;
  const Place* place_ = nullptr;
  const Cell* values_ = nullptr;
  const Slots* slots_ = nullptr;
  std::uint32_t last_shape_ = UINT32_MAX;
  std::unordered_map<std::uint32_t, Slots> known_;
};

std::string described(const Document& document, Cell cell);  // "str 'x'", "int 3", "list"

}  // namespace forebay::ingest
