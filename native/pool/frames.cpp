#include "pool/frames.hpp"

#include "pool/domain.hpp"
#include "pool/source.hpp"

namespace forebay {

Frames::~Frames() { release_idle(); }

Result<DeviceFacts> Frames::facts() {
  if (domain_.dead()) return domain_.fatal();
  Result<DeviceFacts> facts = domain_.driver().facts(domain_.device());
  domain_.note(facts.status());
  if (facts.ok()) bytes_.store(facts->granularity);
  return facts;
}

Result<FrameHandle> Frames::take() {
  {
    std::lock_guard lock(mutex_);
    if (!idle_.empty()) {
      const FrameHandle frame = idle_.back();
      idle_.pop_back();
      return frame;
    }
  }
  if (domain_.dead()) return domain_.fatal();
  Result<FrameHandle> made = domain_.driver().create(domain_.device(), bytes_.load());
  domain_.note(made.status());
  return made;
}

void Frames::put(const std::vector<FrameHandle>& frames) {
  std::lock_guard lock(mutex_);
  idle_.insert(idle_.end(), frames.begin(), frames.end());
}

std::uint64_t Frames::release_idle() {
  if (domain_.dead()) return 0;
  mend_remains();
  const std::uint64_t bytes = release_frames();
  return bytes + release_segments();
}

void Frames::mend_remains() {
  std::vector<Remains> remains;
  {
    std::lock_guard lock(mutex_);
    remains.swap(remains_);
  }
  const bool idle = !remains.empty() && synchronised();
  for (Remains& r : remains)
    if (idle)
      dismantle(std::move(r));
    else
      abandon(std::move(r));
}

std::uint64_t Frames::release_frames() {
  std::vector<Frame> frames;
  {
    std::lock_guard lock(mutex_);
    frames.swap(refused_);
    for (const FrameHandle handle : idle_) frames.push_back({handle, bytes_.load()});
    idle_.clear();
  }
  std::uint64_t bytes = 0;
  for (const Frame& frame : frames) {
    const Status status = domain_.dead() ? domain_.fatal() : domain_.driver().release(domain_.device(), frame.handle);
    domain_.note(status);
    if (status == Status::ok)
      bytes += frame.bytes;
    else
      keep(frame);
  }
  return bytes;
}

std::uint64_t Frames::release_segments() {
  std::vector<Refused> segments;
  {
    std::lock_guard lock(mutex_);
    segments.swap(segments_);
  }
  std::uint64_t bytes = 0;
  for (const Refused& segment : segments) {
    const Status status = domain_.dead() ? domain_.fatal() : Source(domain_, segment.space).give(segment.address);
    domain_.note(status);
    if (status == Status::ok)
      bytes += segment.bytes;
    else
      keep(segment);
  }
  return bytes;
}

void Frames::keep(const Refused& segment) {
  std::lock_guard lock(mutex_);
  segments_.push_back(segment);
}

void Frames::keep(const Frame& frame) {
  std::lock_guard lock(mutex_);
  refused_.push_back(frame);
}

bool Frames::synchronised() {
  const Domain::Asking asking(domain_);  // who hushes the device waits for this
  if (!asking.allowed() || domain_.dead() || Domain::captures_open.load(std::memory_order_acquire) != 0)
    return false;  // it would break them
  const Mark mark = domain_.mark_all();
  const Status status = domain_.driver().device_sync(domain_.device());
  domain_.note(status);
  if (status == Status::ok) domain_.reached(mark);
  return status == Status::ok;
}

void Frames::dismantle(Remains remains) {
  if (!unmap_all(remains)) return abandon(std::move(remains));
  const Status status = domain_.dead()
                            ? domain_.fatal()
                            : domain_.driver().release_range(domain_.device(), remains.address, remains.bytes);
  domain_.note(status);
  if (status != Status::ok) abandon(std::move(remains));
}

bool Frames::unmap_all(Remains& remains) {
  while (!remains.mapped.empty()) {
    const Remains::Run& run = remains.mapped.back();
    if (domain_.dead()) return false;
    const Status status = domain_.driver().unmap(domain_.device(), run.address, run.frames.size() * run.bytes_each);
    domain_.note(status);
    if (status != Status::ok) return false;
    if (run.bytes_each == bytes_.load())
      put(run.frames);
    else
      for (const FrameHandle handle : run.frames) keep(Frame{handle, run.bytes_each});
    remains.mapped.pop_back();
  }
  return true;
}

void Frames::abandon(Remains remains) {
  std::lock_guard lock(mutex_);
  remains_.push_back(std::move(remains));
}

std::uint64_t Frames::idle_bytes() const {
  std::lock_guard lock(mutex_);
  return idle_.size() * bytes_.load();
}

std::uint64_t Frames::quarantined_bytes(Space space) const {
  std::lock_guard lock(mutex_);
  std::uint64_t bytes = 0;
  for (const Refused& s : segments_)
    if (s.space == space) bytes += s.bytes;
  if (space == Space::pinned) return bytes;
  for (const Frame& f : refused_) bytes += f.bytes;
  for (const Remains& r : remains_)
    for (const Remains::Run& run : r.mapped) bytes += run.frames.size() * run.bytes_each;
  return bytes + stuck_.load();
}

}  // namespace forebay
