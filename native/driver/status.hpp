// status: what a driver call came to. Values are CUDA's CUresult numbers, so a tape's `status` column reads the same
// everywhere.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

namespace forebay {

enum class Status : std::int32_t {
  ok = 0,
  invalid_value = 1,
  out_of_memory = 2,
  not_initialized = 3,
  deinitialized = 4,
  invalid_device = 101,
  invalid_context = 201,
  already_mapped = 208,
  not_mapped = 211,
  invalid_handle = 400,
  illegal_state = 401,
  not_ready = 600,
  illegal_address = 700,  // sticky
  launch_failed = 719,    // sticky
  not_permitted = 800,
  not_supported = 801,
  capture_unsupported = 900,
  capture_invalidated = 901,
  capture_merge = 902,
  capture_unmatched = 903,
  capture_unjoined = 904,
  capture_isolation = 905,
  capture_implicit = 906,
  captured_event = 907,
  capture_wrong_thread = 908,
  unknown = 999,
};

// After a sticky error every later call of the context answers it too.
constexpr bool sticky(Status s) { return s == Status::illegal_address || s == Status::launch_failed; }
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
