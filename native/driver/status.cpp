#include "driver/status.hpp"

namespace forebay {

std::string_view name_of(Status s) {
  switch (s) {
    case Status::ok:
      return "ok";
    case Status::invalid_value:
      return "invalid value";
    case Status::out_of_memory:
      return "out of memory";
    case Status::not_initialized:
      return "not initialized";
    case Status::deinitialized:
      return "deinitialized";
    case Status::invalid_device:
      return "invalid device";
    case Status::invalid_context:
      return "invalid context";
    case Status::already_mapped:
      return "already mapped";
    case Status::not_mapped:
      return "not mapped";
    case Status::invalid_handle:
      return "invalid handle";
    case Status::illegal_state:
      return "illegal state";
    case Status::not_ready:
      return "not ready";
    case Status::illegal_address:
      return "illegal address";
    case Status::launch_failed:
      return "launch failed";
    case Status::not_permitted:
      return "not permitted";
    case Status::not_supported:
      return "not supported";
    case Status::capture_unsupported:
      return "stream capture: unsupported call";
    case Status::capture_invalidated:
      return "stream capture: invalidated";
    case Status::capture_merge:
      return "stream capture: merge of two captures";
    case Status::capture_unmatched:
      return "stream capture: ended on another stream";
    case Status::capture_unjoined:
      return "stream capture: unjoined work";
    case Status::capture_isolation:
      return "stream capture: wait on work outside";
    case Status::capture_implicit:
      return "stream capture: implicit legacy-stream dependency";
    case Status::captured_event:
      return "captured event used outside its capture";
    case Status::capture_wrong_thread:
      return "stream capture: wrong thread";
    case Status::unknown:
      return "unknown error";
  }
  return "unknown error";
}

}  // namespace forebay
