#include "pool/best_fit.hpp"

namespace forebay {
namespace {

// The finaliser of splitmix64 (Steele, Lea and Flood, 2014).
std::uint64_t priority(const Block* b) {
  std::uint64_t z = b->address + 0x9e3779b97f4a7c15;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

bool before(const Block* a, const Block* b) { return a->size != b->size ? a->size < b->size : a->address < b->address; }

// Cuts a treap in two: what stands before `key`, and the rest.
void cut(Block* root, const Block* key, Block*& low, Block*& high) {
  Block **l = &low, **h = &high;
  while (root != nullptr) {
    if (before(root, key)) {
      *l = root;
      l = &root->right;
      root = *l;
    } else {
      *h = root;
      h = &root->left;
      root = *h;
    }
  }
  *l = *h = nullptr;
}

// Puts two treaps together, all of `low` before all of `high`, at `at`.
void join(Block* low, Block* high, Block** at) {
  while (low != nullptr && high != nullptr) {
    if (priority(low) > priority(high)) {
      *at = low;
      at = &low->right;
      low = *at;
    } else {
      *at = high;
      at = &high->left;
      high = *at;
    }
  }
  *at = low != nullptr ? low : high;
}

Block* first_from(Block* root, std::uint64_t bytes) {
  Block* best = nullptr;
  while (root != nullptr) {
    if (root->size >= bytes) best = root;
    root = root->size >= bytes ? root->left : root->right;
  }
  return best;
}

Block* next_after(Block* root, const Block* block) {
  Block* best = nullptr;
  while (root != nullptr) {
    if (before(block, root)) best = root;
    root = before(block, root) ? root->left : root->right;
  }
  return best;
}

}  // namespace

void BestFit::insert(Block* block) {
  const std::size_t bin = bin_of(block->size);
  Block** at = &roots_[bin];
  while (*at != nullptr && priority(*at) > priority(block)) at = before(*at, block) ? &(*at)->right : &(*at)->left;
  cut(*at, block, block->left, block->right);
  *at = block;
  held_[bin / 64] |= std::uint64_t{1} << (bin % 64);
  ++count_;
}

void BestFit::remove(Block* block) {
  const std::size_t bin = bin_of(block->size);
  Block** at = &roots_[bin];
  while (*at != block) at = before(*at, block) ? &(*at)->right : &(*at)->left;
  join(block->left, block->right, at);
  block->left = block->right = nullptr;
  if (roots_[bin] == nullptr) held_[bin / 64] &= ~(std::uint64_t{1} << (bin % 64));
  --count_;
}

std::size_t BestFit::bin_from(std::size_t bin) const {
  for (std::size_t word = bin / 64; word < held_.size(); ++word) {
    const std::uint64_t mask = word == bin / 64 ? ~std::uint64_t{0} << (bin % 64) : ~std::uint64_t{0};
    if (const std::uint64_t bits = held_[word] & mask; bits != 0) return word * 64 + std::countr_zero(bits);
  }
  return kBins;
}

Block* BestFit::find(std::uint64_t bytes) const {
  if (count_ == 0) return nullptr;
  const std::size_t bin = bin_of(bytes);
  if (Block* block = first_from(roots_[bin], bytes)) return block;
  const std::size_t larger = bin + 1 < kBins ? bin_from(bin + 1) : kBins;
  return larger == kBins ? nullptr : first_from(roots_[larger], bytes);
}

Block* BestFit::after(const Block* block) const {
  const std::size_t bin = bin_of(block->size);
  if (Block* next = next_after(roots_[bin], block)) return next;
  const std::size_t larger = bin + 1 < kBins ? bin_from(bin + 1) : kBins;
  return larger == kBins ? nullptr : first_from(roots_[larger], 0);
}

std::uint64_t BestFit::largest() const {
  for (std::size_t word = held_.size(); word-- > 0;) {
    if (held_[word] == 0) continue;
    const Block* root = roots_[word * 64 + 63 - std::countl_zero(held_[word])];
    while (root->right != nullptr) root = root->right;
    return root->size;
  }
  return 0;
}

}  // namespace forebay
