// engine: the races of a tape, found while its chunks pass (docs/decisions/0165, 0050 to 0053). Which edges
// are needed is needed.hpp's. See DESIGN.md beside this file.
#pragma once

#include "order/court.hpp"
#include "order/program.hpp"

namespace forebay::order {

class Engine {
 public:
  // `threads`: how many host threads the tape has, where that is known beforehand; a thread that appears unannounced is
  // judged against what has not been forgotten by then.
  Engine(Tables tables, ThreadId threads);

  void feed(const View& view);
  // All pairs so far in the order of their later row.
  std::vector<Race> races() const;
  // Byte ranges that are told apart now: what memory grows with.
  std::size_t pieces() { return program_.memory().pieces(); }

 private:
  Readings readings_;
  Court court_;
  Program program_;
};

}  // namespace forebay::order
