// events: the vocabulary of the tape (kinds, columns, flags, modes), written once for C++ and Python.
// Rows and columns of data are columns.hpp's; what a Python user sees of it is bind/tape.cpp's.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace forebay {

// Columns beyond `kind` that a row can fill. The order is the order on disk.
enum class Column : std::uint8_t {
  name,
  thread,
  seq,
  time_ns,
  span_ns,
  status,
  site,
  flags,  // call
  device,
  stream,
  capture,  // place
  pool,
  address,
  size,
  requested,  // memory
  ref,        // handle
  begin_ns,
  end_ns,  // device
  cause,
  uses,
  text,
};
inline constexpr std::array<std::string_view, 21> kColumnNames = {
    "name", "thread",  "seq",  "time_ns",   "span_ns", "status",   "site",   "flags", "device", "stream", "capture",
    "pool", "address", "size", "requested", "ref",     "begin_ns", "end_ns", "cause", "uses",   "text"};

using ColumnSet = std::uint32_t;
constexpr ColumnSet bit(Column c) { return ColumnSet{1} << static_cast<unsigned>(c); }
template <class... C>
constexpr ColumnSet columns(C... c) {
  return (bit(c) | ... | 0u);
}

// Every row may fill these.
inline constexpr ColumnSet kCall = columns(Column::name, Column::thread, Column::seq, Column::time_ns, Column::span_ns,
                                           Column::status, Column::site, Column::flags, Column::cause);
inline constexpr ColumnSet kPlace = columns(Column::device, Column::stream, Column::capture);
inline constexpr ColumnSet kBlock = columns(Column::pool, Column::address, Column::size, Column::requested);
inline constexpr ColumnSet kSegment =
    columns(Column::device, Column::stream, Column::pool, Column::address, Column::size, Column::ref);
inline constexpr ColumnSet kTimes = columns(Column::begin_ns, Column::end_ns);
inline constexpr ColumnSet kWork = kPlace | kTimes | bit(Column::uses);

// X(kind, the columns that it fills besides kCall). Note [Cells a kind does not fill]: in memory such a cell holds 0
// and nobody reads it; on disk it is null. A cell that its kind fills but whose value the source did not know is a
// null.
//   segment:  `ref` of reserve/release/map/unmap names the segment (or frame); absent where the source names none.
//   query:    of an event by `ref`, of a stream by `stream`.      lend: `stream` is the stream lent to.
//   capacity: `name` says which figure (total, free, limit, used by others), `size` is it; caused by an oom where taken
//             at one.   settings: `name` is one "key=value".        flush: empty_cache and trim; what it gave back has
//             it as `cause`.                                        gap: `size` is the number of rows lost, if known.
//   region:   `ref` is the iteration; an end's `cause` is its beginning where they do not nest.
//   wait:     no `ref` where the edge is unseen (an imported event, a memory value).   sync_event: `stream` is the one
//             that the event was recorded on, where a source shows that alone.
//   capture:  a beginning's `ref` is the capture (what the column `capture` of rows issued into it names) and its
//   `pool`
//             the graph's own; an end's `ref` is the graph.
//   graph:    graph_instantiate makes the executable `ref` of the graph that `capture` ended in; graph_launch runs the
//             executable `ref` (the graph where a source does not tell them apart); nodes run have the launch as
//             `cause`.
//   define:   only in a recording, see recorder.hpp.
// clang-format off
#define FOREBAY_KINDS(X) \
  X(reserve, kSegment) \
  X(release, kSegment) \
  X(map, kSegment) \
  X(unmap, kSegment) \
  X(pin, bit(Column::device) | kBlock) \
  X(unpin, bit(Column::device) | kBlock) \
  X(alloc, kPlace | kBlock) \
  X(free, kPlace | kBlock) \
  X(lend, kPlace | kBlock) \
  X(reclaim, kPlace | kBlock) \
  X(launch, kWork | bit(Column::ref)) \
  X(copy, kWork | bit(Column::size)) \
  X(memset, kWork | bit(Column::size)) \
  X(host_access, bit(Column::uses)) \
  X(host_func, kWork) \
  X(stream_create, kPlace) \
  X(stream_destroy, kPlace) \
  X(record, kPlace | bit(Column::ref)) \
  X(wait, kPlace | bit(Column::ref)) \
  X(event_destroy, bit(Column::ref)) \
  X(sync_event, kPlace | bit(Column::ref)) \
  X(sync_stream, kPlace) \
  X(sync_device, bit(Column::device)) \
  X(query, kPlace | bit(Column::ref)) \
  X(capture_begin, kPlace | bit(Column::pool) | bit(Column::ref)) \
  X(capture_end, kPlace | bit(Column::ref)) \
  X(graph_instantiate, kPlace | bit(Column::ref)) \
  X(graph_launch, kWork | bit(Column::ref)) \
  X(graph_destroy, bit(Column::ref)) \
  X(region_begin, bit(Column::device) | bit(Column::ref)) \
  X(region_end, bit(Column::device) | bit(Column::ref)) \
  X(oom, kPlace | bit(Column::pool) | bit(Column::size) | bit(Column::requested)) \
  X(capacity, bit(Column::device) | bit(Column::pool) | bit(Column::size)) \
  X(settings, bit(Column::device)) \
  X(flush, bit(Column::device) | bit(Column::pool)) \
  X(gap, bit(Column::size)) \
  X(note, bit(Column::device)) \
  X(define, bit(Column::ref) | bit(Column::text))
// clang-format on

enum class Kind : std::uint8_t {
#define X(kind, fills) kind,
  FOREBAY_KINDS(X)
#undef X
};
inline constexpr std::array kKindNames = {
#define X(kind, fills) std::string_view(#kind),
    FOREBAY_KINDS(X)
#undef X
};
inline constexpr std::array kKindFills = {
#define X(kind, fills) ColumnSet{kCall | (fills)},
    FOREBAY_KINDS(X)
#undef X
};
inline constexpr std::size_t kKindCount = kKindNames.size();
constexpr bool fills(Kind kind, Column column) {
  return (kKindFills[static_cast<std::size_t>(kind)] & bit(column)) != 0;
}

// Flags of a row. Four of them are small fields: the capture mode (0 none), the cause of a release (0 unknown), and
// where the bytes of a copy come from and go to (0 unknown, else 1 + Space), for sources that show no addresses.
enum Flag : std::uint32_t {
  kReady = 1u << 0,        // query: it was ready
  kBlocking = 1u << 1,     // the call blocked its thread until the work was done
  kPoolMade = 1u << 2,     // an edge, sync or driver call that a pool inserted by itself
  kTrusted = 1u << 3,      // alloc of a pool whose own edges the tape does not show
  kImplied = 1u << 4,      // a sync that the call implies and nobody asked for
  kGraphPool = 1u << 5,    // memory of a graph's private pool
  kExpandable = 1u << 6,   // memory of an expandable segment
  kOverlaps = 1u << 7,     // its interval overlaps a call of another thread: their order is unknown
  kInvalidated = 1u << 8,  // the call invalidated a capture, or the capture it ends was invalidated
  kIncomplete = 1u << 9,   // `uses` may lack some accesses
  kDependent = 1u << 10,   // programmatic dependent launch
  kExternal = 1u << 11,    // an event of another process, or recorded or waited for as external in a capture
  kCaptureModeShift = 12,
  kCaptureModeMask = 3u << 12,  // 1 global, 2 thread_local, 3 relaxed
  kReleaseCauseShift = 14,
  kReleaseCauseMask = 7u << 14,  // 1 empty_cache, 2 retry, 3 gc, 4 trim, 5 destroy
  kSourceSpaceShift = 17,
  kSourceSpaceMask = 7u << 17,
  kTargetSpaceShift = 20,
  kTargetSpaceMask = 7u << 20,
};

enum class Mode : std::uint8_t { read, write, atomic, unknown };
enum class Extent : std::uint8_t { exact, hull, block };
enum class Space : std::uint8_t { device, pinned, pageable, managed };
enum class StreamClass : std::uint8_t { legacy, blocking, nonblocking, per_thread };

}  // namespace forebay
