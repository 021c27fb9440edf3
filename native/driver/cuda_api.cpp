#include "driver/cuda_api.hpp"

#include <dlfcn.h>

#include <array>
#include <atomic>
#include <charconv>
#include <utility>

namespace forebay::cuda {

namespace {

struct Failure {
  std::string call;
  Code code = 0;
};
thread_local Failure last;

std::atomic<Code (*)(Code, const char**)> error_name{nullptr};  // of the library that was loaded last: all agree

std::string name_of_code(Code code) {
  const char* name = nullptr;
  const auto ask = error_name.load();
  if (ask == nullptr || ask(code, &name) != 0 || name == nullptr) return "error " + std::to_string(code);
  return std::string(name) + " (" + std::to_string(code) + ")";
}

using GetAddress = Code (*)(const char*, void**, int, std::uint64_t, std::int32_t*);

// The first function that libcuda does not have, or null.
const char* resolve(GetAddress get, Api& api) {
  const auto found = [get]<class Signature>(Function<Signature>& function) {
    void* at = nullptr;
    if (get(function.name, &at, kCudaVersion, 0, nullptr) != 0 || at == nullptr) return false;
    function.at = reinterpret_cast<decltype(function.at)>(at);
    return true;
  };
#define X(member, symbol, signature) \
  if (!found(api.member)) return api.member.name;
  FOREBAY_CUDA_FUNCTIONS(X)
#undef X
  return nullptr;
}

constexpr const char* kNoDriver =
    "; install NVIDIA's driver (CUDA 12 or newer), or name its library; without a GPU there is SimDevice";

std::string start(const Api& api, std::vector<Ordinal>& devices) {
  int count = 0;
  Code code = api.init(0);
  if (code == 0) code = api.device_count(&count);
  for (int i = 0; code == 0 && i < count; ++i) code = api.device_get(&devices.emplace_back(), i);
  if (code != 0) return last_failure() + ": is there a GPU, and may this process use it? `nvidia-smi` tells";
  return count == 0 ? "libcuda counts no device: is one visible? CUDA_VISIBLE_DEVICES hides devices" : "";
}

}  // namespace

// By hand, without streams: a process may hold another C++ library than ours, whose streams ours cannot share.
std::string hexadecimal(std::uint64_t number) {
  std::array<char, 16> digits{};
  const auto end = std::to_chars(digits.begin(), digits.end(), number, 16).ptr;
  return "0x" + std::string(digits.begin(), end);
}

// No size is as large as the least device address.
std::string shown(std::uint64_t number) { return number < 1ull << 41 ? std::to_string(number) : hexadecimal(number); }
std::string shown(std::int64_t number) { return std::to_string(number); }
std::string shown(const void* pointer) { return hexadecimal(reinterpret_cast<std::uintptr_t>(pointer)); }

void remember(const char* function, Code code, const std::vector<std::string>& arguments) {
  std::string call = function;
  for (std::size_t i = 0; i < arguments.size(); ++i) call += (i == 0 ? "(" : ", ") + arguments[i];
  last = {call + (arguments.empty() ? "()" : ")"), code};
}

void forget_failure() {
  if (!last.call.empty()) last = {};
}

std::string last_failure() {
  const Failure failure = std::exchange(last, {});
  return failure.call.empty() ? "" : failure.call + " answered " + name_of_code(failure.code);
}

Loaded load(const std::string& library) {
  Loaded loaded;
  void* const handle = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    loaded.missing = std::string(::dlerror()) + kNoDriver;
    return loaded;
  }
  const auto get = reinterpret_cast<GetAddress>(::dlsym(handle, "cuGetProcAddress_v2"));
  if (get == nullptr) {
    loaded.missing = library + " is no driver of CUDA 12 or newer: it has no cuGetProcAddress_v2" + kNoDriver;
    return loaded;
  }
  if (const char* const absent = resolve(get, loaded.api)) {
    loaded.missing = library + " has no " + absent + kNoDriver;
    return loaded;
  }
  error_name = loaded.api.error_name.at;
  loaded.missing = start(loaded.api, loaded.devices);
  return loaded;
}

}  // namespace forebay::cuda
