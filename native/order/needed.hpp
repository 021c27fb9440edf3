// needed: which waits and syncs of a tape hold up a conflicting pair, and which could go (0165, statement 8). Taken
// over a whole tape, since an edge may be needed by its last row.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "order/dag.hpp"
#include "order/program.hpp"

namespace forebay::order {

enum class Need : std::uint8_t {
  needed,      // without it (and those dropped before) some pair is unordered
  needless,    // dropped, and some item became less ordered: lost overlap
  idle,        // dropped, and no order changed
  not_judged,  // what the tape does not show might need it
};

// Rows that are kept or dropped together. `rank`: the strongest kind among them (device sync before stream sync before
// event sync before wait). What a pool made by itself goes before all, whatever its effect: nobody can rely on it.
inline constexpr int kPoolMadeRank = 4;
struct Unit {
  std::vector<RowId> rows;
  int rank = 0;
  bool judged = true;  // false: what it gives order to is not on the tape at all
};

struct Verdict {
  Need need = Need::idle;
  std::uint64_t effect = 0;  // orderings of items that the unit alone adds
};

// A pair of rows that must stay ordered.
struct Kept {
  RowId a = 0, b = 0;
};

// Whether the tape shows what its items touch, or nothing of that.
enum class Uses : std::uint8_t { shown, unseen };

// How far a trial goes: until all that falls is worked out, or until it is sure whether the unit can go.
enum class Reach : std::uint8_t { whole, enough };

// The steps of the tape under one reading, and what must stay ordered. Hears every clash while the tape is walked.
class Requirements : public Judge {
 public:
  Requirements(const Tables& tables, ThreadId threads, Trust trust, Uses uses);
  Requirements(const Requirements&) = delete;
  Requirements& operator=(const Requirements&) = delete;

  void feed(const View& view) { program_.feed(view); }
  void finish();

  void pair(const Access& a, const Access& b, std::uint64_t, std::uint64_t, const Moment& m) override {
    require(a, b.row, m);
  }
  void late(const Block&, const Access&, std::uint64_t, std::uint64_t, const Moment&) override {}
  void freed(const Access& a, const Block& block, std::uint64_t, std::uint64_t, const Moment& m) override {
    require(a, *block.freed, m);
  }
  void reclaimed(const Access& a, const Block& block, const Moment& m) override { require(a, *block.freed, m); }
  void unmapped(const Access& a, RowId row, std::uint64_t, std::uint64_t, const Moment& m) override {
    require(a, row, m);
  }
  void incomplete(const Moment& m) override { hide(m.node); }
  void vague(const Moment& m) override { hide(m.node); }

  // What would become of the order if the joints of these rows were cut as well. Follow with `commit`, if they are to
  // go for good, or with `roll_back`. Note [A verdict is sure before the end]: once some item is known to have lost
  // order, only a step that must know one of the fallen ticks, or one that hides uses, can change the verdict. Steps
  // beyond the last of those stay as they were, *stale*, until a trial comes that far. Else a sync a step, none of them
  // needed and the latest dropped first, would work out the rest of the tape once a sync.
  struct Loss {
    std::vector<Kept> pairs;  // no longer ordered; at most as many as asked for
    bool hidden = false;      // something that the tape does not show may have needed it
    bool fell = false;        // something knows less
    std::uint64_t effect = 0;
  };
  Loss cut(const std::vector<RowId>& rows, std::size_t most_pairs, Reach reach);
  void commit();
  void roll_back();
  void settle();  // works out what is stale
  std::uint64_t visits() const { return visits_; }

 private:
  struct Must {
    Node node = 0;
    Epoch epoch;
    RowId row = 0;  // of the later side
  };
  struct Undo {
    Node node = 0;
    std::vector<Tick> clock;
    bool cut = false;  // the node's joint was cut, rather than its clock changed
  };

  using Queue = std::priority_queue<Node, std::vector<Node>, std::greater<>>;

  // Up to which step a verdict may still change: the last that must know a fallen tick, or that hides uses.
  class Horizon {
   public:
    Horizon(std::size_t actors, Node last_hidden) : seen_(actors), at_(last_hidden) {}
    void everything() { at_ = ~Node{0}; }
    void fell(const std::vector<std::vector<Node>>& last, Actor a, Tick low, Tick high);  // ticks [low, high]
    Node at() const { return at_; }

   private:
    struct Ticks {
      Tick from = 0, to = 0;  // [from, to)
    };
    std::vector<Ticks> seen_;
    Node at_;
  };

  std::optional<Loss> attempt(const std::vector<RowId>& rows, std::size_t most_pairs, Reach reach);
  void push(Node n, Queue& next);
  void require(const Access& a, RowId b, const Moment& m);
  void hide(Node n) { hidden_.push_back(n); }
  void fall(Node n, std::span<const Tick> now, std::size_t most_pairs, Loss& loss, Horizon& horizon);
  bool hides(Actor a, Tick low, Tick high) const;

  Uses uses_;
  Dag dag_;
  Program program_;
  std::vector<Must> musts_;
  std::vector<std::size_t> must_at_;          // by node
  std::vector<std::vector<Node>> last_must_;  // by actor and tick: the last that must know it; 0: none
  Node last_hidden_ = 0;
  std::vector<Node> hidden_;
  std::vector<bool> is_hidden_, is_cut_, queued_;
  std::vector<std::vector<Tick>> hidden_ticks_;  // by actor, rising
  std::unordered_map<RowId, std::vector<Node>> joints_;
  std::vector<Undo> undo_;
  std::vector<Node> left_;  // of the last trial: what it did not come to
  Queue stale_;             // left by those that were committed; all before the first is worked out
  std::vector<Tick> now_;
  std::uint64_t visits_ = 0;
};

class Needed {
 public:
  Needed(const Tables& tables, ThreadId threads, Uses uses);
  Needed(const Needed&) = delete;
  Needed& operator=(const Needed&) = delete;
  void feed(const View& view);
  // One verdict a unit, in their order. Units are judged as a set: all dropped ones can go at once. Once only.
  std::vector<Verdict> judge(const std::vector<Unit>& units);
  // Pairs that a unit carries beside all others of the tape but those dropped by `judge`.
  std::vector<Kept> carries(const Unit& unit, std::size_t most);
  // Steps that were worked out again, over all trials.
  std::uint64_t visits() const;

 private:
  Requirements::Loss cut(const Unit& unit, Reach reach);
  Need drop(const Unit& unit);
  static std::optional<Need> kept(const Requirements::Loss& loss, const Unit& unit);

  std::vector<std::unique_ptr<Requirements>> readings_;
};

}  // namespace forebay::order
