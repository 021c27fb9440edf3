#include "ingest/stacks.hpp"

namespace forebay::ingest {

std::size_t Stacks::Hash::operator()(const std::vector<std::uint32_t>& ids) const {
  std::uint64_t h = 0x9e3779b97f4a7c15u;
  for (const std::uint32_t id : ids) h = (h ^ id) * 0xff51afd7ed558ccdu, h ^= h >> 32;
  return h;
}

std::uint32_t Stacks::string(Cell text) {
  const std::string_view value = document_.text_of(text);
  if (value.empty()) return 0;
  const auto [at, added] = string_of_text_.try_emplace(text.index(), static_cast<std::uint32_t>(strings_.size()));
  if (added) strings_.push_back(value);
  return at->second;
}

std::uint32_t Stacks::frame(Cell dict, const Place& place) {
  fields_.open(dict, place);
  const auto [known, first_time] = frame_of_dict_.try_emplace(dict.index(), 0);
  if (!first_time) return known->second;
  const auto text_or_none = [this](Field field) {
    return fields_.find(field) == nullptr ? 0 : (fields_.text(field), string(fields_.need(field)));
  };
  const std::uint32_t file = text_or_none(Field::filename), function = text_or_none(Field::name);
  const std::uint64_t line = fields_.whole_or(Field::line, 0);
  const auto [at, added] = frames_.try_emplace({file, line, function}, static_cast<std::uint32_t>(sites_.line.size()));
  if (added) {
    sites_.file.push_back(file);
    sites_.function.push_back(function);
    sites_.line.push_back(static_cast<std::int64_t>(line));
  }
  return known->second = at->second;
}

std::uint32_t Stacks::intern(const std::vector<std::uint32_t>& frames) {
  const auto [at, added] = stacks_.try_emplace(frames, static_cast<std::uint32_t>(sites_.offsets.size() - 1));
  if (added) {
    sites_.index.insert(sites_.index.end(), frames.begin(), frames.end());
    sites_.offsets.push_back(sites_.index.size());
  }
  return at->second;
}

std::uint32_t Stacks::site(Cell list, const Place& owner) {
  const auto [known, first_time] = site_of_list_.try_emplace(list.index(), 0);
  if (!first_time) return known->second;
  const Run& run = document_.run_of(list);
  std::vector<std::uint32_t> frames;
  frames.reserve(run.size);
  for (std::size_t i = 0; i < run.size; ++i) {
    const Place place{"frames", i, SIZE_MAX, &owner};
    // Note [No more rows than bytes] of snapshot.cpp.
    if (left_-- == 0) throw Fault(place.text() + ": more frames than the file has bytes: its lists repeat each other");
    frames.push_back(frame(run.cells[i], place));
  }
  return known->second = intern(frames);
}

}  // namespace forebay::ingest
