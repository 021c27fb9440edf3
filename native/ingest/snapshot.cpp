#include "ingest/snapshot.hpp"

#include <algorithm>
#include <array>
#include <optional>

#include "ingest/fields.hpp"
#include "ingest/stacks.hpp"

namespace forebay::ingest {
namespace {

constexpr std::array<std::string_view, 9> kActions = {"alloc",         "free_requested", "free_completed",
                                                      "segment_alloc", "segment_free",   "segment_map",
                                                      "segment_unmap", "snapshot",       "oom"};

class Reader {
 public:
  Reader(const Document& document, std::size_t bytes)
      : document_(document), fields_(document), stacks_(document, bytes, out_.sites, out_.strings), left_(bytes) {}

  Snapshot read() {
    if (document_.root.tag() == Tag::list) {
      out_.bare = true;
      segments(document_.run_of(document_.root));
      return std::move(out_);
    }
    const Place top{"snapshot", SIZE_MAX};
    fields_.open(document_.root, top);
    // Each part opens dicts of its own, so what the top one holds is looked up before any of them is read.
    const Run& all_segments = fields_.run(Field::segments);
    const Run* traces = optional_run(Field::device_traces);
    const Run* annotations_run = optional_run(Field::external_annotations);
    if (const Cell* settings = fields_.find(Field::allocator_settings)) {
      if (settings->tag() != Tag::dict) fields_.fail(Field::allocator_settings, "dict", *settings);
      out_.settings = *settings;
    }
    segments(all_segments);
    if (traces != nullptr) device_traces(*traces);
    if (annotations_run != nullptr) annotations(*annotations_run);
    return std::move(out_);
  }

 private:
  const Run* optional_run(Field field) const { return fields_.find(field) == nullptr ? nullptr : &fields_.run(field); }

  // Note [No more rows than bytes]: a row takes at least a byte of an honest file. One that has more refers to the same
  // list many times, which could make a file of a megabyte ask for terabytes.
  void spend(const Place& place) {
    if (left_-- == 0) throw Fault(place.text() + ": more rows than the file has bytes: its lists repeat each other");
  }

  std::uint32_t frames(const Place& place) {
    const Cell* cell = fields_.find(Field::frames);
    if (cell == nullptr) return 0;
    if (cell->tag() != Tag::list && cell->tag() != Tag::tuple) fields_.fail(Field::frames, "list", *cell);
    return stacks_.site(*cell, place);
  }

  std::int16_t device_index(std::uint64_t number) {
    if (number > 32767) fields_.fail(Field::device, "a device index of 0 to 32767", fields_.need(Field::device));
    out_.devices = std::max(out_.devices, static_cast<std::uint32_t>(number) + 1);
    return static_cast<std::int16_t>(number);
  }

  // Two numbers, as a tuple or a list.
  std::optional<std::array<std::uint64_t, 2>> pool(Field field) const {
    const Cell* cell = fields_.find(field);
    if (cell == nullptr) return std::nullopt;
    const Run& pair = fields_.run(field);
    if (pair.size != 2) fields_.fail(field, "two ints", *cell);
    const auto first = document_.whole_of(pair.cells[0]), second = document_.whole_of(pair.cells[1]);
    if (!first || !second) fields_.fail(field, "two ints", *cell);
    return std::array{first->bits, second->bits};
  }

  void segments(const Run& list) {
    for (std::size_t i = 0; i < list.size; ++i) {
      const Place place{"segments", i};
      spend(place);
      fields_.open(list.cells[i], place);
      segment(place, i);
    }
  }

  void segment(const Place& place, std::size_t i) {
    SegmentColumns& s = out_.segments;
    s.device.push_back(device_index(fields_.whole_or(Field::device, 0)));
    s.address.push_back(fields_.whole(Field::address));
    s.size.push_back(fields_.size(Field::total_size));
    s.stream.push_back(fields_.whole_or(Field::stream, 0));
    s.large.push_back(is_large(s.size.back()));
    s.expandable.push_back(fields_.whole_or(Field::is_expandable, 0) != 0);
    const auto id = pool(Field::segment_pool_id).value_or(std::array<std::uint64_t, 2>{});
    s.pool.first.push_back(id[0]);
    s.pool.second.push_back(id[1]);
    const Run& blocks_run = fields_.run(Field::blocks);
    s.site.push_back(frames(place));
    blocks(blocks_run, place, i);
  }

  // A file that does not say: only the small pool has segments of 2 MiB.
  bool is_large(std::uint64_t size) const {
    if (fields_.find(Field::segment_type) == nullptr) return size > std::uint64_t{2} << 20;
    const std::string_view type = fields_.text(Field::segment_type);
    if (type != "large" && type != "small")
      fields_.fail(Field::segment_type, "'small' or 'large'", fields_.need(Field::segment_type));
    return type == "large";
  }

  void blocks(const Run& list, const Place& segment_place, std::size_t segment) {
    const std::uint64_t end = out_.segments.address[segment] + out_.segments.size[segment];
    std::uint64_t next = out_.segments.address[segment];
    for (std::size_t i = 0; i < list.size; ++i) {
      const Place place{"blocks", i, SIZE_MAX, &segment_place};
      spend(place);
      fields_.open(list.cells[i], place);
      next = block(place, next, end, static_cast<std::uint32_t>(segment));
    }
  }

  // Old layouts have no addresses: blocks cover their segment without a gap. Returns where the block ends.
  std::uint64_t block(const Place& place, std::uint64_t next, std::uint64_t end, std::uint32_t segment) {
    BlockColumns& b = out_.blocks;
    const std::uint64_t address = fields_.whole_or(Field::address, next), size = fields_.size(Field::size);
    if (address < next || address + size > end || address + size < address)
      throw Fault(place.text() + ": " + std::to_string(size) + " bytes at " + std::to_string(address) +
                  " overlap the block before or leave the segment");
    b.segment.push_back(segment);
    b.address.push_back(address);
    b.size.push_back(size);
    b.state.push_back(static_cast<std::uint8_t>(state()));
    b.requested.push_back(fields_.find(Field::requested_size) == nullptr ? size : fields_.size(Field::requested_size));
    b.site.push_back(fields_.find(Field::history) == nullptr ? frames(place) : latest_of_history(place));
    return address + size;
  }

  BlockState state() const {
    const std::string_view state = fields_.text(Field::state);
    if (state == "active_allocated") return BlockState::active;
    if (state == "active_pending_free" || state == "active_awaiting_free") return BlockState::pending;
    if (state != "inactive") fields_.fail(Field::state, "a block state", fields_.need(Field::state));
    return BlockState::inactive;
  }

  // 2023: what the block and the free blocks merged into it were, the latest first.
  std::uint32_t latest_of_history(const Place& place) {
    const Run& history = fields_.run(Field::history);
    if (history.size == 0) return 0;
    const Place entry{"history", 0, SIZE_MAX, &place};
    Fields inner(document_);
    inner.open(history.cells[0], entry);
    if (const auto real = inner.find(Field::real_size);
        real != nullptr && fields_.find(Field::requested_size) == nullptr)
      out_.blocks.requested.back() = inner.size(Field::real_size);
    return inner.find(Field::frames) == nullptr ? 0 : stacks_.site(inner.need(Field::frames), entry);
  }

  void device_traces(const Run& devices) {
    for (std::size_t d = 0; d < devices.size; ++d) {
      const Place place{"device_traces", d};
      spend(place);
      const Cell list = devices.cells[d];
      if (list.tag() != Tag::list && list.tag() != Tag::tuple)
        throw Fault(place.text() + ": expected list, got " + described(document_, list));
      if (document_.run_of(list).size == 0) continue;
      trace(document_.run_of(list), device_index(d), d);
    }
  }

  void trace(const Run& events, std::int16_t device, std::size_t d) {
    out_.has_traces = true;
    for (std::size_t i = 0; i < events.size; ++i) {
      const Place place{"device_traces", d, i};
      spend(place);
      fields_.open(events.cells[i], place);
      event(place, device);
    }
  }

  void event(const Place& place, std::int16_t device) {
    EventColumns& e = out_.events;
    const Action action = action_of(fields_.text(Field::action));
    const bool memory = action < Action::snapshot;
    e.action.push_back(static_cast<std::uint8_t>(action));
    e.device.push_back(device);
    e.size.push_back(memory || action == Action::oom ? fields_.size(Field::size) : fields_.whole_or(Field::size, 0));
    e.stream.push_back(fields_.whole_or(Field::stream, 0));
    e.address.push_back(memory                  ? fields_.whole(Field::addr)
                        : action == Action::oom ? fields_.whole_or(Field::device_free, UINT64_MAX)
                                                : 0);
    if (memory && e.address.back() + e.size.back() < e.address.back())
      fields_.fail(Field::addr, "an address inside the address space", fields_.need(Field::addr));
    out_.has_times |= fields_.find(Field::time_us) != nullptr;
    e.time_us.push_back(static_cast<std::int64_t>(fields_.whole_or(Field::time_us, 0)));
    e.name.push_back(name(action));
    const auto id = pool(Field::pool_id);
    e.has_pool.push_back(id.has_value());
    e.pool.first.push_back(id ? (*id)[0] : 0);
    e.pool.second.push_back(id ? (*id)[1] : 0);
    e.site.push_back(frames(place));
  }

  std::uint32_t name(Action action) {
    if (action == Action::other) return stacks_.string(fields_.need(Field::action));
    const Cell* label = fields_.find(Field::user_metadata);
    return label != nullptr && label->tag() == Tag::text ? stacks_.string(*label) : 0;
  }

  Action action_of(std::string_view name) const {
    const auto at = std::find(kActions.begin(), kActions.end(), name);
    return static_cast<Action>(at - kActions.begin());
  }

  void annotations(const Run& list) {
    out_.has_annotations = true;
    AnnotationColumns& a = out_.annotations;
    for (std::size_t i = 0; i < list.size; ++i) {
      const Place place{"external_annotations", i};
      spend(place);
      fields_.open(list.cells[i], place);
      fields_.text(Field::name);
      a.name.push_back(stacks_.string(fields_.need(Field::name)));
      a.end.push_back(fields_.text(Field::stage) == "END");
      a.device.push_back(static_cast<std::int16_t>(fields_.whole_or(Field::device, 0)));
      a.time_us.push_back(static_cast<std::int64_t>(fields_.whole_or(Field::time_us, 0)));
    }
  }

  const Document& document_;
  Snapshot out_;
  Fields fields_;
  Stacks stacks_;
  std::size_t left_;
};

}  // namespace

Snapshot read_snapshot(const Document& document, std::size_t bytes) { return Reader(document, bytes).read(); }

}  // namespace forebay::ingest
