#include "ingest/fields.hpp"

#include <algorithm>

#include "ingest/literals.hpp"

namespace forebay::ingest {

std::string Place::text() const {
  std::string out = within == nullptr ? std::string(name) : within->text() + "." + std::string(name);
  if (first != SIZE_MAX) out += "[" + std::to_string(first) + "]";
  if (second != SIZE_MAX) out += "[" + std::to_string(second) + "]";
  return out;
}

std::string described(const Document& document, Cell cell) {
  const std::string type(name_of(cell.tag()));
  if (cell.tag() == Tag::text) return type + " " + shown(document.text_of(cell));
  const auto whole = document.whole_of(cell);
  if (!whole || cell.tag() == Tag::boolean) return type;
  return type + " " +
         (whole->negative ? std::to_string(static_cast<std::int64_t>(whole->bits)) : std::to_string(whole->bits));
}

const Fields::Slots& Fields::slots_of(std::uint32_t shape) {
  const auto [at, added] = known_.try_emplace(shape);
  if (!added) return at->second;
  at->second.fill(-1);
  const auto keys = document_.keys(shape);
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const auto name = std::find(kFieldNames.begin(), kFieldNames.end(), document_.text_at(keys[i]));
    if (name != kFieldNames.end())
      at->second[static_cast<std::size_t>(name - kFieldNames.begin())] = static_cast<std::int16_t>(i);
  }
  return at->second;
}

void Fields::open(Cell dict, const Place& place) {
  if (dict.tag() != Tag::dict) throw Fault(place.text() + ": expected dict, got " + described(document_, dict));
  const Dict& d = document_.dict_of(dict);
  place_ = &place;
  values_ = d.values;
  if (d.shape == last_shape_) return;
  last_shape_ = d.shape;
  slots_ = &slots_of(d.shape);
}

const Cell* Fields::find(Field field) const {
  const std::int16_t slot = (*slots_)[static_cast<std::size_t>(field)];
  return slot < 0 || values_[slot].tag() == Tag::none ? nullptr : &values_[slot];
}

const Cell& Fields::need(Field field) const {
  if (const Cell* cell = find(field)) return *cell;
  throw Fault(place_->text() + ": has no '" + std::string(kFieldNames[static_cast<std::size_t>(field)]) + "'");
}

void Fields::fail(Field field, std::string_view expected, Cell got) const {
  throw Fault(place_->text() + "." + std::string(kFieldNames[static_cast<std::size_t>(field)]) + ": expected " +
              std::string(expected) + ", got " + described(document_, got));
}

std::uint64_t Fields::whole(Field field) const {
  const Cell& cell = need(field);
  const auto value = document_.whole_of(cell);
  if (!value) fail(field, "int", cell);
  return value->bits;
}

std::uint64_t Fields::whole_or(Field field, std::uint64_t otherwise) const {
  return find(field) == nullptr ? otherwise : whole(field);
}

std::uint64_t Fields::size(Field field) const {
  const Cell& cell = need(field);
  const auto value = document_.whole_of(cell);
  if (!value) fail(field, "int", cell);
  if (value->negative || value->bits >= std::uint64_t{1} << 62) fail(field, "a size of 0 to 2^62 bytes", cell);
  return value->bits;
}

std::string_view Fields::text(Field field) const {
  const Cell& cell = need(field);
  if (cell.tag() != Tag::text) fail(field, "str", cell);
  return document_.text_of(cell);
}

const Run& Fields::run(Field field) const {
  const Cell& cell = need(field);
  if (cell.tag() != Tag::list && cell.tag() != Tag::tuple) fail(field, "list", cell);
  return document_.run_of(cell);
}

}  // namespace forebay::ingest
