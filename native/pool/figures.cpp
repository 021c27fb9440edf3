// figures: pool.hpp's gauges, and the verdict when a request cannot be served.
#include <algorithm>

#include "pool/pool.hpp"

namespace forebay {

Gauges Pool::gauges() {
  settle_known();
  return collect([](const Lane&) { return true; });
}

Gauges Pool::gauges(std::uint64_t stream) {
  settle_known();
  return collect([lane = table_.find(stream)](const Lane& l) { return &l == lane; });
}

// `counts` says whose largest blocks are asked for.
template <class Counts>
Gauges Pool::collect(Counts counts) const {
  Gauges g;
  g.reserved = reserved();
  for (Lane* lane : lanes()) {
    std::lock_guard lock(lane->mutex);
    lane->drain();
    const LaneFigures& f = lane->figures;
    g.allocated += f.allocated;
    g.requested += f.requested;
    g.pending += f.pending;
    g.releasable += f.releasable;
    g.hits += f.hits;
    g.misses += f.misses;
    const std::uint64_t after_waits = lane->largest_after_waits();
    g.largest_free_if_idle = std::max(g.largest_free_if_idle, after_waits);
    if (!counts(*lane)) continue;
    g.largest_free = std::max(g.largest_free,
                              lane->largest_hit(rounding_.buckets(), [this](std::uint64_t n) { return need_of(n); }));
    g.largest_free_after_waits = std::max(g.largest_free_after_waits, after_waits);
  }
  g.active = g.allocated + g.pending;
  g.cached = g.reserved - std::min(g.reserved, g.active);
  g.stranded = g.cached - std::min(g.cached, g.releasable);
  g.largest_servable = std::max(g.largest_free_if_idle, growth_room(g.releasable));
  g.driver_allocs = budget_.driver_allocs;
  g.driver_frees = budget_.driver_frees;
  g.retries = retries_;
  g.ooms = ooms_;
  return g;
}

// The most that it could grow by once its wholly idle memory is given back.
std::uint64_t Pool::growth_room(std::uint64_t releasable) const {
  const std::uint64_t kept = reserved() - std::min(reserved(), releasable);
  const std::optional<std::uint64_t> limit = budget_.limit();
  const std::uint64_t below_limit = limit ? *limit - std::min(*limit, kept) : kLargestRequest;
  const std::uint64_t left = source_.free_bytes().value_or(kLargestRequest);
  const std::uint64_t idle = options_.space == Space::device ? domain_.frames().idle_bytes() : 0,
                      step = growth_->step();
  return std::min(below_limit, left + idle + releasable) / step * step;
}

std::uint64_t Pool::idle_bytes() const {
  std::uint64_t bytes = reserved();
  for (Lane* lane : lanes()) {
    std::lock_guard lock(lane->mutex);
    bytes -= std::min(bytes, lane->figures.allocated);
  }
  return bytes;
}

// Idle bytes of the other pools of the same memory.
std::uint64_t Pool::siblings_idle(IdleBytes whose) const {
  std::uint64_t bytes = 0;
  domain_.siblings(this, [&](const Pool& pool) {
    if (pool.options().space == options_.space && pool.options().idle == whose) bytes += pool.idle_bytes();
  });
  return bytes;
}

// Idle bytes inside reserved, as many as asked: a matter of shape. Fewer: of size, and the limit's fault only where
// more could be had above it: from the device, or from what others would give.
Verdict Pool::verdict(const Gauges& g, const Need& need) const {
  if (g.largest_free_after_waits >= need.bytes) return Verdict::pending;
  if (g.largest_free_if_idle >= need.bytes) return Verdict::stranded;
  if (g.free() >= need.bytes) return Verdict::fragmented;
  const std::optional<std::uint64_t> limit = budget_.limit();
  const bool above_limit = limit && g.reserved + need.bytes > *limit;
  // A source that does not say what it has left refused this request, unless the limit did.
  const std::uint64_t left = source_.free_bytes().value_or(above_limit ? kLargestRequest : 0);
  const std::uint64_t frames = options_.space == Space::device ? domain_.frames().idle_bytes() : 0;
  const std::uint64_t room = left + frames + siblings_idle(IdleBytes::shared);
  if (above_limit && room >= need.bytes) return Verdict::capped;
  return room + g.free() + siblings_idle(IdleBytes::kept) >= need.bytes ? Verdict::stranded : Verdict::full;
}

PoolFault Pool::fault(PoolFault::Code code, std::uint64_t asked) const {
  PoolFault fault(code, options_.name, asked);
  fault.limit = budget_.limit();
  return fault;
}

PoolFault Pool::fault(PoolFault::Code code, const Lane& lane, const Need& need) const {
  PoolFault fault = this->fault(code, need.requested);
  fault.stream = lane.clock().name();
  fault.gauges = collect([&lane](const Lane& l) { return &l == &lane; });
  return fault;
}

void Pool::give_up(const Lane& lane, const Need& need) {
  if (domain_.dead()) refuse_dead();
  ooms_.fetch_add(1, std::memory_order_relaxed);
  tell_refusal(lane, need);
  PoolFault exhausted = fault(PoolFault::Code::exhausted, lane, need);
  exhausted.verdict = verdict(exhausted.gauges, need);
  exhausted.awaited = awaited();
  throw exhausted;
}

void Pool::refuse_dead() const {
  PoolFault dead = fault(PoolFault::Code::driver, 0);
  dead.status = domain_.fatal();
  dead.call = "alloc";
  throw dead;
}

}  // namespace forebay
