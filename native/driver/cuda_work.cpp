// cuda_work: the part of the CUDA driver that knows streams, events and what is put into them.
#include <cstring>
#include <utility>

#include "driver/cuda_inside.hpp"
#include "driver/thread_index.hpp"

namespace forebay {

namespace {

thread_local bool running_host_function = false;

cuda::EventPointer pointer_of(EventHandle event) { return reinterpret_cast<cuda::EventPointer>(event.value); }

}  // namespace

void CudaDriver::run_hosted(void* given) {
  auto* const hosted = static_cast<Hosted*>(given);
  running_host_function = true;
  try {
    if (hosted->fault->load() == Status::ok) hosted->run();
  } catch (...) {  // see Note [Host functions]
    hosted->fault->store(Status::launch_failed);
  }
  if (hosted->once) delete hosted;  // what it owns goes here, still as a host function
  running_host_function = false;
}

bool CudaDriver::in_host_function() { return running_host_function; }

cuda::StreamPointer CudaDriver::pointer_of(StreamHandle stream) {
  return reinterpret_cast<cuda::StreamPointer>(stream.value == 0 ? kLegacyStream.value : stream.value);
}

// ---- what is known

bool CudaDriver::knows(int device, StreamHandle stream) {
  if (stream.value <= kPerThreadStream.value) return true;
  Device& d = *devices_[static_cast<std::size_t>(device)];
  const std::lock_guard hold(d.lock);
  return d.streams.contains(stream.value);
}

bool CudaDriver::knows(const Known& handles, int device, std::uint64_t handle) {
  const std::lock_guard hold(lock_);
  const auto made = handles.find(handle);
  return made != handles.end() && made->second == device;
}

bool CudaDriver::knows(EventHandle event) {
  const std::lock_guard hold(lock_);
  return events_.contains(event.value);
}

Result<std::uint64_t> CudaDriver::ask_id(int device, StreamHandle stream) {
  std::uint64_t id = 0;
  const Status status = on(device, [&] { return api_.stream_id(pointer_of(stream), &id); });
  if (status != Status::ok) return status;
  return id;
}

Result<std::uint64_t> CudaDriver::default_id(int device, StreamHandle stream) {
  Device& d = *devices_[static_cast<std::size_t>(device)];
  const bool own = stream == kPerThreadStream;
  {
    const std::lock_guard hold(d.lock);
    if (!own && d.legacy) return *d.legacy;
    if (const auto known = d.per_thread.find(thread_index()); own && known != d.per_thread.end()) return known->second;
  }
  const auto id = ask_id(device, stream);
  if (!id) return id;
  const std::lock_guard hold(d.lock);
  if (own)
    d.per_thread[thread_index()] = *id;
  else
    d.legacy = *id;
  return id;
}

// ---- streams

Result<StreamHandle> CudaDriver::stream_create(int device, StreamKind kind, int priority) {
  cuda::StreamPointer made = nullptr;
  const std::uint32_t flags = kind == StreamKind::nonblocking ? std::uint32_t{cuda::kStreamNonBlocking} : 0;
  const Status status = on(device, [&] { return api_.stream_create(&made, flags, priority); });
  if (status != Status::ok) return status;
  const StreamHandle stream{reinterpret_cast<std::uint64_t>(made)};
  if (const auto id = adopt_stream(device, stream); !id) {
    (void)on(device, [&] { return api_.stream_destroy(made); });  // its first failure is the one to tell
    return id.status();
  }
  return stream;
}

Result<std::uint64_t> CudaDriver::adopt_stream(int device, StreamHandle stream) {
  if (const Status s = enter(device); s != Status::ok) return s;
  if (stream.value <= kPerThreadStream.value) return default_id(device, stream);
  std::int32_t capturing = 0;  // its id cannot be asked for then
  const auto ask = [&] { return api_.stream_capturing(pointer_of(stream), &capturing); };
  if (const Status s = on(device, ask); s != Status::ok) return s;
  if (capturing != 0) return knows(device, stream) ? stream_id(device, stream) : Status::capture_unsupported;
  const auto id = ask_id(device, stream);
  if (!id) return id;
  Device& d = *devices_[static_cast<std::size_t>(device)];
  const std::lock_guard hold(d.lock);
  d.streams[stream.value] = *id;
  return id;
}

void CudaDriver::forget_stream(int device, StreamHandle stream) {
  if (enter(device) == Status::invalid_device) return;
  Device& d = *devices_[static_cast<std::size_t>(device)];
  const std::lock_guard hold(d.lock);
  d.streams.erase(stream.value);
}

Status CudaDriver::stream_destroy(int device, StreamHandle stream) {
  if (const Status s = enter(device); s != Status::ok) return s;
  Device& d = *devices_[static_cast<std::size_t>(device)];
  std::unique_lock hold(d.lock);
  auto known = d.streams.extract(stream.value);  // first: the number may come back before this returns
  hold.unlock();
  if (known.empty()) return Status::invalid_handle;
  const Status status = on(device, [&] { return api_.stream_destroy(pointer_of(stream)); });
  hold.lock();
  if (status != Status::ok) d.streams.insert(std::move(known));
  return status;
}

Result<std::uint64_t> CudaDriver::stream_id(int device, StreamHandle stream) {
  if (const Status s = enter(device); s != Status::ok) return s;
  if (stream.value <= kPerThreadStream.value) return default_id(device, stream);
  Device& d = *devices_[static_cast<std::size_t>(device)];
  const std::lock_guard hold(d.lock);
  const auto known = d.streams.find(stream.value);
  if (known == d.streams.end()) return Status::invalid_handle;
  return known->second;
}

Result<bool> CudaDriver::stream_capturing(int device, StreamHandle stream) {
  std::int32_t state = 0;
  const Status status = on_stream(device, stream, [&](auto s) { return api_.stream_capturing(s, &state); });
  if (status != Status::ok) return status;
  return state != 0;
}

Status CudaDriver::stream_sync(int device, StreamHandle stream) {
  return relaxed_on_stream(device, stream, [&](auto s) { return api_.stream_sync(s); });
}

Result<bool> CudaDriver::stream_query(int device, StreamHandle stream) {
  return ready(relaxed_on_stream(device, stream, [&](auto s) { return api_.stream_query(s); }));
}

Status CudaDriver::stream_wait(int device, StreamHandle stream, EventHandle event) {
  if (const Status s = enter(device); s != Status::ok) return s;
  if (!knows(event)) return Status::invalid_handle;
  return on_stream(device, stream, [&](auto s) { return api_.stream_wait(s, forebay::pointer_of(event), 0); });
}

Status CudaDriver::device_sync(int device) {
  return relaxed_on(device, [&] { return api_.ctx_sync(); });
}

// ---- events

Result<EventHandle> CudaDriver::event_create(int device) {
  cuda::EventPointer made = nullptr;
  const Status status = on(device, [&] { return api_.event_create(&made, cuda::kEventNoTiming); });
  if (status != Status::ok) return status;
  const EventHandle event{reinterpret_cast<std::uint64_t>(made)};
  const std::lock_guard hold(lock_);
  events_[event.value] = device;
  return event;
}

Status CudaDriver::event_destroy(int device, EventHandle event) {
  return gone(events_, device, event.value, Status::invalid_handle,
              [&] { return api_.event_destroy(forebay::pointer_of(event)); });
}

Status CudaDriver::event_record(int device, EventHandle event, StreamHandle stream) {
  if (const Status s = enter(device); s != Status::ok) return s;
  if (!knows(events_, device, event.value)) return Status::invalid_handle;
  return on_stream(device, stream, [&](auto s) { return api_.event_record(forebay::pointer_of(event), s); });
}

Status CudaDriver::event_sync(int device, EventHandle event) {
  if (const Status s = enter(device); s != Status::ok) return s;
  if (!knows(event)) return Status::invalid_handle;
  return relaxed_on(device, [&] { return api_.event_sync(forebay::pointer_of(event)); });
}

Result<bool> CudaDriver::event_query(int device, EventHandle event) {
  if (const Status s = enter(device); s != Status::ok) return s;
  if (!knows(event)) return Status::invalid_handle;
  return ready(relaxed_on(device, [&] { return api_.event_query(forebay::pointer_of(event)); }));
}

Result<bool> CudaDriver::ready(Status answer) {
  if (answer == Status::not_ready) return false;
  if (answer == Status::ok) return true;
  return answer;
}

// ---- work

Status CudaDriver::copy(int device, Address to, Address from, std::uint64_t bytes, StreamHandle stream) {
  if (bytes == 0) return Status::ok;
  return on_stream(device, stream, [&](auto s) { return api_.copy(to, from, bytes, s); });
}

// libcuda reads pageable memory before it returns, and pinned memory when the copy runs: that one is waited for.
Status CudaDriver::upload(int device, Address to, const void* from, std::uint64_t bytes, StreamHandle stream) {
  if (bytes == 0) return Status::ok;
  const Status status = on_stream(device, stream, [&](auto s) { return api_.upload(to, from, bytes, s); });
  return status != Status::ok || !is_pinned(device, from) ? status : settled(device, stream);
}

Status CudaDriver::settled(int device, StreamHandle stream) {
  const auto capturing = stream_capturing(device, stream);
  return capturing && *capturing ? Status::ok : stream_sync(device, stream);
}

bool CudaDriver::is_pinned(int device, const void* host) {
  std::int32_t type = 0;
  const auto address = reinterpret_cast<cuda::Pointer>(host);
  const auto ask = [&] { return api_.pointer_attribute.at(&type, cuda::kMemoryType, address); };  // no is no failure
  return on(device, ask) == Status::ok && type == cuda::kMemoryHost;
}

Status CudaDriver::download(int device, void* to, Address from, std::uint64_t bytes, StreamHandle stream) {
  if (bytes == 0) return Status::ok;
  const Status status = on_stream(device, stream, [&](auto s) { return api_.download(to, from, bytes, s); });
  return status != Status::ok ? status : settled(device, stream);
}

Status CudaDriver::memset(int device, Address to, std::uint8_t value, std::uint64_t bytes, StreamHandle stream) {
  if (bytes == 0) return Status::ok;
  return on_stream(device, stream, [&](auto s) { return api_.memset(to, value, bytes, s); });
}

Status CudaDriver::host_func(int device, StreamHandle stream, std::function<void()> function) {
  if (!function) return Status::invalid_value;
  const auto capturing = stream_capturing(device, stream);
  if (!capturing) return capturing.status();
  const Device& d = *devices_[static_cast<std::size_t>(device)];
  auto hosted = std::make_unique<Hosted>(Hosted{std::move(function), d.fault, !*capturing});
  const Status status = on_stream(device, stream, [&](auto s) { return api_.host_func(s, &run_hosted, hosted.get()); });
  if (status != Status::ok) return status;
  if (!*capturing) {
    (void)hosted.release();  // run_hosted's from now on
    return status;
  }
  const std::lock_guard hold(lock_);
  captured_.push_back(std::move(hosted));
  return status;
}

// The function issues the work itself, on the stream's handle. It is the program's code: it may call anything.
Status CudaDriver::launch(int device, StreamHandle stream, Work work) {
  if (const Status s = enter(device); s != Status::ok) return s;
  if (!work.run) return Status::invalid_value;
  if (!knows(device, stream)) return Status::invalid_handle;
  std::vector<void*> addresses;
  for (const Use& use : work.uses) addresses.push_back(reinterpret_cast<void*>(use.address));
  return work.run(addresses);
}

}  // namespace forebay
