#include "ingest/pickle.hpp"

#include <bit>

#include "ingest/cursor.hpp"
#include "ingest/density.hpp"
#include "ingest/literals.hpp"
#include "ingest/memo.hpp"
#include "ingest/opcodes.hpp"

namespace forebay::ingest {
namespace {

class Machine {
 public:
  explicit Machine(std::string_view input) : in_(input) {}
  Document run();

 private:
  [[noreturn]] void fail(const std::string& what) const { in_.fail(what); }

  std::string_view take(std::uint64_t count) { return in_.take(count); }
  std::string_view line() { return in_.line(); }
  std::uint64_t little(unsigned bytes) { return in_.little(bytes); }
  void frame();
  void protocol();

  // The stack. A mark is a height below which nothing may be taken.
  std::size_t fence() const { return marks_.empty() ? 0 : marks_.back(); }
  void push(Cell cell) {
    density_.made(cell, in_.at());
    stack_.push_back(cell);
  }
  Cell pop();
  Cell& top(Tag expected);
  void pop_or_unmark();
  std::size_t pop_mark();

  bool scalar(unsigned char op);
  bool textual(unsigned char op);
  bool container(unsigned char op);
  bool memory(unsigned char op);
  void refuse(unsigned char op) const;

  void integer(std::uint64_t bits, bool negative) { push(document_.whole({bits, negative})); }
  void long_bytes(std::uint64_t count);
  void number_line(bool strip_l);
  void big_float();
  void utf8(std::uint64_t count);
  void ascii(std::uint64_t count);
  void close_run(Tag tag, std::size_t from);
  void put_item(Cell dict, Cell key, Cell value);
  void set_items(std::size_t from, Cell dict);
  void close_dict();
  void get(std::uint64_t at);
  void put(std::uint64_t at) { memo_.put(at, top_any()); }
  Cell top_any() const;
  std::uint64_t line_index();

  Cursor in_;
  std::vector<Cell> stack_;
  std::vector<std::size_t> marks_;
  Memo memo_;
  Density density_;
  Document document_;
};

void Machine::protocol() {
  if (const auto version = little(1); version > 5) fail("pickle protocol " + std::to_string(version) + " is not known");
}

void Machine::frame() {
  const std::uint64_t length = little(8);
  if (length > in_.left()) fail("the file ends here: a frame of " + std::to_string(length) + " bytes was announced");
}

Cell Machine::pop() {
  if (stack_.size() <= fence()) fail("a value is missing on the stack");
  const Cell cell = stack_.back();
  stack_.pop_back();
  return cell;
}

Cell Machine::top_any() const {
  if (stack_.size() <= fence()) fail("a value is missing on the stack");
  return stack_.back();
}

Cell& Machine::top(Tag expected) {
  if (const Tag found = top_any().tag(); found != expected)
    fail("expected " + std::string(name_of(expected)) + ", got " + std::string(name_of(found)));
  return stack_.back();
}

void Machine::pop_or_unmark() {
  if (!marks_.empty() && marks_.back() == stack_.size()) {
    marks_.pop_back();
  } else {
    pop();
  }
}

std::size_t Machine::pop_mark() {
  if (marks_.empty()) fail("a mark is missing on the stack");
  const std::size_t height = marks_.back();
  marks_.pop_back();
  return height;
}

void Machine::long_bytes(std::uint64_t count) {
  std::string_view raw = take(count);
  const bool negative = !raw.empty() && (raw.back() & 0x80) != 0;
  const char filler = negative ? '\xff' : '\0';
  while (raw.size() > 8 && raw.back() == filler) raw.remove_suffix(1);
  std::uint64_t bits = negative ? ~std::uint64_t{0} : 0;
  for (std::size_t i = raw.size(); i-- > 0 && raw.size() <= 8;) bits = bits << 8 | static_cast<unsigned char>(raw[i]);
  if (raw.size() > 8 || (negative && bits >> 63 == 0)) fail("a number of more than 64 bits");
  integer(bits, negative);
}

void Machine::number_line(bool strip_l) {
  std::string_view digits = line();
  if (!strip_l && (digits == "00" || digits == "01")) return push(Cell(Tag::boolean, digits == "01"));
  if (strip_l && digits.ends_with('L')) digits.remove_suffix(1);
  // Python reads such a line as source code, in which a number has no leading zeros.
  const std::string_view bare = digits.starts_with('-') ? digits.substr(1) : digits;
  const auto value = bare.size() > 1 && bare.starts_with('0') ? std::nullopt : parse_whole(digits);
  if (!value) fail("not a whole number of 64 bits: " + shown(digits));
  push(document_.whole(*value));
}

void Machine::big_float() {
  const std::string_view raw = take(8);
  std::uint64_t bits = 0;
  for (const char c : raw) bits = bits << 8 | static_cast<unsigned char>(c);
  push(document_.real(std::bit_cast<double>(bits)));
}

void Machine::utf8(std::uint64_t count) {
  const std::string_view raw = take(count);
  if (!is_utf8(raw)) fail("a text that is not UTF-8");
  push(document_.text(raw));
}

void Machine::ascii(std::uint64_t count) {
  const std::string_view raw = take(count);
  if (!is_ascii(raw)) fail("a text that is not ASCII");
  push(document_.text(raw));
}

bool Machine::scalar(unsigned char op) {
  switch (op) {
    case kNone:
      push(Cell{});
      return true;
    case kNewTrue:
    case kNewFalse:
      push(Cell(Tag::boolean, op == kNewTrue));
      return true;
    case kBinInt1:
      integer(little(1), false);
      return true;
    case kBinInt2:
      integer(little(2), false);
      return true;
    case kBinInt: {
      const auto value = static_cast<std::int32_t>(little(4));
      integer(static_cast<std::uint64_t>(std::int64_t{value}), value < 0);
      return true;
    }
    case kLong1:
    case kLong4:
      long_bytes(little(op == kLong1 ? 1 : 4));
      return true;
    case kInt:
      number_line(false);
      return true;
    case kLong:
      number_line(true);
      return true;
    case kBinFloat:
      big_float();
      return true;
    case kFloat: {
      const std::string_view digits = line();
      const auto value = parse_real(digits);
      if (!value) fail("not a number: " + shown(digits));
      push(document_.real(*value));
      return true;
    }
    default:
      return false;
  }
}

bool Machine::textual(unsigned char op) {
  switch (op) {
    case kShortBinUnicode:
      utf8(little(1));
      return true;
    case kBinUnicode:
      utf8(little(4));
      return true;
    case kBinUnicode8:
      utf8(little(8));
      return true;
    case kShortBinString:
      ascii(little(1));
      return true;
    case kBinString:
      ascii(little(4));
      return true;
    case kShortBinBytes:
      push(document_.bytes(take(little(1))));
      return true;
    case kBinBytes:
      push(document_.bytes(take(little(4))));
      return true;
    case kBinBytes8:
    case kByteArray8:
      push(document_.bytes(take(little(8))));
      return true;
    case kString:
    case kUnicode: {
      const std::string_view raw = line();
      auto value = op == kString ? unquote(raw) : unescape(raw);
      if (!value) fail("not a text: " + shown(raw));
      push(document_.text_owned(std::move(*value)));
      return true;
    }
    default:
      return false;
  }
}

void Machine::close_run(Tag tag, std::size_t from) {
  const Cell made = document_.run(tag, stack_.data() + from, stack_.size() - from);
  stack_.resize(from);
  push(made);
}

void Machine::put_item(Cell dict, Cell key, Cell value) {
  if (key.tag() != Tag::text) fail("a dict key must be str, got " + std::string(name_of(key.tag())));
  if (!document_.set(dict, key, value))
    fail("a dict of more than " + std::to_string(Document::kMostKeys) + " keys is no part of a snapshot");
}

void Machine::set_items(std::size_t from, Cell dict) {
  if ((stack_.size() - from) % 2 != 0) fail("a dict with a key that has no value");
  document_.expect(dict, (stack_.size() - from) / 2);
  for (std::size_t i = from; i < stack_.size(); i += 2) put_item(dict, stack_[i], stack_[i + 1]);
  stack_.resize(from);
}

void Machine::close_dict() {
  const Cell made = document_.dict();
  set_items(pop_mark(), made);
  push(made);
}

bool Machine::container(unsigned char op) {
  switch (op) {
    case kMark:
      marks_.push_back(stack_.size());
      return true;
    case kEmptyList:
      push(document_.run(Tag::list, nullptr, 0));
      return true;
    case kEmptyTuple:
      push(document_.run(Tag::tuple, nullptr, 0));
      return true;
    case kEmptyDict:
      push(document_.dict());
      return true;
    case kList:
      close_run(Tag::list, pop_mark());
      return true;
    case kTuple:
      close_run(Tag::tuple, pop_mark());
      return true;
    case kDict:
      close_dict();
      return true;
    case kTuple1:
    case kTuple2:
    case kTuple3: {
      const std::size_t count = op - kTuple1 + 1;
      if (stack_.size() < fence() + count) fail("a value is missing on the stack");
      close_run(Tag::tuple, stack_.size() - count);
      return true;
    }
    case kAppend: {
      const Cell value = pop();
      document_.append(top(Tag::list), &value, 1);
      return true;
    }
    case kAppends:
    case kSetItems: {
      const std::size_t from = pop_mark();
      if (from <= fence()) fail("a value is missing on the stack");
      const Cell target = stack_[from - 1];
      const Tag expected = op == kAppends ? Tag::list : Tag::dict;
      if (target.tag() != expected)
        fail("expected " + std::string(name_of(expected)) + ", got " + std::string(name_of(target.tag())));
      if (op == kSetItems)
        set_items(from, target);
      else
        document_.append(target, stack_.data() + from, stack_.size() - from);
      stack_.resize(from);
      return true;
    }
    case kSetItem: {
      const Cell value = pop(), key = pop();
      put_item(top(Tag::dict), key, value);
      return true;
    }
    default:
      return false;
  }
}

std::uint64_t Machine::line_index() {
  const std::string_view digits = line();
  const auto value = parse_whole(digits);
  if (!value || value->negative) fail("not a memo index: " + shown(digits));
  return value->bits;
}

void Machine::get(std::uint64_t at) {
  const Cell* cell = memo_.get(at);
  if (cell == nullptr) fail("memo entry " + std::to_string(at) + " was never stored");
  density_.referred(in_.at());
  stack_.push_back(*cell);
}

bool Machine::memory(unsigned char op) {
  switch (op) {
    case kMemoize:
      put(memo_.size());
      return true;
    case kBinPut:
      put(little(1));
      return true;
    case kLongBinPut:
      put(little(4));
      return true;
    case kPut:
      put(line_index());
      return true;
    case kBinGet:
    case kLongBinGet:
      get(little(op == kBinGet ? 1 : 4));
      return true;
    case kGet:
      get(line_index());
      return true;
    case kPop:
      pop_or_unmark();
      return true;
    case kPopMark:
      stack_.resize(pop_mark());
      return true;
    case kDup:
      push(top_any());
      return true;
    case kProto:
      protocol();
      return true;
    case kFrame:
      frame();
      return true;
    default:
      return false;
  }
}

void Machine::refuse(unsigned char op) const {
  static constexpr char hex[] = "0123456789abcdef";
  const std::string code = {'0', 'x', hex[op >> 4], hex[op & 15]};
  const std::string_view why = refusal(op);
  if (why.empty()) fail("not a pickle: opcode " + code + " does not exist");
  fail("opcode " + code + " " + std::string(why) + ": refused, nothing was executed");
}

Document Machine::run() {
  for (;;) {
    const unsigned char op = in_.next_op();
    if (op == kStop) break;
    if (!memory(op) && !container(op) && !scalar(op) && !textual(op)) refuse(op);
  }
  document_.root = pop();
  return std::move(document_);
}

}  // namespace

Document read_pickle(std::string_view input) { return Machine(input).run(); }

}  // namespace forebay::ingest
