// passed: what waits for points of streams, and the part of it whose points are known complete.
#pragma once

#include <algorithm>
#include <deque>
#include <iterator>

#include "pool/clock.hpp"

namespace forebay {

// Takes those out of `looks` whose `done` is passed, in order. It asks no stream: see Clock::reached.
template <class Look>
std::deque<Look> take_passed(std::deque<Look>& looks) {
  const auto later = std::stable_partition(looks.begin(), looks.end(),
                                           [](const Look& look) { return look.done.clock->passed(look.done.epoch); });
  std::deque<Look> passed(std::make_move_iterator(looks.begin()), std::make_move_iterator(later));
  looks.erase(looks.begin(), later);
  return passed;
}

}  // namespace forebay
