// snapshot: a PyTorch memory snapshot as columns, every layout from 2022 on. It says what the file says and infers
// nothing: the heap is emulate/'s, the tape sources/torch_snapshot.py's.
//
// Schema: facts of torch.cuda.memory._snapshot (dicts segments, device_traces, allocator_settings,
// external_annotations). 2022: a bare list of segments. 2023: blocks without addresses, with a `history`.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "ingest/document.hpp"

namespace forebay::ingest {

enum class Action : std::uint8_t {
  alloc,
  free_requested,
  free_completed,
  segment_alloc,
  segment_free,
  segment_map,
  segment_unmap,
  snapshot,
  oom,
  other,
};
enum class BlockState : std::uint8_t { inactive, active, pending };

struct PoolIds {  // a framework's id of a private pool: two numbers, (0, 0) for the default pools
  std::vector<std::uint64_t> first, second;
};

// One row an event, device after device, in the file's order. Addresses and sizes in bytes, times in microseconds.
struct EventColumns {
  std::vector<std::uint8_t> action, has_pool;
  std::vector<std::int16_t> device;
  std::vector<std::uint64_t> address, size, stream;  // of an oom, `address` is the driver's free bytes
  std::vector<std::int64_t> time_us;                 // 0 where the layout has none
  std::vector<std::uint32_t> site, name;             // name: of an unknown action, or what the user attached
  PoolIds pool;
};
struct SegmentColumns {
  std::vector<std::int16_t> device;
  std::vector<std::uint64_t> address, size, stream;
  std::vector<std::uint8_t> large, expandable;
  std::vector<std::uint32_t> site;
  PoolIds pool;
};
struct BlockColumns {
  std::vector<std::uint32_t> segment, site;
  std::vector<std::uint64_t> address, size, requested;
  std::vector<std::uint8_t> state;
};
struct AnnotationColumns {
  std::vector<std::uint32_t> name;
  std::vector<std::uint8_t> end;
  std::vector<std::int16_t> device;
  std::vector<std::int64_t> time_us;
};
// Site s is frames[site_index[site_offsets[s] .. site_offsets[s + 1])); site 0 is the empty stack.
struct SiteColumns {
  std::vector<std::uint32_t> file, function;
  std::vector<std::int64_t> line;
  std::vector<std::uint64_t> offsets{0, 0};
  std::vector<std::uint32_t> index;
};

struct Snapshot {
  std::uint32_t devices = 0;
  bool bare = false, has_traces = false, has_times = false, has_annotations = false;  // bare: a list of segments, 2022
  EventColumns events;
  SegmentColumns segments;
  BlockColumns blocks;
  AnnotationColumns annotations;
  SiteColumns sites;
  std::vector<std::string_view> strings{""};  // of the document
  Cell settings{};                            // a dict of the document, or None
};

// Throws Fault, naming the path of what cannot be understood. Time and memory are linear in `bytes`, the length of the
// input that the document came from, however often its parts refer to each other.
Snapshot read_snapshot(const Document& document, std::size_t bytes);

}  // namespace forebay::ingest
