// reservation: device memory of one fixed size, asked of the driver once and given back once: a range backed by a
// single large frame where the device has virtual memory management and the size is made of its granules, else a driver
// segment. What lies in it is its owner's.
#pragma once

#include <cstdint>
#include <string>

#include "pool/domain.hpp"

namespace forebay {

class Reservation {
 public:
  // Throws PoolFault (driver) of `pool`, and leaves nothing behind then that the driver would take back.
  Reservation(Domain& domain, std::uint64_t bytes, const std::string& pool);
  Reservation(const Reservation&) = delete;
  Reservation& operator=(const Reservation&) = delete;
  // Waits for the device. What the driver refuses, and what it cannot know idle, is left to the device's quarantine.
  ~Reservation();

  Address address() const { return address_; }
  std::uint64_t bytes() const { return bytes_; }

 private:
  explicit Reservation(Domain& domain) : domain_(&domain) {}
  Status map(std::uint64_t bytes);
  Status allocate(std::uint64_t bytes);
  Status noted(Status status) const;
  bool freed() const;

  Domain* domain_;
  Address address_ = 0;
  std::uint64_t bytes_ = 0;
  FrameHandle frame_{};
  enum class Stage : std::uint8_t { nothing, segment, range, framed, mapped, open } stage_ = Stage::nothing;
};

}  // namespace forebay
