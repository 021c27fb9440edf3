// relation: one walk under each reading; answers are looked up in its clocks.
#include "order/relation.hpp"

namespace forebay::order {

Relation::Steps::Steps(const Tables& tables, ThreadId threads, Trust trust)
    : dag_(tables.streams, threads, trust), program_(tables, dag_, deaf_, Keep::statement7) {}

void Relation::Steps::feed(const View& view) {
  program_.feed(view);
  items_.resize(program_.rows(), kNone);
  for (; seen_ < dag_.nodes(); ++seen_)
    if (dag_.item(seen_)) items_[dag_.row(seen_)] = seen_;
}

bool Relation::Steps::before(RowId a, RowId b) const {
  return a != b && node(a) != kNone && node(b) != kNone && knows(node(b), node(a));
}

// Back from b to a, through the row's own lane wherever that knew of a.
std::vector<RowId> Relation::Steps::way(RowId from_row, RowId to_row) const {
  std::vector<RowId> rows;
  if (!before(from_row, to_row)) return rows;
  const Node a = node(from_row);
  for (Node n = node(to_row); n != a;) {
    const std::span<const Node> from = dag_.before(n);
    Node next = from.front();
    for (std::size_t i = 1; i < from.size() && (next == kNone || !knows(next, a)); ++i) next = from[i];
    if (next == kNone || !knows(next, a)) return rows;
    if (next != from.front()) rows.push_back(dag_.row(n));
    n = next;
  }
  return rows;
}

Relation::Relation(const Tables& tables, ThreadId threads)
    : sure_(tables, threads, Trust::sure), plausible_(tables, threads, Trust::plausible) {}

void Relation::feed(const View& view) {
  sure_.feed(view);
  plausible_.feed(view);
}

Sure Relation::before(RowId a, RowId b) const {
  if (sure_.before(a, b)) return Sure::certain;
  return plausible_.before(a, b) ? Sure::possible : Sure::no;
}

std::vector<RowId> Relation::way(RowId a, RowId b) const {
  return sure_.before(a, b) ? sure_.way(a, b) : plausible_.way(a, b);
}

}  // namespace forebay::order
