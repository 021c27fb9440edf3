// thrown: words.hpp's exception. See Note [PyTorch's exception] there.
#include <cxxabi.h>
#include <dlfcn.h>

#include <array>
#include <cstdint>
#include <stdexcept>
#include <string>

#include "torch/words.hpp"

namespace forebay::torch {
namespace {

struct SourceLocation {  // c10's
  const char* function;
  const char* file;
  std::uint32_t line;
};
using Construct = void (*)(void* self, SourceLocation where, std::string text);

constexpr const char* kConstruct =
    "_ZN3c105ErrorC1ENS_14SourceLocationENSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE";
constexpr const char* kType = "_ZTIN3c1016OutOfMemoryErrorE";
constexpr std::size_t kRoom = 4096;  // many times what the object takes in any version

void* exported(const char* symbol) {
  for (const char* const library : {"libc10.so", "libc10_cuda.so", "libtorch_cpu.so", "libtorch_cuda.so"}) {
    void* const handle = ::dlopen(library, RTLD_NOW | RTLD_NOLOAD);
    if (handle == nullptr) continue;
    void* const at = ::dlsym(handle, symbol);
    ::dlclose(handle);
    if (at != nullptr) return at;
  }
  return nullptr;
}

// The first entry of a class's table of virtual functions, where its first virtual function is its destructor.
void destroy(void* error) { (*static_cast<void (***)(void*)>(error))[0](error); }

}  // namespace

void throw_out_of_memory(const std::string& text) {
  const auto construct = reinterpret_cast<Construct>(exported(kConstruct));
  auto* const type = static_cast<std::type_info*>(exported(kType));
  if (construct == nullptr || type == nullptr) throw std::runtime_error(text);
  void* const error = abi::__cxa_allocate_exception(kRoom);
  try {
    construct(error, {"alloc", "forebay", 0}, text);
  } catch (...) {
    abi::__cxa_free_exception(error);
    throw std::runtime_error(text);
  }
  abi::__cxa_throw(error, type, &destroy);
}

}  // namespace forebay::torch
