// prefixes: which page holds the keys and values of which tokens, for sharing. A page is found by a hash of its tokens
// and of the page before it, and given out only if both are equal: a collision shares nothing.
// Who holds a page, and whether what was written to it may be read on a stream, is paged.hpp's.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "pool/pages.hpp"

namespace forebay {

using Token = std::uint32_t;

// A published page by what it holds and by all that comes before it. Never given out twice, so a page that was reused
// is not mistaken for what it held.
struct Content {
  std::uint64_t serial = 0;  // 0: before the first page
  bool operator==(const Content&) const = default;
};

class Prefixes {
 public:
  explicit Prefixes(std::uint32_t page_tokens) : page_tokens_(page_tokens) {}

  // The page that holds exactly these tokens after `before`. `tokens` are one page's.
  std::optional<PageId> find(Content before, std::span<const Token> tokens) const {
    const auto entry = by_hash_.find(hash(before, tokens));
    if (entry == by_hash_.end() || !holds(entry->second, before, tokens)) return std::nullopt;
    return entry->second.page;
  }
  // What a published page holds.
  Content content(PageId page) const { return published_.at(page).content; }
  bool published(PageId page) const { return published_.contains(page); }

  // Makes `page` findable. False where the same content, or another of the same hash, is findable already.
  bool publish(PageId page, Content before, std::span<const Token> tokens) {
    const auto key = hash(before, tokens);
    const auto entry = by_hash_.try_emplace(key, Entry{page, before, std::vector<Token>(tokens.begin(), tokens.end())});
    if (!entry.second) return false;
    published_[page] = {Content{++last_serial_}, key};
    return true;
  }
  void withdraw(PageId page) {
    if (const auto gone = published_.extract(page)) by_hash_.erase(gone.mapped().key);
  }
  std::size_t size() const { return by_hash_.size(); }
  std::uint32_t page_tokens() const { return page_tokens_; }

 private:
  struct Entry {
    PageId page;
    Content before;
    std::vector<Token> tokens;
  };
  struct Published {
    Content content;
    std::uint64_t key;
  };

  static bool holds(const Entry& entry, Content before, std::span<const Token> tokens) {
    return entry.before == before && std::equal(tokens.begin(), tokens.end(), entry.tokens.begin(), entry.tokens.end());
  }
  // splitmix64's finalizer (Steele, Lea, Flood 2014) folded over the tokens.
  static std::uint64_t mixed(std::uint64_t x) {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
  }
  static std::uint64_t hash(Content before, std::span<const Token> tokens) {
    std::uint64_t state = mixed(before.serial + 0x9e3779b97f4a7c15u);
    for (const Token token : tokens) state = mixed(state + token + 0x9e3779b97f4a7c15u);
    return state;
  }

  std::uint32_t page_tokens_;
  std::uint64_t last_serial_ = 0;
  std::unordered_map<std::uint64_t, Entry> by_hash_;
  std::unordered_map<PageId, Published> published_;
};

}  // namespace forebay
