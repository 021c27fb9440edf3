#include "ingest/document.hpp"

#include <algorithm>
#include <array>

namespace forebay::ingest {

std::string_view name_of(Tag tag) {
  static constexpr std::array<std::string_view, 10> names = {"None", "bool",  "int",  "int",   "float",
                                                             "str",  "bytes", "list", "tuple", "dict"};
  return names[static_cast<std::size_t>(tag)];
}

Cell* Document::take(std::size_t cells) {
  constexpr std::size_t kChunk = 1 << 16;
  if (cells > left_) {
    // A long run gets a chunk of its own, so that the rest of the current one is not lost.
    if (cells > kChunk / 4) return chunks_.emplace_back(std::make_unique<Cell[]>(cells)).get();
    free_ = chunks_.emplace_back(std::make_unique<Cell[]>(kChunk)).get();
    left_ = kChunk;
  }
  Cell* taken = free_;
  free_ += cells;
  left_ -= cells;
  return taken;
}

Cell Document::whole(Whole value) {
  const auto bits = static_cast<std::int64_t>(value.bits);
  const bool fits = value.negative ? bits >= -(std::int64_t{1} << 59) : value.bits < std::uint64_t{1} << 59;
  if (fits) return Cell(Tag::integer, value.bits);
  wides_.push_back(value);
  return Cell(Tag::wide, wides_.size() - 1);
}

std::optional<Whole> Document::whole_of(Cell cell) const {
  if (cell.tag() == Tag::wide) return wides_[cell.index()];
  if (cell.tag() != Tag::integer && cell.tag() != Tag::boolean) return std::nullopt;
  return Whole{static_cast<std::uint64_t>(cell.small()), cell.small() < 0};
}

Cell Document::real(double value) {
  reals_.push_back(value);
  return Cell(Tag::real, reals_.size() - 1);
}

Cell Document::text(std::string_view utf8) {
  const auto [at, added] = text_ids_.try_emplace(utf8, static_cast<std::uint32_t>(texts_.size()));
  if (added) texts_.push_back(utf8);
  return Cell(Tag::text, at->second);
}

Cell Document::text_owned(std::string utf8) {
  if (const auto at = text_ids_.find(utf8); at != text_ids_.end()) return Cell(Tag::text, at->second);
  return text(owned_.emplace_back(std::move(utf8)));
}

Cell Document::bytes(std::string_view value) {
  bytes_.push_back(value);
  return Cell(Tag::bytes, bytes_.size() - 1);
}

Cell Document::run(Tag list_or_tuple, const Cell* cells, std::size_t count) {
  runs_.emplace_back();
  const Cell made(list_or_tuple, runs_.size() - 1);
  if (count != 0) append(made, cells, count);
  return made;
}

void Document::append(Cell list, const Cell* cells, std::size_t count) {
  Run& run = runs_[list.index()];
  if (run.size + count > run.capacity) {
    // A first batch of fewer than a pickler's thousand is all there will be.
    const std::size_t capacity = run.size == 0 && count < 1000 ? count : 2 * (run.size + count);
    Cell* moved = take(capacity);
    std::copy(run.cells, run.cells + run.size, moved);
    run.cells = moved;
    run.capacity = capacity;
  }
  std::copy(cells, cells + count, run.cells + run.size);
  run.size += count;
}

Cell Document::dict() {
  dicts_.emplace_back();
  return Cell(Tag::dict, dicts_.size() - 1);
}

void Document::expect(Cell dict, std::size_t keys) {
  Dict& d = dicts_[dict.index()];
  if (d.capacity != 0 || keys > kMostKeys) return;
  d.values = take(keys);
  d.capacity = static_cast<std::uint32_t>(keys);
}

std::optional<std::uint32_t> Document::slot(std::uint32_t shape, std::uint32_t key) const {
  for (; shapes_[shape].size != 0; shape = shapes_[shape].parent)
    if (shapes_[shape].key == key) return shapes_[shape].size - 1;
  return std::nullopt;
}

std::optional<std::uint32_t> Document::known_child(std::uint32_t shape, std::uint32_t key) const {
  if (shapes_[shape].last_key == key) return shapes_[shape].last_child;
  const auto at = children_.find(std::uint64_t{shape} << 32 | key);
  if (at == children_.end()) return std::nullopt;
  return at->second;
}

std::uint32_t Document::grow(std::uint32_t shape, std::uint32_t key) {
  const auto child = static_cast<std::uint32_t>(shapes_.size());
  shapes_.push_back(Shape{shape, key, shapes_[shape].size + 1});
  children_.emplace(std::uint64_t{shape} << 32 | key, child);
  return child;
}

bool Document::set(Cell dict, Cell key, Cell value) {
  Dict& d = dicts_[dict.index()];
  const auto id = static_cast<std::uint32_t>(key.index());
  auto child = known_child(d.shape, id);
  if (!child) {
    if (const auto at = slot(d.shape, id)) {
      d.values[*at] = value;
      return true;
    }
    if (shapes_[d.shape].size == kMostKeys) return false;
    child = grow(d.shape, id);
  }
  shapes_[d.shape].last_key = id;
  shapes_[d.shape].last_child = *child;
  const std::uint32_t size = shapes_[d.shape].size;
  if (size == d.capacity) {
    Cell* moved = take(2 * size + 2);
    std::copy(d.values, d.values + size, moved);
    d.values = moved;
    d.capacity = 2 * size + 2;
  }
  d.values[size] = value;
  d.shape = *child;
  return true;
}

std::vector<std::uint32_t> Document::keys(std::uint32_t shape) const {
  std::vector<std::uint32_t> ids(shapes_[shape].size);
  for (; shapes_[shape].size != 0; shape = shapes_[shape].parent) ids[shapes_[shape].size - 1] = shapes_[shape].key;
  return ids;
}

}  // namespace forebay::ingest
