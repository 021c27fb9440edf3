// own_calls: while one lives, this thread's driver calls are a pool's own: their rows say so (driver/pool_made.hpp),
// and while any capture is under way in this process they are made in relaxed mode, so that they break none.
#pragma once

#include <optional>

#include "driver/pool_made.hpp"
#include "pool/domain.hpp"

namespace forebay {

class OwnCalls {
 public:
  explicit OwnCalls(Domain& domain) : domain_(domain) {
    if (Domain::captures_open.load(std::memory_order_acquire) == 0 || domain.dead()) return;
    const Result<CaptureMode> before = domain.driver().exchange_capture_mode(CaptureMode::relaxed);
    if (before.ok()) before_ = *before;
  }
  ~OwnCalls() {
    if (before_) domain_.note(domain_.driver().exchange_capture_mode(*before_).status());
  }
  OwnCalls(const OwnCalls&) = delete;
  OwnCalls& operator=(const OwnCalls&) = delete;

 private:
  const PoolMade made_;
  Domain& domain_;
  std::optional<CaptureMode> before_;
};

}  // namespace forebay
