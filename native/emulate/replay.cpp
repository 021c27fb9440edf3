#include "emulate/replay.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>

namespace forebay::emulate {
namespace {

enum class Life : std::uint8_t { unborn, live, waiting, over };

// The life that a step needs its handle in, and the one that it leaves it in.
std::pair<Life, Life> turn(Step step) {
  switch (step) {
    case Step::alloc:
      return {Life::unborn, Life::live};
    case Step::free:
      return {Life::live, Life::over};
    case Step::request:
      return {Life::live, Life::waiting};
    default:
      return {Life::waiting, Life::over};
  }
}

class Run {
 public:
  Run(const History& history, const Settings& settings, const Limits& limits, Addresses& addresses)
      : history_(history),
        allocator_(settings, limits, addresses, history.places, history.pools),
        blocks_(history.handles, kNoBlock),
        syncs_(history.handles, 0) {}

  // False where the history cannot go on: a request that it needs was refused.
  bool take(std::size_t i) {
    const bool goes_on = step(i);
#ifdef FOREBAY_CHECKS
    if (const std::string broken = allocator_.broken(); !broken.empty()) {
      std::fprintf(stderr, "emulate: after step %zu: %s\n", i, broken.c_str());
      std::abort();
    }
#endif
    return goes_on;
  }

  bool is_flush(std::size_t i) const {
    if (i + 1 == history_.step.size()) return true;
    const Step next = static_cast<Step>(history_.step[i + 1]);
    if (next != Step::alloc && next != Step::refused) return true;
    return !allocator_.would_release(history_.place[i + 1], history_.bytes[i + 1]);
  }

  const CachingAllocator& allocator() const { return allocator_; }
  BlockId block(std::uint32_t handle) const { return blocks_[handle]; }
  Outcome finish(std::uint64_t steps) {
    if (!outcome_.oom) outcome_.idle = allocator_.idle();
    outcome_.stats = allocator_.stats();
    outcome_.steps = steps;
    return std::move(outcome_);
  }
  Outcome& outcome() { return outcome_; }

 private:
  bool step(std::size_t i) {
    const std::uint32_t handle = history_.handle[i];
    switch (static_cast<Step>(history_.step[i])) {
      case Step::alloc:
        return serve(i);
      case Step::refused:
        if (const auto block = allocator_.allocate(history_.place[i], history_.bytes[i]))
          let_go(*block);
        else
          refuse(i);
        return true;
      case Step::flush:
        allocator_.empty_cache();
        return true;
      case Step::burst:
        if (is_flush(i)) allocator_.empty_cache();
        return true;
      case Step::free:
        let_go(blocks_[handle]);
        return true;
      case Step::request:
        allocator_.request_free(blocks_[handle]);
        syncs_[handle] = allocator_.stats().syncs;
        return true;
      case Step::complete:
        // A retry or a flush has waited for it already: its block may belong to somebody else by now.
        if (syncs_[handle] == allocator_.stats().syncs) allocator_.complete_free(blocks_[handle]);
        return true;
    }
    return true;
  }

  void let_go(BlockId block) {
    allocator_.request_free(block);
    allocator_.complete_free(block);
  }
  void refuse(std::size_t i) {
    if (outcome_.oom) return;
    outcome_.oom = i;
    outcome_.idle = allocator_.idle();
  }
  bool serve(std::size_t i) {
    const auto block = allocator_.allocate(history_.place[i], history_.bytes[i]);
    if (!block) {
      refuse(i);
      return false;
    }
    blocks_[history_.handle[i]] = *block;
    return true;
  }

  const History& history_;
  CachingAllocator allocator_;
  std::vector<BlockId> blocks_;
  std::vector<std::uint64_t> syncs_;  // waits for everything before each handle's free was requested
  Outcome outcome_;
};

}  // namespace

std::optional<std::size_t> misstep(const History& history) {
  std::vector<Life> lives(history.handles, Life::unborn);
  std::vector<std::uint64_t> sizes(history.handles, 0);
  std::uint64_t live = 0;
  for (std::size_t i = 0; i < history.step.size(); ++i) {
    if (history.step[i] > static_cast<std::uint8_t>(Step::burst)) return i;
    const Step step = static_cast<Step>(history.step[i]);
    const bool asks = step == Step::alloc || step == Step::refused;
    if (asks && (history.place[i] >= history.places.size() || history.bytes[i] == 0)) return i;
    if (asks && history.bytes[i] > kLargestRequest) return i;
    if (step == Step::flush || step == Step::refused || step == Step::burst) continue;
    if (history.handle[i] >= history.handles) return i;
    const auto [from, to] = turn(step);
    if (lives[history.handle[i]] != from) return i;
    lives[history.handle[i]] = to;
    if (asks) live += sizes[history.handle[i]] = history.bytes[i];
    if (to == Life::over) live -= sizes[history.handle[i]];
    if (live > kMostLive) return i;
  }
  return std::nullopt;
}

Outcome replay(const History& history, const Settings& settings, const Limits& limits, Addresses& addresses,
               std::size_t samples) {
  Run run(history, settings, limits, addresses);
  const std::size_t n = history.step.size(), stride = std::max<std::size_t>(1, n / std::max<std::size_t>(1, samples));
  std::size_t i = 0;
  for (bool going = true; i < n && going; ++i) {
    going = run.take(i);
    if (i % stride == 0) {
      const Stats& now = run.allocator().stats();
      run.outcome().samples.push_back({i, now.reserved, now.allocated, run.allocator().largest_free()});
    }
  }
  return run.finish(i);
}

std::vector<std::uint8_t> flushes(const History& history, const Settings& settings, const Limits& limits,
                                  Addresses& addresses) {
  Run run(history, settings, limits, addresses);
  std::vector<std::uint8_t> answers;
  bool going = true;
  for (std::size_t i = 0; i < history.step.size(); ++i) {
    const bool burst = static_cast<Step>(history.step[i]) == Step::burst;
    if (burst) answers.push_back(!going || run.is_flush(i));
    going = going && run.take(i);
  }
  return answers;
}

Outcome replay_traced(const History& history, const Settings& settings, const Limits& limits, Addresses& addresses) {
  Run run(history, settings, limits, addresses);
  Outcome& outcome = run.outcome();
  outcome.served_at.assign(history.handles, 0);
  std::size_t i = 0;
  for (bool going = true; i < history.step.size() && going; ++i) {
    going = run.take(i);
    if (going && static_cast<Step>(history.step[i]) == Step::alloc)
      outcome.served_at[history.handle[i]] = run.allocator().address(run.block(history.handle[i]));
    outcome.event_steps.resize(run.allocator().segment_events().size(), i);
  }
  outcome.events = run.allocator().segment_events();
  return run.finish(i);
}

}  // namespace forebay::emulate
