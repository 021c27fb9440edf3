// memo: the numbered places in which a pickle keeps values to refer to again.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "ingest/document.hpp"

namespace forebay::ingest {

// The numbered places of a pickle. Dense while the numbers are handed out in order, as every pickler does.
class Memo {
 public:
  void put(std::uint64_t at, Cell cell) {
    if (at < dense_.size()) {
      dense_[at] = cell;
    } else if (at == dense_.size()) {
      dense_.push_back(cell);
      sparse_.erase(at);
    } else {
      sparse_[at] = cell;
    }
  }
  const Cell* get(std::uint64_t at) const {
    if (at < dense_.size()) return &dense_[at];
    const auto found = sparse_.find(at);
    return found == sparse_.end() ? nullptr : &found->second;
  }
  std::uint64_t size() const { return dense_.size() + sparse_.size(); }

 private:
  std::vector<Cell> dense_;
  std::unordered_map<std::uint64_t, Cell> sparse_;
};

}  // namespace forebay::ingest
