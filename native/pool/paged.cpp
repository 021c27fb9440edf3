#include "pool/paged.hpp"

#include <algorithm>
#include <limits>
#include <thread>
#include <utility>

#include "pool/paged_debug.hpp"
#include "pool/rows.hpp"

namespace forebay {

namespace {

constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 48;  // no device has more addresses

std::uint64_t checked_bytes(const PagedOptions& o) {
  const bool whole = o.page_bytes != 0 && o.pages != 0 && o.page_tokens != 0 && o.page_bytes % o.page_tokens == 0;
  if (whole && o.page_bytes <= kMostBytes / o.pages) return o.page_bytes * o.pages;
  throw PoolFault(PoolFault::Code::impossible, o.name, o.page_bytes);
}

}  // namespace

PagedPool::PagedPool(Domain& domain, PagedOptions options)
    : domain_(domain),
      options_(std::move(options)),
      memory_(domain, checked_bytes(options_), options_.name),
      pages_(options_.pages),
      prefixes_(options_.page_tokens),
      written_(options_.pages),
      filled_(options_.pages, 0),
      limit_(options_.pages) {
  if (!options_.debug) return;
  const PageCustody::Owner owner{
      [this](PageId page) { return address(page); },
      [this](PageId page, Channel channel, std::uint64_t epoch) { take_back(page, channel, epoch); }};
  custody_ = std::make_unique<PageCustody>(
      domain, CustodyOptions{options_.name, Space::device, options_.debug->quarantine, options_.wait_limit},
      options_.page_bytes, options_.pages, owner);
}

PagedPool::~PagedPool() = default;

Channel PagedPool::channel(std::uint64_t stream) {
  for (ChannelId id = 0; id < first_channels_.size(); ++id) {
    Clock* known = first_channels_[id].load(std::memory_order_acquire);
    if (known == nullptr) break;
    if (known->id() == stream) return {id, known};
  }
  Clock* clock = domain_.clock(stream);
  std::optional<Channel> found;
  if (clock != nullptr) {
    Guard guard(*this);
    found = pages_.channel(*clock);
    if (found && found->id < first_channels_.size()) first_channels_[found->id].store(clock, std::memory_order_release);
  }
  if (found) return *found;
  throw fault(PoolFault::Code::unknown_stream, stream);
}

PageId PagedPool::take(Channel channel) {
  refuse_dead();
  {
    Guard guard(*this);
    if (const auto page = take_one(channel)) {
      ++hits_;
      fill(*page, options_.page_tokens);
      tell(*page, channel);
      return *page;
    }
  }
  std::vector<PageId> one;
  take_or_throw(one, 1, channel);
  Guard guard(*this);
  fill(one[0], options_.page_tokens);
  tell(one[0], channel);
  return one[0];
}

bool PagedPool::drop(PageId page, Channel channel) {
  const std::uint64_t epoch = channel.clock->at_free();
  Guard guard(*this);
  if (page >= pages_.count() || pages_.holders(page) == 0) return false;
  freed_at_ = here();
  release(page, {&channel, 1}, {&epoch, 1});
  return true;
}

std::uint32_t PagedPool::available(Channel channel) {
  if (custody_ != nullptr) custody_->give_up();
  ask(channel);
  Guard guard(*this);
  return std::min(pages_.at_hand(channel.id), limit_ - std::min(limit_, pages_.live()));
}

void PagedPool::limit(std::uint32_t pages) {
  Guard guard(*this);
  limit_ = std::min(pages, pages_.count());
}

Gauges PagedPool::gauges(std::optional<Channel> channel) {
  Guard guard(*this);
  const std::uint64_t page = options_.page_bytes;
  const std::uint64_t idle = pages_.count() - pages_.live();
  const std::uint64_t waiting = pages_.parked() + (custody_ == nullptr ? 0 : custody_->held());
  const std::uint64_t below_limit = limit_ - std::min(limit_, pages_.live());
  Gauges g;
  g.reserved = memory_.bytes();
  g.allocated = pages_.live() * page;
  g.requested = requested_ * (page / options_.page_tokens);
  g.pending = waiting * page;
  g.active = g.allocated + g.pending;
  g.cached = g.reserved - g.active;
  (pages_.live() + waiting == 0 ? g.releasable : g.stranded) = g.cached;
  g.largest_free = (channel ? pages_.at_hand(channel->id) : idle - std::min(idle, waiting)) * page;
  g.largest_free_after_waits = g.largest_free_if_idle = idle * page;
  g.largest_servable = std::min(idle, below_limit) * page;
  g.hits = hits_;
  g.misses = misses_;
  g.ooms = ooms_;
  g.driver_allocs = 1;
  return g;
}

void PagedPool::fill(PageId page, std::uint32_t tokens) {
  if (tokens <= filled_[page]) return;
  requested_ += tokens - filled_[page];
  filled_[page] = tokens;
}

void PagedPool::release(PageId page, std::span<const Channel> channels, std::span<const std::uint64_t> epochs) {
  for (std::size_t i = 0; i < channels.size(); ++i) pages_.touch(page, channels[i].id, epochs[i]);
  if (!pages_.release(page)) return;
  if (told())
    tell_free(page);
  else
    pages_.shelve(page);
  requested_ -= filled_[page];
  filled_[page] = 0;
}

// What may not be found any more is its custody's from now on; all else is shelved once this is told.
void PagedPool::tell_free(PageId page) {
  std::vector<Channel> streams = pages_.touched(page);
  if (taped()) {
    for (std::size_t i = 1; i < streams.size(); ++i) write_row(Kind::lend, page, streams[i]);
    write_row(Kind::free, page, streams[0]);
  }
  const bool kept = pages_.is_kept(page);
  if (custody_ == nullptr || kept) leaving_.push_back(page);
  if (custody_ != nullptr) changes_.push_back({page, std::move(streams), false, kept, freed_at_});
  news_ = true;
}

void PagedPool::tell_given(PageId page, Channel channel) {
  if (taped()) write_row(Kind::alloc, page, channel);
  if (custody_ != nullptr) changes_.push_back({page, {channel}, true, false, here()});
  news_ = true;
}

void PagedPool::apply(std::vector<Change>& changes) {
  if (domain_.forked()) return;
  for (Change& change : changes) {
    if (change.given)
      custody_->given(change.page, change.streams.front(), std::move(change.site));
    else
      custody_->freed(change.page, change.streams,
                      change.kept ? PageCustody::Content::findable : PageCustody::Content::gone,
                      std::move(change.site));
  }
}

void PagedPool::take_back(PageId page, Channel channel, std::uint64_t epoch) {
  Guard guard(*this);
  pages_.touch(page, channel.id, epoch);
  pages_.shelve(page);
}

void PagedPool::write_row(Kind kind, PageId page, Channel channel) {
  const std::uint64_t requested = filled_[page] * (options_.page_bytes / options_.page_tokens);
  rows_.push_back(
      block_row(kind, domain_, options_.index, *channel.clock, address(page), options_.page_bytes, requested));
}

void PagedPool::tell_refusal(std::size_t pages, Channel channel) const {
  if (!taped()) return;
  options_.tape->write(refusal_row(domain_, options_.index, *channel.clock, pages * options_.page_bytes));
}

void PagedPool::check() {
  refuse_dead();
  custody_->check();
}

std::string_view PagedPool::walk() {
  Guard guard(*this);
  if (const auto what = pages_.broken(custody_ == nullptr ? 0 : custody_->held()); !what.empty()) return what;
  std::vector<std::uint32_t> held(pages_.count(), 0);
  for (const auto& sequence : sequences_)
    for (const PageId page : sequence->table_) ++held[page];
  std::uint64_t requested = 0;
  for (PageId page = 0; page < pages_.count(); ++page) {
    if (held[page] > pages_.holders(page)) return "a table names a page that it does not hold";
    if (filled_[page] > options_.page_tokens) return "a page holds more tokens than fit";
    if ((filled_[page] > 0) > (pages_.holders(page) > 0)) return "a free page holds tokens";
    requested += filled_[page];
  }
  return requested == requested_ ? "" : "the tokens asked for do not add up";
}

}  // namespace forebay
