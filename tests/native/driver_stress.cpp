// driver_stress [threads] [operations] [seed]: threads that share two simulated devices issue, wait, map and unmap at
// random. Each keeps a plain model of its own bytes; at the end every byte and the device's account must agree with it.
// Meant for the sanitizers; exit status 1 and one line say what went wrong.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "driver/faulty.hpp"
#include "driver/sim.hpp"
#include "driver/taped.hpp"

using namespace forebay;

namespace {

constexpr std::uint64_t kGranule = sim::Memory::kGranularity;

void require(bool holds, const char* what) {
  if (holds) return;
  std::printf("driver_stress: %s\n", what);
  std::exit(1);
}
void require(Status status, const char* what) {
  if (status == Status::ok) return;
  std::printf("driver_stress: %s: %s\n", what, std::string(name_of(status)).c_str());
  std::exit(1);
}

// Events that threads show each other: one waits for what another recorded.
struct Board {
  std::mutex lock;
  std::vector<EventHandle> events;
};

class Worker {
 public:
  Worker(Driver& driver, Board& board, int device, std::uint64_t seed)
      : driver_(driver), board_(board), device_(device), random_(seed) {
    const auto event = driver_.event_create(device_);
    require(event.status(), "event_create");
    event_ = *event;
    const std::lock_guard hold(board_.lock);
    board_.events.push_back(event_);
  }

  void work(int operations) {
    for (int i = 0; i < operations; ++i) step();
    finish();
  }

 private:
  // A range of one or two mapped frames, the stream that orders its work, and the value that its bytes will have.
  struct Range {
    Address address = 0;
    std::uint64_t bytes = 0;
    StreamHandle stream;
    std::uint64_t value = 0;
  };

  std::uint64_t draw(std::uint64_t below) { return random_() % below; }

  void step() {
    switch (draw(12)) {
      case 0:
        return grow();
      case 1:
        return shrink();
      case 2:
        return sync();
      case 3:
        return wait_for_another();
      case 4:
        return ask();
      case 5:
        return churn();
      default:
        return add();
    }
  }

  void grow() {
    if (ranges_.size() == 4) return;
    Range range;
    range.bytes = kGranule * (1 + draw(2));
    const auto address = driver_.reserve_range(device_, range.bytes);
    require(address.status(), "reserve_range");
    range.address = *address;
    for (std::uint64_t at = 0; at < range.bytes; at += kGranule) {
      const auto frame = driver_.create(device_, kGranule);
      require(frame.status(), "create");
      require(driver_.map(device_, range.address + at, kGranule, *frame), "map");
      require(driver_.release(device_, *frame), "release");
    }
    require(driver_.set_access(device_, range.address, range.bytes), "set_access");
    const auto kind = draw(2) ? StreamKind::blocking : StreamKind::nonblocking;
    const auto stream = driver_.stream_create(device_, kind, 0);
    require(stream.status(), "stream_create");
    range.stream = *stream;
    require(driver_.memset(device_, range.address, 0, range.bytes, range.stream), "memset");
    ranges_.push_back(range);
  }

  // Only after its work is known complete, as the port demands.
  void shrink() {
    if (ranges_.empty()) return;
    const Range range = ranges_.back();
    ranges_.pop_back();
    require(driver_.stream_sync(device_, range.stream), "stream_sync");
    check(range);
    require(driver_.stream_destroy(device_, range.stream), "stream_destroy");
    require(driver_.unmap(device_, range.address, range.bytes), "unmap");
    require(driver_.release_range(device_, range.address, range.bytes), "release_range");
  }

  // A kernel that adds one to a counter that lies across the border of two frames, where there are two.
  void add() {
    if (ranges_.empty()) return;
    Range& range = ranges_[draw(ranges_.size())];
    ++range.value;
    Work work{.name = "add", .cost_ns = 100, .uses = {}, .run = {}};
    work.uses.push_back({counter(range), 8, Mode::write});
    work.run = [](std::span<void* const> views) {
      std::uint64_t value;
      std::memcpy(&value, views[0], 8);
      ++value;
      std::memcpy(views[0], &value, 8);
      return Status::ok;
    };
    require(driver_.launch(device_, range.stream, std::move(work)), "launch");
  }

  void sync() {
    if (draw(4) == 0) return require(driver_.device_sync(device_), "device_sync");
    if (ranges_.empty()) return;
    const Range& range = ranges_[draw(ranges_.size())];
    require(driver_.event_record(device_, event_, range.stream), "event_record");
    require(driver_.event_sync(device_, event_), "event_sync");
    check(range);
  }

  void wait_for_another() {
    if (ranges_.empty()) return;
    EventHandle event;
    {
      const std::lock_guard hold(board_.lock);
      event = board_.events[draw(board_.events.size())];
    }
    require(driver_.stream_wait(device_, ranges_.front().stream, event), "stream_wait");
  }

  void ask() {
    require(driver_.event_query(device_, event_).status(), "event_query");
    if (!ranges_.empty()) require(driver_.stream_query(device_, ranges_.front().stream).status(), "stream_query");
    require(driver_.memory_info(device_).status(), "memory_info");
  }

  void churn() {
    const auto segment = driver_.malloc(device_, 1 + draw(100'000));
    const auto pinned = driver_.host_alloc(4096);
    require(segment.status(), "malloc");
    require(pinned.status(), "host_alloc");
    require(driver_.memset(device_, *segment, 7, 1, kPerThreadStream), "memset");
    require(driver_.copy(device_, *pinned, *segment, 1, kLegacyStream), "copy");
    require(driver_.free(device_, *segment), "free");
    const auto seen = driver_.host_pointer(*pinned, 1);
    require(seen && *static_cast<unsigned char*>(*seen) == 7, "a copy to pinned memory");
    require(driver_.host_free(*pinned), "host_free");
  }

  Address counter(const Range& range) const { return range.address + (range.bytes > kGranule ? kGranule - 4 : 0); }

  void check(const Range& range) {
    std::uint64_t value = 0;
    require(driver_.download(device_, &value, counter(range), 8, range.stream), "download");
    require(value == range.value, "a counter has another value than its model");
  }

  void finish() {
    while (!ranges_.empty()) shrink();
  }

  Driver& driver_;
  Board& board_;
  const int device_;
  std::mt19937_64 random_;
  EventHandle event_;
  std::vector<Range> ranges_;
};

void round_of(std::unique_ptr<sim::Schedule> schedule, int threads, int operations, std::uint64_t seed) {
  const std::vector<std::uint64_t> capacities(2, 1ull << 32);
  SimDriver sim(capacities, *costs_named("guide"), std::move(schedule));
  FaultyDriver faulty(sim);
  TapedDriver driver(faulty);
  Recorder recorder;
  driver.attach(&recorder);
  Board board;
  std::vector<std::thread> workers;
  for (int t = 0; t < threads; ++t)
    workers.emplace_back(
        [&, t] { Worker(driver, board, t % 2, seed + static_cast<std::uint64_t>(t)).work(operations); });
  for (std::thread& worker : workers) worker.join();
  for (int device = 0; device < 2; ++device) {
    require(driver.device_sync(device), "the last device_sync");
    const Account account = sim.account(device);
    require(account.used_bytes == 0 && account.frames == 0 && account.mappings == 0 && account.ranges == 0 &&
                account.segments == 0 && account.streams == 0 && account.pinned_bytes == 0 && account.backlog == 0,
            "something is left on a device");
  }
  require(recorder.rows() > static_cast<std::uint64_t>(threads) * static_cast<std::uint64_t>(operations) / 4,
          "rows are missing from the tape");
}

}  // namespace

int main(int argc, char** argv) {
  const int threads = argc > 1 ? std::atoi(argv[1]) : 4;
  const int operations = argc > 2 ? std::atoi(argv[2]) : 2000;
  const std::uint64_t seed = argc > 3 ? std::strtoull(argv[3], nullptr, 10) : 1;
  round_of(sim::fifo_schedule(), threads, operations, seed);
  round_of(sim::seeded_schedule(seed), threads, operations, seed);
  std::printf("driver_stress: %d threads, %d operations each, in virtual order and by seed: sound\n", threads,
              operations);
  return 0;
}
