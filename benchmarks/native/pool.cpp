// pool: what a hit of the native pool costs, beside the C library's malloc and free, in one run. Prints one line of
// JSON: medians over rounds, nanoseconds of CPU time a pair on one thread, and pairs a second of 1 and 8 threads on
// streams of their own.
#include <time.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "driver/sim.hpp"
#include "pool/pool.hpp"

namespace forebay {
namespace {

using Watch = std::chrono::steady_clock;
constexpr int kPairs = 200'000, kRounds = 9;

// CPU time of this thread: a busy machine must not count.
double thread_ns() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
}

template <class Pair>
double once(Pair pair, int pairs) {
  const double begin = thread_ns();
  for (int i = 0; i < pairs; ++i) pair();
  return (thread_ns() - begin) / pairs;
}

template <class Pair>
double median(Pair pair) {
  std::vector<double> rounds;
  for (int r = 0; r < kRounds; ++r) rounds.push_back(once(pair, kPairs));
  std::nth_element(rounds.begin(), rounds.begin() + kRounds / 2, rounds.end());
  return rounds[kRounds / 2];
}

double pairs_a_second(Pool& pool, std::span<const std::uint64_t> streams) {
  const auto begin = Watch::now();
  std::vector<std::thread> threads;
  for (const std::uint64_t s : streams)
    threads.emplace_back([&pool, s] {
      for (int i = 0; i < kPairs; ++i) pool.free(pool.alloc(4096, s).address);
    });
  for (std::thread& thread : threads) thread.join();
  return static_cast<double>(streams.size()) * kPairs / std::chrono::duration<double>(Watch::now() - begin).count();
}

int run() {
  const std::uint64_t capacity = 1024 * kMiB;
  SimDriver driver(std::span(&capacity, 1), *costs_named("guide"), sim::fifo_schedule());
  Domain domain(driver, 0);
  std::vector<std::uint64_t> streams;
  for (int i = 0; i < 8; ++i)
    streams.push_back(*domain.adopt(*driver.stream_create(0, StreamKind::nonblocking, 0), Lifetime::ours));
  Pool pool(domain, {});

  // The C library leaves locks out while a process has one thread.
  std::atomic<bool> over{false};
  std::thread second([&] { over.wait(false); });
  const auto pair_of = [&](std::uint64_t bytes) {
    return [&pool, bytes, s = streams[0]] { pool.free(pool.alloc(bytes, s).address); };
  };
  void* volatile kept = nullptr;
  const double small = median(pair_of(4096)), large = median(pair_of(3 * kMiB));
  const double libc = median([&] {
    kept = std::malloc(4096);
    std::free(kept);
  });
  const double one = pairs_a_second(pool, std::span(streams).first(1)), eight = pairs_a_second(pool, streams);
  over = true;
  over.notify_all();
  second.join();
  std::printf(
      "{\"pool_4KiB_ns\": %.1f, \"pool_3MiB_ns\": %.1f, \"malloc_4KiB_ns\": %.1f, \"pairs_per_s_1_thread\": %.0f, "
      "\"pairs_per_s_8_threads\": %.0f}\n",
      small, large, libc, one, eight);
  return 0;
}

}  // namespace
}  // namespace forebay

int main() { return forebay::run(); }
