// guarded: a pool in debug mode: canaries around blocks, poison on free, freed blocks in quarantine. It issues that
// work and decides when; what it proves is witness.hpp's, the blocks are an ordinary pool's.
//
// Note [Checks are work]. Canaries are filled in when a block is handed out, in its stream; when it is freed they are
// copied out and the whole block is filled with poison, in its stream, once every stream that it was lent to is past
// its uses (no edge is added for that: the block waits). So no use that was ordered before the free is harmed, and what
// was copied is looked at later, when it is known complete. A block whose stream is over is freed without a look;
// what the driver refuses is not looked at: both are counted in `unseen`. None of this work is on a tape.
// Note [How a block lies]. 512 bytes of canary, the program's bytes, at least 64 and at most 4096 bytes of canary. Of a
// poisoned block at most 1 MiB is compared, half of it at either end.
#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "pool/pool.hpp"
#include "pool/witness.hpp"

namespace forebay {

class GuardedPool : private Hoard {
 public:
  // `quarantine` is how many bytes of freed blocks are kept from reuse, the first freed given up first.
  GuardedPool(Domain& domain, PoolOptions options, std::uint64_t quarantine);
  ~GuardedPool() override;

  // As Pool's, with the place in the program. A free issues work of its stream, and never waits or fails.
  Granted alloc(std::uint64_t bytes, std::uint64_t stream, std::string site);
  bool free(Address address, std::string site);
  bool lend(Address address, std::uint64_t stream, const Domain& peer);
  std::uint64_t trim();  // quarantine is given up too
  // Freed blocks that are kept are `pending`; `allocated` holds the canaries, `requested` does not. The largest holes
  // are the largest requests that they serve, without what quarantine would give.
  Gauges gauges() { return own(pool_.gauges()); }
  Gauges gauges(std::uint64_t stream) { return own(pool_.gauges(stream)); }
  std::uint64_t reserved() const { return pool_.reserved(); }
  void set_limit(std::optional<std::uint64_t> limit) { pool_.set_limit(limit); }
  std::optional<Granted> underlying(Address address) const;
  // The live block that this address lies in; null: none.
  GuardedPtr holding(Address address) const { return domain_.dead() ? nullptr : witness_->holding(address); }
  std::uint64_t staging_reserved() const { return staging_.reserved(); }  // pinned bytes for what is copied out
  std::optional<std::string> walk() const;

  // Looks at every block now, and gives up quarantine: waits for the work that this takes. Throws PoolFault.
  void check();
  std::vector<Report> reports() const { return domain_.forked() ? std::vector<Report>{} : witness_->reports(); }
  std::uint64_t unseen() const { return unseen_.load(std::memory_order_relaxed); }
  std::optional<std::string> freed_at(Address address) const {
    return domain_.forked() ? std::nullopt : witness_->freed_at(address);
  }
  const PoolOptions& options() const { return options_; }

 private:
  // Bytes that were copied out: all of them must have one value.
  struct Look {
    GuardedPtr block;
    Address from = 0, staging = 0;
    std::uint64_t bytes = 0, upkeep = 0;
    Part part = Part::front;
    Point done;
    std::shared_ptr<std::uint64_t> begun;  // work that had begun when it ran
  };

  void give_up() override;
  void give_up_for_others() override;
  void tend();
  void fence(const GuardedPtr& block);
  void finish_free(const GuardedPtr& block);
  void fill(const GuardedPtr& block);
  void poison_ripe();
  void evict(std::uint64_t most);
  void look_at_canaries(const GuardedPtr& block);
  void look_at_poison(const GuardedPtr& block);
  void look_at(const GuardedPtr& block, Part part, Address from, std::uint64_t bytes);
  void examine(const Look& look);
  void examine_done();
  std::vector<Point> awaited();
  void hand_back(const Guarded& block);
  bool set(const Guarded& block, Address from, std::uint8_t value, std::uint64_t bytes, Witness::Then then);
  std::optional<GuardedPtr> next_in_quarantine(std::uint64_t most);
  Gauges own(Gauges gauges) const;
  PoolFault pending(const std::vector<Point>& left, std::chrono::nanoseconds waited) const;
  void tell(Kind kind, const Guarded& block, const Clock& clock) const;
  void tell_refusal(std::uint64_t bytes, std::uint64_t stream) const;
  void write(const Row& row) const;

  Domain& domain_;
  const PoolOptions options_;  // as they were asked for
  const std::uint64_t quarantine_;
  const std::shared_ptr<Witness> witness_;
  std::mutex mutex_;                 // of what follows; never held across a call of the driver or of the pools
  std::deque<GuardedPtr> kept_;      // poisoned, the first freed first
  std::vector<GuardedPtr> waiting_;  // for streams that they were lent to
  std::deque<Look> looks_;
  std::uint64_t kept_bytes_ = 0;
  std::atomic<std::uint64_t> unseen_{0};
  Pool staging_, pool_;  // the last: while it ends, others may still ask for what is kept
};

}  // namespace forebay
