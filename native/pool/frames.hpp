// frames: the physical memory of one device that its pools hand to each other: frames that are mapped nowhere now, and
// what a failed call left behind. Which addresses a frame is mapped at is its lane's.
//
// Sum law: what the device counts as used is what its pools have reserved, what is idle here, and what is quarantined.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

#include "driver/port.hpp"
#include "tape/events.hpp"

namespace forebay {

class Domain;

// A frame of its own size. Those of another size than `facts` says serve nobody else.
struct Frame {
  FrameHandle handle;
  std::uint64_t bytes = 0;
};

// What is left of a range whose owner is gone: the runs of it that frames are mapped into.
struct Remains {
  Address address = 0;  // of the range, and its size
  std::uint64_t bytes = 0;
  struct Run {
    Address address = 0;
    std::uint64_t bytes_each = 0;
    std::vector<FrameHandle> frames;
  };
  std::vector<Run> mapped;
};

// A segment whose pool is gone and which the driver would not take back.
struct Refused {
  Address address = 0;
  std::uint64_t bytes = 0;
  Space space = Space::device;
};

class Frames {
 public:
  explicit Frames(Domain& domain) : domain_(domain) {}
  ~Frames();
  Frames(const Frames&) = delete;
  Frames& operator=(const Frames&) = delete;

  // What the device is: a frame has its granularity, 0 where it has no virtual memory management.
  Result<DeviceFacts> facts();

  Result<FrameHandle> take();  // an idle one, else a new one
  void put(const std::vector<FrameHandle>& frames);
  // Gives idle frames back to the driver and tries again what failed before; returns the bytes given back.
  std::uint64_t release_idle();
  // Unmaps what is left and gives the range back; what cannot be is kept for `release_idle`. The host must know every
  // use complete, or have failed to learn it: then nothing is unmapped before the device was synchronised.
  void dismantle(Remains remains);
  void abandon(Remains remains);
  void keep(const Refused& segment);
  void keep(const Frame& frame);  // mapped nowhere, for the driver
  bool synchronised();            // every stream's work is complete, and its clock told so

  std::uint64_t idle_bytes() const;
  std::uint64_t quarantined_bytes(Space space) const;
  // Frames of a living pool that could not be unmapped, and were at last.
  void quarantine(std::uint64_t bytes) { stuck_.fetch_add(bytes); }
  void mended(std::uint64_t bytes) { stuck_.fetch_sub(bytes); }

 private:
  std::uint64_t release_frames();
  void mend_remains();
  bool unmap_all(Remains& remains);
  std::uint64_t release_segments();

  Domain& domain_;
  std::atomic<std::uint64_t> bytes_{0};  // of a frame, once known
  std::atomic<std::uint64_t> stuck_{0};
  mutable std::mutex mutex_;  // guards what follows; not held across a driver call
  std::vector<FrameHandle> idle_;
  std::vector<Frame> refused_;
  std::vector<Remains> remains_;
  std::vector<Refused> segments_;
};

}  // namespace forebay
