#include "pool/witness.hpp"

#include <algorithm>

namespace forebay {
namespace {

bool overlaps(const Use& use, const Guarded& block) {
  return use.address < block.end() && block.begin < use.address + use.size;
}

}  // namespace

void Witness::add(GuardedPtr block) {
  const std::lock_guard lock(lock_);
  figures_.requested += block->nbytes;
  blocks_[block->begin] = std::move(block);
}

GuardedPtr Witness::lend(Address address, Clock& clock) {
  const std::lock_guard lock(lock_);
  const auto after = blocks_.lower_bound(address);
  if (after == blocks_.begin()) return nullptr;
  const GuardedPtr& block = std::prev(after)->second;
  if (block->address != address || block->freed) return nullptr;
  const bool known =
      std::any_of(block->lent.begin(), block->lent.end(), [&](const Point& p) { return p.clock == &clock; });
  if (!known && &clock != block->clock) block->lent.push_back({&clock, 0});
  return block;
}

GuardedPtr Witness::live_at(Address address) const {
  const std::lock_guard lock(lock_);
  const auto after = blocks_.lower_bound(address);
  if (after == blocks_.begin()) return nullptr;
  const GuardedPtr& block = std::prev(after)->second;
  return block->address == address && !block->freed ? block : nullptr;
}

GuardedPtr Witness::holding(Address address) const {
  const std::lock_guard lock(lock_);
  const auto after = blocks_.upper_bound(address);
  if (after == blocks_.begin()) return nullptr;
  const GuardedPtr& block = std::prev(after)->second;
  const bool inside = address >= block->address && address < block->address + block->nbytes;
  return inside && !block->freed ? block : nullptr;
}

Freeing Witness::free(Guarded& block, std::vector<Point> lent, std::string site) {
  const std::lock_guard lock(lock_);
  if (block.freed) return Freeing::nobodys;
  block.freed = true;
  block.freed_at = std::move(site);
  block.lent = std::move(lent);
  figures_.requested -= block.nbytes;
  figures_.freed += block.size;
  return block.being_looked_at ? Freeing::lookers : Freeing::callers;
}

void Witness::remove(const Guarded& block) {
  const std::lock_guard lock(lock_);
  (block.freed ? figures_.freed : figures_.requested) -= block.freed ? block.size : block.nbytes;
  blocks_.erase(block.begin);
}

std::vector<GuardedPtr> Witness::look_at_live() {
  const std::lock_guard lock(lock_);
  std::vector<GuardedPtr> live;
  for (const auto& [at, block] : blocks_)
    if (!block->freed && block->fenced && !std::exchange(block->being_looked_at, true)) live.push_back(block);
  return live;
}

bool Witness::looked_at(Guarded& block) {
  const std::lock_guard lock(lock_);
  block.being_looked_at = false;
  return block.freed;
}

std::optional<std::string> Witness::freed_at(Address address) const {
  const std::lock_guard lock(lock_);
  const auto after = blocks_.lower_bound(address);
  if (after == blocks_.begin()) return std::nullopt;
  const Guarded& block = *std::prev(after)->second;
  return block.address == address && block.freed ? std::optional(block.freed_at) : std::nullopt;
}

void Witness::close() {
  const std::lock_guard lock(lock_);
  blocks_.clear();
  awaited_.clear();
}

void Witness::when_begins(std::uint64_t upkeep, Then then) {
  const std::lock_guard lock(lock_);
  awaited_[upkeep] = std::move(then);
}

void Witness::forget(std::uint64_t upkeep) {
  const std::lock_guard lock(lock_);
  awaited_.erase(upkeep);
}

void Witness::began(const Then& then) {
  const std::lock_guard lock(lock_);
  then(count_);
}

// ---- work

template <class F>
void Witness::freed_uses(const Issued& work, F visit) {
  for (const Use& use : work.uses) {
    auto at = blocks_.upper_bound(use.address);
    if (at != blocks_.begin()) --at;
    for (; at != blocks_.end() && at->first < use.address + use.size; ++at)
      if (at->second->freed && overlaps(use, *at->second)) visit(*at->second, use.mode);
  }
}

void Witness::issued(const Issued& work) {
  if (work.upkeep != 0) return;
  const std::lock_guard lock(lock_);
  freed_uses(work, [&](Guarded& block, Mode mode) { accuse(block, work, mode); });
}

void Witness::begins(const Issued& work) {
  const std::lock_guard lock(lock_);
  if (work.upkeep != 0) {
    const auto then = awaited_.extract(work.upkeep);
    if (then) then.mapped()(count_);
    return;
  }
  ++count_;
  begun_.push_back(work);
  if (begun_.size() > kRemembered) begun_.pop_front();
  freed_uses(work, [&](Guarded& block, Mode mode) {
    if (block.poisoned) accuse(block, work, mode);
  });
}

// ---- reports

// One report a block is enough: what comes after it may follow from it.
void Witness::accuse(Guarded& block, const Issued& work, Mode mode) {
  if (std::exchange(block.accused, true)) return;
  Report report = report_of(block, mode == Mode::read ? Misuse::read_after_free : Misuse::write_after_free);
  report.suspects.push_back(suspect_of(work, block));
  reports_.push_back(std::move(report));
}

void Witness::differs(Guarded& block, Part part, Changed changed, std::uint64_t begun) {
  const std::lock_guard lock(lock_);
  if (std::exchange(part == Part::whole ? block.accused : block.broken[static_cast<std::size_t>(part)], true)) return;
  Report report = report_of(block, part == Part::whole ? Misuse::write_after_free : Misuse::overrun);
  report.offset = changed.first;
  report.last = changed.last;
  report.further = changed.further;
  name_suspects(report, block, std::exchange(block.clean[static_cast<std::size_t>(part)], begun), begun);
  reports_.push_back(std::move(report));
}

// All work that began between the two numbers, what declares a use of the block first.
void Witness::name_suspects(Report& report, const Guarded& block, std::uint64_t from, std::uint64_t to) const {
  const std::uint64_t first = count_ - begun_.size();  // the number of the first that is remembered
  report.forgotten = from < first ? std::min(first, to) - from : 0;
  for (std::uint64_t n = std::max(from, first); n < to; ++n) {
    Suspect suspect = suspect_of(begun_[static_cast<std::size_t>(n - first)], block);
    const bool named = std::any_of(report.suspects.begin(), report.suspects.end(), [&](const Suspect& s) {
      return s.name == suspect.name && s.site == suspect.site && s.touched == suspect.touched;
    });
    if (!named) report.suspects.push_back(std::move(suspect));
  }
  std::stable_partition(report.suspects.begin(), report.suspects.end(), [](const Suspect& s) { return s.touched; });
  if (report.suspects.size() > kNamed) {
    report.forgotten += report.suspects.size() - kNamed;
    report.suspects.resize(kNamed);
  }
}

void Witness::whole(Guarded& block, Part part, std::uint64_t begun) {
  const std::lock_guard lock(lock_);
  block.clean[static_cast<std::size_t>(part)] = begun;
}

Report Witness::report_of(const Guarded& block, Misuse misuse) const {
  Report report;
  report.misuse = misuse;
  report.address = block.address;
  report.nbytes = block.nbytes;
  report.stream = block.clock->name();
  report.allocated_at = block.allocated_at;
  report.freed_at = block.freed_at;
  return report;
}

Suspect Witness::suspect_of(const Issued& work, const Guarded& block) const {
  const Clock* clock = domain_.clock(work.stream);
  const bool touched =
      std::any_of(work.uses.begin(), work.uses.end(), [&](const Use& use) { return overlaps(use, block); });
  return {work.name, clock == nullptr ? std::to_string(work.stream) : clock->name(), work.site, touched};
}

Witness::Figures Witness::figures() const {
  const std::lock_guard lock(lock_);
  return figures_;
}

std::vector<Report> Witness::reports() const {
  const std::lock_guard lock(lock_);
  return reports_;
}

}  // namespace forebay
