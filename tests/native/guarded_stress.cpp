// guarded_stress: random operations on a pool in debug mode, judged by the bytes and by what the test itself did wrong.
//   guarded_stress OPERATIONS THREADS SEED [segments|frames|pinned]
// Every block is filled with a value of its own, and work that comes after looks for that value when it runs: canaries,
// poison and reuse may not touch it before. One thread: blocks in quarantine are given to nobody, requested bytes are a
// plain sum, every mistake that is planted (a write beyond a block, a use or a write after its free) is reported with
// its exact bytes, and nothing else ever is; the full walk every 1,000 operations. More threads: nobody is accused.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <tuple>

#include "bytes_driver.hpp"
#include "pool/guarded.hpp"

namespace forebay::test {
namespace {

constexpr std::uint64_t kCapacity = 64 * kMiB, kFrame = 2 * kMiB, kQuarantine = 256 * 1024;
constexpr std::uint64_t kStreamCount = 4, kHost = 5;  // ids 1 to 4; nothing ever works on the last
constexpr std::uint64_t kRound = 20'000;              // operations of one world
constexpr std::uint64_t kCanary = 64;                 // bytes of it that are sure on either side

[[noreturn]] void fail(const char* what, std::uint64_t a = 0, std::uint64_t b = 0) {
  std::fprintf(stderr, "guarded_stress: %s (%llu, %llu)\n", what, static_cast<unsigned long long>(a),
               static_cast<unsigned long long>(b));
  std::abort();
}

// Misuse, block, first and last byte.
using Found = std::tuple<Misuse, Address, std::int64_t, std::int64_t>;

struct World {
  World(const std::string& kind, bool roomy)
      : driver(kCapacity, kFrame),
        domain(driver, 0, [this](std::chrono::nanoseconds) { (void)driver.device_sync(0); }),
        pinned(kind == "pinned"),
        pool((adopt(), domain), options(kind, roomy), kQuarantine) {}
  void adopt() {
    for (std::uint64_t s = 1; s <= kHost; ++s)
      if (!domain.adopt(StreamHandle{s}, Lifetime::ours).ok()) fail("adopt");
  }
  // What is handed back because memory ran out is not looked at: so not where every mistake must be found.
  static PoolOptions options(const std::string& kind, bool roomy) {
    PoolOptions o;
    o.growth = kind == "frames" ? GrowBy::frames : GrowBy::segments;
    if (!roomy) o.limit = 12 * kMiB;
    if (kind == "pinned") o.space = Space::pinned;
    return o;
  }
  void walk() {
    if (const auto broken = pool.walk()) fail(broken->c_str());
  }

  BytesDriver driver;
  Domain domain;
  const bool pinned;
  GuardedPool pool;
};

struct Held {
  Address address;
  std::uint64_t nbytes, home, last;  // streams: it was allocated for, worked on last
  std::uint8_t value;
  bool lent = false, broken = false;
};

class Actor {
 public:
  Actor(World& world, std::uint64_t seed, bool alone) : w_(world), random_(seed), alone_(alone) {}

  void run(std::uint64_t operations) {
    for (std::uint64_t i = 1; i <= operations; ++i) {
      step();
      if (alone_ && i % 1000 == 0) w_.walk();
      if (alone_ && i % 500 == 0) check();
    }
    while (!held_.empty()) free(held_.size() - 1);
  }
  // Everything is over: what was found is what was planted.
  void check() {
    w_.pool.check();
    std::vector<Found> found;
    for (const Report& r : w_.pool.reports())
      found.emplace_back(r.misuse, r.address, r.offset.value_or(0), r.last.value_or(0));
    std::sort(found.begin(), found.end());
    std::sort(planted_.begin(), planted_.end());
    if (found != planted_) fail("other mistakes were found than were made", found.size(), planted_.size());
  }
  std::size_t planted() const { return planted_.size(); }

 private:
  std::uint64_t below(std::uint64_t n) { return random_() % n; }
  std::uint64_t some_stream() { return 1 + below(kStreamCount); }

  void step() {
    const std::uint64_t what = below(100);
    if (what < 34 || held_.empty())
      take();
    else if (what < 60)
      free(below(held_.size()));
    else if (what < 80)
      use(below(held_.size()));
    else if (what < 95)
      w_.driver.finish_some(some_stream(), [this](std::uint64_t most) { return below(most); });
    else if (what < 96)
      trim();
    else if (what < 97)
      look();
    else if (alone_)
      plant();
  }

  void take() {
    while (held_.size() > 24) free(below(held_.size()));
    const std::uint64_t bytes = below(8) == 0 ? 1 + below(200'000) : 1 + below(9000);
    const std::uint64_t home = w_.pinned ? kHost : some_stream();
    Address address = 0;
    try {
      address = w_.pool.alloc(bytes, home, "alloc").address;
    } catch (const PoolFault& fault) {
      if (fault.code != PoolFault::Code::exhausted && fault.code != PoolFault::Code::pending)
        fail("a fault that is none");
      if (!held_.empty()) free(below(held_.size()));
      return;
    }
    Held block{address, bytes, home, home, static_cast<std::uint8_t>(below(256))};
    if (alone_) nobodys(block);
    if (w_.pinned)
      std::memset(w_.driver.at(address), block.value, bytes);
    else
      w_.driver.work(home, {BytesDriver::use(address, bytes, Mode::write)},
                     [d = &w_.driver, block] { std::memset(d->at(block.address), block.value, block.nbytes); });
    held_.push_back(block);
    requested_ += bytes;
  }

  // Canaries on both sides are the pool's, and so is what is in quarantine.
  void nobodys(const Held& block) {
    const auto apart = [&](const Held& other) {
      return block.address + block.nbytes + kCanary <= other.address - kQuantum ||
             other.address + other.nbytes + kCanary <= block.address - kQuantum;
    };
    for (const Held& other : held_)
      if (!apart(other)) fail("bytes handed out twice", block.address, other.address);
    std::erase_if(freed_, [&](const Held& other) { return !w_.pool.freed_at(other.address); });
    for (const Held& other : freed_)
      if (!apart(other)) fail("bytes in quarantine were handed out", block.address, other.address);
  }

  // Work on some stream, after all earlier work on the block, that looks for its value.
  void use(std::size_t which) {
    Held& block = held_[which];
    const std::uint64_t on = some_stream();
    if (on != block.home) {
      if (!w_.pool.lend(block.address, on, w_.domain)) fail("a live block was not known", block.address);
      block.lent = true;
    }
    if (on != block.last && block.last != kHost) {
      const Mark mark = w_.domain.mark(block.last);
      w_.driver.order(on, block.last);
      w_.domain.ordered(on, mark);
    }
    block.last = on;
    w_.driver.work(on, {BytesDriver::use(block.address, block.nbytes, Mode::read)}, [d = &w_.driver, block] {
      const std::uint8_t* const first = d->at(block.address);
      for (std::uint64_t i = 0; i < block.nbytes; i += 1 + block.nbytes / 97)
        if (first[i] != block.value) fail("a live block lost its bytes", block.address, i);
    });
  }

  void free(std::size_t which) {
    const Held block = held_[which];
    held_[which] = held_.back();
    held_.pop_back();
    requested_ -= block.nbytes;
    if (!w_.pool.free(block.address, "free")) fail("a live block was not known", block.address);
    if (!alone_) return;
    if (w_.pool.free(block.address, "free")) fail("a block was freed twice", block.address);
    freed_.push_back(block);
    if (below(60) == 0) misuse_freed(block);
  }

  void trim() {
    if (alone_) w_.pool.check();  // a trim gives up what waits for streams, without a look
    (void)w_.pool.trim();
  }

  void look() {
    const Gauges g = w_.pool.gauges();
    if (!alone_) return;
    if (g.requested != requested_) fail("the bytes asked for are not those that live", g.requested, requested_);
    if (g.allocated + g.pending + g.cached != g.reserved) fail("figures do not sum to reserved", g.reserved);
  }

  // ---- mistakes

  // A run of bytes beyond either end, within what is sure to be canary.
  void plant() {
    if (below(8) != 0) return;
    Held& block = held_[below(held_.size())];
    if (std::exchange(block.broken, true)) return;
    const std::uint64_t skipped = below(20), bytes = 1 + below(20);
    const bool before = below(2) == 0;
    const auto first =
        before ? -static_cast<std::int64_t>(skipped + bytes) : static_cast<std::int64_t>(block.nbytes + skipped);
    planted_.emplace_back(Misuse::overrun, block.address, first, first + static_cast<std::int64_t>(bytes) - 1);
    const Address at = block.address + static_cast<std::uint64_t>(first);
    const auto overrun = [d = &w_.driver, at, bytes] { std::memset(d->at(at), 0x11, bytes); };
    w_.pinned ? overrun() : w_.driver.work(block.home, {}, overrun);
  }

  // At once, so that nobody else has the bytes by then.
  void misuse_freed(const Held& block) {
    if (!w_.pool.freed_at(block.address)) return;
    if (below(2) == 0) {
      w_.driver.work(some_stream(), {BytesDriver::use(block.address, block.nbytes, Mode::read)}, [] {});
      planted_.emplace_back(Misuse::read_after_free, block.address, 0, 0);
    } else if (!block.lent && block.nbytes < kMiB / 4) {  // else its poison may come later than the write
      const std::uint64_t offset = below(block.nbytes);
      const auto write = [d = &w_.driver, at = block.address + offset] { *d->at(at) = 0x22; };
      w_.pinned ? write() : w_.driver.work(block.home, {}, write);
      const auto at = static_cast<std::int64_t>(offset);
      planted_.emplace_back(Misuse::write_after_free, block.address, at, at);
    }
    (void)w_.driver.device_sync(0);
  }

  World& w_;
  std::mt19937_64 random_;
  const bool alone_;
  std::vector<Held> held_, freed_;
  std::vector<Found> planted_;
  std::uint64_t requested_ = 0;
};

void run(std::uint64_t operations, std::size_t threads, std::uint64_t seed, const std::string& kind) {
  std::size_t planted = 0, unseen = 0;
  for (std::uint64_t done = 0; done < operations; done += kRound, ++seed) {
    World world(kind, threads == 1);
    std::vector<std::unique_ptr<Actor>> actors;
    for (std::size_t t = 0; t < threads; ++t)
      actors.push_back(std::make_unique<Actor>(world, seed * threads + t, threads == 1));
    std::vector<std::thread> running;
    for (auto& actor : actors) running.emplace_back([&] { actor->run(std::min(kRound, operations - done) / threads); });
    for (auto& thread : running) thread.join();
    actors[0]->check();
    world.walk();
    if (const Gauges g = world.pool.gauges(); g.allocated != 0 || g.requested != 0)
      fail("bytes are live after all frees");
    if (threads == 1 && world.pool.unseen() > 0) fail("a block was not looked at", world.pool.unseen());
    planted += actors[0]->planted(), unseen += world.pool.unseen();
  }
  std::printf("%llu operations on %zu threads: %zu mistakes made and found, %zu blocks not looked at\n",
              static_cast<unsigned long long>(operations), threads, planted, unseen);
}

}  // namespace
}  // namespace forebay::test

int main(int argc, char** argv) {
  const std::string kind = argc == 5 ? argv[4] : "segments";
  if (argc < 4 || argc > 5 || (kind != "segments" && kind != "frames" && kind != "pinned")) {
    std::fprintf(stderr, "usage: guarded_stress OPERATIONS THREADS SEED [segments|frames|pinned]\n");
    return 2;
  }
  forebay::test::run(std::strtoull(argv[1], nullptr, 10), std::strtoull(argv[2], nullptr, 10),
                     std::strtoull(argv[3], nullptr, 10), kind);
}
