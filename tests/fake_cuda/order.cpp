// order: what the fake says to streams, events and work.
#include "fake.hpp"

namespace fake {

namespace {

constexpr std::int64_t kQuestion = 400'000;  // ns on the fake's clock: asking often enough sees the end of anything

std::uint64_t number(cuda::StreamPointer stream) { return reinterpret_cast<std::uint64_t>(stream); }
std::uint64_t number(cuda::EventPointer event) { return reinterpret_cast<std::uint64_t>(event); }

// Puts something into a stream: `issue` where the stream works, nothing but a note where it captures.
template <class F>
Code into(cuda::StreamPointer stream, F issue) {
  Target t;
  {
    const auto hold = locked();
    t = target(stream);
    if (t.code != kOk) return t.code;
    if (t.capture) {
      if (t.handle.value != t.capture->origin) t.capture->unjoined.insert(t.handle.value);
      return t.capture->valid ? kOk : kInvalidated;
    }
  }
  return code_of(issue(t.device, t.handle));
}

// A wait or a question about a stream: refused in a capture.
Code about(cuda::StreamPointer stream, Target& t) {
  const auto hold = locked();
  t = target(stream);
  if (t.code != kOk) return t.code;
  if (t.capture) {
    broken(t.capture);
    return kUnsupported;
  }
  return unsafe();
}

Code about(cuda::EventPointer event, int& device) {
  const auto hold = locked();
  const auto made = machine().events.find(number(event));
  if (made == machine().events.end()) return kInvalidHandle;
  device = made->second.device;
  if (made->second.capture) {
    broken(made->second.capture);
    return kCapturedEvent;
  }
  return unsafe();
}

Code answered(Result<bool> ready) {
  if (!ready) return code_of(ready.status());
  return *ready ? kOk : kNotReady;
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
  machine().streams[made->value] = {current_device(), blocking, nullptr};
  *out = reinterpret_cast<cuda::StreamPointer>(made->value);
  return kOk;
}

FAKE Code cuStreamDestroy_v2(cuda::StreamPointer stream) {
  if (const Code c = entered("cuStreamDestroy"); c != kOk) return c;
  const auto hold = locked();
  const auto known = machine().streams.extract(number(stream));
  if (known.empty()) return kInvalidHandle;
  return code_of(machine().sim->stream_destroy(known.mapped().device, {number(stream)}));
}

FAKE Code cuStreamGetId(cuda::StreamPointer stream, std::uint64_t* id) {
  if (const Code c = entered("cuStreamGetId"); c != kOk) return c;
  const auto hold = locked();
  const Target t = target(stream);
  if (t.code != kOk) return t.code;
  if (t.capture) {
    broken(t.capture);
    return kUnsupported;
  }
  const auto known = machine().sim->stream_id(t.device, t.handle);
  if (known) *id = *known;
  return code_of(known.status());
}

FAKE Code cuStreamSynchronize(cuda::StreamPointer stream) {
  if (const Code c = entered("cuStreamSynchronize"); c != kOk) return c;
  Target t;
  if (const Code c = about(stream, t); c != kOk) return c;
  return code_of(machine().sim->stream_sync(t.device, t.handle));
}

FAKE Code cuStreamQuery(cuda::StreamPointer stream) {
  if (const Code c = entered("cuStreamQuery"); c != kOk) return c;
  Target t;
  if (const Code c = about(stream, t); c != kOk) return c;
  machine().sim->spend(kQuestion);
  return answered(machine().sim->stream_query(t.device, t.handle));
}

FAKE Code cuCtxSynchronize() {
  if (const Code c = entered("cuCtxSynchronize"); c != kOk) return c;
  {
    const auto hold = locked();
    const auto captures = machine().captures;
    for (const CapturePtr& capture : captures) broken(capture);
    if (!captures.empty()) return kUnsupported;
  }
  return code_of(machine().sim->device_sync(current_device()));
}

// ---- events

FAKE Code cuEventCreate(cuda::EventPointer* out, std::uint32_t) {
  if (const Code c = entered("cuEventCreate"); c != kOk) return c;
  const auto hold = locked();
  const auto made = machine().sim->event_create(current_device());
  if (!made) return code_of(made.status());
  machine().events[made->value] = {current_device(), nullptr};
  *out = reinterpret_cast<cuda::EventPointer>(made->value);
  return kOk;
}

FAKE Code cuEventDestroy_v2(cuda::EventPointer event) {
  if (const Code c = entered("cuEventDestroy"); c != kOk) return c;
  const auto hold = locked();
  const auto known = machine().events.extract(number(event));
  if (known.empty()) return kInvalidHandle;
  return code_of(machine().sim->event_destroy(known.mapped().device, {number(event)}));
}

FAKE Code cuEventRecord(cuda::EventPointer event, cuda::StreamPointer stream) {
  if (const Code c = entered("cuEventRecord"); c != kOk) return c;
  const auto hold = locked();
  const Target t = target(stream);
  const auto known = machine().events.find(number(event));
  if (t.code != kOk || known == machine().events.end()) return t.code != kOk ? t.code : kInvalidHandle;
  if (known->second.device != t.device) return kInvalidHandle;
  known->second.capture = t.capture;
  known->second.stream = t.handle.value;
  if (t.capture) return t.capture->valid ? kOk : kInvalidated;
  return code_of(machine().sim->event_record(t.device, {number(event)}, t.handle));
}

FAKE Code cuStreamWaitEvent(cuda::StreamPointer stream, cuda::EventPointer event, std::uint32_t) {
  if (const Code c = entered("cuStreamWaitEvent"); c != kOk) return c;
  const auto hold = locked();
  const Target t = target(stream);
  const auto known = machine().events.find(number(event));
  if (t.code != kOk || known == machine().events.end()) return t.code != kOk ? t.code : kInvalidHandle;
  const CapturePtr& captured = known->second.capture;
  if (!t.capture && !captured) return code_of(machine().sim->stream_wait(t.device, t.handle, {number(event)}));
  if (!captured) {
    broken(t.capture);
    return kIsolation;
  }
  if (!t.capture) machine().streams[t.handle.value].capture = captured;  // a fork
  if (t.handle.value != captured->origin) captured->unjoined.insert(t.handle.value);
  captured->unjoined.erase(known->second.stream);
  return captured->valid ? kOk : kInvalidated;
}

FAKE Code cuEventSynchronize(cuda::EventPointer event) {
  if (const Code c = entered("cuEventSynchronize"); c != kOk) return c;
  int device = 0;
  if (const Code c = about(event, device); c != kOk) return c;
  return code_of(machine().sim->event_sync(device, {number(event)}));
}

FAKE Code cuEventQuery(cuda::EventPointer event) {
  if (const Code c = entered("cuEventQuery"); c != kOk) return c;
  int device = 0;
  if (const Code c = about(event, device); c != kOk) return c;
  machine().sim->spend(kQuestion);
  return answered(machine().sim->event_query(device, {number(event)}));
}

// ---- work

FAKE Code cuMemcpyAsync(cuda::Pointer to, cuda::Pointer from, std::size_t bytes, cuda::StreamPointer stream) {
  if (const Code c = entered("cuMemcpyAsync"); c != kOk) return c;
  if (end_of(to, bytes) != End::touchable || end_of(from, bytes) != End::touchable) return kInvalidValue;
  return into(stream, [&](int d, StreamHandle s) { return machine().sim->copy(d, to, from, bytes, s); });
}

FAKE Code cuMemcpyHtoDAsync_v2(cuda::Pointer to, const void* host, std::size_t bytes, cuda::StreamPointer stream) {
  if (const Code c = entered("cuMemcpyHtoDAsync"); c != kOk) return c;
  auto from = reinterpret_cast<Address>(host);
  const End end = end_of(from, bytes);
  if (end_of(to, bytes) != End::touchable || end == End::nowhere) return kInvalidValue;
  return into(stream, [&](int d, StreamHandle s) {
    return end == End::touchable ? machine().sim->copy(d, to, from, bytes, s)
                                 : machine().sim->upload(d, to, host, bytes, s);
  });
}

FAKE Code cuMemcpyDtoHAsync_v2(void* host, cuda::Pointer from, std::size_t bytes, cuda::StreamPointer stream) {
  if (const Code c = entered("cuMemcpyDtoHAsync"); c != kOk) return c;
  auto to = reinterpret_cast<Address>(host);
  const End end = end_of(to, bytes);
  if (end_of(from, bytes) != End::touchable || end == End::nowhere) return kInvalidValue;
  return into(stream, [&](int d, StreamHandle s) {
    return end == End::touchable ? machine().sim->copy(d, to, from, bytes, s)
                                 : machine().sim->download(d, host, from, bytes, s);
  });
}

FAKE Code cuMemsetD8Async(cuda::Pointer to, unsigned char value, std::size_t bytes, cuda::StreamPointer stream) {
  if (const Code c = entered("cuMemsetD8Async"); c != kOk) return c;
  if (end_of(to, bytes) != End::touchable) return kInvalidValue;
  return into(stream, [&](int d, StreamHandle s) { return machine().sim->memset(d, to, value, bytes, s); });
}

FAKE Code cuLaunchHostFunc(cuda::StreamPointer stream, cuda::HostFunction function, void* data) {
  if (const Code c = entered("cuLaunchHostFunc"); c != kOk) return c;
  return into(stream, [&](int d, StreamHandle s) {
    return machine().sim->host_func(d, s, [function, data] { function(data); });
  });
}

}  // namespace fake
