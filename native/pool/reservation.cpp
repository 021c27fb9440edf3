#include "pool/reservation.hpp"

#include "pool/fault.hpp"

namespace forebay {

namespace {

Status facts_of(Domain& domain, DeviceFacts& facts) {
  if (domain.dead()) return domain.fatal();
  const Result<DeviceFacts> found = domain.driver().facts(domain.device());
  domain.note(found.status());
  if (found.ok()) facts = *found;
  return found.status();
}

}  // namespace

// It delegates, so that the destructor runs when this body throws.
Reservation::Reservation(Domain& domain, std::uint64_t bytes, const std::string& pool) : Reservation(domain) {
  DeviceFacts facts;
  Status status = facts_of(domain, facts);
  const bool whole = facts.granularity != 0 && bytes % facts.granularity == 0;
  if (status == Status::ok) status = whole ? map(bytes) : allocate(bytes);
  if (status == Status::ok) return;
  PoolFault fault(PoolFault::Code::driver);
  fault.pool = pool;
  fault.status = status;
  fault.call = "reserve";
  fault.asked = bytes;
  throw fault;
}

Reservation::~Reservation() {
  if (stage_ == Stage::nothing || domain_->dead()) return;
  Driver& driver = domain_->driver();
  const int device = domain_->device();
  if (stage_ == Stage::segment) {
    domain_->note(driver.free(device, address_));
    return;
  }
  // A frame that is still mapped, or a range that still maps one, would be refused: each step needs the one before.
  Status status = Status::ok;
  if (stage_ == Stage::mapped) status = noted(driver.unmap(device, address_, bytes_));
  if (status == Status::ok && stage_ >= Stage::framed) status = noted(driver.release(device, frame_));
  if (status == Status::ok) noted(driver.release_range(device, address_, bytes_));
}

Status Reservation::noted(Status status) const {
  domain_->note(status);
  return status;
}

Status Reservation::allocate(std::uint64_t bytes) {
  const Result<Address> segment = domain_->driver().malloc(domain_->device(), bytes);
  if (noted(segment.status()) != Status::ok) return segment.status();
  address_ = *segment;
  bytes_ = bytes;
  stage_ = Stage::segment;
  return Status::ok;
}

Status Reservation::map(std::uint64_t bytes) {
  Driver& driver = domain_->driver();
  const int device = domain_->device();
  bytes_ = bytes;
  const Result<Address> range = driver.reserve_range(device, bytes);
  if (noted(range.status()) != Status::ok) return range.status();
  address_ = *range;
  stage_ = Stage::range;
  const Result<FrameHandle> frame = driver.create(device, bytes);
  if (noted(frame.status()) != Status::ok) return frame.status();
  frame_ = *frame;
  stage_ = Stage::framed;
  if (const Status status = noted(driver.map(device, address_, bytes, frame_)); status != Status::ok) return status;
  stage_ = Stage::mapped;
  return noted(driver.set_access(device, address_, bytes));
}

}  // namespace forebay
