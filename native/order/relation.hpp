// relation: whether one work item of a tape is sure to have ended before another begins, and through which rows. Taken
// over a whole tape. Which items are asked about, and what an answer means, is the asker's.
#pragma once

#include <cstdint>
#include <vector>

#include "order/dag.hpp"
#include "order/program.hpp"

namespace forebay::order {

enum class Sure : std::uint8_t {
  no,        // nothing orders them
  possible,  // only an edge that the tape may hide does
  certain,
};

class Relation {
 public:
  // Tables that hold every stream of the tape; how many threads it has.
  Relation(const Tables& tables, ThreadId threads);
  Relation(const Relation&) = delete;
  Relation& operator=(const Relation&) = delete;

  void feed(const View& view);

  // Whether row a is before row b. Rows that are no items that run (nodes of a capture, failed calls, records) are
  // ordered with nothing.
  Sure before(RowId a, RowId b) const;
  // Whether the row is an item that runs.
  bool item(RowId row) const { return sure_.node(row) != kNone; }
  // The rows on one way from a to b, b first, at which order comes in from elsewhere than the row's own stream or
  // thread: empty where they are in one queue, or not ordered.
  std::vector<RowId> way(RowId a, RowId b) const;

 private:
  static constexpr Node kNone = ~Node{0};

  // The steps of the tape under one reading.
  class Steps {
   public:
    Steps(const Tables& tables, ThreadId threads, Trust trust);
    void feed(const View& view);
    Node node(RowId row) const { return row < items_.size() ? items_[row] : kNone; }
    bool before(RowId a, RowId b) const;
    std::vector<RowId> way(RowId a, RowId b) const;

   private:
    struct Deaf : Judge {  // bytes play no part
      void pair(const Access&, const Access&, std::uint64_t, std::uint64_t, const Moment&) override {}
      void late(const Block&, const Access&, std::uint64_t, std::uint64_t, const Moment&) override {}
      void freed(const Access&, const Block&, std::uint64_t, std::uint64_t, const Moment&) override {}
      void reclaimed(const Access&, const Block&, const Moment&) override {}
      void unmapped(const Access&, RowId, std::uint64_t, std::uint64_t, const Moment&) override {}
    };
    bool knows(Node n, Node a) const { return dag_.clock(n)[dag_.epoch(a).actor] >= dag_.epoch(a).tick; }

    Deaf deaf_;
    Dag dag_;
    Program program_;
    std::vector<Node> items_;  // by row: its last item, which is the work of a copy that first reads pageable bytes
    Node seen_ = 0;
  };

  Steps sure_, plausible_;
};

}  // namespace forebay::order
