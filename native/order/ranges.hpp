// ranges: disjoint byte ranges with a value each, split and joined as they are looked at. A B+ tree of two levels:
// blocks come and go in the middle, and looking up costs two binary searches in flat memory.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

namespace forebay::order {

template <class T>
class Ranges {
 public:
  struct Piece {
    std::uint64_t lo = 0, hi = 0;  // bytes [lo, hi)
    std::unique_ptr<T> value;
  };

  std::size_t size() const { return count_; }

  // Calls f(piece) for pieces that make up exactly [lo, hi); bytes without a piece get a new one. f may not change the
  // ranges. Returns the number of pieces.
  template <class F>
  std::size_t cover(std::uint64_t lo, std::uint64_t hi, F f) {
    std::size_t pieces = 0;
    for (Place at; lo < hi; ++pieces) {
      at = fit(lo, hi);
      Piece& piece = get(at);
      f(piece);
      lo = piece.hi;
    }
    return pieces;
  }

  // Calls f(piece) for every piece that overlaps [lo, hi), as it is.
  template <class F>
  void overlapping(std::uint64_t lo, std::uint64_t hi, F f) {
    for (Place at = first_after(lo); valid(at) && get(at).lo < hi; at = next(at)) f(get(at));
  }

  T* find(std::uint64_t address) {
    const Place at = first_after(address);
    return valid(at) && get(at).lo <= address ? get(at).value.get() : nullptr;
  }

  // Joins neighbours within [lo, hi) and at its ends whose values are the same.
  template <class Same>
  void join(std::uint64_t lo, std::uint64_t hi, Same same) {
    Place at = first_after(lo == 0 ? 0 : lo - 1);
    while (valid(at) && get(at).lo <= hi) {
      const Place after = next(at);
      if (!valid(after) || get(after).lo > hi) return;
      if (get(at).hi == get(after).lo && same(*get(at).value, *get(after).value)) {
        get(at).hi = get(after).hi;
        erase(after);
      } else {
        at = after;
      }
    }
  }

  // Takes [lo, hi) out of the ranges.
  void clear(std::uint64_t lo, std::uint64_t hi) {
    cover(lo, hi, [](Piece&) {});
    for (Place at = first_after(lo); valid(at) && get(at).lo < hi; at = first_after(lo)) erase(at);
  }

  template <class Unwanted>
  void erase_if(Unwanted unwanted) {
    for (auto& leaf : leaves_) count_ -= std::erase_if(*leaf, [&](Piece& p) { return unwanted(p); });
    std::erase_if(leaves_, [](const auto& leaf) { return leaf->empty(); });
    firsts_.clear();
    for (const auto& leaf : leaves_) firsts_.push_back(leaf->front().lo);
  }

 private:
  static constexpr std::size_t kMost = 64;  // pieces a leaf
  using Leaf = std::vector<Piece>;
  struct Place {
    std::size_t leaf = 0, index = 0;
  };

  bool valid(Place at) const { return at.leaf < leaves_.size(); }
  Piece& get(Place at) { return (*leaves_[at.leaf])[at.index]; }
  Place next(Place at) const {
    return at.index + 1 < leaves_[at.leaf]->size() ? Place{at.leaf, at.index + 1} : Place{at.leaf + 1, 0};
  }

  // The first piece that ends after `address`.
  Place first_after(std::uint64_t address) const {
    const auto above = std::upper_bound(firsts_.begin(), firsts_.end(), address);
    if (above == firsts_.begin()) return {0, 0};
    const auto leaf = static_cast<std::size_t>(above - firsts_.begin()) - 1;
    const Leaf& pieces = *leaves_[leaf];
    const auto found = std::upper_bound(pieces.begin(), pieces.end(), address,
                                        [](std::uint64_t a, const Piece& p) { return a < p.hi; });
    if (found == pieces.end()) return {leaf + 1, 0};
    return {leaf, static_cast<std::size_t>(found - pieces.begin())};
  }

  // The piece that begins at lo and ends at hi or before, made by splitting or anew.
  Place fit(std::uint64_t lo, std::uint64_t hi) {
    Place at = first_after(lo);
    if (!valid(at) || get(at).lo >= hi) return insert(at, {lo, hi, std::make_unique<T>()});
    if (get(at).lo > lo) return insert(at, {lo, get(at).lo, std::make_unique<T>()});
    if (get(at).lo < lo) {
      split(at, lo);
      at = first_after(lo);
    }
    if (get(at).hi > hi) {
      split(at, hi);
      at = first_after(lo);
    }
    return at;
  }

  void split(Place at, std::uint64_t where) {
    Piece& whole = get(at);
    Piece rest{where, whole.hi, std::make_unique<T>(*whole.value)};
    whole.hi = where;
    insert(next(at), std::move(rest));
  }

  Place insert(Place at, Piece piece) {
    ++count_;
    if (leaves_.empty()) {
      leaves_.push_back(std::make_unique<Leaf>());
      firsts_.push_back(piece.lo);
      at = {0, 0};
    } else if (!valid(at) || (at.index == 0 && at.leaf > 0)) {
      at = {at.leaf - 1, leaves_[at.leaf - 1]->size()};
    }
    Leaf& leaf = *leaves_[at.leaf];
    leaf.insert(leaf.begin() + static_cast<std::ptrdiff_t>(at.index), std::move(piece));
    firsts_[at.leaf] = leaf.front().lo;
    return leaf.size() > kMost ? halve(at) : at;
  }

  Place halve(Place at) {
    Leaf& leaf = *leaves_[at.leaf];
    auto upper = std::make_unique<Leaf>();
    const auto middle = leaf.begin() + static_cast<std::ptrdiff_t>(leaf.size() / 2);
    upper->assign(std::make_move_iterator(middle), std::make_move_iterator(leaf.end()));
    leaf.erase(middle, leaf.end());
    firsts_.insert(firsts_.begin() + static_cast<std::ptrdiff_t>(at.leaf) + 1, upper->front().lo);
    leaves_.insert(leaves_.begin() + static_cast<std::ptrdiff_t>(at.leaf) + 1, std::move(upper));
    const std::size_t kept = leaves_[at.leaf]->size();
    return at.index < kept ? at : Place{at.leaf + 1, at.index - kept};
  }

  void erase(Place at) {
    --count_;
    Leaf& leaf = *leaves_[at.leaf];
    leaf.erase(leaf.begin() + static_cast<std::ptrdiff_t>(at.index));
    if (leaf.empty()) {
      leaves_.erase(leaves_.begin() + static_cast<std::ptrdiff_t>(at.leaf));
      firsts_.erase(firsts_.begin() + static_cast<std::ptrdiff_t>(at.leaf));
    } else {
      firsts_[at.leaf] = leaf.front().lo;
    }
  }

  std::vector<std::uint64_t> firsts_;  // where each leaf begins
  std::vector<std::unique_ptr<Leaf>> leaves_;
  std::size_t count_ = 0;
};

}  // namespace forebay::order
