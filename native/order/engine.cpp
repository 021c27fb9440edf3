// engine: the parts put together.
#include "order/engine.hpp"

#include <algorithm>

namespace forebay::order {

Engine::Engine(Tables tables, ThreadId threads)
    : readings_(tables.streams), program_(std::move(tables), readings_, court_, Keep::statement7) {
  for (ThreadId t = 0; t < threads; ++t) readings_.expect_thread(t);
}

void Engine::feed(const View& view) {
  program_.feed(view);
  if (program_.memory().crowded()) program_.memory().prune(readings_.known_to_all(), program_.rows());
}

std::vector<Race> Engine::races() const {
  std::vector<Race> all = court_.races();
  const std::vector<Race> nodes = program_.captures().races();
  all.insert(all.end(), nodes.begin(), nodes.end());
  std::sort(all.begin(), all.end(),
            [](const Race& x, const Race& y) { return std::tuple(x.b, x.a, x.kind) < std::tuple(y.b, y.a, y.kind); });
  return all;
}

}  // namespace forebay::order
