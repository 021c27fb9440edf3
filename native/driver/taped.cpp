#include "driver/taped.hpp"

#include "driver/taped_rows.hpp"

#include <array>
#include <utility>
#include <vector>

namespace forebay {

namespace {

thread_local std::string next_name;

Use pageable(const void* host, std::uint64_t bytes, Mode mode) {
  return {reinterpret_cast<std::uint64_t>(host), bytes, mode, Extent::exact, Space::pageable};
}

}  // namespace

// ---- rows

void TapedDriver::on_event(Row& row, EventHandle event) { on_ref(row, events_, event.value); }

void TapedDriver::on_frame(Row& row, FrameHandle frame) { on_ref(row, frames_, frame.value); }

void TapedDriver::of_bytes(Row& row, Address address, std::uint64_t bytes) {
  row.address = address, row.size = bytes;
  row.known |= columns(Column::address, Column::size);
}

void TapedDriver::attach(Recorder* recorder, bool mid_life) {
  const std::lock_guard hold(lock_);
  events_.clear(), frames_.clear(), streams_.clear();
  captures_.clear(), graphs_.clear(), executables_.clear();
  first_device_.reset();
  mid_life_ = mid_life;
  attachment_.fetch_add(1, std::memory_order_acq_rel);
  recorder_.store(recorder, std::memory_order_release);
}

void TapedDriver::name_next_stream(std::string name) { next_name = std::move(name); }

void TapedDriver::keep_size(Address address, std::uint64_t bytes) {
  const std::lock_guard hold(lock_);
  sizes_[address] = bytes;
}

std::uint64_t TapedDriver::drop_size(Address address) {
  const std::lock_guard hold(lock_);
  const auto node = sizes_.extract(address);
  return node ? node.mapped() : 0;
}

Use TapedDriver::use_of(Address address, std::uint64_t bytes, Mode mode) {
  const std::lock_guard hold(lock_);
  auto block = pinned_.upper_bound(address);
  const bool is_pinned = block != pinned_.begin() && address - std::prev(block)->first < std::prev(block)->second;
  return {address, bytes, mode, Extent::exact, is_pinned ? Space::pinned : Space::device};
}

// ---- memory

Result<Address> TapedDriver::malloc(int device, std::uint64_t bytes) {
  const auto made = row(
      Kind::reserve, "cuMemAlloc", [&] { return next_.malloc(device, bytes); },
      [&](Row& row) { on_device(row, device), row.size = bytes, taped::set(row, Column::size); },
      [&](Row& row, const Result<Address>& address) {
        if (address) of_bytes(row, *address, bytes);
      });
  if (made) keep_size(*made, bytes);
  return made;
}

Status TapedDriver::free(int device, Address address) {
  return row(
      Kind::release, "cuMemFree", [&] { return next_.free(device, address); },
      [&](Row& row) {
        on_device(row, device);
        of_bytes(row, address, drop_size(address));
        row.flags |= kBlocking | kImplied;
      });
}

Result<Address> TapedDriver::host_alloc(std::uint64_t bytes) {
  const auto made = row(
      Kind::pin, "cuMemHostAlloc", [&] { return next_.host_alloc(bytes); },
      [&](Row& row) { row.size = bytes, taped::set(row, Column::size); },
      [&](Row& row, const Result<Address>& address) {
        if (address) of_bytes(row, *address, bytes);
      });
  if (!made) return made;
  keep_size(*made, bytes);
  const std::lock_guard hold(lock_);
  pinned_[*made] = bytes;
  return made;
}

Status TapedDriver::host_free(Address address) {
  const Status status = row(
      Kind::unpin, "cuMemFreeHost", [&] { return next_.host_free(address); },
      [&](Row& row) {
        of_bytes(row, address, drop_size(address));
        row.flags |= kBlocking | kImplied;
      });
  const std::lock_guard hold(lock_);
  if (status == Status::ok) pinned_.erase(address);
  return status;
}

Result<FrameHandle> TapedDriver::create(int device, std::uint64_t bytes) {
  return row(
      Kind::reserve, "cuMemCreate", [&] { return next_.create(device, bytes); },
      [&](Row& row) { on_device(row, device), row.size = bytes, taped::set(row, Column::size); },
      [&](Row& row, const Result<FrameHandle>& frame) {
        if (frame) on_frame(row, *frame);
      });
}

Status TapedDriver::release(int device, FrameHandle frame) {
  return row(
      Kind::release, "cuMemRelease", [&] { return next_.release(device, frame); },
      [&](Row& row) { on_device(row, device), on_frame(row, frame); },
      [&](Row&, Status status) {
        const std::lock_guard hold(lock_);
        if (status == Status::ok) frames_.erase(frame.value);
      });
}

Status TapedDriver::map(int device, Address address, std::uint64_t bytes, FrameHandle frame) {
  return row(
      Kind::map, "cuMemMap", [&] { return next_.map(device, address, bytes, frame); },
      [&](Row& row) { on_device(row, device), of_bytes(row, address, bytes), on_frame(row, frame); });
}

Status TapedDriver::unmap(int device, Address address, std::uint64_t bytes) {
  return row(
      Kind::unmap, "cuMemUnmap", [&] { return next_.unmap(device, address, bytes); },
      [&](Row& row) { on_device(row, device), of_bytes(row, address, bytes); });
}

// ---- streams and events

Result<StreamHandle> TapedDriver::stream_create(int device, StreamKind kind, int priority) {
  const auto keep = [&](StreamHandle stream) {
    const auto id = id_of(device, stream);
    const auto sort = kind == StreamKind::blocking ? StreamClass::blocking : StreamClass::nonblocking;
    StreamFacts facts{.name = std::exchange(next_name, {}),
                      .handle = stream.value,
                      .context = {},
                      .device = device,
                      .kind = sort,
                      .priority = priority,
                      .thread = {}};
    const std::lock_guard hold(lock_);
    if (id) facts_[*id] = std::move(facts);
  };
  return row(
      Kind::stream_create, "cuStreamCreateWithPriority",
      [&] {
        const auto stream = next_.stream_create(device, kind, priority);
        if (stream) keep(*stream);
        return stream;
      },
      [&](Row& row) { on_device(row, device); },
      [&](Row& row, const Result<StreamHandle>& stream) {
        if (stream) on_stream(row, device, *stream);
      });
}

Status TapedDriver::stream_destroy(int device, StreamHandle stream) {
  const auto id = id_of(device, stream);
  const Status status = row(
      Kind::stream_destroy, "cuStreamDestroy", [&] { return next_.stream_destroy(device, stream); },
      [&](Row& row) { on_stream(row, device, stream); });
  if (status == Status::ok) watch_.destroyed(device, stream);
  const std::lock_guard hold(lock_);
  if (status == Status::ok && id) facts_.erase(*id), streams_.erase(*id), ids_.erase(stream_key(device, stream));
  return status;
}

Status TapedDriver::stream_sync(int device, StreamHandle stream) {
  return row(
      Kind::sync_stream, "cuStreamSynchronize", [&] { return next_.stream_sync(device, stream); },
      [&](Row& row) { on_stream(row, device, stream); });
}

Result<bool> TapedDriver::stream_query(int device, StreamHandle stream) {
  return row(
      Kind::query, "cuStreamQuery", [&] { return next_.stream_query(device, stream); },
      [&](Row& row) { on_stream(row, device, stream); },
      [](Row& row, const Result<bool>& ready) {
        if (ready && *ready) row.flags |= kReady;
        if (ready && !*ready) row.status = static_cast<std::int32_t>(Status::not_ready);
      });
}

Result<bool> TapedDriver::event_query(int device, EventHandle event) {
  return row(
      Kind::query, "cuEventQuery", [&] { return next_.event_query(device, event); },
      [&](Row& row) { on_device(row, device), on_event(row, event); },
      [](Row& row, const Result<bool>& ready) {
        if (ready && *ready) row.flags |= kReady;
        if (ready && !*ready) row.status = static_cast<std::int32_t>(Status::not_ready);
      });
}

Status TapedDriver::stream_wait(int device, StreamHandle stream, EventHandle event) {
  const auto made = [&] {
    const Status status = next_.stream_wait(device, stream, event);
    if (status == Status::ok) watch_.waited(device, stream, event);
    return status;
  };
  return row(
      Kind::wait, "cuStreamWaitEvent", made, [&](Row& row) { on_stream(row, device, stream), on_event(row, event); },
      [&](Row& row, Status) { on_capture(row, device, stream); });
}

Status TapedDriver::device_sync(int device) {
  return row(
      Kind::sync_device, "cuCtxSynchronize", [&] { return next_.device_sync(device); },
      [&](Row& row) { on_device(row, device); });
}

// A new event is no row: it orders nothing until it is recorded.
Result<EventHandle> TapedDriver::event_create(int device) {
  const auto event = next_.event_create(device);
  const std::lock_guard hold(lock_);
  if (event) events_.erase(event->value);
  return event;
}

Status TapedDriver::event_destroy(int device, EventHandle event) {
  const Status status = row(
      Kind::event_destroy, "cuEventDestroy", [&] { return next_.event_destroy(device, event); },
      [&](Row& row) { on_event(row, event); });
  if (status == Status::ok) watch_.destroyed(event);
  return status;
}

Status TapedDriver::event_record(int device, EventHandle event, StreamHandle stream) {
  const auto made = [&] {
    const Status status = next_.event_record(device, event, stream);
    if (status == Status::ok) watch_.recorded(event, device, stream);
    return status;
  };
  return row(Kind::record, "cuEventRecord", made,
             [&](Row& row) { on_stream(row, device, stream), on_event(row, event); });
}

Status TapedDriver::event_sync(int device, EventHandle event) {
  return row(
      Kind::sync_event, "cuEventSynchronize", [&] { return next_.event_sync(device, event); },
      [&](Row& row) { on_device(row, device), on_event(row, event); });
}

// ---- work

Status TapedDriver::copy(int device, Address to, Address from, std::uint64_t bytes, StreamHandle stream) {
  const std::array uses{use_of(from, bytes, Mode::read), use_of(to, bytes, Mode::write)};
  return work(Kind::copy, "cuMemcpyAsync", device, stream, uses,
              [&] { return next_.copy(device, to, from, bytes, stream); });
}

Status TapedDriver::upload(int device, Address to, const void* from, std::uint64_t bytes, StreamHandle stream) {
  const std::array uses{pageable(from, bytes, Mode::read), use_of(to, bytes, Mode::write)};
  return work(Kind::copy, "cuMemcpyHtoDAsync", device, stream, uses,
              [&] { return next_.upload(device, to, from, bytes, stream); });
}

Status TapedDriver::download(int device, void* to, Address from, std::uint64_t bytes, StreamHandle stream) {
  const std::array uses{use_of(from, bytes, Mode::read), pageable(to, bytes, Mode::write)};
  return work(Kind::copy, "cuMemcpyDtoHAsync", device, stream, uses,
              [&] { return next_.download(device, to, from, bytes, stream); });
}

Status TapedDriver::memset(int device, Address to, std::uint8_t value, std::uint64_t bytes, StreamHandle stream) {
  const std::array uses{use_of(to, bytes, Mode::write)};
  return work(Kind::memset, "cuMemsetD8Async", device, stream, uses,
              [&] { return next_.memset(device, to, value, bytes, stream); });
}

Status TapedDriver::host_func(int device, StreamHandle stream, std::function<void()> function) {
  return work(Kind::host_func, "cuLaunchHostFunc", device, stream, {},
              [&] { return next_.host_func(device, stream, std::move(function)); });
}

Status TapedDriver::launch(int device, StreamHandle stream, Work given) {
  if (recorder() == nullptr) return next_.launch(device, stream, std::move(given));
  const std::vector<Use> uses(given.told().begin(), given.told().end());
  const std::string name = given.name;
  return work(Kind::launch, name, device, stream, uses, [&] { return next_.launch(device, stream, std::move(given)); });
}

void TapedDriver::host_access(const Use& use) {
  row(
      Kind::host_access, "", [] { return Status::ok; },
      [&](Row& row) { row.uses = std::span(&use, 1), taped::set(row, Column::uses); });
}

}  // namespace forebay
