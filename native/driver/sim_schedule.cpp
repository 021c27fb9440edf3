#include "driver/sim_schedule.hpp"

#include <algorithm>
#include <random>
#include <set>
#include <unordered_map>
#include <utility>

namespace forebay::sim {

namespace {

class Fifo final : public Schedule {
 public:
  std::size_t next(Ready) override { return 0; }
  std::optional<std::size_t> stray(Ready ready, Point point, std::int64_t now_ns) override {
    if (point == Point::issue || ready.front()->end_ns > now_ns) return std::nullopt;
    return 0;
  }
  bool marks_complete_at_issue() const override { return true; }
};

class Seeded final : public Schedule {
 public:
  explicit Seeded(std::uint64_t seed) : random_(seed) {}
  std::size_t next(Ready ready) override { return draw(ready.size()); }
  // Half of the time nothing more: short and long runs ahead of the host both come up.
  std::optional<std::size_t> stray(Ready ready, Point, std::int64_t) override {
    if (draw(2) == 0) return std::nullopt;
    return draw(ready.size());
  }
  bool marks_complete_at_issue() const override { return false; }

 private:
  // Not std::uniform_int_distribution: its numbers differ between standard libraries. The bias is below 2^-50.
  std::size_t draw(std::size_t below) { return static_cast<std::size_t>(random_() % below); }
  std::mt19937_64 random_;
};

class Holding final : public Schedule {
 public:
  explicit Holding(std::span<const WorkName> held) : held_(held.begin(), held.end()) {}
  void issued(Item& work) override { work.held = held_.contains({work.work.name, issued_[work.work.name]++}); }
  std::size_t next(Ready ready) override { return first_free(ready).value_or(0); }
  std::optional<std::size_t> stray(Ready ready, Point point, std::int64_t now_ns) override {
    const auto index = first_free(ready);
    if (point == Point::issue || !index || ready[*index]->end_ns > now_ns) return std::nullopt;
    return index;
  }
  bool marks_complete_at_issue() const override { return true; }

 private:
  static std::optional<std::size_t> first_free(Ready ready) {
    const auto at = std::find_if(ready.begin(), ready.end(), [](const auto& item) { return !item->held; });
    if (at == ready.end()) return std::nullopt;
    return static_cast<std::size_t>(at - ready.begin());
  }
  const std::set<WorkName> held_;
  std::unordered_map<std::string, std::uint64_t> issued_;
};

bool sooner(const std::shared_ptr<Item>& a, const std::shared_ptr<Item>& b) {
  return std::pair(a->end_ns, a->seq) < std::pair(b->end_ns, b->seq);
}

}  // namespace

std::unique_ptr<Schedule> fifo_schedule() { return std::make_unique<Fifo>(); }
std::unique_ptr<Schedule> seeded_schedule(std::uint64_t seed) { return std::make_unique<Seeded>(seed); }

std::unique_ptr<Schedule> holding_schedule(std::span<const WorkName> held) { return std::make_unique<Holding>(held); }

void Backlog::order(const std::shared_ptr<Item>& from, const std::shared_ptr<Item>& to) {
  if (!from) return;
  to->begin_ns = std::max(to->begin_ns, from->end_ns);
  if (from->done) return;
  from->after.push_back(to);
  ++to->before;
}

void Backlog::put(std::shared_ptr<Item> item) {
  ++size_;
  if (item->before == 0) make_ready(std::move(item));
}

void Backlog::make_ready(std::shared_ptr<Item> item) {
  ready_.insert(std::upper_bound(ready_.begin(), ready_.end(), item, sooner), std::move(item));
}

std::shared_ptr<Item> Backlog::take(std::size_t index) {
  std::shared_ptr<Item> item = std::move(ready_[index]);
  ready_.erase(ready_.begin() + static_cast<std::ptrdiff_t>(index));
  return item;
}

void Backlog::complete(const std::shared_ptr<Item>& item) {
  item->done = true;
  --size_;
  for (auto& next : std::exchange(item->after, {}))
    if (--next->before == 0) make_ready(std::move(next));
}

void Backlog::drop_all() {
  while (!ready_.empty()) complete(take(ready_.size() - 1));
}

}  // namespace forebay::sim
