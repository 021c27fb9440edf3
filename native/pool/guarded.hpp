// guarded: a pool in debug mode: canaries around blocks, poison on free, freed blocks in quarantine. It hands out
// blocks of an ordinary pool with canaries around them; what becomes of a freed one is custody.hpp's, what its checks
// prove witness.hpp's.
//
// Note [Canaries]. They are filled in when a block is handed out, in its stream, and looked at just before its poison.
// Note [How a block lies]. 512 bytes of canary, the program's bytes, at least 64 and at most 4096 bytes of canary.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "pool/custody.hpp"

namespace forebay {

class GuardedPool : private Hoard, private Custody {
 public:
  // `quarantine` is how many bytes of freed blocks are kept from reuse.
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
  GuardedPtr holding(Address address) const { return domain_.dead() ? nullptr : witness().holding(address); }
  using Custody::staging_reserved;  // pinned bytes for what is copied out
  std::optional<std::string> walk() const;

  // Looks at every block now, and gives up quarantine: waits for the work that this takes. Throws PoolFault.
  void check();
  std::vector<Report> reports() const { return over() ? std::vector<Report>{} : witness().reports(); }
  std::uint64_t unseen() const { return blocks_unseen(); }
  std::optional<std::string> freed_at(Address address) const {
    return over() ? std::nullopt : witness().freed_at(address);
  }
  const PoolOptions& options() const { return options_; }

 private:
  void give_up() override { Custody::give_up(); }
  void give_up_for_others() override { Custody::give_up_for_others(); }
  void look_before_poison(const GuardedPtr& block) override;
  void hand_back(const Guarded& block) override { pool_.free_after(block.begin, block.lent); }
  void fence(const GuardedPtr& block);
  void look_at_canaries(const GuardedPtr& block);
  Gauges own(Gauges gauges) const;
  void tell(Kind kind, const Guarded& block, const Clock& clock) const;
  void tell_refusal(std::uint64_t bytes, std::uint64_t stream) const;
  void write(const Row& row) const;

  Domain& domain_;
  const PoolOptions options_;  // as they were asked for
  Pool pool_;                  // the last: while it ends, others may still ask for what is kept
};

}  // namespace forebay
