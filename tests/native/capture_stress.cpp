// capture_stress [threads] [rounds] [seed]: threads that share a simulated device capture, fork, join, break, launch
// and destroy graphs at random, through a driver that records. Each counts what its own graphs must have added to its
// own bytes. Meant for the sanitizers; exit status 1 and one line say what went wrong.
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "driver/faulty.hpp"
#include "driver/sim.hpp"
#include "driver/taped.hpp"

using namespace forebay;

namespace {

void require(bool holds, const char* what) {
  if (holds) return;
  std::printf("capture_stress: %s\n", what);
  std::exit(1);
}
void require(Status status, const char* what) {
  if (status == Status::ok) return;
  std::printf("capture_stress: %s: %s\n", what, std::string(name_of(status)).c_str());
  std::exit(1);
}
template <class T>
T value(const Result<T>& result, const char* what) {
  require(result.status(), what);
  return *result;
}

class Worker {
 public:
  Worker(Driver& driver, std::uint64_t seed) : driver_(driver), random_(seed) {
    main_ = value(driver_.stream_create(0, StreamKind::nonblocking, 0), "stream_create");
    side_ = value(driver_.stream_create(0, StreamKind::blocking, 0), "stream_create");
    event_ = value(driver_.event_create(0), "event_create");
    bytes_ = value(driver_.malloc(0, 512), "malloc");
    require(driver_.memset(0, bytes_, 0, 512, main_), "memset");
    require(driver_.stream_sync(0, main_), "stream_sync");
  }

  void work(int rounds) {
    for (int i = 0; i < rounds; ++i) draw(4) == 0 ? breaks() : replays();
    unsigned char seen = 0;
    require(driver_.download(0, &seen, bytes_, 1, main_), "download");
    require(seen == static_cast<unsigned char>(added_), "a replay ran too often, too seldom, or out of order");
    require(driver_.stream_destroy(0, main_), "stream_destroy");
    require(driver_.stream_destroy(0, side_), "stream_destroy");
    require(driver_.event_destroy(0, event_), "event_destroy");
  }

 private:
  std::uint64_t draw(std::uint64_t below) { return random_() % below; }

  void add_one(StreamHandle stream) {
    Work work{
        .name = "add", .cost_ns = 100, .uses = {{bytes_, 1, Mode::write, Extent::exact, Space::device}}, .run = {}};
    work.run = [](std::span<void* const> views) {
      ++*static_cast<unsigned char*>(views[0]);
      return Status::ok;
    };
    require(driver_.launch(0, stream, std::move(work)), "launch");
  }

  void order(StreamHandle from, StreamHandle to) {
    require(driver_.event_record(0, event_, from), "event_record");
    require(driver_.stream_wait(0, to, event_), "stream_wait");
  }

  void replays() {
    require(driver_.capture_begin(0, main_, CaptureMode::thread_local_), "capture_begin");
    const auto nodes = 1 + draw(5);
    for (std::uint64_t n = 0; n < nodes; ++n) {
      add_one(main_);
      if (draw(2) == 0) continue;
      order(main_, side_), add_one(side_), order(side_, main_);
      ++added_here_;
    }
    added_here_ += nodes;
    const GraphHandle graph = value(driver_.capture_end(0, main_), "capture_end");
    require(value(driver_.graph_nodes(0, graph), "graph_nodes") == added_here_, "a node is missing");
    const ExecutableHandle executable = value(driver_.graph_instantiate(0, graph), "graph_instantiate");
    require(driver_.graph_destroy(0, graph), "graph_destroy");
    const auto launches = draw(4);
    for (std::uint64_t n = 0; n < launches; ++n)
      require(driver_.graph_launch(0, executable, draw(2) ? main_ : side_), "graph_launch");
    added_ += launches * std::exchange(added_here_, 0);
    order(side_, main_);
    require(driver_.executable_destroy(0, executable), "executable_destroy");
    if (draw(2) == 0) require(driver_.stream_sync(0, main_), "stream_sync");
    order(main_, side_);
  }

  void breaks() {
    require(driver_.capture_begin(0, main_, CaptureMode::relaxed), "capture_begin");
    add_one(main_);
    require(driver_.stream_query(0, main_).status() == Status::capture_unsupported,
            "a query of a capture was let through");
    require(driver_.capture_end(0, main_).status() == Status::capture_invalidated, "a broken capture ended well");
  }

  Driver& driver_;
  std::mt19937_64 random_;
  StreamHandle main_, side_;
  EventHandle event_;
  Address bytes_ = 0;
  std::uint64_t added_ = 0, added_here_ = 0;
};

void stress(int threads, int rounds, std::uint64_t seed, std::unique_ptr<sim::Schedule> schedule) {
  const std::vector<std::uint64_t> capacities{64u << 20};
  SimDriver sim(capacities, *costs_named("guide"), std::move(schedule));
  FaultyDriver faulty(sim);
  TapedDriver driver(faulty);
  Recorder recorder;
  driver.attach(&recorder);
  std::vector<std::thread> running;
  for (int t = 0; t < threads; ++t)
    running.emplace_back([&, t] { Worker(driver, seed + static_cast<std::uint64_t>(t)).work(rounds); });
  for (std::thread& thread : running) thread.join();
  require(driver.device_sync(0), "device_sync");
  driver.attach(nullptr);
  const Account account = sim.account(0);
  require(account.graphs == 0 && account.executables == 0 && account.backlog == 0, "something was left behind");
}

}  // namespace

int main(int argc, char** argv) {
  const int threads = argc > 1 ? std::atoi(argv[1]) : 4;
  const int rounds = argc > 2 ? std::atoi(argv[2]) : 2000;
  const std::uint64_t seed = argc > 3 ? std::strtoull(argv[3], nullptr, 10) : 1;
  stress(threads, rounds, seed, sim::fifo_schedule());
  stress(threads, rounds, seed, sim::seeded_schedule(seed));
  std::printf("capture_stress: %d threads, %d rounds each, in virtual order and by seed: sound\n", threads, rounds);
}
