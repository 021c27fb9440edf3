#include "pool/reservation.hpp"

#include "pool/fault.hpp"
#include "pool/own_calls.hpp"

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
  const OwnCalls own(domain);
  DeviceFacts facts;
  Status status = facts_of(domain, facts);
  const bool whole = facts.granularity != 0 && bytes % facts.granularity == 0;
  if (status == Status::ok) status = whole ? map(bytes) : allocate(bytes);
  if (status == Status::ok) return;
  PoolFault fault(PoolFault::Code::driver, pool, bytes);
  fault.status = status;
  fault.call = "reserve";
  throw fault;
}

Reservation::~Reservation() {
  if (stage_ == Stage::nothing || domain_->forked()) return;
  const OwnCalls own(*domain_);
  Frames& frames = domain_->frames();
  if (stage_ == Stage::segment) {
    if (!freed()) frames.keep(Refused{address_, bytes_, Space::device});
    return;
  }
  Remains remains{address_, bytes_, {}};
  if (stage_ == Stage::framed) frames.keep(Frame{frame_, bytes_});
  if (stage_ > Stage::framed) remains.mapped.push_back({address_, bytes_, {frame_}});
  // Nothing was ever given bytes that were not opened.
  if (stage_ != Stage::open || frames.synchronised())
    frames.dismantle(std::move(remains));
  else
    frames.abandon(std::move(remains));
  frames.release_idle();
}

bool Reservation::freed() const {
  return !domain_->dead() && noted(domain_->driver().free(domain_->device(), address_)) == Status::ok;
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
  const Status status = noted(driver.set_access(device, address_, bytes));
  if (status == Status::ok) stage_ = Stage::open;
  return status;
}

}  // namespace forebay
