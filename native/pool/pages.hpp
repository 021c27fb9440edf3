// pages: fixed blocks of one size, taken and dropped in constant time, with reference counts and stream-ordered reuse.
// What they hold (tables, prefixes) and the lock around all of it are paged.hpp's; how far streams got is clock.hpp's.
//
// Glossary
//   page     a fixed block of a paged pool, by its index. Live while someone holds it, else free.
//   channel  the free pages that one stream orders: a page dropped there is taken there again at once.
//   clean    free pages that any stream may take: never used, or every point of theirs is complete.
//   parked   free pages with points on several streams: nobody's until all of those are complete.
//   kept     free pages whose content can still be found (prefixes.hpp): taken last, oldest first.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "pool/block.hpp"
#include "pool/check.hpp"
#include "pool/clock.hpp"

namespace forebay {

using PageId = std::uint32_t;
using ChannelId = std::uint16_t;

struct Channel {
  ChannelId id;
  Clock* clock;
};

class Pages {
 public:
  explicit Pages(std::uint32_t count);

  // The channel of a stream, made when first asked for; none after 65,000 streams.
  std::optional<Channel> channel(Clock& clock);

  // The free page that this stream's next work may use. It makes no driver call.
  std::optional<PageId> next(ChannelId channel) const;
  // Takes that page: it is held once. True: it was kept.
  bool take(PageId page);
  // One holder more of a page that is live or shelved. True: it was free, and is live now.
  bool hold(PageId page, ChannelId channel);
  // The page, which is in no list, is free only after what this stream was given until `epoch`.
  void touch(PageId page, ChannelId channel, std::uint64_t epoch);
  // One holder less, after a touch of each stream that this holder used. True: it was the last, and the page belongs to
  // no list until it is shelved.
  bool release(PageId page);
  void shelve(PageId page);
  // A live page will be kept when it is free.
  void keep(PageId page) { pages_[page].kept = true; }
  bool is_kept(PageId page) const { return pages_[page].kept; }

  // What the free pages that this stream may not take wait for: to be asked (Clock::reached) without the pool's lock.
  std::vector<Point> awaited(ChannelId asker) const;
  // Takes over the pages whose points the asker is known to come after; `now` is the asker's open epoch. No driver
  // call.
  void reclaim(ChannelId asker, std::uint64_t now);

  std::uint32_t count() const { return static_cast<std::uint32_t>(pages_.size()); }
  std::uint32_t live() const { return live_; }
  std::uint32_t parked() const { return lists_[kParked].size; }
  std::uint32_t at_hand(ChannelId channel) const;  // how many takes will succeed without a reclaim
  std::uint32_t holders(PageId page) const { return pages_[page].holders; }
  Clock& clock(ChannelId channel) const { return *channels_[channel]; }
  bool leaving(PageId page) const { return pages_[page].holders == 0 && pages_[page].list == kHeld; }
  // The streams that a page was last touched on; the latest first.
  std::vector<Channel> touched(PageId page) const;
  // A walk over everything, `aside` pages being released and not yet shelved: the first invariant that is broken, or
  // "".
  std::string_view broken(std::uint32_t aside) const;

 private:
  using ListId = std::uint32_t;
  static constexpr PageId kNone = ~PageId{0};
  static constexpr ListId kHeld = ~ListId{0};
  static constexpr ChannelId kNobody = ~ChannelId{0};
  static constexpr ListId kParked = 0, kClean = 1, kCleanKept = 2;
  static constexpr ListId plain(ChannelId c) { return 3 + 2 * ListId{c}; }
  static constexpr ListId kept(ChannelId c) { return 4 + 2 * ListId{c}; }

  struct Page {
    PageId newer = kNone, older = kNone;
    ListId list = kHeld;
    std::uint32_t holders = 0;
    std::uint64_t epoch = 0;
    ChannelId channel = kNobody;  // with `epoch` the latest point; nobody: it has none that matters
    bool elsewhere = false;       // it has further points, in others_
    bool kept = false;
  };
  struct List {
    PageId newest = kNone, oldest = kNone;
    std::uint32_t size = 0;
  };
  struct Place {
    ChannelId channel;
    std::uint64_t epoch;
  };

  Point point(const Page& page) const { return {channels_[page.channel], page.epoch}; }
  void set_aside(PageId page);
  void push(PageId page, ListId list);
  void unlink(PageId page);
  void settle(PageId page, ChannelId asker, std::uint64_t now, bool others_complete);
  void reclaim_list(ListId list, ChannelId asker, std::uint64_t now);
  void reclaim_parked(PageId page, ChannelId asker, std::uint64_t now);
  std::string_view broken_list(ListId list) const;
  std::string_view broken_page(PageId page, ListId list) const;

  std::vector<Page> pages_;
  std::vector<List> lists_;
  std::vector<Clock*> channels_;
  std::unordered_map<const Clock*, ChannelId> by_clock_;
  std::unordered_map<PageId, std::vector<Place>> others_;
  std::uint32_t live_ = 0;
};

// ---- what every page of every step goes through; the rest is in pages.cpp

// Kept pages are taken last, so that what may be shared lives longest. An optional that is no register's costs a stall
// of some ten nanoseconds, so these are inlined.
inline std::optional<PageId> Pages::next(ChannelId channel) const {
  if (const PageId own = lists_[plain(channel)].newest; own != kNone) return own;
  if (const PageId clean = lists_[kClean].newest; clean != kNone) return clean;
  if (const PageId own = lists_[kept(channel)].oldest; own != kNone) return own;
  const PageId last = lists_[kCleanKept].oldest;
  return last == kNone ? std::nullopt : std::optional(last);
}

inline bool Pages::take(PageId id) {
  Page& page = pages_[id];
  unlink(id);
  FOREBAY_CHECK(!page.elsewhere);
  const bool was_kept = page.kept;
  page.holders = 1;
  page.channel = kNobody;
  page.kept = false;
  ++live_;
  return was_kept;
}

inline void Pages::touch(PageId id, ChannelId channel, std::uint64_t epoch) {
  Page& page = pages_[id];
  FOREBAY_CHECK(page.list == kHeld);
  if (page.channel == channel) {
    page.epoch = std::max(page.epoch, epoch);
    return;
  }
  if (page.channel != kNobody && !clock(channel).sees(point(page))) {
    set_aside(id);
  }
  page.channel = channel;
  page.epoch = epoch;
}

inline bool Pages::release(PageId id) {
  FOREBAY_CHECK(pages_[id].holders > 0 && live_ > 0);
  if (--pages_[id].holders > 0) return false;
  --live_;
  return true;
}

inline void Pages::shelve(PageId id) {
  const Page& page = pages_[id];
  if (page.elsewhere)
    push(id, kParked);
  else if (page.channel == kNobody)
    push(id, page.kept ? kCleanKept : kClean);
  else
    push(id, page.kept ? kept(page.channel) : plain(page.channel));
}

inline void Pages::push(PageId id, ListId list) {
  Page& page = pages_[id];
  FOREBAY_CHECK(page.list == kHeld && page.holders == 0);
  List& into = lists_[list];
  page.list = list;
  page.newer = kNone;
  page.older = into.newest;
  (into.newest == kNone ? into.oldest : pages_[into.newest].newer) = id;
  into.newest = id;
  ++into.size;
}

inline void Pages::unlink(PageId id) {
  Page& page = pages_[id];
  FOREBAY_CHECK(page.list != kHeld && broken_page(id, page.list).empty());
  FOREBAY_CHECK(page.newer == kNone ? lists_[page.list].newest == id : pages_[page.newer].older == id);
  FOREBAY_CHECK(page.older == kNone ? lists_[page.list].oldest == id : pages_[page.older].newer == id);
  List& from = lists_[page.list];
  (page.newer == kNone ? from.newest : pages_[page.newer].older) = page.older;
  (page.older == kNone ? from.oldest : pages_[page.older].newer) = page.newer;
  --from.size;
  page.list = kHeld;
}

}  // namespace forebay
