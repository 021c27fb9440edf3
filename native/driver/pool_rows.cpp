#include "driver/pool_rows.hpp"

namespace forebay {

void PoolRows::write(const Row& row) {
  Recorder* const to = driver_.recorder();
  if (to == nullptr) return;
  Row out = row;
  out.pool = number(*to);
  const auto device = driver_.device_number(device_);
  if (device)
    out.device = *device;
  else
    out.known &= ~bit(Column::device);
  out.thread = to->thread();
  out.time_ns = driver_.now_ns();
  out.known |= columns(Column::pool, Column::thread, Column::time_ns);
  if (facts_.space == "pinned" && row.kind == Kind::alloc)
    out.known &= ~bit(Column::stream);  // it is the host that gets it, and may use it at once
  else
    out.stream = driver_.stream_number(device_, std::uint64_t{row.stream});
  if (row.kind == Kind::oom) out.seq = next_seq(), out.known |= bit(Column::seq);
  if (row.known & bit(Column::capture)) {
    const auto capture = driver_.capture_number(device_, std::uint64_t{row.stream});
    out.capture = capture.value_or(0);
    if (!capture) out.known &= ~bit(Column::capture);
  }
  to->write(out);
  if (row.kind == Kind::oom) tell_room(*to, out);
}

// What there was, for whoever asks why: rows that the refusal caused.
void PoolRows::tell_room(Recorder& to, const Row& refusal) {
  const auto tell = [&](std::string_view name, std::uint64_t bytes, bool of_the_pool) {
    Row row{.kind = Kind::capacity};
    row.name = to.string(name);
    row.device = refusal.device, row.thread = refusal.thread, row.time_ns = refusal.time_ns;
    row.pool = refusal.pool, row.size = bytes, row.cause = refusal.seq;
    row.known = columns(Column::name, Column::thread, Column::time_ns, Column::size, Column::cause) |
                (refusal.known & bit(Column::device));
    if (of_the_pool) row.known |= bit(Column::pool);
    to.write(row);
  };
  if (limit_) tell("limit", *limit_, true);
  if (facts_.space == "pinned") return;
  const Result<MemoryInfo> had = driver_.memory_info(device_);
  if (!had) return;
  tell("total", had->total_bytes, false);
  tell("free", had->free_bytes, false);
}

// Each recording has its own table of pools.
std::uint32_t PoolRows::number(Recorder& recorder) {
  const std::lock_guard hold(lock_);
  if (attachment_ != driver_.attachment()) {
    attachment_ = driver_.attachment();
    facts_.device = driver_.device_number(device_).value_or(-1);
    number_ = recorder.pool(facts_);
  }
  return number_;
}

// What TapedDriver tells whoever writes rows of their own.

std::optional<std::int16_t> TapedDriver::device_number(int device) {
  Recorder* const to = recorder();
  if (to == nullptr) return std::nullopt;
  const std::lock_guard hold(lock_);
  return number_of(*to, device);
}

std::uint32_t TapedDriver::stream_number(int device, StreamHandle stream) {
  Row row{};
  on_stream(row, device, stream);
  return row.stream;
}

// Streams by the driver's ids: of those made here the facts are known, of the default streams their handle is.
std::uint32_t TapedDriver::stream_number(int device, std::uint64_t id) {
  Recorder* const to = recorder();
  if (to == nullptr) return 0;
  const std::lock_guard hold(lock_);
  const auto made = facts_.find(id);
  const StreamHandle handle = made == facts_.end() ? defaults_[id] : StreamHandle{made->second.handle.value_or(0)};
  return define_stream(*to, device, handle, id);
}

std::optional<std::uint32_t> TapedDriver::capture_number(int device, std::uint64_t id) {
  StreamHandle handle;
  {
    const std::lock_guard hold(lock_);
    const auto made = facts_.find(id);
    handle = made == facts_.end() ? defaults_[id] : StreamHandle{made->second.handle.value_or(0)};
  }
  Row row{};
  on_capture(row, device, handle);
  return row.known & bit(Column::capture) ? std::optional(row.capture) : std::nullopt;
}

Result<std::uint64_t> TapedDriver::stream_id(int device, StreamHandle stream) {
  const auto id = next_.stream_id(device, stream);
  if (!id || stream.value > kPerThreadStream.value) return id;
  const std::lock_guard hold(lock_);
  defaults_[*id] = stream;
  return id;
}

}  // namespace forebay
