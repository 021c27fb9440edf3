#include "driver/faulty.hpp"

namespace forebay {

void FaultyDriver::plan(const Fault& fault) {
  const std::lock_guard lock(lock_);
  plans_.push_back(fault);
  planned_.store(true, std::memory_order_release);
}

void FaultyDriver::forget_plans() {
  const std::lock_guard lock(lock_);
  plans_.clear();
  lasting_.clear();
  planned_.store(false, std::memory_order_release);
}

std::size_t FaultyDriver::plans_left() const {
  const std::lock_guard lock(lock_);
  return plans_.size();
}

std::optional<Status> FaultyDriver::struck(Call call) {
  const std::lock_guard lock(lock_);
  for (const Fault& fault : lasting_)
    if (fault.calls & bit(call)) return fault.status;
  if (plans_.empty() || !(plans_.front().calls & bit(call)) || --plans_.front().nth > 0) return std::nullopt;
  const Fault fault = plans_.front();
  plans_.pop_front();
  if (sticky(fault.status))
    lasting_.push_front({.calls = kEveryCall, .nth = 1, .status = fault.status, .always = true});
  else if (fault.always)
    lasting_.push_back(fault);
  planned_.store(!plans_.empty() || !lasting_.empty(), std::memory_order_release);
  return fault.status;
}

}  // namespace forebay
