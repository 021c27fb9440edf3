#include "driver/taped.hpp"

#include "driver/pool_made.hpp"
#include "driver/watch.hpp"

#include <array>
#include <type_traits>
#include <utility>
#include <vector>

namespace forebay {

namespace {

thread_local std::string next_name;

template <class R>
Status status_of(const R& result) {
  if constexpr (std::is_same_v<R, Status>)
    return result;
  else
    return result.status();
}

void set(Row& row, Column column) { row.known |= bit(column); }

Use pageable(const void* host, std::uint64_t bytes, Mode mode) {
  return {reinterpret_cast<std::uint64_t>(host), bytes, mode, Extent::exact, Space::pageable};
}

}  // namespace

// ---- rows

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
  row.status = static_cast<std::int32_t>(status_of(result));
  row.thread = to->thread();
  row.name = to->string(name);
  row.known |= columns(Column::time_ns, Column::span_ns, Column::seq, Column::status, Column::thread, Column::name,
                       Column::flags);
  if (PoolMade::now()) row.flags |= kPoolMade;
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
    set(row, Column::uses);
    if (kind == Kind::copy || kind == Kind::memset) row.size = uses.front().size, set(row, Column::size);
  };
  return row(kind, name, made, before, [&](Row& row, Status) {
    for (const Use& use : uses)
      if (use.space == Space::pageable && use.mode == Mode::write) row.flags |= kBlocking;
    const auto times = next_.work_times();
    if (!times || row.status != 0) return;
    row.begin_ns = times->begin_ns, row.end_ns = times->end_ns;
    row.known |= columns(Column::begin_ns, Column::end_ns);
  });
}

void TapedDriver::on_device(Row& row, int device) {
  const auto number = device_number(device);
  if (!number) return;
  row.device = *number;
  set(row, Column::device);
}

void TapedDriver::on_stream(Row& row, int device, StreamHandle stream) {
  on_device(row, device);
  const auto id = next_.stream_id(device, stream);
  Recorder* const to = recorder();
  if (!id || to == nullptr) return;
  const std::lock_guard hold(lock_);
  row.stream = define_stream(*to, device, stream, *id);
  set(row, Column::stream);
}

void TapedDriver::on_event(Row& row, EventHandle event) { on_ref(row, events_, event.value); }

void TapedDriver::on_frame(Row& row, FrameHandle frame) { on_ref(row, frames_, frame.value); }

void TapedDriver::on_ref(Row& row, Refs& refs, std::uint64_t handle) {
  Recorder* const to = recorder();
  if (to == nullptr) return;
  const std::lock_guard hold(lock_);
  const auto [at, fresh] = refs.try_emplace(handle, 0);
  if (fresh) at->second = to->ref();
  row.ref = at->second;
  set(row, Column::ref);
}

void TapedDriver::of_bytes(Row& row, Address address, std::uint64_t bytes) {
  row.address = address, row.size = bytes;
  row.known |= columns(Column::address, Column::size);
}

// ---- numbers

void TapedDriver::attach(Recorder* recorder) {
  const std::lock_guard hold(lock_);
  events_.clear(), frames_.clear(), streams_.clear();
  first_device_.reset();
  attachment_.fetch_add(1, std::memory_order_acq_rel);
  recorder_.store(recorder, std::memory_order_release);
}

void TapedDriver::name_next_stream(std::string name) { next_name = std::move(name); }

std::optional<std::int16_t> TapedDriver::number_of(Recorder& recorder, int device) {
  if (!first_device_) first_device_ = recorder.devices(next_.device_count());
  if (!first_device_) return std::nullopt;
  return static_cast<std::int16_t>(*first_device_ + device);
}

std::uint32_t TapedDriver::define_stream(Recorder& recorder, int device, StreamHandle stream, std::uint64_t id) {
  if (const auto known = streams_.find(id); known != streams_.end()) return known->second;
  StreamFacts facts{
      .name = "", .handle = stream.value, .context = {}, .device = device, .kind = {}, .priority = {}, .thread = {}};
  if (const auto made = facts_.find(id); made != facts_.end()) facts = made->second;
  facts.device = number_of(recorder, device).value_or(-1);
  if (stream.value <= kLegacyStream.value) facts.name = "legacy", facts.kind = StreamClass::legacy;
  if (stream == kPerThreadStream)
    facts.name = "per-thread", facts.kind = StreamClass::per_thread, facts.thread = recorder.thread();
  return streams_[id] = recorder.stream(facts);
}

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
      [&](Row& row) { on_device(row, device), row.size = bytes, set(row, Column::size); },
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
      [&](Row& row) { row.size = bytes, set(row, Column::size); },
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
      [&](Row& row) { on_device(row, device), row.size = bytes, set(row, Column::size); },
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
    const auto id = next_.stream_id(device, stream);
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
  const auto id = next_.stream_id(device, stream);
  const Status status = row(
      Kind::stream_destroy, "cuStreamDestroy", [&] { return next_.stream_destroy(device, stream); },
      [&](Row& row) { on_stream(row, device, stream); });
  const std::lock_guard hold(lock_);
  if (status == Status::ok && id) facts_.erase(*id), streams_.erase(*id);
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
  return row(
      Kind::wait, "cuStreamWaitEvent", [&] { return next_.stream_wait(device, stream, event); },
      [&](Row& row) { on_stream(row, device, stream), on_event(row, event); });
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
  return row(
      Kind::event_destroy, "cuEventDestroy", [&] { return next_.event_destroy(device, event); },
      [&](Row& row) { on_event(row, event); });
}

Status TapedDriver::event_record(int device, EventHandle event, StreamHandle stream) {
  return row(
      Kind::record, "cuEventRecord", [&] { return next_.event_record(device, event, stream); },
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
  const std::vector<Use> uses = given.uses;
  const std::string name = given.name;
  return work(Kind::launch, name, device, stream, uses, [&] { return next_.launch(device, stream, std::move(given)); });
}

void TapedDriver::host_access(const Use& use) {
  row(
      Kind::host_access, "", [] { return Status::ok; },
      [&](Row& row) { row.uses = std::span(&use, 1), set(row, Column::uses); });
}

}  // namespace forebay
