// program: what each kind of row means.
#include "order/program.hpp"

namespace forebay::order {
namespace {

// Graphs are told to the order as events that only their own launches record.
EventId chain_of(GraphId graph) { return EventId{1} << 32 | graph; }

bool copies_from_pageable(Kind kind, const Use& use) {
  return kind == Kind::copy && use.space == Space::pageable && use.mode == Mode::read;
}

}  // namespace

std::optional<EventId> Program::Line::event() const {
  return has(Column::ref) && !is(kExternal) ? std::optional<EventId>(view.ref[i]) : std::nullopt;
}

Use Program::Line::use(std::size_t u) const {
  return {view.use_address[u], view.use_size[u], static_cast<Mode>(view.use_mode[u]),
          static_cast<Extent>(view.use_extent[u]), static_cast<Space>(view.use_space[u])};
}

void Program::feed(const View& view) {
  const ColumnSet present = view.present();
  for (std::size_t i = 0; i < view.rows; ++i) {
    const ColumnSet known = (view.known.empty() ? present : view.known[i]) & kKindFills[view.kind[i]];
    Line l{view, i, next_++, known, 0, 0};
    if (l.has(Column::thread)) l.thread = view.thread[i];
    if (l.has(Column::flags)) l.flags = view.flags[i];
    judge_->row(l.row);
    const bool failed = l.has(Column::status) && view.status[i] != 0;
    if (!failed) line(l);
  }
}

void Program::line(const Line& l) {
  if (l.has(Column::capture)) {
    if (l.kind() == Kind::capture_end || l.kind() == Kind::graph_instantiate) return graph_row(l);
    return captured(l, captures_.open(l.view.capture[l.i]));
  }
  switch (l.kind()) {
    case Kind::launch:
    case Kind::copy:
    case Kind::memset:
    case Kind::host_func:
    case Kind::graph_launch:
      return work(l);
    case Kind::host_access:
      return host_access(l);
    case Kind::alloc:
      return alloc(l, *order_, memory_, *judge_);
    case Kind::free:
      return free(l, *order_, memory_);
    case Kind::record:
    case Kind::wait:
      return wait(l);
    case Kind::sync_event:
    case Kind::sync_stream:
    case Kind::sync_device:
    case Kind::query:
      return sync(l);
    case Kind::event_destroy:
      if (const auto event = l.event()) order_->forget(*event);
      return;
    case Kind::capture_begin:
    case Kind::capture_end:
    case Kind::graph_instantiate:
    case Kind::graph_destroy:
      return graph_row(l);
    case Kind::gap:
      return judge_->gap();
    default:
      return memory_row(l);
  }
}

// A row of a capture: its streams and events are the capture's own, the host and its syncs take no part.
void Program::captured(const Line& l, Capture& capture) {
  const auto s = l.stream();
  if (!s) return;
  const auto event = l.event();
  capture.court.row(l.row);
  switch (l.kind()) {
    case Kind::launch:
    case Kind::copy:
    case Kind::memset:
    case Kind::host_func:
    case Kind::graph_launch:
      return node(l, capture);
    case Kind::alloc:
      return alloc(l, capture.order, capture.memory, capture.court);
    case Kind::free:
      return free(l, capture.order, capture.memory);
    case Kind::lend:
      if (l.has(Column::address)) memory_of(l, capture.memory).lend(l.view.address[l.i], *s);
      return;
    case Kind::record:
      if (event) capture.order.record(l.row, *s, l.thread, *event);
      return;
    case Kind::wait:
      if (event) capture.order.wait(l.row, *s, l.thread, *event);
      return;
    default:
      return;
  }
}

void Program::node(const Line& l, Capture& capture) {
  const Moment m = capture.order.work(l.row, *l.stream(), l.thread);
  if (l.is(kIncomplete)) capture.uses->incomplete = true;
  for (std::size_t u = l.first_use(); u < l.last_use(); ++u) {
    capture.uses->uses.push_back(l.use(u));
    capture.memory.touch(l.access(), l.use(u), m);
    bake(l.use(u), capture);
  }
}

// What the graph's own pool gave out lives as long as the graph; all other bytes must be what they are now.
void Program::bake(const Use& use, Capture& capture) {
  if (use.size == 0 || capture.memory.of(use.space).life(use.address) != nullptr) return;
  memory_.of(use.space).bake(
      use.address, use.address + use.size,
      [&](const auto& block, std::uint64_t lo, std::uint64_t hi) { capture.uses->bake(block, lo, hi); });
}

// Bytes that were given back since: whoever has them now, the graph means the block that was there at its capture.
// Where nobody has them the touch has found it already, and says the same.
void Program::stale(const Line& l, const GraphUses& graph, const Moment& m) {
  for (const auto& [_, baked] : graph.baked)
    if (baked.block->freed) judge_->late(*baked.block, l.access(), baked.lo, baked.hi, m);
}

void Program::uses(const Line& l, const Moment& m, By by) {
  bool vague = false;
  for (std::size_t u = l.first_use(); u < l.last_use(); ++u) {
    const Use use = l.use(u);
    vague |= use.mode == Mode::unknown;
    if (copies_from_pageable(l.kind(), use) == (by == By::host)) memory_.touch(l.access(), use, m);
  }
  if (vague) judge_->vague(m);
}

void Program::work(const Line& l) {
  const auto s = l.stream();
  if (!s) return;
  bool from_pageable = false;
  for (std::size_t u = l.first_use(); u < l.last_use(); ++u) from_pageable |= copies_from_pageable(l.kind(), l.use(u));
  if (from_pageable) uses(l, order_->access(l.row, l.thread), By::host);
  if (l.kind() == Kind::graph_launch && l.has(Column::ref)) return graph_launch(l, *s);
  const Moment m = order_->work(l.row, *s, l.thread);
  uses(l, m, By::stream);
  if (l.is(kIncomplete)) judge_->incomplete(m);
  if (l.is(kBlocking)) order_->sync_stream(l.row, l.thread, *s);
}

void Program::graph_launch(const Line& l, StreamId s) {
  const GraphId graph = l.view.ref[l.i];
  order_->chain(s, l.thread, chain_of(graph));
  const Moment m = order_->work(l.row, s, l.thread);
  uses(l, m, By::stream);
  const GraphUses* baked = captures_.uses(graph);
  if (baked != nullptr) {
    for (const Use& use : baked->uses) memory_.touch(l.access(), use, m);
    stale(l, *baked, m);
  }
  if (l.is(kIncomplete) || (baked != nullptr && baked->incomplete)) judge_->incomplete(m);
  order_->record(l.row, s, l.thread, chain_of(graph));
}

void Program::host_access(const Line& l) {
  const Moment m = order_->access(l.row, l.thread);
  for (std::size_t u = l.first_use(); u < l.last_use(); ++u) memory_.touch(l.access(), l.use(u), m);
}

PoolFacts Program::pool(const Line& l) const {
  const PoolId p = l.has(Column::pool) ? l.view.pool[l.i] : ~PoolId{0};
  return p < tables_.pools.size() ? tables_.pools[p] : PoolFacts{};
}

Memory& Program::memory_of(const Line& l, Spaces& memory) { return memory.of(pool(l).space); }

void Program::alloc(const Line& l, Order& order, Spaces& memory, Judge& judge) {
  if (!l.has(Column::address) || !l.has(Column::size) || l.view.size[l.i] == 0) return;
  Block block;
  block.address = l.view.address[l.i];
  block.size = l.view.size[l.i];
  block.alloc = l.row;
  block.stream = l.stream();
  if (l.has(Column::pool)) block.pool = l.view.pool[l.i];
  block.trusted = l.is(kTrusted) || pool(l).trusted;
  const Moment m = block.stream ? order.mark(l.row, *block.stream, l.thread) : order.access(l.row, l.thread);
  judge.allocated(block, m);
  memory_of(l, memory).alloc(std::move(block), m);
}

void Program::free(const Line& l, Order& order, Spaces& memory) {
  if (!l.has(Column::address)) return;
  Memory& bytes = memory_of(l, memory);
  std::shared_ptr<Block> block = bytes.live_at(l.view.address[l.i]);
  if (!block) {
    if (!l.has(Column::size)) return;
    block = std::make_shared<Block>();
    block->address = l.view.address[l.i];
    block->size = l.view.size[l.i];
    if (l.has(Column::pool)) block->pool = l.view.pool[l.i];
  }
  const auto in = l.stream() ? l.stream() : block->stream;
  const Moment m = in ? order.release(l.row, *in, l.thread, block->lent) : order.host(l.row, l.thread);
  bytes.free(l.row, block, in, m);
}

void Program::memory_row(const Line& l) {
  if (!l.has(Column::address)) return;
  const std::uint64_t lo = l.view.address[l.i], hi = lo + (l.has(Column::size) ? l.view.size[l.i] : 0);
  switch (l.kind()) {
    case Kind::lend:
      if (l.stream()) memory_of(l, memory_).lend(lo, *l.stream());
      return;
    case Kind::reclaim:
      return memory_of(l, memory_).reclaim(lo, order_->host(l.row, l.thread));
    case Kind::release:
    case Kind::unmap:
    case Kind::unpin:
      return take_away(l);
    case Kind::reserve:
    case Kind::map:
      return memory_.of(Space::device).mapped(lo, hi);
    case Kind::pin:
      return memory_.of(Space::pinned).mapped(lo, hi);
    default:
      return;
  }
}

// A driver free waits for the device's earlier work, which orders it and nothing else; an unmapping waits for nothing.
void Program::take_away(const Line& l) {
  if (!l.has(Column::size) || l.view.size[l.i] == 0) return;
  const std::uint64_t lo = l.view.address[l.i], hi = lo + l.view.size[l.i];
  const bool waits = l.is(kImplied) || l.is(kBlocking);
  const Moment m = waits ? order_->device(l.row, l.thread, l.device()) : order_->host(l.row, l.thread);
  memory_.of(l.kind() == Kind::unpin ? Space::pinned : Space::device).unmap(l.row, lo, hi, m);
}

void Program::wait(const Line& l) {
  const auto s = l.stream();
  const auto event = l.event();
  if (!s) return;
  if (l.kind() == Kind::record) {
    if (event) order_->record(l.row, *s, l.thread, *event);
  } else if (event) {
    order_->wait(l.row, *s, l.thread, *event);
  } else {
    order_->unseen_wait(l.row, *s, l.thread);
  }
}

void Program::sync(const Line& l) {
  const auto event = l.event();
  const bool by_event = l.kind() == Kind::sync_event || l.kind() == Kind::query;
  if (l.kind() == Kind::query && !l.is(kReady)) return;
  if (l.is(kImplied)) return order_->implied_sync(l.row, l.thread, l.device());
  if (l.kind() == Kind::sync_device) return order_->sync_device(l.row, l.thread, l.device());
  if (by_event && event) return order_->sync_event(l.row, l.thread, *event);
  if (l.kind() != Kind::sync_event && l.stream() && !l.is(kExternal))
    return order_->sync_stream(l.row, l.thread, *l.stream());
  order_->unseen_sync(l.row, l.thread);
}

void Program::graph_row(const Line& l) {
  if (!l.has(Column::ref)) return;
  const GraphId ref = l.view.ref[l.i];
  const CaptureId capture = l.has(Column::capture) ? l.view.capture[l.i] : ref;
  switch (l.kind()) {
    case Kind::capture_begin:
      captures_.open(ref);
      return;
    case Kind::capture_end:
      return captures_.end(capture, ref);
    case Kind::graph_instantiate:
      return captures_.instantiate(ref, capture);
    case Kind::graph_destroy:
      return captures_.destroy(ref);
    default:
      return;
  }
}

}  // namespace forebay::order
