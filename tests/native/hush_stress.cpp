// hush_stress: pools that are hushed while captures come and go, and the pools of those captures.
//   hush_stress OPERATIONS THREADS SEED
// Threads allocate, free and lend on streams of both kinds that an adapter knows; another begins captures and ends
// them, as PyTorch does. No record and no question reaches the driver between a begin and its end, whoever was at one;
// what is allocated in a capture lies in that capture's pool, and a released pool's memory goes back.
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "plain_driver.hpp"
#include "pool/pool.hpp"
#include "torch/private_pools.hpp"

namespace forebay::test {
namespace {

constexpr std::uint64_t kCapacity = 512 * kMiB, kLimit = 96 * kMiB;
constexpr std::uint64_t kOurs = 20, kNamed = 40;  // ids below: vouched for; from there on: named
constexpr std::uint64_t kCaptured = 60;

[[noreturn]] void fail(const char* what) {
  std::fprintf(stderr, "hush_stress: %s\n", what);
  std::abort();
}

struct World {
  PlainDriver driver{kCapacity};
  std::atomic<int> captures{0};
  Domain domain{driver, 0};
  std::unique_ptr<Pool> pool;
  std::unique_ptr<torch::PrivatePools> graphs;

  World() {
    driver.on_ask = [this] {
      if (captures != 0) fail("a stream was recorded on or asked during a capture");
    };
    for (std::uint64_t s = 1; s <= kCaptured; ++s)
      if (!domain.adopt(StreamHandle{s}, s >= kNamed && s != kCaptured ? Lifetime::named : Lifetime::ours).ok())
        fail("adopt");
    PoolOptions options;
    options.limit = kLimit;
    options.wait_limit = std::chrono::nanoseconds(0);
    pool = std::make_unique<Pool>(domain, options);
    graphs = std::make_unique<torch::PrivatePools>(domain);
  }
};

class Worker {
 public:
  Worker(World& world, std::uint64_t number, std::uint64_t seed)
      : world_(world), ours_(1 + number % (kOurs - 1)), named_(kNamed + number % 16), random_(seed * 1000 + number) {}

  void run(std::uint64_t operations) {
    for (std::uint64_t i = 0; i < operations; ++i) step();
    for (const Address block : live_)
      if (!world_.pool->free(block)) fail("a live block is unknown");
  }

 private:
  std::uint64_t below(std::uint64_t n) { return random_() % n; }
  void step() {
    const std::uint64_t stream = below(3) == 0 ? named_ : ours_;
    if (stream == named_) world_.domain.clock(stream)->named();
    world_.driver.issue(stream);
    if (below(4) == 0) world_.driver.finish_some(stream, [this](std::uint64_t n) { return below(n); });
    if (below(500) == 0) world_.pool->trim();
    if (world_.graphs->routing() && world_.graphs->taker(reinterpret_cast<void*>(stream)) != nullptr)
      fail("a capture took a stream that has no part in it");
    if (live_.size() > 12 || (!live_.empty() && below(2) == 0)) return let_go();
    try {
      live_.push_back(world_.pool->alloc(1 + below(below(3) == 0 ? 4 * kMiB : 20'000), stream).address);
    } catch (const PoolFault& fault) {
      if (fault.code != PoolFault::Code::exhausted && fault.code != PoolFault::Code::pending) throw;
    }
  }
  void let_go() {
    std::swap(live_[below(live_.size())], live_.back());
    const Address block = live_.back();
    live_.pop_back();
    if (below(3) == 0 && !world_.pool->lend(block, 1 + below(kCaptured))) fail("lend");
    if (!world_.pool->free(block)) fail("free");
  }

  World& world_;
  const std::uint64_t ours_, named_;
  std::mt19937_64 random_;
  std::vector<Address> live_;
};

void capture(World& world, std::uint64_t number, std::mt19937_64& random) {
  const torch::PrivateId id{number % 5 + 1, 0};
  world.graphs->begin(id, [](void* stream) { return stream == reinterpret_cast<void*>(kCaptured); });
  ++world.captures;
  std::vector<Address> blocks;
  for (int i = 0; i < 8; ++i) {
    const auto pool = world.graphs->taker(reinterpret_cast<void*>(kCaptured));
    if (pool == nullptr) fail("a capture does not take its stream");
    blocks.push_back(pool->alloc(1 + random() % kMiB, kCaptured).address);
    if (world.pool->free(blocks.back())) fail("a block of a capture lies in the ordinary pool");
    if (random() % 2 == 0) {
      if (!world.graphs->free(blocks.back())) fail("a block of a capture is unknown");
      blocks.pop_back();
    }
  }
  --world.captures;
  world.graphs->end(id);
  const bool first = random() % 2 == 0;
  if (first) world.graphs->release(id);
  for (const Address block : blocks)
    if (!world.graphs->free(block)) fail("an output is unknown after its capture");
  if (!first) world.graphs->release(id);
}

void run(std::uint64_t operations, std::uint64_t threads, std::uint64_t seed) {
  World world;
  std::vector<std::thread> workers;
  std::atomic<std::uint64_t> left{threads};
  for (std::uint64_t t = 0; t < threads; ++t)
    workers.emplace_back([&world, &left, t, operations, threads, seed] {
      Worker(world, t, seed).run(operations / threads);
      --left;
    });
  std::mt19937_64 random(seed);
  std::uint64_t captures = 0;
  for (; left != 0 || captures < 100; ++captures) capture(world, captures, random);
  for (std::thread& worker : workers) worker.join();
  if (world.domain.hushed() || !world.graphs->gauges().empty()) fail("a capture left something behind");
  if (const auto broken = world.pool->walk()) fail(broken->c_str());
  world.pool->trim();
  if (world.pool->gauges().allocated != 0 || world.driver.used() != 0) fail("memory did not go back");
  std::printf("hush_stress: %llu operations, %llu captures\n", static_cast<unsigned long long>(operations),
              static_cast<unsigned long long>(captures));
}

}  // namespace
}  // namespace forebay::test

int main(int argc, char** argv) {
  const auto argument = [&](int i, const char* otherwise) { return std::stoull(argc > i ? argv[i] : otherwise); };
  // One of these, with its captures, takes the time of ten of pool_stress.
  forebay::test::run(argument(1, "100000") / 10, argument(2, "4"), argument(3, "1"));
  return 0;
}
