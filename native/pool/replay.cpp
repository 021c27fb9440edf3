#include "pool/replay.hpp"

#include <algorithm>
#include <utility>

namespace forebay {

Replay::Replay(Driver& driver, int device, std::vector<PoolOptions> pools) : driver_(driver), domain_(driver, device) {
  for (PoolOptions& options : pools) pools_.push_back(std::make_unique<Pool>(domain_, std::move(options)));
}

// What the driver answers at the end changes nothing any more.
Replay::~Replay() {
  for (const auto& [name, block] : blocks_) block.pool->free(block.address);
  pools_.clear();
  for (const auto& [name, id] : streams_) domain_.ending(id);
  for (const StreamHandle handle : handles_) domain_.note(driver_.stream_destroy(domain_.device(), handle));
}

void Replay::feed(const Moves& moves) {
  for (std::size_t i = 0; i < moves.move.size(); ++i) {
    switch (static_cast<Move>(moves.move[i])) {
      case Move::alloc:
        alloc(moves.address[i], moves.bytes[i], stream(moves.stream[i]), *pools_.at(moves.pool[i]));
        break;
      case Move::free:
        free(moves.address[i]);
        break;
      case Move::lend:
        lend(moves.address[i], stream(moves.stream[i]));
        break;
      case Move::trim:
        pools_.at(moves.pool[i])->trim();
        grown();
        break;
      case Move::let_go:
        if (const auto found = blocks_.find(moves.address[i]); found != blocks_.end()) let_go(found->second);
        break;
    }
    if (outcome_.events % stride_ == 0) sample();
    ++outcome_.events;
  }
}

void Replay::alloc(std::uint64_t name, std::uint64_t bytes, std::uint64_t stream, Pool& pool) {
  Granted granted;
  try {
    const std::optional<Granted> hit = pool.hit(bytes, stream);
    granted = hit ? *hit : pool.refill(bytes, stream);
    if (!hit) grown();
  } catch (const PoolFault& fault) {
    if (fault.code != PoolFault::Code::exhausted) throw;
    if (!outcome_.oom_event) outcome_.oom_event = outcome_.events, outcome_.oom_verdict = fault.verdict;
    return;
  }
  blocks_[name] = {granted.address, granted.size, bytes, &pool};
  allocated_ += granted.size;
  active_ += granted.size;
  requested_ += bytes;
  outcome_.peak_active = std::max(outcome_.peak_active, active_);
  outcome_.peak_requested = std::max(outcome_.peak_requested, requested_);
  if (allocated_ <= outcome_.peak_allocated) return;
  outcome_.peak_allocated = allocated_;
  outcome_.peak_allocated_event = outcome_.events;
}

void Replay::free(std::uint64_t name) {
  const auto found = blocks_.find(name);
  if (found == blocks_.end()) {
    ++outcome_.unknown_frees;
    return;
  }
  Placed& block = found->second;
  let_go(block);
  active_ -= block.size;
  requested_ -= block.requested;
  block.pool->free(block.address);
  blocks_.erase(found);
}

void Replay::let_go(Placed& block) {
  if (std::exchange(block.held, false)) allocated_ -= block.size;
}

void Replay::lend(std::uint64_t name, std::uint64_t stream) {
  if (const auto found = blocks_.find(name); found != blocks_.end())
    found->second.pool->lend(found->second.address, stream);
}

// The history's streams are streams of the driver's, so that its clocks mean something.
std::uint64_t Replay::stream(std::uint32_t name) {
  if (const auto known = streams_.find(name); known != streams_.end()) return known->second;
  PoolFault fault(PoolFault::Code::driver);
  fault.call = "stream_create";
  const Result<StreamHandle> handle = driver_.stream_create(domain_.device(), StreamKind::nonblocking, 0);
  fault.status = handle.status();
  if (!handle.ok()) throw fault;
  handles_.push_back(*handle);
  const Result<std::uint64_t> id = domain_.adopt(*handle, Lifetime::ours, std::to_string(name));
  fault.status = id.status();
  if (!id.ok()) throw fault;
  return streams_[name] = *id;
}

// Only a miss changes what is reserved.
void Replay::grown() {
  reserved_ = 0;
  for (const auto& pool : pools_) reserved_ += pool->reserved();
  if (reserved_ <= outcome_.peak_reserved) return;
  outcome_.peak_reserved = reserved_;
  outcome_.largest_free_at_peak = largest_free();
}

std::uint64_t Replay::largest_free() const {
  std::uint64_t most = 0;
  for (const auto& pool : pools_) most = std::max(most, pool->gauges().largest_free_if_idle);
  return most;
}

void Replay::sample() {
  if (samples_.size() == kSamples) {
    for (std::size_t i = 0; 2 * i < kSamples; ++i) samples_[i] = samples_[2 * i];
    samples_.resize(kSamples / 2);
    stride_ *= 2;
    if (outcome_.events % stride_ != 0) return;
  }
  samples_.push_back({outcome_.events, reserved_, allocated_, requested_});
}

Outcome Replay::outcome() const {
  Outcome out = outcome_;
  out.largest_free_at_end = largest_free();
  for (const auto& pool : pools_) {
    const Gauges g = pool->gauges();
    out.hits += g.hits;
    out.misses += g.misses;
    out.driver_allocs += g.driver_allocs;
    out.driver_frees += g.driver_frees;
    out.retries += g.retries;
    out.ooms += g.ooms;
  }
  return out;
}

}  // namespace forebay
