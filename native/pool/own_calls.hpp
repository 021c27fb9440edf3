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
    before_ = exchange(CaptureMode::relaxed);
  }
  ~OwnCalls() {
    if (before_) (void)exchange(*before_);
  }
  OwnCalls(const OwnCalls&) = delete;
  OwnCalls& operator=(const OwnCalls&) = delete;

 private:
  // Twice: what follows a refused one would break the capture, or leave the thread in a mode that the program did not
  // choose.
  std::optional<CaptureMode> exchange(CaptureMode mode) {
    for (int tries = 0; tries < 2; ++tries) {
      const Result<CaptureMode> before = domain_.driver().exchange_capture_mode(mode);
      domain_.note(before.status());
      if (before.ok()) return *before;
    }
    return std::nullopt;
  }

  const PoolMade made_;
  Domain& domain_;
  std::optional<CaptureMode> before_;
};

}  // namespace forebay
