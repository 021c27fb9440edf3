// paged_miss: paged.hpp's slow paths: what happens when no page is at hand.
//
// A miss asks the other streams how far they got and searches again; if enough pages are free but not yet usable here
// it waits, within the limit, searching each time; then it gives up. Nothing is locked while streams are asked or
// waited for.
#include <algorithm>

#include "pool/paged.hpp"
#include "pool/paged_debug.hpp"

namespace forebay {

namespace {
constexpr std::chrono::nanoseconds kShortestNap{20'000}, kLongestNap{1'000'000};
}  // namespace

// All or none.
bool PagedPool::take_pages(std::vector<PageId>& into, std::size_t count, Channel channel) {
  const std::size_t before = into.size();
  if (!fits(count) || pages_.at_hand(channel.id) < count) return false;
  while (into.size() < before + count) into.push_back(*take_one(channel));
  return true;
}

// Pages that were taken and not used go back, usable where they were usable.
void PagedPool::undo(std::vector<PageId>& pages, std::size_t keep, Channel channel) {
  for (; pages.size() > keep; pages.pop_back()) {
    pages_.touch(pages.back(), channel.id, channel.clock->at_settle());
    pages_.release(pages.back());
    pages_.shelve(pages.back());
  }
}

void PagedPool::take_or_throw(std::vector<PageId>& into, std::size_t count, Channel channel) {
  if (custody_ != nullptr) custody_->give_up();
  const std::vector<Point> awaited = ask(channel);
  refuse_dead();
  {
    Guard guard(*this);
    ++misses_;
    if (take_pages(into, count, channel)) return;
  }
  if (!wait_for_pages(into, count, channel)) give_up(count, channel, awaited);
}

// The points that the channel still has to wait for.
std::vector<Point> PagedPool::ask(Channel channel) {
  std::vector<Point> points;
  {
    Guard guard(*this);
    points = pages_.awaited(channel.id);
  }
  std::erase_if(points, [](const Point& p) { return p.clock->reached(p.epoch); });
  Guard guard(*this);
  pages_.reclaim(channel.id, channel.clock->at_settle());
  return points;
}

bool PagedPool::wait_for_pages(std::vector<PageId>& into, std::size_t count, Channel channel) {
  std::chrono::nanoseconds waited{0};
  for (auto nap = kShortestNap; waited < options_.wait_limit; waited += nap, nap = std::min(nap * 2, kLongestNap)) {
    {
      Guard guard(*this);
      if (!fits(count)) return false;
    }
    domain_.nap(nap);
    ask(channel);
    refuse_dead();
    Guard guard(*this);
    if (take_pages(into, count, channel)) return true;
  }
  return false;
}

PoolFault PagedPool::fault(PoolFault::Code code, std::uint64_t asked) const { return {code, options_.name, asked}; }

void PagedPool::refuse(Status status, std::string_view call) const {
  PoolFault refused = fault(PoolFault::Code::driver, options_.page_bytes);
  refused.status = status;
  refused.call = call;
  throw refused;
}

void PagedPool::refuse_dead() const {
  if (domain_.dead()) [[unlikely]]
    refuse(domain_.fatal(), "an earlier call");
}

// A pool that never grows ends at its own size: `full` only where a larger one would have found no memory either.
Verdict PagedPool::verdict(std::uint64_t bytes) {
  std::uint64_t room = domain_.frames().idle_bytes() + Source(domain_, Space::device).free_bytes().value_or(0);
  domain_.siblings(nullptr, [&](const Pool& pool) {
    const bool gives = pool.options().idle == IdleBytes::shared && pool.options().space == Space::device;
    if (gives) room += pool.idle_bytes();
  });
  return room >= bytes ? Verdict::capped : Verdict::full;
}

void PagedPool::give_up(std::size_t count, Channel channel, const std::vector<Point>& awaited) {
  PoolFault last = fault(PoolFault::Code::exhausted, count * options_.page_bytes);
  {
    Guard guard(*this);
    ++ooms_;
    last.verdict = fits(count) ? Verdict::pending : Verdict::capped;
    last.limit = limit_ * options_.page_bytes;
  }
  if (last.verdict == Verdict::capped) last.verdict = verdict(last.asked);
  last.stream = channel.clock->name();
  last.gauges = gauges(channel);
  if (last.verdict != Verdict::pending || options_.wait_limit.count() == 0) tell_refusal(count, channel);
  if (last.verdict != Verdict::pending) throw last;
  for (const Point& p : awaited) last.awaited.push_back(p.clock->name());
  last.waited_ns = options_.wait_limit.count();
  if (last.waited_ns > 0) last.code = PoolFault::Code::pending;
  throw last;
}

}  // namespace forebay
