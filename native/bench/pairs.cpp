#include "bench/pairs.hpp"

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <thread>

#include "driver/cuda.hpp"
#include "pool/driver_pool.hpp"
#include "pool/pool.hpp"

namespace forebay::bench {

namespace {

// Streams of a benchmark's threads, known to a domain.
class Streams {
 public:
  Streams(Driver& driver, int device) : driver_(driver), device_(device), domain(driver, device) {}
  ~Streams() {
    for (const StreamHandle handle : handles_) (void)driver_.stream_destroy(device_, handle);
  }
  Status make(int count) {
    for (int i = 0; i < count; ++i) {
      const auto made = driver_.stream_create(device_, StreamKind::nonblocking, 0);
      if (!made) return made.status();
      handles_.push_back(*made);
      const auto id = domain.adopt(*made, Lifetime::ours);
      if (!id) return id.status();
      ids.push_back(*id);
    }
    return Status::ok;
  }

 private:
  Driver& driver_;
  const int device_;
  std::vector<StreamHandle> handles_;

 public:
  Domain domain;
  std::vector<std::uint64_t> ids;
};

template <class P, class AllocFree>
Result<std::vector<double>> through(P& pool, Streams& streams, const Load& load, AllocFree once) {
  std::vector<Pair> pairs;
  for (const std::uint64_t stream : streams.ids)
    pairs.emplace_back([&pool, stream, once] { return once(pool, stream); });
  return timed(load, pairs, entering(streams.domain.driver(), streams.domain.device()));
}

}  // namespace

std::function<void()> entering(Driver& driver, int device) {
  auto* const cuda = dynamic_cast<CudaDriver*>(&driver);
  if (cuda == nullptr) return {};
  return [cuda, device] { (void)cuda->stay(device); };
}

std::vector<double> timed(const Load& load, std::span<const Pair> pairs, const std::function<void()>& enter) {
  std::vector<double> samples;
  std::atomic<bool> failed{false}, over{false};
  std::thread second([&] { over.wait(false); });
  for (int round = 0; round <= load.rounds && !failed; ++round) {
    std::atomic<int> ready{0};
    std::atomic<bool> go{false};
    std::vector<std::thread> threads;
    for (const Pair& pair : pairs)
      threads.emplace_back([&] {
        if (enter) enter();
        if (!pair()) failed = true;  // the block is there then
        ++ready;
        while (!go.load(std::memory_order_acquire)) std::this_thread::yield();
        for (int i = 0; i < load.pairs && !failed; ++i)
          if (!pair()) failed = true;
      });
    while (ready < static_cast<int>(pairs.size())) std::this_thread::yield();
    const auto begun = std::chrono::steady_clock::now();
    go.store(true, std::memory_order_release);
    for (std::thread& thread : threads) thread.join();
    const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - begun;
    if (round > 0) samples.push_back(took.count() / load.pairs);  // the first warms up
  }
  over = true;
  over.notify_all();
  second.join();
  if (failed) samples.clear();
  return samples;
}

Result<std::vector<double>> pool_pairs(Driver& driver, int device, const Load& load) {
  Streams streams(driver, device);
  if (const Status s = streams.make(load.threads); s != Status::ok) return s;
  Pool pool(streams.domain, {});
  return through(pool, streams, load, [bytes = load.bytes](Pool& p, std::uint64_t stream) {
    return p.free(p.alloc(bytes, stream).address);
  });
}

Result<std::vector<double>> driver_pool_pairs(Driver& driver, int device, const Load& load) {
  Streams streams(driver, device);
  if (const Status s = streams.make(load.threads); s != Status::ok) return s;
  try {
    DriverPool pool(streams.domain, {});
    return through(pool, streams, load, [bytes = load.bytes](DriverPool& p, std::uint64_t stream) {
      return p.free(p.alloc(bytes, stream));
    });
  } catch (const PoolFault& fault) {
    return fault.status;
  }
}

std::vector<double> c_pairs(Driver& driver, AllocFunction alloc, FreeFunction free, int device,
                            std::span<void* const> streams, const Load& load) {
  std::vector<Pair> pairs;
  for (void* const stream : streams)
    pairs.emplace_back([=, bytes = load.bytes] {
      void* const block = alloc(bytes, device, stream);
      if (block != nullptr) free(block, bytes, device, stream);
      return block != nullptr;
    });
  return timed(load, pairs, entering(driver, device));
}

std::vector<double> libc_pairs(const Load& load) {
  const auto pair = [bytes = load.bytes] {
    void* volatile block = std::malloc(bytes);
    std::free(block);
    return true;
  };
  return timed(load, std::vector<Pair>(static_cast<std::size_t>(load.threads), pair));
}

}  // namespace forebay::bench
