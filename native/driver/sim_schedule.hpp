// sim_schedule: issued work that has not run, its order, and the choice of what runs next. Which edges there are is
// sim_order.cpp's; running it and waiting for it is sim.cpp's.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "driver/port.hpp"
#include "driver/sim_capture.hpp"
#include "driver/watch.hpp"

namespace forebay::sim {

// One item: a kernel, a copy, or a mark (a record, a wait) that has no `run`.
struct Item {
  std::uint64_t seq = 0;  // order of issue
  int device = 0;
  std::uint64_t stream = 0;               // its id
  std::int64_t begin_ns = 0, end_ns = 0;  // virtual; known at the issue
  std::size_t before = 0;                 // edges from items that have not run
  std::vector<std::shared_ptr<Item>> after;
  bool done = false;
  bool held = false;  // its schedule puts it off
  Work work;
  std::shared_ptr<const Issued> told;  // what watchers hear of it; null: nobody watches
};

// A stream's FIFO. It outlives its handle while work is in it.
enum class LaneKind : std::uint8_t { legacy, blocking, nonblocking, per_thread };
struct Lane {
  int device = 0;
  LaneKind kind = LaneKind::blocking;
  std::uint64_t id = 0;
  int priority = 0;
  bool open = true;  // its handle was not destroyed
  std::shared_ptr<Item> tail;
  Part part;  // in a capture

  bool idle() const { return !tail || tail->done; }
  bool joins_legacy() const { return kind == LaneKind::blocking || kind == LaneKind::per_thread; }
};

// Where work may run besides the waits that demand it.
enum class Point : std::uint8_t { issue, query, host_access };

// Which ready item runs next. `ready` is never empty, its items have no edge from work that has not run, and it is
// sorted by virtual end, then issue; answers are indices into it. Called under the driver's lock, by any thread.
class Schedule {
 public:
  using Ready = std::span<const std::shared_ptr<Item>>;
  virtual ~Schedule() = default;
  virtual void issued(Item& /*work*/) {}                                                        // in order of issue
  virtual std::size_t next(Ready ready) = 0;                                                    // somebody waits
  virtual std::optional<std::size_t> stray(Ready ready, Point point, std::int64_t now_ns) = 0;  // nobody does; or none
  // May a mark that is complete at its issue by virtual time be taken as complete at once?
  virtual bool marks_complete_at_issue() const = 0;
};

// By virtual time: work has run when its virtual end has passed, and not before a query, a host access or a wait.
std::unique_ptr<Schedule> fifo_schedule();
// Any legal order, drawn from the seed; at each point some of the ready work runs, or none.
std::unique_ptr<Schedule> seeded_schedule(std::uint64_t seed);

// A work item by the name of its work, and how many of that name were issued before it. Records and waits do not count:
// how many there are may depend on what has run.
struct WorkName {
  std::string name;
  std::uint64_t nth = 0;
  auto operator<=>(const WorkName&) const = default;
};
// By virtual time, but these run as late as they legally can: when somebody waits for them, or for what comes after
// them, and all else that could run has.
std::unique_ptr<Schedule> holding_schedule(std::span<const WorkName> held);

// The items that have not run, as a graph.
class Backlog {
 public:
  // Adds an edge; nothing where `from` has run. Only before `to` is put.
  static void order(const std::shared_ptr<Item>& from, const std::shared_ptr<Item>& to);
  void put(std::shared_ptr<Item> item);
  Schedule::Ready ready() const { return ready_; }
  std::shared_ptr<Item> take(std::size_t index);     // to run; it is not done yet
  void complete(const std::shared_ptr<Item>& item);  // what waited only for it is ready now
  std::size_t size() const { return size_; }
  void drop_all();  // nothing of it runs

 private:
  void make_ready(std::shared_ptr<Item> item);
  std::vector<std::shared_ptr<Item>> ready_;
  std::size_t size_ = 0;
};

}  // namespace forebay::sim
