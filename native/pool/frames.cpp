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
  std::vector<FrameHandle> frames;
  std::vector<Remains> remains;
  {
    std::lock_guard lock(mutex_);
    remains.swap(remains_);
  }
  if (!remains.empty() && synchronised())
    for (Remains& r : remains) dismantle(std::move(r));
  else
    for (Remains& r : remains) abandon(std::move(r));
  {
    std::lock_guard lock(mutex_);
    frames.swap(refused_);
    frames.insert(frames.end(), idle_.begin(), idle_.end());
    idle_.clear();
  }
  const std::vector<FrameHandle> refused = released(frames);
  {
    std::lock_guard lock(mutex_);
    refused_.insert(refused_.end(), refused.begin(), refused.end());
  }
  return (frames.size() - refused.size()) * bytes_.load() + release_segments();
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

std::vector<FrameHandle> Frames::released(const std::vector<FrameHandle>& frames) {
  std::vector<FrameHandle> refused;
  for (const FrameHandle frame : frames) {
    const Status status = domain_.dead() ? domain_.fatal() : domain_.driver().release(domain_.device(), frame);
    domain_.note(status);
    if (status != Status::ok) refused.push_back(frame);
  }
  return refused;
}

bool Frames::synchronised() {
  if (domain_.dead()) return false;
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
    const auto& [address, frames] = remains.mapped.back();
    if (domain_.dead()) return false;
    const Status status = domain_.driver().unmap(domain_.device(), address, frames.size() * bytes_.load());
    domain_.note(status);
    if (status != Status::ok) return false;
    put(frames);
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
  std::uint64_t segments = 0;
  for (const Refused& s : segments_)
    if (s.space == space) segments += s.bytes;
  if (space == Space::pinned) return segments;
  std::uint64_t frames = refused_.size();
  for (const Remains& r : remains_)
    for (const auto& [address, handles] : r.mapped) frames += handles.size();
  return segments + stuck_.load() + frames * bytes_.load();
}

}  // namespace forebay
