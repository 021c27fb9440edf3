// program: a walk over the rows of a tape, telling each to the order and to the memory (0165, statements 3, 5, 6, 9).
// Clocks are the Order's, bytes the Spaces', verdicts the Judge's.
#pragma once

#include <optional>
#include <vector>

#include "order/captures.hpp"
#include "order/order.hpp"
#include "order/spaces.hpp"
#include "tape/columns.hpp"

namespace forebay::order {

struct PoolFacts {
  Space space = Space::device;
  bool trusted = false;
};
struct Tables {
  std::vector<StreamFacts> streams;
  std::vector<PoolFacts> pools;
};

class Program {
 public:
  Program(Tables tables, Order& order, Judge& judge, Keep keep)
      : tables_(std::move(tables)), captures_(tables_.streams), order_(&order), judge_(&judge), memory_(judge, keep) {}

  // The next rows of the tape. A row is numbered on from those fed before.
  void feed(const View& view);

  RowId rows() const { return next_; }
  Spaces& memory() { return memory_; }
  const Captures& captures() const { return captures_; }

 private:
  enum class By : std::uint8_t { stream, host };  // who touches the bytes

  // One row, its columns looked at when they are asked for.
  struct Line {
    const View& view;
    std::size_t i;
    RowId row;
    ColumnSet known;
    ThreadId thread;
    std::uint32_t flags;

    bool has(Column c) const { return (known & bit(c)) != 0; }
    bool is(Flag f) const { return (flags & f) != 0; }
    Kind kind() const { return view.kind_at(i); }
    std::optional<StreamId> stream() const {
      return has(Column::stream) ? std::optional(view.stream[i]) : std::nullopt;
    }
    std::optional<EventId> event() const;
    DeviceId device() const { return has(Column::device) ? view.device[i] : DeviceId{0}; }
    std::size_t first_use() const { return view.use_offsets.empty() ? 0 : view.use_offsets[i]; }
    std::size_t last_use() const { return view.use_offsets.empty() ? 0 : view.use_offsets[i + 1]; }
    Use use(std::size_t u) const;
    Access access() const { return {.row = row, .epoch = {}, .loose = is(kOverlaps)}; }
  };

  void line(const Line& l);
  void work(const Line& l);
  void node(const Line& l, Capture& capture);
  void bake(const Use& use, Capture& capture);
  void stale(const Line& l, const GraphUses& graph, const Moment& m);
  void captured(const Line& l, Capture& capture);
  void graph_launch(const Line& l, StreamId s);
  void uses(const Line& l, const Moment& m, By by);
  void host_access(const Line& l);
  void alloc(const Line& l, Order& order, Spaces& memory, Judge& judge);
  void free(const Line& l, Order& order, Spaces& memory);
  void memory_row(const Line& l);
  void take_away(const Line& l);
  void wait(const Line& l);
  void sync(const Line& l);
  void graph_row(const Line& l);
  Memory& memory_of(const Line& l, Spaces& memory);
  PoolFacts pool(const Line& l) const;

  Tables tables_;
  Captures captures_;
  Order* order_;
  Judge* judge_;
  Spaces memory_;
  RowId next_ = 0;
};

}  // namespace forebay::order
