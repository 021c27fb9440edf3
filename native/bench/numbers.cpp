#include "bench/numbers.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <optional>
#include <string_view>
#include <thread>

#include "pool/pool.hpp"

namespace forebay::bench {

namespace {

constexpr std::uint64_t kKiB = 1024, kMiB = 1024 * kKiB, kGiB = 1024 * kMiB;
constexpr std::int64_t kBusyNs = 20'000'000;

std::string sized(std::string_view call, std::uint64_t bytes) {
  const auto number = [&](std::uint64_t unit, const char* word) { return std::to_string(bytes / unit) + word; };
  const std::string size = bytes < kMiB ? number(1, "B") : bytes < kGiB ? number(kMiB, "MiB") : number(kGiB, "GiB");
  return std::string(call) + "_" + size;
}

// A thread that does nothing: with one thread in the process the C library leaves locks out.
class Company {
 public:
  Company() : thread_([this] { over_.wait(false); }) {}
  ~Company() {
    over_ = true;
    over_.notify_all();
    thread_.join();
  }

 private:
  std::atomic<bool> over_{false};
  std::thread thread_;
};

class Bench {
 public:
  Bench(Driver& driver, int device, Kernels& kernels) : driver_(driver), device_(device), kernels_(kernels) {}
  ~Bench() {
    for (const StreamHandle stream : {stream_, other_})
      if (stream.value != 0) (void)driver_.stream_destroy(device_, stream);
    if (event_.value != 0) (void)driver_.event_destroy(device_, event_);
  }

  Status begin();
  void round();
  void forget() {
    for (Number& number : numbers_) number.samples.clear(), number.calls = 0;
  }
  std::vector<Number> numbers() { return std::move(numbers_); }

 private:
  Number& number(std::string_view name, Clock clock) {
    const auto found = std::find_if(numbers_.begin(), numbers_.end(), [&](const Number& n) { return n.name == name; });
    return found != numbers_.end() ? *found : numbers_.emplace_back(Number{std::string(name), clock, {}, 0, {}});
  }

  // One sample: `calls` of these, each told its number.
  template <class F>
  bool sample(std::string_view name, int calls, F call, Clock clock = Clock::driver) {
    const auto now = [&] {
      return clock == Clock::driver ? driver_.now_ns()
                                    : std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
    };
    Status status = Status::ok;
    int made = 0;
    const std::int64_t begun = now();
    for (; made < calls && status == Status::ok; ++made) status = call(made);
    const std::int64_t took = now() - begun;
    Number& row = number(name, clock);
    if (status != Status::ok) {
      row.status = status;
      return false;
    }
    row.samples.push_back(static_cast<double>(took) / calls);
    row.calls += static_cast<std::uint64_t>(calls);
    return true;
  }

  bool sync() { return driver_.device_sync(device_) == Status::ok; }
  void hit();
  void driver_pool();
  void segments(std::uint64_t bytes, int calls);
  void pinned(std::uint64_t bytes);
  void busy_frees();
  void launches();
  void graph();
  void events();
  void item();
  void mapping(std::string_view suffix, std::uint64_t bytes, bool busy);

  Driver& driver_;
  const int device_;
  Kernels& kernels_;
  StreamHandle stream_, other_;
  EventHandle event_;
  std::vector<Number> numbers_;
};

Status Bench::begin() {
  for (StreamHandle* stream : {&stream_, &other_}) {
    const auto made = driver_.stream_create(device_, StreamKind::nonblocking, 0);
    if (!made) return made.status();
    *stream = *made;
  }
  const auto event = driver_.event_create(device_);
  if (event) event_ = *event;
  return event.status();
}

void Bench::round() {
  hit();
  driver_pool();
  segments(512, 50);
  segments(2 * kMiB, 20);
  segments(512 * kMiB, 1);
  segments(4 * kGiB, 1);
  for (const std::uint64_t bytes : {kMiB, 64 * kMiB, 512 * kMiB}) pinned(bytes);
  busy_frees();
  launches();
  graph();
  events();
  item();
  mapping("_2MiB", 2 * kMiB, false);
  mapping("_20MiB", 20 * kMiB, false);
  mapping("_2MiB_busy", 2 * kMiB, true);
}

// A pool of ours, from C++: on the host's clock whatever the device, since no driver call is made.
void Bench::hit() {
  constexpr int kPairs = 50'000;
  Domain domain(driver_, device_);
  const auto stream = domain.adopt(stream_, Lifetime::ours);
  if (!stream) return;
  Pool pool(domain, {});
  pool.free(pool.alloc(4096, *stream).address);
  const Company second;
  sample(
      "pool_hit", kPairs,
      [&](int) {
        pool.free(pool.alloc(4096, *stream).address);
        return Status::ok;
      },
      Clock::host);
}

// The driver's own pool, through libcuda and nothing else of ours.
void Bench::driver_pool() {
  const auto pool = driver_.pool_create(device_, 0);
  if (!pool) {
    number("driver_pool_hit", Clock::driver).status = pool.status();
    return;
  }
  (void)driver_.pool_set(device_, *pool, PoolAttribute::release_threshold, UINT64_MAX);
  const auto pair = [&](int) {
    const auto block = driver_.pool_alloc(device_, *pool, 4096, stream_);
    return block ? driver_.pool_free(device_, *block, stream_) : block.status();
  };
  const Company second;
  if (pair(0) == Status::ok) sample("driver_pool_hit", 1000, pair);
  sync();
  (void)driver_.pool_destroy(device_, *pool);
}

void Bench::segments(std::uint64_t bytes, int calls) {
  const auto room = driver_.memory_info(device_);
  if (!room || room->free_bytes / 2 < bytes * static_cast<std::uint64_t>(calls)) {
    for (const char* call : {"malloc", "free"})
      number(sized(call, bytes), Clock::driver).status = Status::out_of_memory;
    return;
  }
  std::vector<Address> taken(static_cast<std::size_t>(calls));
  const bool all = sample(sized("malloc", bytes), calls, [&](int i) {
    const auto made = driver_.malloc(device_, bytes);
    if (made) taken[static_cast<std::size_t>(i)] = *made;
    return made.status();
  });
  if (all)
    sample(sized("free", bytes), calls,
           [&](int i) { return driver_.free(device_, taken[static_cast<std::size_t>(i)]); });
}

void Bench::pinned(std::uint64_t bytes) {
  Address host = 0;
  const bool taken = sample(sized("host_alloc", bytes), 1, [&](int) {
    const auto made = driver_.host_alloc(bytes);
    if (made) host = *made;
    return made.status();
  });
  if (taken) sample(sized("host_free", bytes), 1, [&](int) { return driver_.host_free(host); });
}

// The frees that wait for whatever runs, on a stream that has nothing to do with them.
void Bench::busy_frees() {
  const auto segment = driver_.malloc(device_, 2 * kMiB);
  const auto host = driver_.host_alloc(kMiB);
  if (segment && kernels_.spin(other_, kBusyNs) == Status::ok)
    sample("free_2MiB_busy", 1, [&](int) { return driver_.free(device_, *segment); });
  sync();
  if (host && kernels_.spin(other_, kBusyNs) == Status::ok)
    sample("host_free_1MiB_busy", 1, [&](int) { return driver_.host_free(*host); });
  sync();
}

void Bench::launches() {
  sample("launch", 200, [&](int) { return kernels_.launch(stream_); });
  sync();
  sample("decode_apart", 1, [&](int) {
    for (int i = 0; i < kDecodeKernels; ++i)
      if (const Status s = kernels_.launch(stream_); s != Status::ok) return s;
    return driver_.stream_sync(device_, stream_);
  });
}

// The same kernels as one graph.
void Bench::graph() {
  Status status = driver_.capture_begin(device_, stream_, CaptureMode::thread_local_);
  for (int i = 0; i < kDecodeKernels && status == Status::ok; ++i) status = kernels_.launch(stream_);
  const auto graph = driver_.capture_end(device_, stream_);
  if (status == Status::ok) status = graph.status();
  std::optional<ExecutableHandle> executable;
  if (status == Status::ok) {
    const auto made = driver_.graph_instantiate(device_, *graph);
    status = made.status();
    if (made) executable = *made;
  }
  if (executable) {
    const auto launch = [&](int) { return driver_.graph_launch(device_, *executable, stream_); };
    if (launch(0) == Status::ok && sync()) sample("graph_launch", 10, launch);
    sync();
    sample("decode_graph", 1, [&](int) {
      const Status s = driver_.graph_launch(device_, *executable, stream_);
      return s == Status::ok ? driver_.stream_sync(device_, stream_) : s;
    });
    (void)driver_.executable_destroy(device_, *executable);
  }
  if (graph) (void)driver_.graph_destroy(device_, *graph);
  if (status != Status::ok) number("decode_graph", Clock::driver).status = status;
}

void Bench::events() {
  constexpr int kCalls = 200;
  sample("event_record", kCalls, [&](int) { return driver_.event_record(device_, event_, stream_); });
  sync();
  sample("stream_wait", kCalls, [&](int) { return driver_.stream_wait(device_, other_, event_); });
  sync();
  sample("event_query", kCalls, [&](int) { return driver_.event_query(device_, event_).status(); });
}

// One number read back, as `.item()` does, from a stream with nothing in it.
void Bench::item() {
  const auto number = driver_.malloc(device_, 512);
  if (!number) return;
  if (driver_.memset(device_, *number, 0, 512, stream_) == Status::ok && sync())
    sample("item", 50, [&](int) {
      float read = 1;
      return driver_.download(device_, &read, *number, sizeof read, stream_);
    });
  sync();
  (void)driver_.free(device_, *number);
}

// One frame: made, mapped, opened, unmapped, given back.
void Bench::mapping(std::string_view suffix, std::uint64_t bytes, bool busy) {
  const auto range = driver_.reserve_range(device_, bytes);
  if (!range) return;
  if (busy && kernels_.spin(other_, kBusyNs) != Status::ok) return;
  const auto name = [&](const char* call) { return call + std::string(suffix); };
  FrameHandle frame;
  const bool made = sample(name("create"), 1, [&](int) {
    const auto created = driver_.create(device_, bytes);
    if (created) frame = *created;
    return created.status();
  });
  if (made && sample(name("map"), 1, [&](int) { return driver_.map(device_, *range, bytes, frame); })) {
    sample(name("set_access"), 1, [&](int) { return driver_.set_access(device_, *range, bytes); });
    sample(name("unmap"), 1, [&](int) { return driver_.unmap(device_, *range, bytes); });
  }
  if (made) sample(name("release"), 1, [&](int) { return driver_.release(device_, frame); });
  sync();
  (void)driver_.release_range(device_, *range, bytes);
}

}  // namespace

Result<std::vector<Number>> numbers(Driver& driver, int device, Kernels& kernels, int rounds) {
  Bench bench(driver, device, kernels);
  if (const Status s = bench.begin(); s != Status::ok) return s;
  bench.round();  // first times cost more
  bench.forget();
  for (int i = 0; i < rounds; ++i) bench.round();
  return bench.numbers();
}

}  // namespace forebay::bench
