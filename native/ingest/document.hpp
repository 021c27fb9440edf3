// document: a tree of plain values (None, bool, int, float, str, bytes, list, tuple, dict) in arenas, eight bytes a
// value. It parses nothing (pickle.cpp does) and knows no schema (snapshot.cpp does).
//
// Note [Shapes]: a dict keeps its values only. Its keys are a *shape*, a node of a tree in which a child is its parent
// with one key more, so that ten million events of nine keys share one list of keys.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace forebay::ingest {

enum class Tag : std::uint8_t { none, boolean, integer, wide, real, text, bytes, list, tuple, dict };
std::string_view name_of(Tag tag);  // as Python names the type

// A value: what it is, and a small payload: the value itself, or an index into its document.
class Cell {
 public:
  Cell() = default;
  Cell(Tag tag, std::uint64_t payload) : bits_(payload << 4 | static_cast<std::uint64_t>(tag)) {}
  Tag tag() const { return static_cast<Tag>(bits_ & 15); }
  std::uint64_t index() const { return bits_ >> 4; }
  std::int64_t small() const { return static_cast<std::int64_t>(bits_) >> 4; }  // of an integer or a boolean

 private:
  std::uint64_t bits_ = 0;
};

// A whole number of at most 64 bits with its sign.
struct Whole {
  std::uint64_t bits = 0;  // two's complement where negative
  bool negative = false;
};

struct Run {  // a list or a tuple
  Cell* cells = nullptr;
  std::size_t size = 0, capacity = 0;
  const Cell* begin() const { return cells; }
  const Cell* end() const { return cells + size; }
};
struct Dict {
  Cell* values = nullptr;
  std::uint32_t shape = 0, capacity = 0;
};

class Document {
 public:
  static constexpr std::uint32_t kMostKeys =
      256;  // no dict of a snapshot has more; it bounds the search for duplicates

  Cell whole(Whole value);
  Cell real(double value);
  Cell text(std::string_view utf8);    // the bytes must outlive the document
  Cell text_owned(std::string utf8);   // the document keeps them
  Cell bytes(std::string_view value);  // the bytes must outlive the document
  Cell run(Tag list_or_tuple, const Cell* cells, std::size_t count);
  Cell dict();
  void append(Cell list, const Cell* cells, std::size_t count);
  // False where the dict would have more than kMostKeys keys.
  [[nodiscard]] bool set(Cell dict, Cell key, Cell value);
  void expect(Cell dict, std::size_t keys);  // make room for that many at once

  std::optional<Whole> whole_of(Cell cell) const;  // also of a boolean, as in Python
  double real_of(Cell cell) const { return reals_[cell.index()]; }
  std::string_view text_of(Cell cell) const { return texts_[cell.index()]; }
  std::string_view text_at(std::uint32_t id) const { return texts_[id]; }
  std::string_view bytes_of(Cell cell) const { return bytes_[cell.index()]; }
  const Run& run_of(Cell cell) const { return runs_[cell.index()]; }
  const Dict& dict_of(Cell cell) const { return dicts_[cell.index()]; }
  std::size_t runs() const { return runs_.size(); }
  std::size_t texts() const { return texts_.size(); }
  std::vector<std::uint32_t> keys(std::uint32_t shape) const;  // ids of the keys' texts, in order

  Cell root{};

 private:
  struct Shape {
    std::uint32_t parent = 0, key = 0, size = 0;
    std::uint32_t last_key = UINT32_MAX, last_child = 0;  // the child taken last: nearly always the next one too
  };
  Cell* take(std::size_t cells);
  std::optional<std::uint32_t> slot(std::uint32_t shape, std::uint32_t key) const;
  std::optional<std::uint32_t> known_child(std::uint32_t shape, std::uint32_t key) const;
  std::uint32_t grow(std::uint32_t shape, std::uint32_t key);

  std::vector<std::unique_ptr<Cell[]>> chunks_;
  Cell* free_ = nullptr;
  std::size_t left_ = 0;
  std::deque<Run> runs_;
  std::deque<Dict> dicts_;
  std::vector<Shape> shapes_{Shape{}};
  std::unordered_map<std::uint64_t, std::uint32_t> children_;
  std::deque<std::string> owned_;
  std::vector<std::string_view> texts_, bytes_;
  std::unordered_map<std::string_view, std::uint32_t> text_ids_;
  std::vector<Whole> wides_;
  std::vector<double> reals_;
};

}  // namespace forebay::ingest
