// stacks: frames, stacks and strings of a document, each kept once. Which events have them is snapshot.cpp's.
#pragma once

#include <cstdint>
#include <map>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "ingest/document.hpp"
#include "ingest/fields.hpp"
#include "ingest/snapshot.hpp"

namespace forebay::ingest {

class Stacks {
 public:
  Stacks(const Document& document, std::size_t bytes, SiteColumns& sites, std::vector<std::string_view>& strings)
      : document_(document), fields_(document), sites_(sites), strings_(strings), left_(bytes) {}

  // The site of a list of frames, innermost first. A list that many events share is read once.
  std::uint32_t site(Cell list, const Place& owner);
  std::uint32_t string(Cell text);

 private:
  struct Hash {
    std::size_t operator()(const std::vector<std::uint32_t>& ids) const;
  };
  std::uint32_t frame(Cell dict, const Place& place);
  std::uint32_t intern(const std::vector<std::uint32_t>& frames);

  const Document& document_;
  Fields fields_;
  SiteColumns& sites_;
  std::vector<std::string_view>& strings_;
  std::size_t left_;
  std::unordered_map<std::uint64_t, std::uint32_t> site_of_list_, frame_of_dict_, string_of_text_;
  std::map<std::array<std::uint64_t, 3>, std::uint32_t> frames_;
  std::unordered_map<std::vector<std::uint32_t>, std::uint32_t, Hash> stacks_{{{}, 0}};
};

}  // namespace forebay::ingest
