// torch_pairs: what an allocation and its free of a cached block cost from C++: PyTorch's caching allocator through
// c10's raw calls, beside any allocator with a pluggable one's interface. Built by torch_pairs.py against the headers
// of the PyTorch that is there.
#include <c10/cuda/CUDACachingAllocator.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

namespace {

using Alloc = void* (*)(std::size_t, int, void*);
using Free = void (*)(void*, std::size_t, int, void*);

struct Peer {
  Alloc alloc;  // null: PyTorch's own
  Free free;
};

void* allocate(const Peer& peer, std::size_t bytes, void* stream) {
  return peer.alloc == nullptr
             ? c10::cuda::CUDACachingAllocator::raw_alloc_with_stream(bytes, static_cast<cudaStream_t>(stream))
             : peer.alloc(bytes, 0, stream);
}
void release(const Peer& peer, void* block, std::size_t bytes, void* stream) {
  peer.alloc == nullptr ? c10::cuda::CUDACachingAllocator::raw_delete(block) : peer.free(block, bytes, 0, stream);
}

}  // namespace

// Nanoseconds of wall time a pair, over `threads` threads that work at once, each on its own stream, with `live` blocks
// of its own alive meanwhile: that of one thread, divided by their number.
extern "C" double pair_ns(Alloc alloc, Free free, std::size_t bytes, int pairs, int threads, void** streams, int live) {
  const Peer peer{alloc, free};
  std::atomic<int> ready{0};
  std::atomic<bool> go{false};
  std::vector<std::thread> workers;
  for (int t = 0; t < threads; ++t)
    workers.emplace_back([&, stream = streams[t]] {
      std::vector<void*> kept;
      for (int i = 0; i < live; ++i) kept.push_back(allocate(peer, bytes, stream));
      for (int i = 0; i < 1000; ++i) release(peer, allocate(peer, bytes, stream), bytes, stream);
      ++ready;
      while (!go) std::this_thread::yield();
      for (int i = 0; i < pairs; ++i) release(peer, allocate(peer, bytes, stream), bytes, stream);
      ++ready;
      while (ready < 2 * threads) std::this_thread::yield();
      for (void* block : kept) release(peer, block, bytes, stream);
    });
  while (ready < threads) std::this_thread::yield();
  const auto begin = std::chrono::steady_clock::now();
  go = true;
  while (ready < 2 * threads) std::this_thread::sleep_for(std::chrono::microseconds(5));
  const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - begin;
  for (std::thread& worker : workers) worker.join();
  return took.count() / pairs / threads;
}
