// witness: what a pool in debug mode knows of its blocks, of the work that the device did meanwhile, and what follows
// from both: which work used a block that was freed, or wrote beyond one. What is issued to find out is guarded.hpp's.
//
// Note [What is sure]. A freed block belongs to nobody until the pool may hand it out again, so whatever the program
// issues on its bytes after the free is wrong, in any order. Work that was issued before the free is wrong where it
// begins after the poison did: that comes after all that the block's streams had been given. Neither looks at a byte's
// value, so a program may write what looks like poison. Bytes are compared only where nobody may write: in front of a
// block, behind it, and in a poisoned one.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "driver/watch.hpp"
#include "pool/domain.hpp"

namespace forebay {

enum class Misuse : std::uint8_t { read_after_free, write_after_free, overrun };
enum class Part : std::uint8_t { front, back, whole };  // of a block: the canaries; all of it, poisoned
// Who goes on with a free: its caller, the one who looks at the block just now, or nobody: it is free already.
enum class Freeing : std::uint8_t { callers, lookers, nobodys };

// Work that did it, or, where only the bytes tell, may have.
struct Suspect {
  std::string name, stream, site;
  bool touched = false;  // it declares a use of the block
};

// Bytes from `address`, as the program knows the block.
struct Report {
  Misuse misuse = Misuse::overrun;
  Address address = 0;
  std::uint64_t nbytes = 0;
  std::string stream, allocated_at, freed_at;
  std::optional<std::int64_t> offset,
      last;                       // of the first and last byte that is not what was written there, from `address`
  bool further = false;           // beyond that nobody looked: the change may go on
  std::vector<Suspect> suspects;  // of a use of freed bytes, the user
  std::uint64_t forgotten = 0;    // work of that time that nobody remembers
};

// Bytes that are not what they should be, from a block's address; `further`: beyond them nobody looked.
struct Changed {
  std::int64_t first = 0, last = 0;
  bool further = false;
};

// One block. All but `lent` is under the witness's lock once the block is known to it; what the program may not touch
// does not change.
struct Guarded {
  Address begin = 0, address = 0;      // of all of it, and of the program's part
  std::uint64_t size = 0, nbytes = 0;  // likewise
  Clock* clock = nullptr;              // of the stream that orders it
  std::vector<Point> lent;             // to these; freed: where each must have got to
  std::string allocated_at, freed_at;  // sites
  bool freed = false;
  bool fenced = false, filled = false;  // canaries, poison were issued
  bool poisoned = false;                // and the poison has begun to run
  bool accused = false;                 // a use of it after its free is reported
  std::array<bool, 2> broken{};         // this canary is
  bool being_looked_at = false;         // whoever frees it meanwhile leaves the rest to the one who looks
  // How much work had begun when the canary before it, that behind it, and the poison were last known whole.
  std::array<std::uint64_t, 3> clean{};
  Address end() const { return begin + size; }
};
using GuardedPtr = std::shared_ptr<Guarded>;

class Witness final : public Watch {
 public:
  explicit Witness(const Domain& domain) : domain_(domain) {}

  void add(GuardedPtr block);
  GuardedPtr lend(Address address, Clock& clock);  // null: no live block begins there
  GuardedPtr live_at(Address address) const;       // likewise
  GuardedPtr holding(Address address) const;       // the live block that this address lies in, or null
  Freeing free(Guarded& block, std::vector<Point> lent, std::string site);
  void remove(const Guarded& block);                           // it is the pool's again
  std::vector<GuardedPtr> look_at_live();                      // each is `being_looked_at` from now on
  bool looked_at(Guarded& block);                              // no more. True: it was freed meanwhile
  std::optional<std::string> freed_at(Address address) const;  // of a block that nobody has yet
  void close();                                                // nothing is known any more

  // What is to be done when that upkeep begins to run, under the lock: with how much work had begun before.
  using Then = std::function<void(std::uint64_t begun)>;
  void when_begins(std::uint64_t upkeep, Then then);
  void forget(std::uint64_t upkeep);
  void began(const Then& then);  // upkeep that is no work of a stream: it is done now

  // A part of the block was looked at, after so much work had begun: it differs, or is whole.
  void differs(Guarded& block, Part part, Changed changed, std::uint64_t begun);
  void whole(Guarded& block, Part part, std::uint64_t begun);

  void issued(const Issued& work) override;
  void begins(const Issued& work) override;

  struct Figures {
    std::uint64_t requested = 0, freed = 0;  // bytes: asked for in live blocks; of blocks that are not back in the pool
  };
  Figures figures() const;
  std::vector<Report> reports() const;
  template <class F>
  std::optional<std::string> each(F broken) const {
    const std::lock_guard lock(lock_);
    for (const auto& [at, block] : blocks_)
      if (auto what = broken(*block)) return what;
    return std::nullopt;
  }

 private:
  static constexpr std::size_t kRemembered = 4096;  // works
  static constexpr std::size_t kNamed = 8;          // suspects in a report
  template <class F>
  void freed_uses(const Issued& work, F visit);
  void accuse(Guarded& block, const Issued& work, Mode mode);
  Report report_of(const Guarded& block, Misuse misuse) const;
  void name_suspects(Report& report, const Guarded& block, std::uint64_t from, std::uint64_t to) const;
  Suspect suspect_of(const Issued& work, const Guarded& block) const;

  const Domain& domain_;
  mutable std::mutex lock_;
  std::map<Address, GuardedPtr> blocks_;  // by `begin`: live ones, and freed ones that are not back in the pool
  std::unordered_map<std::uint64_t, Then> awaited_;
  std::deque<Issued> begun_;  // the last, oldest first
  std::uint64_t count_ = 0;   // of all that ever began
  Figures figures_;
  std::vector<Report> reports_;
};

}  // namespace forebay
