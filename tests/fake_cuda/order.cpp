// order: what the fake says to streams, events and work.
#include "fake.hpp"

namespace fake {

namespace {

constexpr std::int64_t kQuestion = 400'000;  // ns on the fake's clock: asking often enough sees the end of anything

std::uint64_t number(const void* handle) { return reinterpret_cast<std::uint64_t>(handle); }
StreamHandle handle_of(cuda::StreamPointer stream) { return {number(stream)}; }
EventHandle handle_of(cuda::EventPointer event) { return {number(event)}; }

// `call` gets the stream's device.
template <class F>
Code with(cuda::StreamPointer stream, F call) {
  auto hold = locked();
  const auto device = device_of(stream);
  hold.unlock();
  return device ? code_of(call(*device)) : kInvalidHandle;
}

template <class F>
Code with(cuda::EventPointer event, F call) {
  auto hold = locked();
  const auto device = device_of(machine().events, event);
  hold.unlock();
  return device ? code_of(call(*device)) : kInvalidHandle;
}

Status answered(Result<bool> ready) {
  if (!ready) return ready.status();
  return *ready ? Status::ok : Status::not_ready;
}

// A device or pinned range, or a host pointer that nobody pinned: below every device address.
enum class End { touchable, pageable, nowhere };
End end_of(Address& address, std::uint64_t bytes) {
  const auto hold = locked();
  if (touchable(address, bytes)) return End::touchable;
  return address >= 1ull << 47 ? End::nowhere : End::pageable;
}

}  // namespace

// ---- streams

FAKE Code cuStreamCreateWithPriority(cuda::StreamPointer* out, std::uint32_t flags, int priority) {
  if (const Code c = entered("cuStreamCreateWithPriority"); c != kOk) return c;
  const bool blocking = (flags & cuda::kStreamNonBlocking) == 0;
  const auto hold = locked();
  const auto made = machine().sim->stream_create(current_device(),
                                                 blocking ? StreamKind::blocking : StreamKind::nonblocking, priority);
  if (!made) return code_of(made.status());
  machine().streams[made->value] = current_device();
  *out = reinterpret_cast<cuda::StreamPointer>(made->value);
  return kOk;
}

FAKE Code cuStreamDestroy_v2(cuda::StreamPointer stream) {
  if (const Code c = entered("cuStreamDestroy"); c != kOk) return c;
  const auto hold = locked();
  const auto known = machine().streams.extract(number(stream));
  if (known.empty()) return kInvalidHandle;
  return code_of(machine().sim->stream_destroy(known.mapped(), {number(stream)}));
}

FAKE Code cuStreamGetId(cuda::StreamPointer stream, std::uint64_t* id) {
  if (const Code c = entered("cuStreamGetId"); c != kOk) return c;
  return with(stream, [&](int device) {
    const auto known = machine().sim->stream_id(device, handle_of(stream));
    if (known) *id = *known;
    return known.status();
  });
}

FAKE Code cuStreamSynchronize(cuda::StreamPointer stream) {
  if (const Code refused = entered("cuStreamSynchronize"); refused != kOk) return refused;
  const Code c = with(stream, [&](int device) { return machine().sim->stream_sync(device, handle_of(stream)); });
  if (c == kOk) waited();
  return c;
}

FAKE Code cuStreamQuery(cuda::StreamPointer stream) {
  if (const Code c = entered("cuStreamQuery"); c != kOk) return c;
  machine().sim->spend(kQuestion);
  return with(stream, [&](int device) { return answered(machine().sim->stream_query(device, handle_of(stream))); });
}

FAKE Code cuCtxSynchronize() {
  if (const Code refused = entered("cuCtxSynchronize"); refused != kOk) return refused;
  const Code c = code_of(machine().sim->device_sync(current_device()));
  if (c == kOk) waited();
  return c;
}

// ---- events

FAKE Code cuEventCreate(cuda::EventPointer* out, std::uint32_t) {
  if (const Code c = entered("cuEventCreate"); c != kOk) return c;
  const auto hold = locked();
  const auto made = machine().sim->event_create(current_device());
  if (!made) return code_of(made.status());
  machine().events[made->value] = current_device();
  *out = reinterpret_cast<cuda::EventPointer>(made->value);
  return kOk;
}

FAKE Code cuEventDestroy_v2(cuda::EventPointer event) {
  if (const Code c = entered("cuEventDestroy"); c != kOk) return c;
  const auto hold = locked();
  const auto known = machine().events.extract(number(event));
  if (known.empty()) return kInvalidHandle;
  return code_of(machine().sim->event_destroy(known.mapped(), {number(event)}));
}

FAKE Code cuEventRecord(cuda::EventPointer event, cuda::StreamPointer stream) {
  if (const Code c = entered("cuEventRecord"); c != kOk) return c;
  return with(stream, [&](int d) { return machine().sim->event_record(d, handle_of(event), handle_of(stream)); });
}

FAKE Code cuStreamWaitEvent(cuda::StreamPointer stream, cuda::EventPointer event, std::uint32_t) {
  if (const Code c = entered("cuStreamWaitEvent"); c != kOk) return c;
  return with(stream, [&](int d) { return machine().sim->stream_wait(d, handle_of(stream), handle_of(event)); });
}

FAKE Code cuEventSynchronize(cuda::EventPointer event) {
  if (const Code c = entered("cuEventSynchronize"); c != kOk) return c;
  return with(event, [&](int device) { return machine().sim->event_sync(device, handle_of(event)); });
}

FAKE Code cuEventQuery(cuda::EventPointer event) {
  if (const Code c = entered("cuEventQuery"); c != kOk) return c;
  machine().sim->spend(kQuestion);
  return with(event, [&](int device) { return answered(machine().sim->event_query(device, handle_of(event))); });
}

// ---- work

FAKE Code cuMemcpyAsync(cuda::Pointer to, cuda::Pointer from, std::size_t bytes, cuda::StreamPointer stream) {
  if (const Code c = entered("cuMemcpyAsync"); c != kOk) return c;
  if (end_of(to, bytes) != End::touchable || end_of(from, bytes) != End::touchable) return kInvalidValue;
  return with(stream, [&, s = handle_of(stream)](int d) { return machine().sim->copy(d, to, from, bytes, s); });
}

FAKE Code cuMemcpyHtoDAsync_v2(cuda::Pointer to, const void* host, std::size_t bytes, cuda::StreamPointer stream) {
  if (const Code c = entered("cuMemcpyHtoDAsync"); c != kOk) return c;
  auto from = reinterpret_cast<Address>(host);
  const End end = end_of(from, bytes);
  if (end_of(to, bytes) != End::touchable || end == End::nowhere) return kInvalidValue;
  return with(stream, [&, s = handle_of(stream)](int d) {
    return end == End::touchable ? machine().sim->copy(d, to, from, bytes, s)
                                 : machine().sim->upload(d, to, host, bytes, s);
  });
}

FAKE Code cuMemcpyDtoHAsync_v2(void* host, cuda::Pointer from, std::size_t bytes, cuda::StreamPointer stream) {
  if (const Code c = entered("cuMemcpyDtoHAsync"); c != kOk) return c;
  auto to = reinterpret_cast<Address>(host);
  const End end = end_of(to, bytes);
  if (end_of(from, bytes) != End::touchable || end == End::nowhere) return kInvalidValue;
  return with(stream, [&, s = handle_of(stream)](int d) {
    return end == End::touchable ? machine().sim->copy(d, to, from, bytes, s)
                                 : machine().sim->download(d, host, from, bytes, s);
  });
}

FAKE Code cuMemsetD8Async(cuda::Pointer to, unsigned char value, std::size_t bytes, cuda::StreamPointer stream) {
  if (const Code c = entered("cuMemsetD8Async"); c != kOk) return c;
  if (end_of(to, bytes) != End::touchable) return kInvalidValue;
  return with(stream, [&, s = handle_of(stream)](int d) { return machine().sim->memset(d, to, value, bytes, s); });
}

FAKE Code cuLaunchHostFunc(cuda::StreamPointer stream, cuda::HostFunction function, void* data) {
  if (const Code c = entered("cuLaunchHostFunc"); c != kOk) return c;
  return with(stream, [&, s = handle_of(stream)](int d) {
    return machine().sim->host_func(d, s, [function, data] { function(data); });
  });
}

}  // namespace fake
