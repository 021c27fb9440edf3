// status: what a driver call came to. Values are CUDA's CUresult numbers, so a tape's `status` column reads the same
// everywhere.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

namespace forebay {

// X(status, CUresult, in words). A driver may answer a number that is not here.
// clang-format off
#define FOREBAY_STATUS_TABLE(X) \
  X(ok, 0, "ok") \
  X(invalid_value, 1, "invalid value") \
  X(out_of_memory, 2, "out of memory") \
  X(not_initialized, 3, "not initialized") \
  X(deinitialized, 4, "deinitialized") \
  X(no_device, 100, "no device") \
  X(invalid_device, 101, "invalid device") \
  X(invalid_context, 201, "invalid context") \
  X(already_mapped, 208, "already mapped") \
  X(not_mapped, 211, "not mapped") \
  X(ecc_uncorrectable, 214, "uncorrectable memory error") \
  X(invalid_handle, 400, "invalid handle") \
  X(illegal_state, 401, "illegal state") \
  X(not_ready, 600, "not ready") \
  X(illegal_address, 700, "illegal address") \
  X(launch_timeout, 702, "launch timed out") \
  X(context_destroyed, 709, "context is destroyed") \
  X(assertion, 710, "device-side assertion failed") \
  X(hardware_stack_error, 714, "hardware stack error") \
  X(illegal_instruction, 715, "illegal instruction") \
  X(misaligned_address, 716, "misaligned address") \
  X(invalid_address_space, 717, "invalid address space") \
  X(invalid_pc, 718, "invalid program counter") \
  X(launch_failed, 719, "launch failed") \
  X(not_permitted, 800, "not permitted") \
  X(not_supported, 801, "not supported") \
  X(capture_unsupported, 900, "stream capture: unsupported call") \
  X(capture_invalidated, 901, "stream capture: invalidated") \
  X(capture_merge, 902, "stream capture: merge of two captures") \
  X(capture_unmatched, 903, "stream capture: ended on another stream") \
  X(capture_unjoined, 904, "stream capture: unjoined work") \
  X(capture_isolation, 905, "stream capture: wait on work outside") \
  X(capture_implicit, 906, "stream capture: implicit legacy-stream dependency") \
  X(captured_event, 907, "captured event used outside its capture") \
  X(capture_wrong_thread, 908, "stream capture: wrong thread") \
  X(unknown, 999, "unknown error")
// clang-format on

enum class Status : std::int32_t {
#define X(status, number, words) status = number,
  FOREBAY_STATUS_TABLE(X)
#undef X
};

// After a sticky error every later call of the context answers it too.
constexpr bool sticky(Status s) {
  switch (s) {
    case Status::ecc_uncorrectable:
    case Status::illegal_address:
    case Status::launch_timeout:
    case Status::context_destroyed:
    case Status::assertion:
    case Status::hardware_stack_error:
    case Status::illegal_instruction:
    case Status::misaligned_address:
    case Status::invalid_address_space:
    case Status::invalid_pc:
    case Status::launch_failed:
      return true;
    default:
      return false;
  }
}
std::string_view name_of(Status s);

// A value, or the status that says why there is none. Never both.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : status_(Status::ok), value_(std::move(value)) {}  // NOLINT: a value is a result
  Result(Status why) : status_(why) {}                                // NOLINT: so is a reason
  bool ok() const { return status_ == Status::ok; }
  explicit operator bool() const { return ok(); }
  Status status() const { return status_; }
  const T& operator*() const { return *value_; }
  const T* operator->() const { return &*value_; }

 private:
  Status status_;
  std::optional<T> value_;
};

}  // namespace forebay
