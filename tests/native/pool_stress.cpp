// pool_stress: random operations on two sibling pools, judged against a shadow of the address space.
//   pool_stress OPERATIONS THREADS SEED [segments|frames|mixed]
// One thread: each byte handed out is checked to be free, and every use of it before to be ordered before the stream
// that gets it. More threads: overlap only, through relaxed marks, so that the sanitizer sees the pool's own locks and
// no others. Frames go only when every use of them is over. Every 1,000 operations of one thread, and at the end, the
// full walk.
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <string>
#include <thread>

#include "plain_driver.hpp"
#include "pool/pool.hpp"

namespace forebay::test {
namespace {

constexpr std::uint64_t kCapacity = 96 * kMiB;
constexpr std::uint64_t kStreamCount = 5;  // ids 1 to 5; the last is foreign
constexpr std::uint64_t kFrame = 2 * kMiB;
constexpr std::size_t kGranules = 16 * kCapacity / kQuantum;  // ranges are as large as the device

[[noreturn]] void fail(const char* what, std::uint64_t a = 0, std::uint64_t b = 0) {
  std::fprintf(stderr, "pool_stress: %s (%llu, %llu)\n", what, static_cast<unsigned long long>(a),
               static_cast<unsigned long long>(b));
  std::abort();
}

struct Held {
  Pool* pool;
  Address address;
  std::uint64_t size;
  std::vector<std::uint64_t> streams;  // that work on it
};

// Until where each stream had been given work when bytes were freed.
using Uses = std::vector<std::pair<std::uint64_t, std::uint64_t>>;

class World {
 public:
  World(GrowBy growth_of_first, GrowBy growth_of_second)
      : driver(kCapacity, kFrame),
        domain(driver, 0),
        first(domain, options(0, std::nullopt, growth_of_first)),
        second(domain, options(1, 40 * kMiB, growth_of_second)) {
    for (std::uint64_t s = 1; s <= kStreamCount; ++s)
      if (!domain.adopt(StreamHandle{s}, s == kStreamCount ? Lifetime::foreign : Lifetime::ours).ok()) fail("adopt");
  }
  static PoolOptions options(std::uint32_t index, std::optional<std::uint64_t> limit, GrowBy growth) {
    PoolOptions o;
    o.index = index;
    o.limit = limit;
    o.growth = growth;
    o.wait_limit = std::chrono::nanoseconds(0);
    if (index == 1) o.buckets = {1000, 100'000, 3 * kMiB};
    return o;
  }
  void walk() {
    for (const Pool* pool : {&first, &second})
      if (const auto broken = pool->walk()) {
        std::fprintf(stderr, "walk: %s\n", broken->c_str());
        std::abort();
      }
    const Frames& frames = domain.frames();
    if (first.reserved() + second.reserved() + frames.idle_bytes() + frames.quarantined_bytes(Space::device) !=
        driver.used())
      fail("reserved is not what the driver gave");
  }

  PlainDriver driver;
  Domain domain;
  Pool first, second;
  std::vector<std::atomic<std::uint8_t>> taken = std::vector<std::atomic<std::uint8_t>>(kGranules);
  std::vector<std::uint32_t> last_uses = std::vector<std::uint32_t>(kGranules, 0);  // index into `uses`
  std::vector<Uses> uses = {{}};
  std::array<std::array<std::uint64_t, kStreamCount + 1>, kStreamCount + 1> waited{};  // edges told
};

class Actor {
 public:
  Actor(World& world, std::uint64_t seed, std::size_t threads) : w_(world), random_(seed), threads_(threads) {
    if (threads == 1) w_.driver.on_unmap = [this](Address at, std::uint64_t bytes) { unmapped(at, bytes); };
  }

  ~Actor() { w_.driver.on_unmap = nullptr; }
  Actor(const Actor&) = delete;
  Actor& operator=(const Actor&) = delete;

  void run(std::uint64_t operations) {
    for (std::uint64_t i = 1; i <= operations; ++i) {
      step();
      if (threads_ == 1 && i % 1000 == 0) w_.walk();
    }
    while (!held_.empty()) give(held_.size() - 1);
  }
  std::uint64_t allocations = 0, refusals = 0;

 private:
  std::uint64_t below(std::uint64_t n) { return random_() % n; }
  std::uint64_t some_stream() { return 1 + below(kStreamCount); }
  std::uint64_t some_size() {
    const std::uint64_t kind = below(10);
    if (kind < 5) return 1 + below(5000);
    if (kind < 9) return 1 + below(300'000);
    return 1 + below(12 * kMiB);
  }

  void step() {
    const std::uint64_t what = below(100);
    if (what < 45) {
      take(below(3) == 0 ? w_.second : w_.first, some_stream(), some_size());
    } else if (what < 84) {
      if (!held_.empty()) give(below(held_.size()));
    } else if (what < 90) {
      lend();
    } else if (what < 96) {
      const std::uint64_t s = some_stream();
      w_.driver.finish_some(s, [this](std::uint64_t most) { return below(most); });
    } else if (what < 98) {
      edge();
    } else if (what == 98) {
      look();
    } else if (below(50) == 0) {
      w_.first.trim();
    }
  }

  void take(Pool& pool, std::uint64_t stream, std::uint64_t bytes) {
    Granted got;
    try {
      got = pool.alloc(bytes, stream);
    } catch (const PoolFault& fault) {
      if (fault.code != PoolFault::Code::exhausted) fail("a fault that is none", static_cast<int>(fault.code));
      ++refusals;
      while (held_.size() > 20) give(below(held_.size()));
      return;
    }
    ++allocations;
    if (got.size < bytes || got.address % kQuantum != 0) fail("a block too small or misplaced", got.address, bytes);
    mark(got, 1, stream);
    held_.push_back({&pool, got.address, got.size, {stream}});
    w_.driver.issue(stream);
  }

  // More threads look at 64 granules of a block only: they must stay cheap.
  void mark(const Granted& block, std::uint8_t value, std::uint64_t stream) {
    const std::size_t begin = (block.address - PlainDriver::kBase) / kQuantum, count = block.size / kQuantum;
    const std::size_t stride = threads_ == 1 ? 1 : 1 + count / 64;
    if (begin + count > kGranules) fail("an address beyond the shadow", block.address);
    for (std::size_t g = begin; g < begin + count; g += stride) {
      if (w_.taken[g].exchange(value, std::memory_order_relaxed) == value)
        fail("bytes handed out twice", block.address, g);
      if (threads_ == 1 && value == 1) ordered(g, stream);
    }
  }

  void ordered(std::size_t granule, std::uint64_t stream) {
    for (const auto& [used_on, until] : w_.uses[w_.last_uses[granule]])
      if (used_on != stream && w_.driver.done(used_on) < until && w_.waited[stream][used_on] < until)
        fail("bytes handed out before a use of them was over", granule, used_on);
  }

  void give(std::size_t at) {
    Held block = std::move(held_[at]);
    held_[at] = std::move(held_.back());
    held_.pop_back();
    for (const std::uint64_t s : block.streams) w_.driver.issue(s);
    mark({block.address, block.size}, 0, 0);
    if (threads_ == 1) remember(block);
    if (!block.pool->free(block.address)) fail("a live block was not known", block.address);
    if (threads_ == 1 && block.pool->free(block.address)) fail("a block was freed twice", block.address);
  }

  // An unmap waits for nothing, so the host must know every use over.
  void unmapped(Address address, std::uint64_t bytes) {
    const std::size_t begin = (address - PlainDriver::kBase) / kQuantum;
    for (std::size_t g = begin; g < begin + bytes / kQuantum; ++g) {
      if (w_.taken[g].load(std::memory_order_relaxed) != 0) fail("live bytes lost their frame", address, g);
      for (const auto& [used_on, until] : w_.uses[w_.last_uses[g]])
        if (w_.driver.done(used_on) < until) fail("bytes lost their frame before a use of them was over", g, used_on);
    }
  }

  void remember(const Held& block) {
    Uses uses;
    for (const std::uint64_t s : block.streams) uses.emplace_back(s, w_.driver.issued(s));
    w_.uses.push_back(std::move(uses));
    const std::size_t begin = (block.address - PlainDriver::kBase) / kQuantum;
    for (std::size_t g = begin; g < begin + block.size / kQuantum; ++g)
      w_.last_uses[g] = static_cast<std::uint32_t>(w_.uses.size() - 1);
  }

  void lend() {
    if (held_.empty()) return;
    Held& block = held_[below(held_.size())];
    const std::uint64_t s = some_stream();
    if (!block.pool->lend(block.address, s)) fail("a live block was not known", block.address);
    block.streams.push_back(s);
  }

  // `to` waits for all that `from` was given, and for what `from` was known to wait for.
  void edge() {
    const std::uint64_t from = some_stream(), to = some_stream();
    if (from == to) return;
    const Mark mark = w_.domain.mark(from);
    if (threads_ == 1) {
      const std::uint64_t until = w_.driver.issued(from);
      w_.waited[to][from] = std::max(w_.waited[to][from], until);
      for (std::uint64_t s = 1; s <= kStreamCount; ++s)
        w_.waited[to][s] = std::max(w_.waited[to][s], w_.waited[from][s]);
    }
    w_.driver.order(to, from);
    w_.domain.ordered(to, mark);
  }

  void look() {
    const Gauges g = w_.first.gauges(some_stream());
    if (threads_ > 1) return;
    if (g.allocated + g.pending + g.cached != g.reserved) fail("figures do not sum to reserved", g.reserved);
    if (g.releasable + g.stranded != g.cached || g.requested > g.allocated)
      fail("figures do not sum to cached", g.cached);
    if (g.largest_free > g.largest_free_after_waits || g.largest_free_after_waits > g.largest_free_if_idle ||
        g.largest_free_if_idle > g.free())
      fail("the largest holes are out of order", g.largest_free, g.free());
  }

  World& w_;
  std::mt19937_64 random_;
  const std::size_t threads_;
  std::vector<Held> held_;
};

int run(std::uint64_t operations, std::size_t threads, std::uint64_t seed, const std::string& growth) {
  const auto world = std::make_unique<World>(growth == "segments" ? GrowBy::segments : GrowBy::frames,
                                             growth == "frames" ? GrowBy::frames : GrowBy::segments);
  std::vector<std::unique_ptr<Actor>> actors;
  for (std::size_t t = 0; t < threads; ++t) actors.push_back(std::make_unique<Actor>(*world, seed + t, threads));
  std::vector<std::thread> running;
  for (auto& actor : actors) running.emplace_back([&] { actor->run(operations / threads); });
  for (auto& thread : running) thread.join();
  world->walk();
  std::uint64_t allocations = 0, refusals = 0;
  for (const auto& actor : actors) allocations += actor->allocations, refusals += actor->refusals;
  const Gauges g = world->first.gauges();
  std::printf(
      "%llu operations on %zu threads, seed %llu: %llu allocations, %llu refused, %llu hits, %llu misses, %llu driver "
      "allocations\n",
      static_cast<unsigned long long>(operations), threads, static_cast<unsigned long long>(seed),
      static_cast<unsigned long long>(allocations), static_cast<unsigned long long>(refusals),
      static_cast<unsigned long long>(g.hits), static_cast<unsigned long long>(g.misses),
      static_cast<unsigned long long>(g.driver_allocs));
  return 0;
}

}  // namespace
}  // namespace forebay::test

int main(int argc, char** argv) {
  const std::string growth = argc == 5 ? argv[4] : "segments";
  if (argc < 4 || argc > 5 || (growth != "segments" && growth != "frames" && growth != "mixed")) {
    std::fprintf(stderr, "usage: pool_stress OPERATIONS THREADS SEED [segments|frames|mixed]\n");
    return 2;
  }
  return forebay::test::run(std::strtoull(argv[1], nullptr, 10), std::strtoull(argv[2], nullptr, 10),
                            std::strtoull(argv[3], nullptr, 10), growth);
}
