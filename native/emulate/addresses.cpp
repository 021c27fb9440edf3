#include "emulate/addresses.hpp"

#include <algorithm>
#include <utility>

namespace forebay::emulate {
namespace {

constexpr std::uint64_t kChunk = 32ull << 20;
constexpr std::uint64_t kContext = 8ull << 20;  // of its first chunk, before the first segment
constexpr std::uint64_t kMiddle = 1ull << 58;   // room for any number of address ranges on either side

constexpr std::uint64_t kSlots = 1ull << 22;

std::uint64_t up_to(std::uint64_t bytes, std::uint64_t step) { return (bytes + step - 1) / step * step; }

class Descending : public Addresses {
 public:
  explicit Descending(std::uint64_t top) : top_(top) {}
  std::uint64_t take(std::uint64_t bytes, std::uint64_t) override { return top_ -= bytes; }
  void give(std::uint64_t, std::uint64_t) override {}

 private:
  std::uint64_t top_;
};

class Ascending : public Addresses {
 public:
  std::uint64_t take(std::uint64_t bytes, std::uint64_t) override { return std::exchange(next_, next_ + bytes); }
  void give(std::uint64_t, std::uint64_t) override {}

 private:
  std::uint64_t next_ = kMiddle;
};

class Shuffled : public Addresses {
 public:
  explicit Shuffled(std::uint64_t seed) : random_(seed) {}
  std::uint64_t take(std::uint64_t bytes, std::uint64_t ordinal) override {
    // 2^22 slots of 2 TiB: larger than any segment, so that slots never overlap. A history with very many goes on
    // below.
    if (used_.size() > kSlots / 2) return beyond_.take(bytes, ordinal);
    std::uint64_t slot;
    do slot = random_() % kSlots;
    while (!used_.insert(slot).second);
    return kMiddle + (slot << 41);
  }
  void give(std::uint64_t address, std::uint64_t) override {
    if (address >= kMiddle) used_.erase((address - kMiddle) >> 41);
  }

 private:
  std::mt19937_64 random_;
  std::unordered_set<std::uint64_t> used_;
  Descending beyond_{kMiddle};
};

class Recorded : public Addresses {
 public:
  explicit Recorded(std::vector<std::uint64_t> addresses)
      : addresses_(std::move(addresses)),
        beyond_(addresses_.empty() ? kMiddle : *std::min_element(addresses_.begin(), addresses_.end())) {}
  std::uint64_t take(std::uint64_t bytes, std::uint64_t ordinal) override {
    return ordinal < addresses_.size() ? addresses_[ordinal] : beyond_.take(bytes, ordinal);
  }
  void give(std::uint64_t, std::uint64_t) override {}

 private:
  std::vector<std::uint64_t> addresses_;
  Descending beyond_;
};

// Free ranges by address, neighbours joined.
class Holes {
 public:
  void add(std::uint64_t address, std::uint64_t bytes) {
    auto after = holes_.lower_bound(address);
    if (after != holes_.end() && address + bytes == after->first) {
      bytes += after->second;
      after = holes_.erase(after);
    }
    if (after != holes_.begin()) {
      auto before = std::prev(after);
      if (before->first + before->second == address) {
        before->second += bytes;
        return;
      }
    }
    holes_.emplace(address, bytes);
  }
  // False, and nothing is changed, where the bytes are not free.
  bool cut(std::uint64_t address, std::uint64_t bytes) {
    auto hole = holes_.upper_bound(address);
    if (hole == holes_.begin()) return false;
    const auto [begin, size] = *--hole;
    if (begin + size < address + bytes) return false;
    holes_.erase(hole);
    if (begin < address) holes_.emplace(begin, address - begin);
    if (address + bytes < begin + size) holes_.emplace(address + bytes, begin + size - address - bytes);
    return true;
  }
  std::map<std::uint64_t, std::uint64_t>& ranges() { return holes_; }

 private:
  std::map<std::uint64_t, std::uint64_t> holes_;
};

// Note [The driver's addresses] in the header.
class DriverLike : public Addresses {
 public:
  explicit DriverLike(std::vector<SegmentAt> recorded) : recorded_(std::move(recorded)) {
    // No device hands out such addresses: what a recording says from there on is not followed.
    const auto beyond = [](const SegmentAt& s) { return s.address >= kMiddle || s.size >= kMiddle - s.address; };
    recorded_.erase(std::find_if(recorded_.begin(), recorded_.end(), beyond), recorded_.end());
    std::size_t last = 0;  // the chunks up to here were put among other tenants, the later ones each below the last
    for (const SegmentAt& segment : recorded_) {
      if (std::any_of(known_.begin(), known_.end(), [&](const Chunk& c) { return c.holds(segment.address); })) continue;
      known_.push_back(chunk_from(segment.address, up_to(segment.address + segment.size, kChunk)));
      if (known_.size() > 1 && known_.end()[-2].base != known_.back().base + known_.back().size)
        last = known_.size() - 1;
    }
    if (known_.size() > last + 1) known_.resize(last + 1);
    if (!shows_context()) open_context();
    if (!known_.empty()) open(known_[0]);
  }

  std::uint64_t take(std::uint64_t bytes, std::uint64_t ordinal) override {
    following_ = following_ && ordinal < recorded_.size() && recorded_[ordinal].size == bytes;
    if (following_) return follow(recorded_[ordinal].address, bytes);
    for (auto chunk = chunks_.rbegin(); chunk != chunks_.rend(); ++chunk)
      if (chunk->size - chunk->used >= bytes)
        if (const std::uint64_t address = place(*chunk, bytes)) return address;
    const auto fits = [&](const Chunk& c) { return up_to(c.used + bytes, kChunk) == c.size; };
    const auto known = std::find_if(known_.begin(), known_.end(), fits);
    open(known != known_.end() ? *known : new_chunk(up_to(bytes, kChunk)));
    return place(chunks_.back(), bytes);
  }

  void give(std::uint64_t address, std::uint64_t bytes) override {
    const auto chunk = chunk_at(address);
    if (chunk == chunks_.end()) return;  // a recording that put two segments at one place
    chunk->room.add(address, bytes);
    if ((chunk->used -= std::min(chunk->used, bytes)) > 0) return;
    space_.add(chunk->base, chunk->size);
    chunks_.erase(chunk);
  }

 private:
  struct Chunk {
    std::uint64_t base, size, used;
    Holes room;
    bool holds(std::uint64_t address) const { return base <= address && address < base + size; }
  };

  // A segment that had room behind what the context holds would have gone there, if it was there.
  bool shows_context() const {
    return std::any_of(recorded_.begin(), recorded_.end(),
                       [](const SegmentAt& segment) { return segment.size <= kChunk - kContext; });
  }

  // Above everything: nothing else comes to lie there.
  void open_context() { chunks_.push_back(chunk_from(kMiddle + kContext, kMiddle + kChunk)); }

  // What lies before `address` in its chunk is somebody else's for good.
  static Chunk chunk_from(std::uint64_t address, std::uint64_t end) {
    const std::uint64_t base = address / kChunk * kChunk;
    Chunk chunk{base, end - base, address - base, {}};
    chunk.room.add(address, end - address);
    return chunk;
  }

  std::vector<Chunk>::iterator chunk_at(std::uint64_t address) {
    return std::find_if(chunks_.begin(), chunks_.end(), [&](const Chunk& c) { return c.holds(address); });
  }

  std::uint64_t follow(std::uint64_t address, std::uint64_t bytes) {
    if (chunk_at(address) == chunks_.end()) open(chunk_from(address, up_to(address + bytes, kChunk)));
    const auto chunk = chunk_at(address);
    if (chunk->room.cut(address, bytes)) chunk->used += bytes;
    return address;
  }

  void open(Chunk chunk) {
    std::erase_if(known_, [&](const Chunk& c) { return c.base == chunk.base; });
    space_.cut(chunk.base, chunk.size);
    lowest_ = std::min(lowest_, chunk.base);
    chunks_.push_back(std::move(chunk));
  }

  static std::uint64_t place(Chunk& chunk, std::uint64_t bytes) {
    const auto& room = chunk.room.ranges();
    auto hole = std::find_if(room.begin(), room.end(), [&](const auto& h) { return h.second >= bytes; });
    if (hole == room.end()) return 0;
    const std::uint64_t address = hole->first;
    chunk.room.cut(address, bytes);
    chunk.used += bytes;
    return address;
  }

  Chunk new_chunk(std::uint64_t size) {
    for (const Chunk& c : known_) lowest_ = std::min(lowest_, c.base);
    const auto& holes = space_.ranges();
    auto hole = std::find_if(holes.rbegin(), holes.rend(), [&](const auto& h) { return h.second > size; });
    const std::uint64_t base = hole != holes.rend() ? hole->first + hole->second - size : (lowest_ -= size);
    return chunk_from(base, base + size);
  }

  std::vector<SegmentAt> recorded_;
  bool following_ = true;
  std::uint64_t lowest_ = kMiddle;  // everything below it is one hole
  Holes space_;                     // above it
  std::vector<Chunk> chunks_;       // the newest last
  std::vector<Chunk> known_;        // as a recording shows them, not used yet
};

}  // namespace

std::unique_ptr<Addresses> recorded_addresses(std::vector<std::uint64_t> addresses) {
  return std::make_unique<Recorded>(std::move(addresses));
}
std::unique_ptr<Addresses> descending_addresses() { return std::make_unique<Descending>(kMiddle); }
std::unique_ptr<Addresses> ascending_addresses() { return std::make_unique<Ascending>(); }
std::unique_ptr<Addresses> shuffled_addresses(std::uint64_t seed) { return std::make_unique<Shuffled>(seed); }
std::unique_ptr<Addresses> driver_addresses(std::vector<SegmentAt> recorded) {
  return std::make_unique<DriverLike>(std::move(recorded));
}

}  // namespace forebay::emulate
