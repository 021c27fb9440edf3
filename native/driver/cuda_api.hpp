// cuda_api: libcuda as it is found at run time: its functions, and what the last of them that failed on this thread was
// asked. What the functions are is cuda_abi.hpp's, when they may be called cuda.hpp's.
#pragma once

#include <string>
#include <type_traits>
#include <vector>

#include "driver/cuda_abi.hpp"

namespace forebay::cuda {

std::string shown(std::uint64_t number);  // an address in hexadecimal
std::string shown(std::int64_t number);
std::string shown(const void* pointer);
// Remembers, for this thread, that a call answered so.
void remember(const char* function, Code code, const std::vector<std::string>& arguments);
void forget_failure();
// In words, and forgets it; empty where nothing failed since.
std::string last_failure();

template <class Signature>
struct Function;
template <class... A>
struct Function<Code(A...)> {
  const char* name;
  Code (*at)(A...) = nullptr;

  Code operator()(A... arguments) const {
    const Code code = at(arguments...);
    if (code != kNoError && code != kNotReady) remember(name, code, {text(arguments)...});
    return code;
  }

 private:
  template <class T>
  static std::string text(T value) {
    if constexpr (std::is_pointer_v<T>)
      return shown(reinterpret_cast<const void*>(value));
    else if constexpr (std::is_signed_v<T>)
      return shown(static_cast<std::int64_t>(value));
    else
      return shown(static_cast<std::uint64_t>(value));
  }
};

struct Api {
#define X(member, symbol, signature) Function<signature> member{#symbol};
  FOREBAY_CUDA_FUNCTIONS(X)
#undef X
};

// An initialised libcuda with at least one device, or in words what is missing and how to get it.
struct Loaded {
  Api api;
  std::vector<Ordinal> devices;
  std::string missing;
};
// `library` is a path or what the loader looks for. It is never unloaded.
Loaded load(const std::string& library);

}  // namespace forebay::cuda
