#include "ingest/literals.hpp"

#include <algorithm>
#include <charconv>
#include <cstring>

namespace forebay::ingest {
namespace {

void append_utf8(std::string& out, std::uint32_t code) {
  if (code < 0x80) {
    out += static_cast<char>(code);
  } else if (code < 0x800) {
    out += {static_cast<char>(0xc0 | code >> 6), static_cast<char>(0x80 | (code & 63))};
  } else if (code < 0x10000) {
    out += {static_cast<char>(0xe0 | code >> 12), static_cast<char>(0x80 | (code >> 6 & 63)),
            static_cast<char>(0x80 | (code & 63))};
  } else {
    out += {static_cast<char>(0xf0 | code >> 18), static_cast<char>(0x80 | (code >> 12 & 63)),
            static_cast<char>(0x80 | (code >> 6 & 63)), static_cast<char>(0x80 | (code & 63))};
  }
}

// `digits` digits of `base` at `at`, or nothing.
std::optional<std::uint32_t> digits_at(std::string_view text, std::size_t at, std::size_t digits, int base) {
  std::uint32_t value = 0;
  if (at + digits > text.size()) return std::nullopt;
  const char* end = text.data() + at + digits;
  const auto [stop, error] = std::from_chars(text.data() + at, end, value, base);
  if (error != std::errc{} || stop != end) return std::nullopt;
  return value;
}

// How many bytes a UTF-8 sequence has by its first byte; 0 for a byte that starts none.
std::size_t sequence_length(unsigned char first) {
  if (first < 0x80) return 1;
  if (first < 0xc2) return 0;
  if (first < 0xe0) return 2;
  if (first < 0xf0) return 3;
  return first < 0xf5 ? 4 : 0;
}

bool second_allowed(unsigned char first, unsigned char second) {
  if (first == 0xe0) return second >= 0xa0;
  if (first == 0xf0) return second >= 0x90;
  if (first == 0xf4) return second < 0x90;
  return true;
}

}  // namespace

bool is_ascii(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

bool is_utf8(std::string_view text) {
  for (std::size_t i = 0; i < text.size();) {
    const auto first = static_cast<unsigned char>(text[i]);
    const std::size_t length = sequence_length(first);
    if (length == 0 || i + length > text.size()) return false;
    for (std::size_t k = 1; k < length; ++k)
      if ((static_cast<unsigned char>(text[i + k]) & 0xc0) != 0x80) return false;
    if (length > 1 && !second_allowed(first, static_cast<unsigned char>(text[i + 1]))) return false;
    i += length;
  }
  return true;
}

std::optional<Whole> parse_whole(std::string_view digits) {
  const bool negative = digits.starts_with('-');
  const char* end = digits.data() + digits.size();
  std::uint64_t magnitude = 0;
  const auto [stop, error] = std::from_chars(digits.data() + (negative ? 1 : 0), end, magnitude);
  if (error != std::errc{} || stop != end) return std::nullopt;
  if (!negative) return Whole{magnitude, false};
  if (magnitude > std::uint64_t{1} << 63) return std::nullopt;
  return Whole{~magnitude + 1, magnitude != 0};
}

std::optional<double> parse_real(std::string_view digits) {
  double value = 0;
  const char* end = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data(), end, value);
  if (error != std::errc{} || stop != end) return std::nullopt;
  return value;
}

std::optional<std::string> unquote(std::string_view quoted) {
  if (quoted.size() < 2 || quoted.front() != quoted.back() || (quoted.front() != '\'' && quoted.front() != '"'))
    return std::nullopt;
  const std::string_view raw = quoted.substr(1, quoted.size() - 2);
  static constexpr std::string_view kEscapes = "\\'\"abfnrtv", kMeanings = "\\'\"\a\b\f\n\r\t\v";
  std::string out;
  for (std::size_t i = 0; i < raw.size(); ++i) {
    if (raw[i] != '\\') {
      out += raw[i];
    } else if (i + 1 < raw.size() && raw[i + 1] == 'x') {
      const auto code = digits_at(raw, i + 2, 2, 16);
      if (!code) return std::nullopt;
      out += static_cast<char>(*code);
      i += 3;
    } else {
      const std::size_t which = i + 1 < raw.size() ? kEscapes.find(raw[++i]) : std::string_view::npos;
      if (which == std::string_view::npos) return std::nullopt;
      out += kMeanings[which];
    }
  }
  return is_ascii(out) ? std::optional(out) : std::nullopt;
}

std::optional<std::string> unescape(std::string_view escaped) {
  std::string out;
  for (std::size_t i = 0; i < escaped.size(); ++i) {
    const bool backslash = escaped[i] == '\\' && i + 1 < escaped.size();
    const std::size_t digits = !backslash ? 0 : escaped[i + 1] == 'u' ? 4 : escaped[i + 1] == 'U' ? 8 : 0;
    if (digits == 0) {
      append_utf8(out, static_cast<unsigned char>(escaped[i]));
      // Two backslashes are two characters, and the second starts no escape.
      if (backslash && escaped[i + 1] == '\\') out += escaped[++i];
      continue;
    }
    const auto code = digits_at(escaped, i + 2, digits, 16);
    if (!code || *code > 0x10ffff) return std::nullopt;
    append_utf8(out, *code);
    i += 1 + digits;
  }
  return out;
}

std::string shown(std::string_view raw) {
  std::string out = "'";
  for (const char c : raw.substr(0, 40)) out += c >= 0x20 && c < 0x7f ? c : '?';
  return out + (raw.size() > 40 ? "...'" : "'");
}

}  // namespace forebay::ingest
