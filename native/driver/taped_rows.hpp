// taped_rows: how a call of a taped driver becomes a row. What rows mean is taped.hpp's.
#pragma once

#include <type_traits>

#include "driver/pool_made.hpp"
#include "driver/taped.hpp"
#include "driver/watch.hpp"

namespace forebay {

namespace taped {

template <class R>
Status status_of(const R& result) {
  if constexpr (std::is_same_v<R, Status>)
    return result;
  else
    return result.status();
}

inline void set(Row& row, Column column) { row.known |= bit(column); }

// What a call answers whose making invalidates a capture, or which ends an invalid one.
inline bool invalidates(Status s) {
  return s >= Status::capture_unsupported && s <= Status::captured_event && s != Status::capture_unmatched;
}

}  // namespace taped

template <class Made, class Before, class After>
auto TapedDriver::row(Kind kind, std::string_view name, Made&& made, Before&& before, After&& after)
    -> decltype(made()) {
  Recorder* const to = recorder();
  if (to == nullptr) return made();
  Row row{.kind = kind};
  before(row);
  row.time_ns = next_.now_ns();
  row.seq = next_seq();
  auto result = made();
  if (kind == Kind::query) row.seq = next_seq();
  row.span_ns = next_.now_ns() - row.time_ns;
  row.status = static_cast<std::int32_t>(taped::status_of(result));
  row.thread = to->thread();
  row.name = to->string(name);
  row.known |= columns(Column::time_ns, Column::span_ns, Column::seq, Column::status, Column::thread, Column::name,
                       Column::flags);
  if (PoolMade::now()) row.flags |= kPoolMade;
  if (taped::invalidates(taped::status_of(result))) row.flags |= kInvalidated;
  after(row, result);
  to->write(row);
  return result;
}

template <class Made, class Before>
auto TapedDriver::row(Kind kind, std::string_view name, Made&& made, Before&& before) -> decltype(made()) {
  return row(kind, name, made, before, [](Row&, const auto&) {});
}

template <class Made>
Status TapedDriver::work(Kind kind, std::string_view name, int device, StreamHandle stream, std::span<const Use> uses,
                         Made&& made) {
  if (Upkeep::now() != 0) return made();  // it would read as the program's own use of what was freed
  const auto before = [&](Row& row) {
    on_stream(row, device, stream);
    row.uses = uses;
    taped::set(row, Column::uses);
    if (kind == Kind::copy || kind == Kind::memset) row.size = uses.front().size, taped::set(row, Column::size);
  };
  return row(kind, name, made, before, [&](Row& row, Status) {
    for (const Use& use : uses)
      if (use.space == Space::pageable && use.mode == Mode::write && !(row.known & bit(Column::capture)))
        row.flags |= kBlocking;
    const auto times = next_.work_times();
    if (!times || row.status != 0) return;
    row.begin_ns = times->begin_ns, row.end_ns = times->end_ns;
    row.known |= columns(Column::begin_ns, Column::end_ns);
  });
}

}  // namespace forebay
