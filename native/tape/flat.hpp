// flat: just enough of the FlatBuffers wire format (https://flatbuffers.dev/internals) to write Arrow's metadata. A
// buffer is built from its end, so that what is referred to exists before who refers to it. What the tables mean is
// arrow.cpp's.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace forebay {

class FlatBuilder {
 public:
  using At = std::uint32_t;  // a place, as the distance from the buffer's end

  template <class T>
  void push(T value) {
    align(sizeof(T));
    for (std::size_t byte = sizeof(T); byte-- > 0;)
      reversed_.push_back(static_cast<char>(static_cast<std::make_unsigned_t<T>>(value) >> (8 * byte)));
  }

  At string(std::string_view text) {
    align(4, text.size() + 1);
    reversed_.push_back('\0');
    reversed_.append(text.rbegin(), text.rend());
    push<std::uint32_t>(static_cast<std::uint32_t>(text.size()));
    return here();
  }

  At vector(std::span<const At> tables) {
    for (std::size_t i = tables.size(); i-- > 0;) refer(tables[i]);
    push<std::uint32_t>(static_cast<std::uint32_t>(tables.size()));
    return here();
  }

  // A vector of structs of two 64-bit numbers each.
  At pairs(std::span<const std::int64_t> numbers) {
    align(8);
    for (std::size_t i = numbers.size(); i-- > 0;) push(numbers[i]);
    push<std::uint32_t>(static_cast<std::uint32_t>(numbers.size() / 2));
    return here();
  }

  // One table at a time: begin, its fields by id, end.
  void begin() { start_ = here(), slots_.clear(); }
  template <class T>
  void field(std::size_t id, T value) {
    push(value);
    fill(id);
  }
  void link(std::size_t id, At target) {
    refer(target);
    fill(id);
  }
  At end() {
    push<std::int32_t>(0);  // the distance to the vtable, known once that is written
    const At table = here();
    for (std::size_t id = slots_.size(); id-- > 0;)
      push(static_cast<std::uint16_t>(slots_[id] ? table - slots_[id] : 0));
    push(static_cast<std::uint16_t>(table - start_));
    push(static_cast<std::uint16_t>(2 * (slots_.size() + 2)));
    for (std::size_t byte = 0; byte < 4; ++byte)
      reversed_[table - 1 - byte] = static_cast<char>((here() - table) >> (8 * byte));
    return table;
  }

  // The whole buffer, a multiple of 8 bytes long.
  std::string finish(At root) {
    align(8, 4);
    refer(root);
    return {reversed_.rbegin(), reversed_.rend()};
  }

 private:
  At here() const { return static_cast<At>(reversed_.size()); }
  // Pads so that `more` bytes from here on end at a multiple of `to`.
  void align(std::size_t to, std::size_t more = 0) {
    while ((reversed_.size() + more) % to != 0) reversed_.push_back('\0');
  }
  void refer(At target) {
    align(4);
    push<std::uint32_t>(here() + 4 - target);
  }
  void fill(std::size_t id) {
    if (slots_.size() <= id) slots_.resize(id + 1);
    slots_[id] = here();
  }

  std::string reversed_;
  std::vector<At> slots_;
  At start_ = 0;
};

}  // namespace forebay
