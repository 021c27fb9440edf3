// paged: what a page costs, taken and dropped, beside malloc and free of the same size in the same run. A second thread
// works in the same pool, so that the lock is real.
//   paged [ROUNDS]
// Prints one JSON object: nanoseconds a pair, the median and the best of the rounds. A round is short enough to fit
// between two interruptions: on a busy machine the best says what the code costs, the median what the machine did to
// it.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#include "../../tests/native/plain_driver.hpp"
#include "pool/paged.hpp"

namespace forebay::bench {
namespace {

constexpr std::uint32_t kPages = 1u << 16, kBatch = 64;
constexpr std::uint64_t kPairs = 6400;
using Steady = std::chrono::steady_clock;

// Nanoseconds a pair of take and drop, `kBatch` held at a time as a growing and ending sequence does.
template <class Take, class Drop>
double pair_ns(Take take, Drop drop) {
  const auto begin = Steady::now();
  for (std::uint64_t i = 0; i < kPairs; i += kBatch) {
    for (std::uint32_t k = 0; k < kBatch; ++k) take(k);
    for (std::uint32_t k = 0; k < kBatch; ++k) drop(k);
  }
  return std::chrono::duration<double, std::nano>(Steady::now() - begin).count() / kPairs;
}

struct Cost {
  double median, best;
};

template <class Round>
Cost cost_of(int rounds, Round round) {
  std::vector<double> times;
  for (int i = 0; i < rounds; ++i) times.push_back(round());
  std::sort(times.begin(), times.end());
  return {times[times.size() / 2], times.front()};
}

void print(const char* what, Cost cost) {
  std::printf("\"%s_ns\": {\"median\": %.1f, \"best\": %.1f}, ", what, cost.median, cost.best);
}

PagedOptions options() {
  PagedOptions o;
  o.page_bytes = 8192;
  o.pages = kPages;
  o.page_tokens = 16;
  return o;
}

int run(int rounds) {
  test::PlainDriver driver(std::uint64_t{1} << 40);
  Domain domain(driver, 0);
  for (std::uint64_t s = 1; s <= 2; ++s)
    if (!domain.adopt(StreamHandle{s}, Lifetime::ours).ok()) return 1;
  PagedPool pool(domain, options());
  const Channel mine = pool.channel(1), other = pool.channel(2);
  std::atomic<bool> stop{false};
  std::atomic<std::uint64_t> beside{0};
  std::thread second([&] {
    while (!stop.load(std::memory_order_relaxed)) {
      pool.drop(pool.take(other), other);
      beside.fetch_add(1, std::memory_order_relaxed);
      std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
  });
  std::vector<PageId> pages(kBatch);
  std::vector<void*> blocks(kBatch);
  const Cost single = cost_of(rounds, [&] {
    return pair_ns([&](std::uint32_t k) { pages[k] = pool.take(mine); },
                   [&](std::uint32_t k) { pool.drop(pages[k], mine); });
  });
  const Cost in_sequence = cost_of(rounds, [&] {
    const auto begin = Steady::now();
    for (std::uint64_t i = 0; i < kPairs; i += kBatch) {
      Sequence& sequence = pool.open({}, mine);
      pool.grow(sequence, kBatch * 16, mine);
      pool.finish(sequence);
    }
    return std::chrono::duration<double, std::nano>(Steady::now() - begin).count() / kPairs;
  });
  const Cost plain = cost_of(rounds, [&] {
    return pair_ns([&](std::uint32_t k) { blocks[k] = std::malloc(8192); },
                   [&](std::uint32_t k) { std::free(blocks[k]); });
  });
  stop = true;
  second.join();
  std::printf("{");
  print("page_pair", single);
  print("page_in_sequence", in_sequence);
  print("malloc_pair", plain);
  std::printf("\"second_thread_pairs\": %llu}\n", static_cast<unsigned long long>(beside.load()));
  return 0;
}

}  // namespace
}  // namespace forebay::bench

int main(int argc, char** argv) { return forebay::bench::run(argc > 1 ? std::atoi(argv[1]) : 501); }
