// costs: what gauges, and a recording that is not under way, add to a pool's hit. Three builds of the pool are in
// this program: one without gauges and twice the same with them; the second shows what the method reads where there is
// nothing to read. They run by turns in batches too short for an interruption, forth and back; what counts is the
// median of a batch's ratio to the other's beside it.
//   costs                             a line of JSON: for each comparison its cost and its control, as ratios less one
//   costs     BUILD WHAT PAIRS        so many pairs of one build alone, for a counter of instructions
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

extern "C" {
double bare(int what, int pairs);
double kept(int what, int pairs);
double again(int what, int pairs);
}

namespace {

constexpr int kPairs = 1000, kRounds = 600;
using Build = double (*)(int, int);
constexpr Build kBuilds[] = {&bare, &kept, &again};

// What the numbers mean is pairs.cpp's.
struct Comparison {
  const char* name;
  Build without, with, control;
  int plain, other, control_what;
};
constexpr Comparison kComparisons[] = {
    {"gauges_4KiB", &bare, &kept, &again, 0, 0, 0},         {"gauges_100KiB", &bare, &kept, &again, 1, 1, 1},
    {"gauges_3MiB", &bare, &kept, &again, 2, 2, 2},         {"gauges_frames_100KiB", &bare, &kept, &again, 3, 3, 3},
    {"idle_recording_4KiB", &kept, &kept, &kept, 0, 4, 0},  {"idle_recording_3MiB", &kept, &kept, &kept, 2, 5, 2},
    {"idle_recording_event", &kept, &kept, &kept, 6, 7, 6},
};

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

void print(const Comparison& c, const char* end) {
  std::vector<double> cost, control, noise, ns;
  for (int round = 0; round < kRounds; ++round) {
    double without = c.without(c.plain, kPairs), with = c.with(c.other, kPairs),
           beside = c.control(c.control_what, kPairs);
    beside += c.control(c.control_what, kPairs);
    with += c.with(c.other, kPairs);
    without += c.without(c.plain, kPairs);
    cost.push_back(with / without - 1);
    control.push_back(beside / without - 1);
    noise.push_back(with / beside - 1);
    ns.push_back(without / 2);
  }
  std::printf("\"%s\": {\"without_ns\": %.2f, \"cost\": %.5f, \"control\": %.5f, \"apart\": %.5f}%s", c.name,
              median(ns), median(cost), median(control), median(noise), end);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 4) {
    const double ns = kBuilds[std::atoi(argv[1]) % 3](std::atoi(argv[2]), std::atoi(argv[3]));
    return ns >= 0 ? 0 : 1;
  }
  // The C library leaves locks out while a process has one thread.
  std::atomic<bool> over{false};
  std::thread second([&] { over.wait(false); });
  for (const Build build : kBuilds)
    for (int what = 0; what < 8; ++what) build(what, 20 * kPairs);
  std::printf("{");
  for (const Comparison& c : kComparisons) print(c, &c == &kComparisons[std::size(kComparisons) - 1] ? "}\n" : ", ");
  over = true;
  over.notify_all();
  second.join();
}
