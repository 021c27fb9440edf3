// custody: freed blocks of a pool in debug mode, from their free until they may be handed out again. They wait for the
// streams that they were lent to, are filled with poison, stay in quarantine, are looked at and go back. It issues that
// work and decides when; what it proves is witness.hpp's, whose the blocks are its owner's (guarded.hpp,
// paged_debug.hpp).
//
// Note [Checks are work]. A block is filled with poison in its stream, once every stream that it was lent to is past
// its uses (no edge is added for that: the block waits). So no use that was ordered before the free is harmed. Bytes
// that are compared are copied out in that stream and looked at later, when the copy is known complete. A block whose
// stream is over is handed back without a look; what the driver refuses is not looked at: both are counted in `unseen`.
// None of this work is on a tape. Pinned bytes belong to the host when nobody works on them: the host fills and
// compares them itself, at once, before they can be anybody's again. Of a poisoned block at most 1 MiB is compared,
// half of it at either end.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "pool/pool.hpp"
#include "pool/witness.hpp"

namespace forebay {

struct CustodyOptions {
  std::string name;              // of the pool
  Space space = Space::device;   // of its memory
  std::uint64_t quarantine = 0;  // bytes of freed blocks that are kept from reuse, the first freed given up first
  std::chrono::nanoseconds wait_limit{0};  // of one check
};

class Custody {
 public:
  // Registers its witness with the driver.
  Custody(Domain& domain, CustodyOptions options);
  virtual ~Custody() = default;
  Custody(const Custody&) = delete;
  Custody& operator=(const Custody&) = delete;

  Witness& witness() const { return *witness_; }
  void unseen(std::uint64_t blocks = 1) { unseen_.fetch_add(blocks, std::memory_order_relaxed); }
  std::uint64_t blocks_unseen() const { return unseen_.load(std::memory_order_relaxed); }
  std::uint64_t staging_reserved() const { return staging_.reserved(); }
  std::optional<std::string> walk() const { return staging_.walk(); }

  // Work in a block's stream, or the host's on pinned bytes. `fill` is false where it was not issued; `then` hears how
  // much work had begun before. `look_at` compares bytes that must have their part's value.
  bool watched(const Guarded& block) const;
  bool fill(const Guarded& block, Address from, std::uint8_t value, std::uint64_t bytes, Witness::Then then);
  void look_at(const GuardedPtr& block, Part part, Address from, std::uint64_t bytes);

  // A block that the witness knows freed; never waits or fails.
  void take(const GuardedPtr& block);
  void tend();                // whatever is due
  void give_up();             // quarantine, and what waits
  void give_up_for_others();  // likewise; calls no driver and waits for nothing
  void check();               // gives up quarantine and waits for every look. Throws PoolFault: pending
  bool over() const { return domain_.forked(); }

  static constexpr std::uint8_t kCanary = 0xc5, kPoison = 0xdb;

 protected:
  // Its owner's: what is to be looked at before the poison, and the block's end. Under no lock.
  virtual void look_before_poison(const GuardedPtr&) {}
  virtual void hand_back(const Guarded& block) = 0;
  void give(const Guarded& block);  // back to its owner, without more ado
  bool dead() const { return domain_.dead(); }
  void close();  // nothing is known any more: for its owner's destructor

 private:
  // Bytes that were copied out: all of them must have one value.
  struct Look {
    GuardedPtr block;
    Address from = 0, staging = 0;
    std::uint64_t bytes = 0, upkeep = 0;
    Part part = Part::front;
    Point done;
    std::shared_ptr<std::uint64_t> begun;  // work that had begun when it ran
    // Whether nobody looks beyond its first byte, its last: a change may go on there.
    bool ends_before() const { return part == Part::front || (part == Part::whole && from != block->begin); }
    bool ends_behind() const { return part == Part::back || (part == Part::whole && from + bytes != block->end()); }
  };

  std::uint8_t* host(Address from, std::uint64_t bytes) const;  // null: the driver does not say
  void poison(const GuardedPtr& block);
  void poison_ripe();
  void evict(std::uint64_t most);
  void look_at_poison(const GuardedPtr& block);
  void compare(const Look& look, const std::uint8_t* bytes, std::uint64_t begun);
  void examine(const Look& look);
  void examine_done();
  std::vector<Point> awaited();
  std::optional<GuardedPtr> next_in_quarantine(std::uint64_t most);
  PoolFault pending(const std::vector<Point>& left, std::chrono::nanoseconds waited) const;

  Domain& domain_;
  const CustodyOptions options_;
  const std::shared_ptr<Witness> witness_;
  std::mutex mutex_;                 // of what follows; never held across a call of the driver or of the pools
  std::deque<GuardedPtr> kept_;      // poisoned, the first freed first
  std::vector<GuardedPtr> waiting_;  // for streams that they were lent to
  std::deque<Look> looks_;
  std::uint64_t kept_bytes_ = 0;
  std::atomic<std::uint64_t> unseen_{0};
  Pool staging_;
};

}  // namespace forebay
