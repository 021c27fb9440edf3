#include "pool/guarded.hpp"

#include <algorithm>

#include "pool/rows.hpp"

namespace forebay {
namespace {
constexpr std::uint64_t kFront = kQuantum, kBack = 64, kMostBack = 4096;

std::uint64_t behind(const Guarded& block) { return std::min(kMostBack, block.end() - (block.address + block.nbytes)); }

PoolOptions inner(PoolOptions options, Hoard* hoard) {
  for (std::uint64_t& bucket : options.buckets) bucket = round_up(bucket, kQuantum) + kFront + kBack;
  options.tape = nullptr;
  options.hoard = hoard;
  return options;
}
}  // namespace

GuardedPool::GuardedPool(Domain& domain, PoolOptions options, std::uint64_t quarantine)
    : Custody(domain, {options.name, options.space, quarantine, options.wait_limit}),
      domain_(domain),
      options_(std::move(options)),
      pool_(domain, inner(options_, this)) {}

GuardedPool::~GuardedPool() { close(); }

Granted GuardedPool::alloc(std::uint64_t bytes, std::uint64_t stream, std::string site) {
  if (!domain_.dead()) tend();
  Granted got;
  try {
    got = pool_.alloc(bytes + kFront + kBack, stream);
  } catch (PoolFault& fault) {
    if (fault.code != PoolFault::Code::unknown_stream) fault.asked = bytes;
    fault.gauges = own(fault.gauges);
    if (fault.code == PoolFault::Code::exhausted) tell_refusal(bytes, stream);
    throw;
  }
  const auto block = std::make_shared<Guarded>();
  block->begin = got.address;
  block->size = got.size;
  block->address = got.address + kFront;
  block->nbytes = bytes;
  block->clock = domain_.clock(stream);
  block->allocated_at = std::move(site);
  tell(Kind::alloc, *block, *block->clock);
  fence(block);
  witness().add(block);
  return {block->address, got.size - kFront};
}

bool GuardedPool::free(Address address, std::string site) {
  if (domain_.dead()) return true;
  const GuardedPtr block = witness().live_at(address);
  if (block == nullptr) return false;
  tell(Kind::free, *block, *block->clock);
  std::vector<Point> lent = block->lent;
  for (Point& p : lent) p.epoch = p.clock->at_free();
  const Freeing freeing = witness().free(*block, std::move(lent), std::move(site));
  if (freeing == Freeing::callers) take(block);
  return freeing != Freeing::nobodys;
}

bool GuardedPool::lend(Address address, std::uint64_t stream, const Domain& peer) {
  if (domain_.dead()) return true;
  Clock* clock = peer.clock(stream);
  if (clock == nullptr) throw PoolFault(PoolFault::Code::unknown_stream, options_.name, stream);
  const GuardedPtr block = witness().lend(address, *clock);
  if (block != nullptr) tell(Kind::lend, *block, *clock);
  return block != nullptr;
}

std::optional<Granted> GuardedPool::underlying(Address address) const {
  if (domain_.dead()) return std::nullopt;
  const GuardedPtr block = witness().live_at(address);
  return block == nullptr ? std::nullopt : pool_.underlying(block->begin);
}

std::uint64_t GuardedPool::trim() {
  if (domain_.dead()) return 0;
  write(pool_row(Kind::flush, domain_, options_.index));
  give_up();
  return pool_.trim();
}

// ---- canaries

void GuardedPool::fence(const GuardedPtr& block) {
  const auto clean = [block](Part part) {
    return [block, part](std::uint64_t begun) { block->clean[static_cast<std::size_t>(part)] = begun; };
  };
  block->fenced = watched(*block) && fill(*block, block->begin, kCanary, kFront, clean(Part::front)) &&
                  fill(*block, block->address + block->nbytes, kCanary, behind(*block), clean(Part::back));
  if (!block->fenced) Custody::unseen();
}

void GuardedPool::look_before_poison(const GuardedPtr& block) {
  if (block->fenced) look_at_canaries(block);
}

void GuardedPool::look_at_canaries(const GuardedPtr& block) {
  look_at(block, Part::front, block->begin, kFront);
  look_at(block, Part::back, block->address + block->nbytes, behind(*block));
}

void GuardedPool::check() {
  if (domain_.dead()) pool_.alloc(1, 0);  // which says why
  for (const GuardedPtr& block : witness().look_at_live()) {
    if (watched(*block))
      look_at_canaries(block);
    else
      Custody::unseen();
    if (witness().looked_at(*block)) take(block);
  }
  Custody::check();
}

// ---- figures

Gauges GuardedPool::own(Gauges g) const {
  if (domain_.forked()) return g;
  const Witness::Figures figures = witness().figures();
  const std::uint64_t freed = std::min(figures.freed, g.allocated);
  g.allocated -= freed, g.pending += freed;
  g.requested = std::min(figures.requested, g.allocated);  // other threads went on between the two readings
  for (std::uint64_t* largest :
       {&g.largest_free, &g.largest_free_after_waits, &g.largest_free_if_idle, &g.largest_servable})
    *largest -= std::min(*largest, kFront + kBack);
  return g;
}

std::optional<std::string> GuardedPool::walk() const {
  if (auto broken = pool_.walk()) return broken;
  if (auto broken = Custody::walk()) return broken;
  Witness::Figures recount;
  auto misplaced = witness().each([&](const Guarded& block) -> std::optional<std::string> {
    (block.freed ? recount.freed : recount.requested) += block.freed ? block.size : block.nbytes;
    if (block.address == block.begin + kFront && block.address + block.nbytes + kBack <= block.end())
      return std::nullopt;
    return "a block does not lie between its canaries (at " + std::to_string(block.begin) + ")";
  });
  if (misplaced) return misplaced;
  const Witness::Figures figures = witness().figures();
  if (figures.requested != recount.requested || figures.freed != recount.freed)
    return "what is asked for or kept differs from a recount";
  return std::nullopt;
}

void GuardedPool::tell(Kind kind, const Guarded& block, const Clock& clock) const {
  write(block_row(kind, domain_, options_.index, clock, block.address, block.end() - block.address, block.nbytes));
}

void GuardedPool::tell_refusal(std::uint64_t bytes, std::uint64_t stream) const {
  write(refusal_row(domain_, options_.index, *domain_.clock(stream), bytes));
}

void GuardedPool::write(const Row& row) const {
  if (options_.tape != nullptr && options_.tape->wants()) options_.tape->write(row);
}

}  // namespace forebay
