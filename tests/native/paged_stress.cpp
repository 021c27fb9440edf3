// paged_stress: random sequences on one paged pool, judged against a shadow of its pages.
//   paged_stress OPERATIONS THREADS SEED
// One thread: a fresh page is nobody's, and every use of it before is ordered before the stream that gets it; a page
// found by content holds exactly these tokens, and its write is ordered before its reader. More threads: no page has
// two owners, through relaxed marks, so that the sanitizer sees the pool's own lock and no other. Every 1,000
// operations of one thread, and at the end, the full walk.
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <thread>

#include "plain_driver.hpp"
#include "pool/paged.hpp"

namespace forebay::test {
namespace {

constexpr std::uint32_t kPages = 400, kStep = 8;
constexpr std::uint64_t kStreamCount = 4;  // ids 1 to 4; the last is foreign

[[noreturn]] void fail(const char* what, std::uint64_t a = 0, std::uint64_t b = 0) {
  std::fprintf(stderr, "paged_stress: %s (%llu, %llu)\n", what, static_cast<unsigned long long>(a),
               static_cast<unsigned long long>(b));
  std::abort();
}

struct Place {
  std::uint64_t stream = 0, at = 0;
};

// What really happened to a page.
struct Shadow {
  std::atomic<std::uint32_t> owners{0};
  std::vector<Place> uses;
  Place write;
  std::vector<Token> before, tokens;  // when full: all tokens up to this page, and its own
};

PagedOptions options() {
  PagedOptions o;
  o.page_bytes = 4096;
  o.pages = kPages;
  o.page_tokens = kStep;
  o.wait_limit = std::chrono::nanoseconds(0);
  return o;
}

struct World {
  PlainDriver driver{std::uint64_t{1} << 30};
  Domain domain{driver, 0};
  std::unique_ptr<PagedPool> pool;
  std::vector<Channel> channels;
  std::array<Shadow, kPages> pages;
  std::array<std::array<std::uint64_t, kStreamCount>, kStreamCount> waited{};  // edges told: [to][from]

  World() {
    for (std::uint64_t s = 0; s < kStreamCount; ++s)
      if (!domain.adopt(StreamHandle{s + 1}, s + 1 == kStreamCount ? Lifetime::foreign : Lifetime::ours).ok())
        fail("adopt");
    pool = std::make_unique<PagedPool>(domain, options());
    for (std::uint64_t s = 0; s < kStreamCount; ++s) channels.push_back(pool->channel(s + 1));
  }
  bool ordered(Place use, std::uint64_t stream) const {
    return use.stream == stream || driver.done(use.stream + 1) >= use.at || waited[stream][use.stream] >= use.at;
  }
  void walk() {
    if (const auto what = pool->walk(); !what.empty()) fail(what.data());
  }
};

struct Held {
  Sequence* sequence;
  std::vector<Token> tokens;  // of its room
};

class Actor {
 public:
  Actor(World& world, std::uint64_t seed, std::size_t threads)
      : w_(world), random_(seed), alone_(threads == 1), most_held_(48 / threads) {}

  void run(std::uint64_t operations) {
    for (std::uint64_t i = 1; i <= operations; ++i) {
      step();
      if (alone_ && i % 1000 == 0) w_.walk();
    }
    while (!held_.empty()) finish(0);
    while (!single_.empty()) drop();
  }

 private:
  std::uint64_t draw(std::uint64_t below) { return random_() % below; }

  void step() {
    const std::uint64_t stream = draw(kStreamCount), what = draw(100);
    if (held_.size() > most_held_)
      finish(draw(held_.size()));
    else if (what < 12)
      open(stream);
    else if (what < 50 && !held_.empty())
      write(draw(held_.size()), stream);
    else if (what < 58 && !held_.empty())
      fork(draw(held_.size()), stream);
    else if (what < 74 && !held_.empty())
      finish(draw(held_.size()));
    else if (what < 80 && single_.size() < most_held_)
      take(stream);
    else if (what < 86 && !single_.empty())
      drop();
    else if (what < 90 && alone_)
      order(stream, draw(kStreamCount));
    else
      w_.driver.finish_some(stream + 1, [this](std::uint64_t below) { return draw(below); });
  }

  // Few prompts, so that they meet.
  std::vector<Token> prompt() {
    std::vector<Token> tokens(kStep * draw(5));
    const Token first = static_cast<Token>(draw(3));
    for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<Token>(first + i / kStep * draw(2));
    return tokens;
  }

  void open(std::uint64_t stream) {
    const std::vector<Token> tokens = prompt();
    Sequence& sequence = w_.pool->open(tokens, w_.channels[stream]);
    if (sequence.table().size() * kStep != sequence.room()) fail("found pages are not whole");
    for (std::size_t i = 0; i < sequence.table().size(); ++i) found(sequence.table()[i], tokens, i, stream);
    held_.push_back({&sequence, {tokens.begin(), tokens.begin() + sequence.room()}});
    use(sequence, stream);
  }

  void found(PageId page, const std::vector<Token>& tokens, std::size_t index, std::uint64_t stream) {
    Shadow& shadow = w_.pages[page];
    shadow.owners.fetch_add(1, std::memory_order_relaxed);
    if (!alone_) return;
    const auto begin = tokens.begin() + static_cast<std::ptrdiff_t>(index * kStep);
    if (!std::equal(begin, begin + kStep, shadow.tokens.begin(), shadow.tokens.end())) fail("found other tokens", page);
    if (!std::equal(tokens.begin(), begin, shadow.before.begin(), shadow.before.end()))
      fail("found another prefix", page);
    if (!w_.ordered(shadow.write, stream)) fail("read before it was written", page, stream);
  }

  void fresh(PageId page, std::uint64_t stream) {
    Shadow& shadow = w_.pages[page];
    if (shadow.owners.fetch_add(1, std::memory_order_relaxed) != 0) fail("a page has two owners", page);
    if (!alone_) return;
    for (const Place& at : shadow.uses)
      if (!w_.ordered(at, stream)) fail("reused before an earlier use", page, stream);
    shadow.uses.clear();
    shadow.tokens.clear();
  }

  void gone(PageId page) { w_.pages[page].owners.fetch_sub(1, std::memory_order_relaxed); }

  // Work on the stream that touches every page.
  void use(Sequence& sequence, std::uint64_t stream) {
    w_.pool->use(sequence, w_.channels[stream]);
    w_.driver.issue(stream + 1);
    if (alone_)
      for (const PageId page : sequence.table()) w_.pages[page].uses.push_back({stream, w_.driver.issued(stream + 1)});
  }

  void write(std::size_t which, std::uint64_t stream) {
    Held& held = held_[which];
    Sequence& sequence = *held.sequence;
    const std::vector<PageId> before(sequence.table().begin(), sequence.table().end());
    const auto tokens = static_cast<std::uint32_t>(draw(2 * kStep));
    try {
      w_.pool->grow(sequence, tokens, w_.channels[stream]);
    } catch (const PoolFault& fault) {
      if (fault.code != PoolFault::Code::exhausted) fail("an unexpected fault");
      if (!std::equal(before.begin(), before.end(), sequence.table().begin(), sequence.table().end()))
        fail("a refusal changed the table");
      return finish(which);
    }
    for (std::size_t i = 0; i < sequence.table().size(); ++i) {
      if (i < before.size() && sequence.table()[i] == before[i]) continue;
      fresh(sequence.table()[i], stream);
      if (i < before.size()) copied(before[i], stream);
    }
    for (std::uint32_t i = 0; i < tokens; ++i) held.tokens.push_back(static_cast<Token>(draw(2)));
    use(sequence, stream);
    commit(held, tokens, stream);
  }

  void copied(PageId from, std::uint64_t stream) {
    if (alone_) w_.pages[from].uses.push_back({stream, w_.driver.issued(stream + 1)});
    gone(from);
  }

  void commit(Held& held, std::uint32_t count, std::uint64_t stream) {
    const std::span<const Token> all(held.tokens);
    if (alone_) {
      for (std::size_t i = (all.size() - count) / kStep; (i + 1) * kStep <= all.size(); ++i) {
        Shadow& shadow = w_.pages[held.sequence->table()[i]];
        shadow.write = {stream, w_.driver.issued(stream + 1)};
        shadow.before.assign(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(i * kStep));
        shadow.tokens.assign(all.begin() + static_cast<std::ptrdiff_t>(i * kStep),
                             all.begin() + static_cast<std::ptrdiff_t>((i + 1) * kStep));
      }
    }
    if (!w_.pool->commit(*held.sequence, all.last(count), w_.channels[stream])) fail("a commit was refused");
    if (w_.pool->commit(*held.sequence, all.first(std::min<std::size_t>(1, all.size())), w_.channels[stream]) &&
        !all.empty())
      fail("more was committed than there is room");
  }

  void fork(std::size_t which, std::uint64_t stream) {
    Sequence* twin = w_.pool->fork(*held_[which].sequence, w_.channels[stream]);
    if (twin == nullptr) fail("a fork was refused");
    for (const PageId page : twin->table()) w_.pages[page].owners.fetch_add(1, std::memory_order_relaxed);
    held_.push_back({twin, held_[which].tokens});
    use(*twin, stream);
  }

  void finish(std::size_t which) {
    for (const PageId page : held_[which].sequence->table()) gone(page);
    w_.pool->finish(*held_[which].sequence);
    held_.erase(held_.begin() + static_cast<std::ptrdiff_t>(which));
  }

  void take(std::uint64_t stream) {
    try {
      single_.push_back({w_.pool->take(w_.channels[stream]), stream});
    } catch (const PoolFault&) {
      return;
    }
    fresh(single_.back().first, stream);
    w_.driver.issue(stream + 1);
    if (alone_) w_.pages[single_.back().first].uses.push_back({stream, w_.driver.issued(stream + 1)});
  }

  void drop() {
    const auto [page, stream] = single_.back();
    single_.pop_back();
    gone(page);
    if (!w_.pool->drop(page, w_.channels[stream])) fail("a held page was not dropped", page);
  }

  void order(std::uint64_t to, std::uint64_t from) {
    if (to == from) return;
    const Mark mark = w_.domain.mark(from + 1);
    auto& waited = w_.waited;
    for (std::uint64_t s = 0; s < kStreamCount; ++s) waited[to][s] = std::max(waited[to][s], waited[from][s]);
    waited[to][from] = w_.driver.issued(from + 1);
    w_.driver.order(to + 1, from + 1);
    w_.domain.ordered(to + 1, mark);
  }

  World& w_;
  std::mt19937_64 random_;
  const bool alone_;
  const std::size_t most_held_;  // so that most requests find room
  std::vector<Held> held_;
  std::vector<std::pair<PageId, std::uint64_t>> single_;
};

void run(std::uint64_t operations, std::size_t threads, std::uint64_t seed) {
  World world;
  std::vector<std::thread> pool;
  for (std::size_t t = 0; t < threads; ++t)
    pool.emplace_back([&, t] { Actor(world, seed + t, threads).run(operations / threads); });
  for (auto& thread : pool) thread.join();
  world.walk();
  const Gauges g = world.pool->gauges(std::nullopt);
  if (g.allocated != 0 || g.requested != 0) fail("pages are live after all were given back", g.allocated);
  std::printf("hits %llu misses %llu refused %llu\n", static_cast<unsigned long long>(g.hits),
              static_cast<unsigned long long>(g.misses), static_cast<unsigned long long>(g.ooms));
}

}  // namespace
}  // namespace forebay::test

int main(int argc, char** argv) {
  const auto number = [&](int i, std::uint64_t otherwise) {
    return argc > i ? std::strtoull(argv[i], nullptr, 10) : otherwise;
  };
  forebay::test::run(number(1, 100'000), number(2, 1), number(3, 1));
}
