// ranges: disjoint byte ranges with a value each, split and joined as they are looked at. A B+ tree of two levels,
// since blocks come and go in the middle; and a table of whole pieces by their first byte, since most uses are of a
// whole block.
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
    T value;
  };

  Ranges() : whole_(kWhole, nullptr) {}

  std::size_t size() const { return count_; }

  // Calls f(piece) for pieces that make up exactly [lo, hi); bytes without a piece get a new one. f may not change the
  // ranges. Returns the number of pieces.
  template <class F>
  std::size_t cover(std::uint64_t lo, std::uint64_t hi, F f) {
    if (Piece* piece = whole_[slot(lo)]; piece != nullptr && piece->lo == lo && piece->hi == hi) {
      f(*piece);
      return 1;
    }
    std::size_t pieces = 0;
    for (; lo < hi; ++pieces) {
      Piece& piece = get(fit(lo, hi));
      whole_[slot(lo)] = &piece;
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
    if (Piece* piece = whole_[slot(address)]; piece != nullptr && piece->lo == address) return &piece->value;
    const Place at = first_after(address);
    return valid(at) && get(at).lo <= address ? &get(at).value : nullptr;
  }

  // Joins neighbours within [lo, hi) and at its ends whose values are the same.
  template <class Same>
  void join(std::uint64_t lo, std::uint64_t hi, Same same) {
    Place at = first_after(lo == 0 ? 0 : lo - 1);
    while (valid(at) && get(at).lo <= hi) {
      const Place after = next(at);
      if (!valid(after) || get(after).lo > hi) return;
      if (get(at).hi == get(after).lo && same(get(at).value, get(after).value)) {
        end_at(at, get(after).hi);
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
    std::fill(whole_.begin(), whole_.end(), nullptr);
    firsts_.clear();
    for (Leaf& leaf : leaves_) {
      count_ -= std::erase_if(leaf.pieces, [&](const auto& piece) { return unwanted(*piece); });
      leaf.ends.clear();
      for (const auto& piece : leaf.pieces) leaf.ends.push_back(piece->hi);
    }
    std::erase_if(leaves_, [](const Leaf& leaf) { return leaf.pieces.empty(); });
    for (const Leaf& leaf : leaves_) firsts_.push_back(leaf.pieces.front()->lo);
  }

 private:
  static constexpr std::size_t kMost = 64;        // pieces a leaf
  static constexpr std::size_t kWhole = 1 << 15;  // entries of the table of whole pieces
  struct Leaf {
    std::vector<std::uint64_t> ends;
    std::vector<std::unique_ptr<Piece>> pieces;
  };
  struct Place {
    std::size_t leaf = 0, index = 0;
  };

  // Fibonacci hashing: blocks begin at multiples of powers of two.
  static std::size_t slot(std::uint64_t lo) { return (lo * 0x9E3779B97F4A7C15u) >> 49; }

  bool valid(Place at) const { return at.leaf < leaves_.size(); }
  Piece& get(Place at) { return *leaves_[at.leaf].pieces[at.index]; }
  Place next(Place at) const {
    return at.index + 1 < leaves_[at.leaf].ends.size() ? Place{at.leaf, at.index + 1} : Place{at.leaf + 1, 0};
  }
  void end_at(Place at, std::uint64_t hi) { leaves_[at.leaf].ends[at.index] = get(at).hi = hi; }

  // The first piece that ends after `address`.
  Place first_after(std::uint64_t address) const {
    const auto above = std::upper_bound(firsts_.begin(), firsts_.end(), address);
    if (above == firsts_.begin()) return {0, 0};
    const auto leaf = static_cast<std::size_t>(above - firsts_.begin()) - 1;
    const auto& ends = leaves_[leaf].ends;
    const auto found = std::upper_bound(ends.begin(), ends.end(), address);
    if (found == ends.end()) return {leaf + 1, 0};
    return {leaf, static_cast<std::size_t>(found - ends.begin())};
  }

  // The piece that begins at lo and ends at hi or before, made by splitting or anew.
  Place fit(std::uint64_t lo, std::uint64_t hi) {
    Place at = first_after(lo);
    if (!valid(at) || get(at).lo >= hi) return insert(at, std::make_unique<Piece>(Piece{lo, hi, T{}}));
    if (get(at).lo > lo) return insert(at, std::make_unique<Piece>(Piece{lo, get(at).lo, T{}}));
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
    auto rest = std::make_unique<Piece>(Piece{where, get(at).hi, get(at).value});
    end_at(at, where);
    insert(next(at), std::move(rest));
  }

  Place insert(Place at, std::unique_ptr<Piece> piece) {
    ++count_;
    if (leaves_.empty()) {
      leaves_.emplace_back();
      firsts_.push_back(piece->lo);
      at = {0, 0};
    } else if (!valid(at) || (at.index == 0 && at.leaf > 0)) {
      at = {at.leaf - 1, leaves_[at.leaf - 1].ends.size()};
    }
    Leaf& leaf = leaves_[at.leaf];
    const auto offset = static_cast<std::ptrdiff_t>(at.index);
    leaf.ends.insert(leaf.ends.begin() + offset, piece->hi);
    leaf.pieces.insert(leaf.pieces.begin() + offset, std::move(piece));
    firsts_[at.leaf] = leaf.pieces.front()->lo;
    return leaf.ends.size() > kMost ? halve(at) : at;
  }

  Place halve(Place at) {
    Leaf& leaf = leaves_[at.leaf];
    const std::size_t kept = leaf.ends.size() / 2;
    const auto middle = static_cast<std::ptrdiff_t>(kept), after = static_cast<std::ptrdiff_t>(at.leaf) + 1;
    Leaf upper;
    upper.ends.assign(leaf.ends.begin() + middle, leaf.ends.end());
    upper.pieces.assign(std::make_move_iterator(leaf.pieces.begin() + middle),
                        std::make_move_iterator(leaf.pieces.end()));
    leaf.ends.resize(kept);
    leaf.pieces.resize(kept);
    firsts_.insert(firsts_.begin() + after, upper.pieces.front()->lo);
    leaves_.insert(leaves_.begin() + after, std::move(upper));
    return at.index < kept ? at : Place{at.leaf + 1, at.index - kept};
  }

  void erase(Place at) {
    --count_;
    Leaf& leaf = leaves_[at.leaf];
    if (Piece*& remembered = whole_[slot(get(at).lo)]; remembered == &get(at)) remembered = nullptr;
    leaf.ends.erase(leaf.ends.begin() + static_cast<std::ptrdiff_t>(at.index));
    leaf.pieces.erase(leaf.pieces.begin() + static_cast<std::ptrdiff_t>(at.index));
    if (leaf.ends.empty()) {
      leaves_.erase(leaves_.begin() + static_cast<std::ptrdiff_t>(at.leaf));
      firsts_.erase(firsts_.begin() + static_cast<std::ptrdiff_t>(at.leaf));
    } else {
      firsts_[at.leaf] = leaf.pieces.front()->lo;
    }
  }

  std::vector<std::uint64_t> firsts_;  // where each leaf begins
  std::vector<Leaf> leaves_;
  std::vector<Piece*> whole_;  // pieces by a hash of their first byte, the latest of each
  std::size_t count_ = 0;
};

}  // namespace forebay::order
