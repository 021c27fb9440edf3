// growth: how a pool gets memory from the device and gives it back: in driver segments, or in frames mapped into
// address ranges of its lanes. When that is called for is pool.hpp's; how blocks are cut from it lane.hpp's.
//
// No member is called with a lane's lock held, save `idle_points` and `uproot`, which call no driver.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "pool/budget.hpp"
#include "pool/domain.hpp"
#include "pool/lane.hpp"
#include "pool/source.hpp"

namespace forebay {

enum class GrowBy : std::uint8_t { segments, frames };

// A block from new memory; else why there is none: `out_of_memory` where the limit or the device has no more, or what
// `call` answered.
struct Grown {
  Block* block = nullptr;
  Status status = Status::ok;
  std::string_view call;
};

// Memory that no block lives in, on its way to the driver: a segment, or a run of whole frames.
struct Idle {
  std::uint64_t bytes = 0;
  std::unique_ptr<Segment> segment;
  Block* run = nullptr;
};

class Growth {
 public:
  virtual ~Growth() = default;

  virtual Need fit(Need need) const { return need; }  // on the shelf where this growth puts what serves it
  virtual std::uint64_t step() const = 0;             // it grows by multiples of this
  virtual Grown grow(Lane& lane, const Need& need) = 0;

  // What the host must know complete before idle memory of the lane can go.
  virtual std::vector<Point> idle_points(Lane& lane) const = 0;
  // Takes wholly idle memory of about `bytes` out of the lane; each is then handed to `drop`, which gives it back.
  // False: the driver refused.
  virtual std::vector<Idle> uproot(Lane& lane, std::uint64_t bytes) = 0;
  virtual bool drop(Idle idle) = 0;

  // At the pool's end: all of every lane, to the driver or, where it refuses, to the device's quarantine.
  virtual void give_all(const std::vector<Lane*>& lanes) = 0;
};

std::unique_ptr<Growth> grow_by_segments(Domain& domain, const Source& source, Budget& budget);
// Throws PoolFault of `pool` where the device has no virtual memory management, or does not say.
std::unique_ptr<Growth> grow_by_frames(Domain& domain, Budget& budget, const std::string& pool);

}  // namespace forebay
