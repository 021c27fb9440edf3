#include "pool/driver_pool.hpp"

#include <algorithm>
#include <utility>

#include "pool/own_calls.hpp"
#include "pool/rows.hpp"

namespace forebay {

namespace {

constexpr std::uint64_t kLargest = std::uint64_t{1} << 62;  // more than any device has

}  // namespace

DriverPool::DriverPool(Domain& domain, DriverPoolOptions options) : domain_(domain), options_(std::move(options)) {
  const OwnCalls own(domain_);
  require_life();
  const auto made = domain_.driver().pool_create(domain_.device(), options_.limit.value_or(0));
  domain_.note(made.status());
  if (!made) throw failed("pool_create", made.status(), 0, nullptr);
  pool_ = *made;
  try {
    choose();
  } catch (const PoolFault&) {
    if (!domain_.dead()) domain_.note(domain_.driver().pool_destroy(domain_.device(), pool_));
    throw;
  }
}

void DriverPool::choose() {
  const std::pair<PoolAttribute, std::uint64_t> choices[] = {
      {PoolAttribute::release_threshold, options_.release_threshold},
      {PoolAttribute::follow_events, options_.reuse.follow_events},
      {PoolAttribute::opportunistic, options_.reuse.opportunistic},
      {PoolAttribute::internal_waits, options_.reuse.internal_waits},
  };
  for (const auto& [attribute, value] : choices) {
    const Status status = domain_.driver().pool_set(domain_.device(), pool_, attribute, value);
    domain_.note(status);
    if (status != Status::ok) throw failed("pool_set", status, 0, nullptr);
  }
}

// What is still parked then is the device's to the end of the process: it may be in use.
DriverPool::~DriverPool() {
  const OwnCalls own(domain_);
  constexpr std::chrono::milliseconds kNap{1};
  for (auto left = options_.wait_limit; any_parked_ && !domain_.dead() && left.count() > 0; left -= kNap) {
    sweep();
    if (any_parked_) domain_.nap(kNap);
  }
  if (domain_.dead()) return;
  domain_.note(domain_.driver().pool_destroy(domain_.device(), pool_));
  if (idle_ && !domain_.dead()) domain_.note(domain_.driver().stream_destroy(domain_.device(), *idle_));
}

Address DriverPool::alloc(std::uint64_t bytes, std::uint64_t stream) {
  const OwnCalls own(domain_);
  require_life();
  Clock* const clock = domain_.clock(stream);
  if (clock == nullptr || clock->ended()) throw PoolFault(PoolFault::Code::unknown_stream, options_.name, stream);
  if (bytes > kLargest) throw PoolFault(PoolFault::Code::impossible, options_.name, bytes);
  if (any_parked_.load(std::memory_order_acquire)) sweep();
  const auto made = domain_.driver().pool_alloc(domain_.device(), pool_, bytes, clock->handle());
  domain_.note(made.status());
  if (!made) {
    if (made.status() == Status::out_of_memory) {
      ooms_.fetch_add(1, std::memory_order_relaxed);
      tell_refusal(*clock, bytes);
    }
    throw failed("pool_alloc", made.status(), bytes, clock);
  }
  allocs_.fetch_add(1, std::memory_order_relaxed);
  {
    const std::lock_guard hold(mutex_);
    live_[*made] = {bytes, clock, {}};
    requested_ += bytes;
  }
  tell(Kind::alloc, *clock, *made, bytes);
  return *made;
}

bool DriverPool::free(Address address) {
  const OwnCalls own(domain_);
  if (domain_.dead()) return true;
  Block block;
  {
    const std::lock_guard hold(mutex_);
    const auto found = live_.extract(address);  // first: the address may come back before this returns
    if (found.empty()) return false;
    block = std::move(found.mapped());
    requested_ -= block.requested;
  }
  tell(Kind::free, *block.home, address, block.requested);
  for (Point& point : block.points) point.epoch = point.clock->at_free();
  if (block.home->ended()) block.points.push_back({block.home, block.home->at_free()});
  if (block.points.empty() && give(address, block)) return true;
  const std::lock_guard hold(mutex_);
  parked_bytes_ += block.requested;
  parked_.emplace_back(address, std::move(block));
  any_parked_.store(true, std::memory_order_release);
  return true;
}

bool DriverPool::lend(Address address, std::uint64_t stream, const Domain& peer) {
  if (domain_.dead()) return true;
  Clock* const clock = peer.clock(stream);
  if (clock == nullptr) throw PoolFault(PoolFault::Code::unknown_stream, options_.name, stream);
  std::uint64_t bytes = 0;
  {
    const std::lock_guard hold(mutex_);
    const auto found = live_.find(address);
    if (found == live_.end()) return false;
    Block& block = found->second;
    bytes = block.requested;
    const auto same = [clock](const Point& point) { return point.clock == clock; };
    if (clock != block.home && std::none_of(block.points.begin(), block.points.end(), same))
      block.points.push_back({clock, 0});
  }
  tell(Kind::lend, *clock, address, bytes);
  return true;
}

std::uint64_t DriverPool::trim() {
  const OwnCalls own(domain_);
  if (domain_.dead()) return 0;
  sweep();
  if (options_.tape != nullptr && options_.tape->wants())
    options_.tape->write(pool_row(Kind::flush, domain_, options_.index));
  const std::uint64_t before = get(PoolAttribute::reserved);
  const Status status = domain_.driver().pool_trim(domain_.device(), pool_, 0);
  domain_.note(status);
  if (status != Status::ok) throw failed("pool_trim", status, 0, nullptr);
  const std::uint64_t after = get(PoolAttribute::reserved);
  return before > after ? before - after : 0;
}

DriverFigures DriverPool::figures() {
  const OwnCalls own(domain_);
  require_life();
  sweep();
  DriverFigures f{get(PoolAttribute::reserved), get(PoolAttribute::reserved_high), get(PoolAttribute::used),
                  get(PoolAttribute::used_high)};
  f.allocs = allocs_, f.ooms = ooms_;
  const std::lock_guard hold(mutex_);
  f.requested = requested_, f.parked = parked_bytes_;
  return f;
}

void DriverPool::forget_highs() {
  const OwnCalls own(domain_);
  require_life();
  for (const PoolAttribute high : {PoolAttribute::reserved_high, PoolAttribute::used_high}) {
    const Status status = domain_.driver().pool_set(domain_.device(), pool_, high, 0);
    domain_.note(status);
    if (status != Status::ok) throw failed("pool_set", status, 0, nullptr);
  }
}

std::optional<std::string> DriverPool::walk() {
  const DriverFigures f = figures();
  const std::uint64_t ours = f.requested + f.parked;
  if (f.used < ours)
    return "the driver has " + std::to_string(f.used) + " bytes in use, less than the " + std::to_string(ours) +
           " that live or are parked here";
  if (f.reserved < f.used) return "the driver uses more bytes than it reserved";
  if (f.used > 0 && ours == 0) return "the driver has bytes in use, and nothing lives here";
  return std::nullopt;
}

std::uint64_t DriverPool::get(PoolAttribute attribute) {
  const auto value = domain_.driver().pool_get(domain_.device(), pool_, attribute);
  domain_.note(value.status());
  if (!value) throw failed("pool_get", value.status(), 0, nullptr);
  return *value;
}

// ---- frees that wait

void DriverPool::sweep() {
  if (domain_.dead()) return;
  std::vector<std::pair<Address, Block>> waiting;
  {
    const std::lock_guard hold(mutex_);
    waiting.swap(parked_);
  }
  std::uint64_t given = 0;
  std::erase_if(waiting, [&](const auto& parked) {
    const bool gone = complete(parked.second) && give(parked.first, parked.second);
    given += gone ? parked.second.requested : 0;
    return gone;
  });
  const std::lock_guard hold(mutex_);
  parked_bytes_ -= given;
  parked_.insert(parked_.end(), std::make_move_iterator(waiting.begin()), std::make_move_iterator(waiting.end()));
  any_parked_.store(!parked_.empty(), std::memory_order_release);
}

bool DriverPool::complete(const Block& block) const {
  return std::all_of(block.points.begin(), block.points.end(),
                     [](const Point& point) { return point.clock->reached(point.epoch); });
}

// In the order of the block's own stream; where that is over, all its work is complete.
bool DriverPool::give(Address address, const Block& block) {
  Result<StreamHandle> stream = block.home->handle();
  if (block.home->ended()) stream = idle_stream();
  const Status status = stream ? domain_.driver().pool_free(domain_.device(), address, *stream) : stream.status();
  domain_.note(status);
  return status == Status::ok;
}

Result<StreamHandle> DriverPool::idle_stream() {
  {
    const std::lock_guard hold(mutex_);
    if (idle_) return *idle_;
  }
  const auto made = domain_.driver().stream_create(domain_.device(), StreamKind::nonblocking, 0);
  if (!made) return made;
  std::unique_lock hold(mutex_);
  if (!idle_) return *(idle_ = *made);
  const StreamHandle first = *idle_;
  hold.unlock();
  domain_.note(domain_.driver().stream_destroy(domain_.device(), *made));
  return first;
}

// ---- words

void DriverPool::require_life() const {
  if (domain_.dead()) throw failed("pool_alloc", domain_.fatal(), 0, nullptr);
}

PoolFault DriverPool::failed(std::string_view call, Status status, std::uint64_t asked, const Clock* clock) const {
  PoolFault fault(PoolFault::Code::driver, options_.name, asked);
  fault.call = call, fault.status = status, fault.limit = options_.limit;
  if (clock != nullptr) fault.stream = clock->name();
  return fault;
}

void DriverPool::tell(Kind kind, const Clock& clock, Address address, std::uint64_t bytes) const {
  if (options_.tape == nullptr || !options_.tape->wants()) return;
  options_.tape->write(block_row(kind, domain_, options_.index, clock, address, bytes, bytes));
}

void DriverPool::tell_refusal(const Clock& clock, std::uint64_t bytes) const {
  if (options_.tape == nullptr || !options_.tape->wants()) return;
  options_.tape->write(refusal_row(domain_, options_.index, clock, bytes));
}

}  // namespace forebay
