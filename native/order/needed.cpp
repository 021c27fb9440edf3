// needed: the judging of units.
#include "order/needed.hpp"

#include <algorithm>
#include <numeric>

namespace forebay::order {

Requirements::Requirements(const Tables& tables, ThreadId threads, Trust trust, Uses uses)
    : uses_(uses), dag_(tables.streams, threads, trust), program_(tables, dag_, *this, Keep::every) {}

// Pairs that nothing orders are races already; the others must stay ordered.
void Requirements::require(const Access& a, RowId b, const Moment& m) {
  if (m.knows(a.epoch)) musts_.push_back({m.node, a.epoch, b});
}

void Requirements::finish() {
  dag_.finish();
  std::sort(musts_.begin(), musts_.end(), [](const Must& x, const Must& y) { return x.node < y.node; });
  must_at_.assign(dag_.nodes() + 1, 0);
  for (const Must& must : musts_) ++must_at_[must.node + 1];
  std::partial_sum(must_at_.begin(), must_at_.end(), must_at_.begin());
  last_must_.assign(dag_.actors(), {});
  for (const Must& must : musts_) {
    auto& last = last_must_[must.epoch.actor];
    if (last.size() <= must.epoch.tick) last.resize(must.epoch.tick + 1, 0);
    last[must.epoch.tick] = must.node;  // they rise
  }
  now_.resize(dag_.actors());
  is_hidden_.assign(dag_.nodes(), uses_ == Uses::unseen);
  is_cut_.assign(dag_.nodes(), false);
  queued_.assign(dag_.nodes(), false);
  for (Node n : hidden_) is_hidden_[n] = true;
  hidden_ticks_.assign(dag_.actors(), {});
  for (Node n = 0; n < dag_.nodes(); ++n) {
    if (dag_.joint(n)) joints_[dag_.row(n)].push_back(n);
    if (!is_hidden_[n] || !dag_.item(n)) continue;
    hidden_ticks_[dag_.epoch(n).actor].push_back(dag_.epoch(n).tick);
    last_hidden_ = n;
  }
}

// Whether some item of the actor with ticks in (low, high] hides uses.
bool Requirements::hides(Actor a, Tick low, Tick high) const {
  const auto& ticks = hidden_ticks_[a];
  const auto found = std::upper_bound(ticks.begin(), ticks.end(), low);
  return found != ticks.end() && *found <= high;
}

void Requirements::Horizon::fell(const std::vector<std::vector<Node>>& last, Actor a, Tick low, Tick high) {
  const auto look = [&](Tick t) {
    if (t < last[a].size()) at_ = std::max(at_, last[a][t]);
  };
  auto& [from, to] = seen_[a];
  if (from == to) from = to = low;
  while (to <= high) look(to++);
  while (from > low) look(--from);
}

// The node knows less than before: who needed what it no longer knows?
void Requirements::fall(Node n, std::span<const Tick> now, std::size_t most_pairs, Loss& loss, Horizon& horizon) {
  const std::span<const Tick> then = dag_.clock(n);
  loss.fell = true;
  for (std::size_t i = must_at_[n]; i < must_at_[n + 1]; ++i) {
    const Must& must = musts_[i];
    const bool lost = now[must.epoch.actor] < must.epoch.tick && then[must.epoch.actor] >= must.epoch.tick;
    if (lost && loss.pairs.size() < most_pairs) loss.pairs.push_back({dag_.row_of(must.epoch), must.row});
  }
  for (Actor a = 0; a < now.size(); ++a) {
    if (now[a] == then[a]) continue;
    horizon.fell(last_must_, a, now[a] + 1, then[a]);
    const bool hidden = hides(a, now[a], then[a]);
    if (hidden) horizon.everything();
    if (dag_.touches(n)) loss.hidden |= hidden || (is_hidden_[n] && dag_.item(n));
    if (dag_.item(n)) loss.effect += dag_.items_up_to(a, then[a]) - dag_.items_up_to(a, now[a]);
  }
}

void Requirements::push(Node n, Queue& next) {
  if (!queued_[n]) next.push(n);
  queued_[n] = true;
}

Requirements::Loss Requirements::cut(const std::vector<RowId>& rows, std::size_t most_pairs, Reach reach) {
  if (const auto loss = attempt(rows, most_pairs, reach)) return *loss;
  roll_back();
  settle();
  return *attempt(rows, most_pairs, reach);
}

// None where it came to steps that are stale.
std::optional<Requirements::Loss> Requirements::attempt(const std::vector<RowId>& rows, std::size_t most_pairs,
                                                        Reach reach) {
  Loss loss;
  Horizon horizon(dag_.actors(), last_hidden_);
  Queue next;
  for (RowId row : rows) {
    const auto found = joints_.find(row);
    if (found == joints_.end()) continue;
    for (Node n : found->second) {
      if (is_cut_[n]) continue;
      is_cut_[n] = true;
      undo_.push_back({n, {}, true});
      push(n, next);
    }
  }
  bool known = true;
  while (!next.empty() && loss.pairs.size() < most_pairs) {
    const Node n = next.top();
    known = stale_.empty() || n < stale_.top();
    if (!known || (reach == Reach::enough && loss.effect > 0 && n > horizon.at())) break;
    next.pop();
    queued_[n] = false;
    ++visits_;
    dag_.work_out(n, is_cut_[n] ? Joint::cut : Joint::whole, now_);
    if (std::equal(now_.begin(), now_.end(), dag_.clock(n).begin())) continue;
    fall(n, now_, most_pairs, loss, horizon);
    undo_.push_back({n, {dag_.clock(n).begin(), dag_.clock(n).end()}, false});
    std::copy(now_.begin(), now_.end(), dag_.clock(n).begin());
    for (Node after : dag_.after(n)) push(after, next);
  }
  for (; !next.empty(); next.pop()) {
    queued_[next.top()] = false;
    left_.push_back(next.top());
  }
  return known ? std::optional(loss) : std::nullopt;
}

void Requirements::commit() {
  undo_.clear();
  for (Node n : left_) stale_.push(n);
  left_.clear();
}

void Requirements::roll_back() {
  left_.clear();
  for (; !undo_.empty(); undo_.pop_back()) {
    const Undo& last = undo_.back();
    if (last.cut)
      is_cut_[last.node] = false;
    else
      std::copy(last.clock.begin(), last.clock.end(), dag_.clock(last.node).begin());
  }
}

void Requirements::settle() {
  Queue next;
  for (; !stale_.empty(); stale_.pop()) push(stale_.top(), next);
  for (; !next.empty();) {
    const Node n = next.top();
    next.pop();
    queued_[n] = false;
    ++visits_;
    dag_.work_out(n, is_cut_[n] ? Joint::cut : Joint::whole, now_);
    if (std::equal(now_.begin(), now_.end(), dag_.clock(n).begin())) continue;
    std::copy(now_.begin(), now_.end(), dag_.clock(n).begin());
    for (Node after : dag_.after(n)) push(after, next);
  }
}

Needed::Needed(const Tables& tables, ThreadId threads, Uses uses) {
  const bool unclassed =
      std::any_of(tables.streams.begin(), tables.streams.end(), [](const auto& s) { return !s.kind; });
  readings_.push_back(std::make_unique<Requirements>(tables, threads, Trust::sure, uses));
  if (threads > 1 || unclassed)
    readings_.push_back(std::make_unique<Requirements>(tables, threads, Trust::plausible, uses));
}

void Needed::feed(const View& view) {
  for (auto& reading : readings_) reading->feed(view);
}

Requirements::Loss Needed::cut(const Unit& unit, Reach reach) {
  Requirements::Loss all;
  for (auto& reading : readings_) {
    const Requirements::Loss loss = reading->cut(unit.rows, 1, reach);
    all.pairs.insert(all.pairs.end(), loss.pairs.begin(), loss.pairs.end());
    all.hidden |= loss.hidden;
    all.fell |= loss.fell;
    all.effect = std::max(all.effect, loss.effect);
  }
  return all;
}

// Why a unit stays, if it does. One that is not judged stays unless its edges say nothing new at all.
std::optional<Need> Needed::kept(const Requirements::Loss& loss, const Unit& unit) {
  if (!loss.pairs.empty()) return Need::needed;
  if (loss.hidden || (!unit.judged && loss.fell)) return Need::not_judged;
  return std::nullopt;
}

std::vector<Verdict> Needed::judge(const std::vector<Unit>& units) {
  for (auto& reading : readings_) reading->finish();
  std::vector<Verdict> verdicts;
  std::vector<std::size_t> open;
  for (const Unit& unit : units) {
    const Requirements::Loss loss = cut(unit, Reach::whole);
    for (auto& reading : readings_) reading->roll_back();
    const auto need = kept(loss, unit);
    if (!need) open.push_back(verdicts.size());
    verdicts.push_back({need.value_or(Need::idle), loss.effect});
  }
  // Of equals the earlier goes first: decision 0106.
  std::sort(open.begin(), open.end(), [&](std::size_t x, std::size_t y) {
    const auto key = [&](std::size_t u) {
      const Unit& unit = units[u];
      return std::tuple(unit.rank == kPoolMadeRank, verdicts[u].effect, unit.rank);
    };
    return key(x) != key(y) ? key(x) > key(y) : units[x].rows.front() < units[y].rows.front();
  });
  for (std::size_t u : open) verdicts[u].need = drop(units[u]);
  for (auto& reading : readings_) reading->settle();
  return verdicts;
}

Need Needed::drop(const Unit& unit) {
  const Requirements::Loss loss = cut(unit, Reach::enough);
  const auto need = kept(loss, unit);
  for (auto& reading : readings_) need ? reading->roll_back() : reading->commit();
  return need.value_or(loss.effect > 0 ? Need::needless : Need::idle);
}

std::vector<Kept> Needed::carries(const Unit& unit, std::size_t most) {
  std::vector<Kept> pairs;
  for (auto& reading : readings_) {
    const Requirements::Loss loss = reading->cut(unit.rows, most, Reach::whole);
    reading->roll_back();
    for (const Kept& pair : loss.pairs)
      if (pairs.size() < most) pairs.push_back(pair);
  }
  return pairs;
}

std::uint64_t Needed::visits() const {
  std::uint64_t all = 0;
  for (const auto& reading : readings_) all += reading->visits();
  return all;
}

}  // namespace forebay::order
