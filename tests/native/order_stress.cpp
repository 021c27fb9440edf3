// order_stress: random rows through the order engine and the needed edges, for sanitizers. The races may not depend on
// how the tape is cut into chunks. Arguments: the number of programs (default 300). Exit status 1 and the seed of the
// first that differs.
#include <cstdio>
#include <cstdlib>
#include <random>

#include "order/engine.hpp"
#include "order/needed.hpp"

using namespace forebay;
using namespace forebay::order;

namespace {

constexpr ThreadId kThreads = 3;
using Dice = std::mt19937;

std::uint32_t roll(Dice& dice, std::uint32_t sides) { return static_cast<std::uint32_t>(dice() % sides); }

Row random_row(Dice& dice, std::vector<Use>& uses) {
  static constexpr Kind kKinds[] = {Kind::alloc,         Kind::free,        Kind::launch,       Kind::launch,
                                    Kind::copy,          Kind::record,      Kind::wait,         Kind::sync_stream,
                                    Kind::query,         Kind::sync_device, Kind::sync_event,   Kind::host_access,
                                    Kind::event_destroy, Kind::lend,        Kind::reclaim,      Kind::unmap,
                                    Kind::map,           Kind::gap,         Kind::graph_launch, Kind::capture_begin,
                                    Kind::capture_end};
  Row row;
  row.kind = kKinds[roll(dice, std::size(kKinds))];
  if (row.kind == Kind::gap && roll(dice, 20) != 0) row.kind = Kind::launch;
  row.thread = static_cast<std::uint16_t>(roll(dice, kThreads));
  row.stream = roll(dice, 6);
  row.ref = roll(dice, 5);
  row.capture = row.ref;
  row.pool = roll(dice, 2);
  row.address = 512u * roll(dice, 64);
  row.size = 512u * (1 + roll(dice, 8));
  row.flags = (roll(dice, 4) == 0 ? kBlocking : 0u) | (roll(dice, 2) == 0 ? kReady : 0u) |
              (roll(dice, 9) == 0 ? kIncomplete : 0u) | (roll(dice, 9) == 0 ? kTrusted : 0u) |
              (roll(dice, 15) == 0 ? kExternal : 0u);
  row.known = ~ColumnSet{0};
  if (roll(dice, 12) != 0) row.known &= ~bit(Column::capture);
  uses.clear();
  for (std::uint32_t u = roll(dice, 4); u > 0; --u)
    uses.push_back({256u * roll(dice, 128), 256u * (1 + roll(dice, 8)), static_cast<Mode>(roll(dice, 4)),
                    static_cast<Extent>(roll(dice, 3)), static_cast<Space>(roll(dice, 4))});
  row.uses = uses;
  return row;
}

Tables tables() {
  return {{{StreamClass::legacy, 0},
           {StreamClass::blocking, 0},
           {StreamClass::nonblocking, 0},
           {StreamClass::per_thread, 0},
           {std::nullopt, 0},
           {StreamClass::blocking, 1}},
          {{Space::device, false}, {Space::device, true}}};
}

std::vector<Race> races_of(const std::vector<Columns>& chunks) {
  Engine engine(tables(), kThreads);
  for (const Columns& chunk : chunks) engine.feed(chunk.view());
  return engine.races();
}

bool same(const std::vector<Race>& x, const std::vector<Race>& y) {
  return std::equal(x.begin(), x.end(), y.begin(), y.end(), [](const Race& a, const Race& b) {
    return a.a == b.a && a.b == b.b && a.kind == b.kind && a.certain == b.certain && a.lo == b.lo && a.hi == b.hi;
  });
}

void judge_edges(const Columns& whole) {
  Needed needed(tables(), kThreads, Uses::shown);
  needed.feed(whole.view());
  std::vector<Unit> units;
  for (RowId row = 0; row < whole.rows(); ++row) units.push_back({{row}, 0, true});
  const std::vector<Verdict> verdicts = needed.judge(units);
  for (std::size_t u = 0; u < units.size(); ++u)
    if (verdicts[u].need == Need::needed && needed.carries(units[u], 4).empty()) std::abort();
}

bool holds(std::uint32_t seed) {
  Dice dice(seed);
  Columns whole;
  std::vector<Columns> pieces(1);
  std::vector<Use> uses;
  const std::uint32_t rows = 20 + roll(dice, 400);
  for (std::uint32_t i = 0; i < rows; ++i) {
    const Row row = random_row(dice, uses);
    whole.push(row);
    if (pieces.back().rows() > 0 && roll(dice, 20) == 0) pieces.emplace_back();
    pieces.back().push(row);
  }
  judge_edges(whole);
  std::vector<Columns> one;
  one.push_back(std::move(whole));
  return same(races_of(one), races_of(pieces));
}

}  // namespace

int main(int count, char** arguments) {
  const int programs = count > 1 ? std::atoi(arguments[1]) : 300;
  for (int seed = 0; seed < programs; ++seed) {
    if (holds(static_cast<std::uint32_t>(seed))) continue;
    std::printf("order_stress: seed %d: the races depend on how the tape is cut\n", seed);
    return 1;
  }
  std::printf("order_stress: %d programs\n", programs);
}
