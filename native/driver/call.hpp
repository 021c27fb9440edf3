// call: the calls of the port by name, for whoever counts, fails or names them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace forebay {

// clang-format off
#define FOREBAY_CALLS(X) \
  X(facts) X(memory_info) X(malloc) X(free) X(host_alloc) X(host_free) X(host_pointer) \
  X(pool_create) X(pool_destroy) X(pool_alloc) X(pool_free) X(pool_trim) X(pool_get) X(pool_set) \
  X(reserve_range) X(release_range) X(create) X(release) X(map) X(set_access) X(unmap) \
  X(stream_create) X(stream_destroy) X(stream_id) X(stream_capturing) X(stream_sync) X(stream_query) X(stream_wait) \
  X(device_sync) X(event_create) X(event_destroy) X(event_record) X(event_sync) X(event_query) \
  X(copy) X(upload) X(download) X(memset) X(host_func) X(launch) \
  X(capture_begin) X(capture_end) X(capture_info) X(exchange_capture_mode) X(graph_nodes) X(graph_instantiate) \
  X(graph_launch) X(graph_destroy) X(executable_destroy)
// clang-format on

enum class Call : std::uint8_t {
#define X(name) name,
  FOREBAY_CALLS(X)
#undef X
};
inline constexpr std::array kCallNames = {
#define X(name) std::string_view(#name),
    FOREBAY_CALLS(X)
#undef X
};
constexpr std::string_view name_of(Call call) { return kCallNames[static_cast<std::size_t>(call)]; }
constexpr std::optional<Call> call_named(std::string_view name) {
  for (std::size_t i = 0; i < kCallNames.size(); ++i)
    if (kCallNames[i] == name) return static_cast<Call>(i);
  return std::nullopt;
}

using CallSet = std::uint64_t;
constexpr CallSet bit(Call call) { return CallSet{1} << static_cast<unsigned>(call); }
inline constexpr CallSet kEveryCall = (CallSet{1} << kCallNames.size()) - 1;

}  // namespace forebay
