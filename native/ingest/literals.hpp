// literals: numbers and texts as the old, line-based pickle protocols spell them, and checks of text encodings.
// No opcode is known here.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "ingest/document.hpp"

namespace forebay::ingest {

bool is_ascii(std::string_view text);
bool is_utf8(std::string_view text);  // surrogates are let through, as Python's unpickler does

std::optional<Whole> parse_whole(std::string_view digits);  // decimal, at most 64 bits
std::optional<double> parse_real(std::string_view digits);
std::optional<std::string> unquote(std::string_view quoted);    // 'text' with backslash escapes, ASCII only
std::optional<std::string> unescape(std::string_view escaped);  // Latin-1 with \uXXXX and \UXXXXXXXX, made UTF-8

std::string shown(std::string_view raw);  // at most 40 printable characters, quoted, for a message

}  // namespace forebay::ingest
