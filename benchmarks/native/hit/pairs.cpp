// pairs: pairs of a pool's hit and its free, as one function of the C linkage, so that several builds of the pool
// fit into one program (costs.cpp): compiled with -DPAIRS=name, and with -Dforebay=name where it is not the only
// one. Each build has a world of its own.
#include <time.h>

#include <array>
#include <cstdint>
#include <span>

#include "driver/pool_rows.hpp"
#include "driver/sim.hpp"
#include "driver/taped.hpp"
#include "pool/pool.hpp"

namespace forebay {
namespace {

// CPU time of this thread: a busy machine must not count.
double thread_ns() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
}

PoolOptions listening_to(Sink* sink) {
  PoolOptions options;
  options.tape = sink;
  return options;
}

// A pool in use: what is asked for beside what the pairs take keeps every segment busy.
struct World {
  World() {
    for (Pool* pool : {&plain, &listening, &in_frames})
      for (const std::uint64_t bytes : {std::uint64_t{4096}, 100 * std::uint64_t{1024}, 3 * kMiB}) {
        std::array<Address, 3> blocks{};
        for (Address& block : blocks) block = pool->alloc(bytes, stream).address;
        pool->free(blocks[1]);
      }
  }
  std::uint64_t capacity = 1024 * kMiB;
  SimDriver driver{std::span(&capacity, 1), *costs_named("guide"), sim::fifo_schedule()};
  TapedDriver taped{driver};
  PoolRows rows{taped, 0, PoolFacts{}, std::nullopt};
  Domain domain{driver, 0};
  StreamHandle handle = *driver.stream_create(0, StreamKind::nonblocking, 0);
  std::uint64_t stream = *domain.adopt(handle, Lifetime::ours);
  EventHandle event = *driver.event_create(0);
  Pool plain{domain, {}}, listening{domain, listening_to(&rows)}, in_frames{domain, frames()};

  static PoolOptions frames() {
    PoolOptions options;
    options.growth = GrowBy::frames;
    return options;
  }
};

template <class Pair>
double timed(Pair pair, int pairs) {
  const double begin = thread_ns();
  for (int i = 0; i < pairs; ++i) pair();
  return (thread_ns() - begin) / pairs;
}

double run(World& w, int what, int pairs) {
  const auto hit = [&](Pool& pool, std::uint64_t bytes) {
    return timed([&] { pool.free(pool.alloc(bytes, w.stream).address); }, pairs);
  };
  const auto record = [&](Driver& driver) {
    return timed([&] { (void)driver.event_record(0, w.event, w.handle); }, pairs);
  };
  switch (what) {
    case 0:
      return hit(w.plain, 4096);
    case 1:
      return hit(w.plain, 100 * 1024);
    case 2:
      return hit(w.plain, 3 * kMiB);
    case 3:
      return hit(w.in_frames, 100 * 1024);
    case 4:
      return hit(w.listening, 4096);
    case 5:
      return hit(w.listening, 3 * kMiB);
    case 6:
      return record(w.driver);
    default:
      return record(w.taped);
  }
}

}  // namespace
}  // namespace forebay

extern "C" double PAIRS(int what, int pairs) {
  static forebay::World world;
  return forebay::run(world, what, pairs);
}
