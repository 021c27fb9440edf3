// taped_numbers: what rows call devices, streams, events, captures and graphs.
#include "driver/taped.hpp"
#include "driver/thread_index.hpp"

namespace forebay {

void TapedDriver::on_device(Row& row, int device) {
  const auto number = device_number(device);
  if (!number) return;
  row.device = *number;
  row.known |= bit(Column::device);
}

void TapedDriver::on_stream(Row& row, int device, StreamHandle stream) {
  on_device(row, device);
  on_capture(row, device, stream);
  const auto id = id_of(device, stream);
  Recorder* const to = recorder();
  if (!id || to == nullptr) return;
  const std::lock_guard hold(lock_);
  row.stream = define_stream(*to, device, stream, *id);
  row.known |= bit(Column::stream);
}

void TapedDriver::on_capture(Row& row, int device, StreamHandle stream) {
  if (const auto capture = watch_.of(device, stream)) on_capture(row, *capture);
}

void TapedDriver::on_capture(Row& row, std::uint64_t capture) {
  if (const auto number = ref_of(captures_, capture)) row.capture = *number, row.known |= bit(Column::capture);
}

void TapedDriver::on_ref(Row& row, Refs& refs, std::uint64_t handle) {
  if (const auto number = ref_of(refs, handle)) row.ref = *number, row.known |= bit(Column::ref);
}

std::optional<std::uint32_t> TapedDriver::ref_of(Refs& refs, std::uint64_t handle) {
  Recorder* const to = recorder();
  if (to == nullptr) return std::nullopt;
  const std::lock_guard hold(lock_);
  const auto [at, fresh] = refs.try_emplace(handle, 0);
  if (fresh) at->second = to->ref();
  return at->second;
}

TapedDriver::StreamKey TapedDriver::stream_key(int device, StreamHandle stream) {
  return {device, stream.value, stream == kPerThreadStream ? thread_index() : 0};
}

// Asked once: a driver that captures ends the capture when it is asked.
Result<std::uint64_t> TapedDriver::id_of(int device, StreamHandle stream) {
  {
    const std::lock_guard hold(lock_);
    if (const auto known = ids_.find(stream_key(device, stream)); known != ids_.end()) return known->second;
  }
  const auto id = next_.stream_id(device, stream);
  const std::lock_guard hold(lock_);
  if (id) ids_[stream_key(device, stream)] = *id;
  return id;
}

std::optional<std::int16_t> TapedDriver::number_of(Recorder& recorder, int device) {
  if (!first_device_) {
    first_device_ = recorder.devices(next_.device_count());
    if (mid_life_) recorder.note_mid_life();
  }
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

}  // namespace forebay
