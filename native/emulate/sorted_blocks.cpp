#include "emulate/sorted_blocks.hpp"

#include <algorithm>
#include <cassert>

namespace forebay::emulate {

// The first run whose last key is not below `key`; the number of runs where there is none.
std::size_t SortedBlocks::run_of(const SizeKey& key) const {
  auto below = [](const std::vector<SizeKey>& run, const SizeKey& k) { return run.back() < k; };
  return static_cast<std::size_t>(std::lower_bound(runs_.begin(), runs_.end(), key, below) - runs_.begin());
}

void SortedBlocks::insert(const SizeKey& key) {
  if (runs_.empty()) {
    runs_.emplace_back().reserve(kRun);
    runs_[0].push_back(key);
    return;
  }
  std::size_t r = std::min(run_of(key), runs_.size() - 1);
  if (runs_[r].size() == kRun) {
    std::vector<SizeKey> upper;
    upper.reserve(kRun);
    upper.assign(runs_[r].begin() + kRun / 2, runs_[r].end());
    runs_[r].resize(kRun / 2);
    runs_.insert(runs_.begin() + static_cast<std::ptrdiff_t>(r) + 1, std::move(upper));
    if (runs_[r].back() < key) ++r;
  }
  std::vector<SizeKey>& run = runs_[r];
  run.insert(std::lower_bound(run.begin(), run.end(), key), key);
}

void SortedBlocks::erase(const SizeKey& key) {
  const Position p = lower_bound(key);
  assert(p.run < runs_.size() && at(p).block == key.block);
  std::vector<SizeKey>& run = runs_[p.run];
  run.erase(run.begin() + static_cast<std::ptrdiff_t>(p.at));
  if (run.empty()) runs_.erase(runs_.begin() + static_cast<std::ptrdiff_t>(p.run));
}

SortedBlocks::Position SortedBlocks::lower_bound(const SizeKey& key) const {
  const std::size_t r = run_of(key);
  if (r == runs_.size()) return end();
  const std::vector<SizeKey>& run = runs_[r];
  return {r, static_cast<std::size_t>(std::lower_bound(run.begin(), run.end(), key) - run.begin())};
}

SortedBlocks::Position SortedBlocks::next(Position p) const {
  return ++p.at < runs_[p.run].size() ? p : Position{p.run + 1, 0};
}

SortedBlocks::Position SortedBlocks::previous(Position p) const {
  return p.at > 0 ? Position{p.run, p.at - 1} : Position{p.run - 1, runs_[p.run - 1].size() - 1};
}

std::vector<std::uint32_t> SortedBlocks::blocks() const {
  std::vector<std::uint32_t> all;
  for (const std::vector<SizeKey>& run : runs_)
    for (const SizeKey& key : run) all.push_back(key.block);
  return all;
}

}  // namespace forebay::emulate
