// words: what a program is told where PyTorch is the one that tells it: one line, and PyTorch's own exception for it
// where that can be had.
#pragma once

#include <string>

#include "pool/fault.hpp"
#include "pool/witness.hpp"

namespace forebay::torch {

// "… 96.0 MiB": in the largest unit that it holds once.
std::string size_in_words(std::uint64_t bytes);
std::string address_in_words(Address address);
std::string place_in_words(const std::string& site);  // in the program; "" where nobody could tell
// What a pool in debug mode found.
std::string in_words(const Report& report);
// Begins as PyTorch's own line does where memory is out: programs look for it.
std::string in_words(const PoolFault& fault, int device);
inline bool is_out_of_memory(const PoolFault& fault) {
  return fault.code == PoolFault::Code::exhausted || fault.code == PoolFault::Code::pending;
}

// Throws PyTorch's OutOfMemoryError where this process has it, else std::runtime_error.
//
// Note [PyTorch's exception]. This library is built without PyTorch. Its exception is made through what libc10 exports:
// the constructor of c10::Error, whose name holds the types of its arguments, and OutOfMemoryError's type, which adds
// nothing to it. Where a version has them no more, a program sees a RuntimeError with the same text.
[[noreturn]] void throw_out_of_memory(const std::string& text);

}  // namespace forebay::torch
