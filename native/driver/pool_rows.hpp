// pool_rows: the rows of one pool on the tape of a taped driver. A pool says what it hands out, takes back and refuses,
// with the driver's ids of streams; here it gets what the tape needs besides: the recording's numbers, the thread and
// the time, and behind a refusal the pool's limit and what the device has and had free.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <string_view>

#include "driver/taped.hpp"

namespace forebay {

class PoolRows final : public Sink {
 public:
  // The driver outlives it.
  PoolRows(TapedDriver& driver, int device, PoolFacts facts, std::optional<std::uint64_t> limit)
      : Sink(driver.attached()), driver_(driver), device_(device), limit_(limit), facts_(std::move(facts)) {}

  void write(const Row& row) override;

 private:
  std::uint32_t number(Recorder& recorder);
  void tell_room(Recorder& to, const Row& refusal);

  TapedDriver& driver_;
  const int device_;
  const std::optional<std::uint64_t> limit_;
  std::mutex lock_;  // of what follows
  PoolFacts facts_;  // the device by the recording's number
  std::uint64_t attachment_ = 0;
  std::uint32_t number_ = 0;
};

}  // namespace forebay
