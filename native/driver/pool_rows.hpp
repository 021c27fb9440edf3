// pool_rows: the rows of one pool on the tape of a taped driver. A pool says what it hands out and takes back, with the
// driver's ids of streams; here it gets what the tape needs besides: the recording's numbers, the thread and the time.
#pragma once

#include <cstdint>
#include <mutex>

#include "driver/taped.hpp"

namespace forebay {

class PoolRows final : public Sink {
 public:
  PoolRows(TapedDriver& driver, int device, PoolFacts facts)  // the driver outlives it
      : driver_(driver), device_(device), facts_(std::move(facts)) {}

  bool wants() const override { return driver_.recorder() != nullptr; }
  void write(const Row& row) override;

 private:
  std::uint32_t number(Recorder& recorder);

  TapedDriver& driver_;
  const int device_;
  std::mutex lock_;  // of what follows
  PoolFacts facts_;  // the device by the recording's number
  std::uint64_t attachment_ = 0;
  std::uint32_t number_ = 0;
};

}  // namespace forebay
