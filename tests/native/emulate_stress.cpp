// emulate_stress: random histories through the emulated allocator, every invariant walked after every step. To be built
// with FOREBAY_CHECKS and sanitizers; a program of its own: emulate_stress [SEEDS]. What the right answers are is
// tests/emulate's.
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "emulate/replay.hpp"

using namespace forebay::emulate;

namespace {

struct Program {
  std::vector<std::uint8_t> step;
  std::vector<std::uint32_t> handle, place;
  std::vector<std::uint64_t> bytes;
  std::uint32_t handles = 0;

  void add(Step what, std::uint32_t who, std::uint32_t where, std::uint64_t size) {
    step.push_back(static_cast<std::uint8_t>(what));
    handle.push_back(who);
    place.push_back(where);
    bytes.push_back(size);
  }
  History history() const {
    std::vector<Place> places;
    for (std::uint32_t pool = 0; pool < 3; ++pool)
      for (std::uint64_t stream : {7, 3}) places.push_back({pool, stream});
    return {step, handle, place, bytes, handles, places, {{}, {true, false}, {false, true}}};
  }
};

std::uint64_t size_of(std::mt19937_64& dice) {
  const std::uint64_t top = std::uint64_t{1} << (dice() % 27);
  return 1 + dice() % top;
}

std::uint32_t taken(std::mt19937_64& dice, std::vector<std::uint32_t>& from) {
  std::swap(from[dice() % from.size()], from.back());
  const std::uint32_t one = from.back();
  from.pop_back();
  return one;
}

Program random_program(std::mt19937_64& dice) {
  Program made;
  std::vector<std::uint32_t> live, waiting;
  for (int i = 0; i < 400; ++i) {
    const std::uint64_t what = dice() % 16;
    const auto place = static_cast<std::uint32_t>(dice() % 6);
    if (what < 7) {
      live.push_back(made.handles);
      made.add(Step::alloc, made.handles++, place, size_of(dice));
    } else if (what < 11 && !live.empty()) {
      made.add(Step::free, taken(dice, live), 0, 0);
    } else if (what < 13 && !live.empty()) {
      waiting.push_back(taken(dice, live));
      made.add(Step::request, waiting.back(), 0, 0);
    } else if (what < 14 && !waiting.empty()) {
      made.add(Step::complete, taken(dice, waiting), 0, 0);
    } else if (what < 15) {
      made.add(Step::refused, 0, place, size_of(dice));
    } else {
      made.add(dice() % 2 != 0 ? Step::flush : Step::burst, 0, 0, 0);
    }
  }
  return made;
}

Settings random_settings(std::mt19937_64& dice) {
  Settings settings;
  if (dice() % 2 != 0) settings.max_split_size = (20 + dice() % 40) * kMiB;
  if (dice() % 2 != 0) settings.gc_threshold = 0.4;
  settings.expandable_segments = dice() % 2 != 0;
  for (std::uint32_t& slot : settings.roundup_divisions) slot = 1u << (dice() % 5);
  return settings;
}

void run(std::uint64_t seed) {
  std::mt19937_64 dice(seed);
  const Program program = random_program(dice);
  const History history = program.history();
  if (const auto at = misstep(history)) {
    std::fprintf(stderr, "seed %llu: step %zu makes no sense\n", static_cast<unsigned long long>(seed), *at);
    std::abort();
  }
  const Settings settings = random_settings(dice);
  Limits limits;
  if (dice() % 2 != 0) limits.cap = (64 + dice() % 512) * kMiB;
  if (dice() % 2 != 0) limits.capacity = (64 + dice() % 512) * kMiB;
  limits.routing_is_capture = dice() % 2 != 0;
  const std::unique_ptr<Addresses> orders[] = {driver_addresses({{0x7f0000800000, 20 * kMiB}}),
                                               shuffled_addresses(seed), ascending_addresses()};
  for (const auto& order : orders) replay(history, settings, limits, *order, 8);
}

}  // namespace

int main(int argc, char** argv) {
  const std::uint64_t seeds = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 200;
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) run(seed);
  std::printf("emulate: %llu random histories, every invariant held\n", static_cast<unsigned long long>(seeds));
}
