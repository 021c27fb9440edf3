// torch_peer: stands where PyTorch stands before the library: it calls the hooks as CUDAGraph and
// CUDAPluggableAllocator of 2.11 do, in C++, with their argument types, and catches what they throw by PyTorch's names.
// The two classes have the names and the exported constructor of libc10's, under whose soname it is built.
#include <cstdint>
#include <cstdio>
#include <exception>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <utility>

#define PEER extern "C" __attribute__((visibility("default")))

namespace c10 {
struct SourceLocation {
  const char* function;
  const char* file;
  std::uint32_t line;
};
class __attribute__((visibility("default"))) Error : public std::exception {
 public:
  Error(SourceLocation where, std::string text);
  const char* what() const noexcept override { return text_.c_str(); }

 private:
  std::string text_, context_ = "context";
  SourceLocation where_;
};
Error::Error(SourceLocation where, std::string text) : text_(std::move(text)), where_(where) {}
class __attribute__((visibility("default"))) OutOfMemoryError : public Error {
  using Error::Error;

 public:
  virtual void key();
};
void OutOfMemoryError::key() {}
}  // namespace c10

namespace {

using Id = std::pair<unsigned long long, unsigned long long>;
using Begin = void (*)(int, Id, std::function<bool(void*)>);
using Alloc = void* (*)(std::size_t, int, void*);
using CaptureInfo = int (*)(void*, int*, std::uint64_t*, void*, void*, void*);
using BeginCapture = int (*)(void*, int);

struct Graph {
  std::uint64_t capture = ~0ull;
};
std::map<std::uint64_t, Graph> graphs;  // by the pool's first number

std::uint64_t capture_of(CaptureInfo info, void* stream) {
  int status = 0;
  std::uint64_t id = 0;
  return info(stream, &status, &id, nullptr, nullptr, nullptr) == 0 && status == 1 ? id : 0;
}

}  // namespace

// capture_begin: routing starts, then the capture, and only then its id is known.
PEER int peer_capture_begin(Begin begin, CaptureInfo info, BeginCapture capture, int device, std::uint64_t pool,
                            void* stream, int mode) {
  Graph& graph = graphs[pool];
  graph = {};
  begin(device, {pool, 0}, [&graph, info](void* asked) { return capture_of(info, asked) == graph.capture; });
  const int code = capture(stream, mode);
  graph.capture = capture_of(info, stream);
  return code;
}

// _cuda_beginAllocateCurrentThreadToPool
PEER void peer_route_thread(Begin begin, int device, std::uint64_t pool) {
  begin(device, {0, pool},
        [thread = std::this_thread::get_id()](void*) { return thread == std::this_thread::get_id(); });
}

// 0: memory; 1: PyTorch's out of memory; 2: another exception. `what` has room for 2,000 bytes.
PEER int peer_alloc(Alloc alloc, std::size_t bytes, int device, void* stream, void** block, char* what) {
  try {
    *block = alloc(bytes, device, stream);
    return 0;
  } catch (const c10::OutOfMemoryError& error) {
    std::snprintf(what, 2000, "%s", error.what());
    return 1;
  } catch (const std::exception& error) {
    std::snprintf(what, 2000, "%s", error.what());
    return 2;
  }
}
