#include "pool/pages.hpp"

#include <algorithm>

#include "pool/check.hpp"

namespace forebay {

Pages::Pages(std::uint32_t count) : pages_(count), lists_(3) {
  for (PageId page = count; page-- > 0;) push(page, kClean);
}

std::optional<Channel> Pages::channel(Clock& clock) {
  if (const auto known = by_clock_.find(&clock); known != by_clock_.end()) return Channel{known->second, &clock};
  if (channels_.size() >= 65'000) return std::nullopt;
  const auto made = static_cast<ChannelId>(channels_.size());
  lists_.resize(lists_.size() + 2);
  channels_.push_back(&clock);
  by_clock_[&clock] = made;
  return Channel{made, &clock};
}

// Note [A kept page keeps its points]: the first holder of a kept page reads it, and reads need no order after reads.
// The next writer does: so the points of the earlier readers stay, unless the new holder comes after them anyway.
bool Pages::hold(PageId id, ChannelId channel) {
  Page& page = pages_[id];
  if (page.holders++ > 0) return false;
  unlink(id);
  ++live_;
  if (!page.elsewhere && page.channel != kNobody && clock(channel).sees(point(page))) page.channel = kNobody;
  return true;
}

// One place a stream, its latest: a page that many share for long does not collect more.
void Pages::set_aside(PageId id) {
  Page& page = pages_[id];
  auto& places = others_[id];
  const auto same =
      std::find_if(places.begin(), places.end(), [&](const Place& at) { return at.channel == page.channel; });
  if (same == places.end())
    places.push_back({page.channel, page.epoch});
  else
    same->epoch = std::max(same->epoch, page.epoch);
  page.elsewhere = true;
}

std::vector<Channel> Pages::touched(PageId id) const {
  std::vector<Channel> streams;
  const auto add = [&](ChannelId channel) { streams.push_back({channel, channels_[channel]}); };
  if (pages_[id].channel != kNobody) add(pages_[id].channel);
  if (pages_[id].elsewhere)
    for (const Place& at : others_.at(id)) add(at.channel);
  return streams;
}

// The newest point of each list: asking for it tells of all older ones.
std::vector<Point> Pages::awaited(ChannelId asker) const {
  std::vector<Point> points;
  for (ChannelId other = 0; other < channels_.size(); ++other)
    for (const ListId list : {plain(other), kept(other)})
      if (other != asker && lists_[list].newest != kNone) points.push_back(point(pages_[lists_[list].newest]));
  for (const auto& [id, places] : others_) {
    if (pages_[id].holders > 0) continue;
    points.push_back(point(pages_[id]));
    for (const Place& at : places) points.push_back({channels_[at.channel], at.epoch});
  }
  return points;
}

void Pages::reclaim(ChannelId asker, std::uint64_t now) {
  for (PageId id = lists_[kParked].newest, older; id != kNone; id = older) {
    older = pages_[id].older;
    reclaim_parked(id, asker, now);
  }
  for (ChannelId other = 0; other < channels_.size(); ++other) {
    if (other == asker) continue;
    reclaim_list(plain(other), asker, now);
    reclaim_list(kept(other), asker, now);
  }
}

// The oldest first: where one page is not ready, newer ones of the same stream are not either.
void Pages::reclaim_list(ListId list, ChannelId asker, std::uint64_t now) {
  while (lists_[list].oldest != kNone && clock(asker).sees(point(pages_[lists_[list].oldest])))
    settle(lists_[list].oldest, asker, now, true);
}

// A point that only the asker comes after still binds every other stream: it goes when all of them are dealt with.
void Pages::reclaim_parked(PageId id, ChannelId asker, std::uint64_t now) {
  const auto& places = others_[id];
  const auto seen = [&](const Place& at) { return clock(asker).sees({channels_[at.channel], at.epoch}); };
  const auto passed = [&](const Place& at) { return channels_[at.channel]->passed(at.epoch); };
  if (!clock(asker).sees(point(pages_[id])) || !std::all_of(places.begin(), places.end(), seen)) return;
  const bool complete = std::all_of(places.begin(), places.end(), passed);
  settle(id, asker, now, complete);
}

// What is complete is anybody's. What the asker merely comes after is the asker's from now on, as if dropped there.
void Pages::settle(PageId id, ChannelId asker, std::uint64_t now, bool others_complete) {
  Page& page = pages_[id];
  unlink(id);
  if (page.elsewhere) others_.erase(id);
  page.elsewhere = false;
  if (others_complete && clock(page.channel).passed(page.epoch)) {
    page.channel = kNobody;
    push(id, page.kept ? kCleanKept : kClean);
  } else {
    page.channel = asker;
    page.epoch = now;
    push(id, page.kept ? kept(asker) : plain(asker));
  }
}

std::uint32_t Pages::at_hand(ChannelId channel) const {
  return lists_[plain(channel)].size + lists_[kept(channel)].size + lists_[kClean].size + lists_[kCleanKept].size;
}

std::string_view Pages::broken(std::uint32_t aside) const {
  std::uint32_t free = 0, held = 0, between = 0;
  for (ListId list = 0; list < lists_.size(); ++list) {
    if (const auto what = broken_list(list); !what.empty()) return what;
    free += lists_[list].size;
  }
  for (const Page& page : pages_) {
    held += page.holders > 0;
    between += page.holders == 0 && page.list == kHeld;
    if (page.holders > 0 && page.list != kHeld) return "a page is both held and in a free list";
  }
  if (between != aside) return "a page is neither held nor in a free list";
  if (held != live_ || free + held + aside != count()) return "held and free pages do not add up to the pool";
  return "";
}

std::string_view Pages::broken_list(ListId list) const {
  std::uint32_t walked = 0;
  PageId newer = kNone;
  for (PageId id = lists_[list].newest; id != kNone; newer = id, id = pages_[id].older, ++walked) {
    if (walked == lists_[list].size) return "a free list is longer than its size";
    if (pages_[id].newer != newer) return "a free list is not linked both ways";
    if (const auto what = broken_page(id, list); !what.empty()) return what;
  }
  return walked == lists_[list].size && lists_[list].oldest == newer ? "" : "a free list is shorter than its size";
}

std::string_view Pages::broken_page(PageId id, ListId list) const {
  const Page& page = pages_[id];
  if (page.list != list) return "a page is in a list that it does not name";
  if (page.elsewhere != (list == kParked) || page.elsewhere != others_.contains(id))
    return "a page with several points is not parked, or one without is";
  if (list == kParked) return "";
  if (list == kClean || list == kCleanKept) {
    if (page.channel != kNobody) return "a clean page waits for a stream";
    return page.kept == (list == kCleanKept) ? "" : "a page lies in the wrong one of kept and plain";
  }
  return list == (page.kept ? kept(page.channel) : plain(page.channel)) ? ""
                                                                        : "a page lies in another stream's channel";
}

}  // namespace forebay
