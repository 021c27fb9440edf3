// _core.bench: the measuring loops, which no Python may stand between. What is told of them is forebay.bench's.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <vector>

#include "bench/numbers.hpp"
#include "bench/pairs.hpp"
#include "bind/fault.hpp"
#include "bind/module.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace forebay {
namespace {

using Open = nb::call_guard<nb::gil_scoped_release>;

template <class R>
R value_or_raise(Result<R> result) {
  if (!result) throw CallFailed(Call::launch, result.status(), "benchmark");
  return *result;
}

bench::Load load_of(std::uint64_t bytes, int threads, int pairs, int rounds) { return {bytes, threads, pairs, rounds}; }

std::vector<double> c_pairs(Driver& driver, std::uint64_t alloc, std::uint64_t free, int device,
                            const std::vector<std::uint64_t>& streams, std::uint64_t bytes, int pairs, int rounds) {
  std::vector<void*> handles;
  for (const std::uint64_t stream : streams) handles.push_back(reinterpret_cast<void*>(stream));
  const nb::gil_scoped_release open;
  return bench::c_pairs(driver, reinterpret_cast<bench::AllocFunction>(alloc),
                        reinterpret_cast<bench::FreeFunction>(free), device, handles,
                        load_of(bytes, static_cast<int>(handles.size()), pairs, rounds));
}

std::vector<bench::Number> numbers(Driver& driver, int device, int rounds) {
  if (auto* const sim = dynamic_cast<SimDriver*>(&driver)) {
    const auto kernels = bench::kernels(*sim, device);
    return value_or_raise(bench::numbers(driver, device, *kernels, rounds));
  }
  auto* const cuda = dynamic_cast<CudaDriver*>(&driver);
  if (cuda == nullptr) throw CallFailed(Call::launch, Status::not_supported, "benchmark");
  const auto kernels = bench::kernels(*cuda, device);
  if (!kernels) throw CallFailed(Call::launch, kernels.status(), "benchmark", driver.failure());
  return value_or_raise(bench::numbers(driver, device, **kernels, rounds));
}

void bind_numbers(nb::module_& b) {
  nb::class_<bench::Number>(b, "Number", "One figure: nanoseconds of a call, one sample a round.")
      .def_ro("name", &bench::Number::name)
      .def_prop_ro("on_host_clock", [](const bench::Number& n) { return n.clock == bench::Clock::host; })
      .def_ro("samples", &bench::Number::samples)
      .def_ro("calls", &bench::Number::calls, "Timed, over all samples.")
      .def_prop_ro("status", [](const bench::Number& n) { return std::string(name_of(n.status)); });
  b.def("numbers", &numbers, "driver"_a, "device"_a, "rounds"_a, Open(),
        "What single calls cost, on a simulated driver or libcuda's. Raises DriverError where none can be made.");
  b.attr("DECODE_KERNELS") = bench::kDecodeKernels;
}

void bind_pairs(nb::module_& b) {
  b.def(
      "pool_pairs",
      [](Driver& driver, int device, std::uint64_t bytes, int threads, int pairs, int rounds) {
        return value_or_raise(bench::pool_pairs(driver, device, load_of(bytes, threads, pairs, rounds)));
      },
      "driver"_a, "device"_a, nb::kw_only(), "bytes"_a, "threads"_a, "pairs"_a, "rounds"_a, Open(),
      "Wall nanoseconds of an allocation and its free through our pool, one sample a round.");
  b.def(
      "driver_pool_pairs",
      [](Driver& driver, int device, std::uint64_t bytes, int threads, int pairs, int rounds) {
        return value_or_raise(bench::driver_pool_pairs(driver, device, load_of(bytes, threads, pairs, rounds)));
      },
      "driver"_a, "device"_a, nb::kw_only(), "bytes"_a, "threads"_a, "pairs"_a, "rounds"_a, Open(),
      "The same through DriverPool.");
  b.def("c_pairs", &c_pairs, "driver"_a, "alloc"_a, "free"_a, "device"_a, "streams"_a, nb::kw_only(), "bytes"_a,
        "pairs"_a, "rounds"_a,
        "The same through two C functions, given by their addresses, with the interface of a pluggable allocator; a "
        "thread a stream. Empty where an allocation failed.");
  b.def(
      "libc_pairs",
      [](std::uint64_t bytes, int threads, int pairs, int rounds) {
        return bench::libc_pairs(load_of(bytes, threads, pairs, rounds));
      },
      nb::kw_only(), "bytes"_a, "threads"_a, "pairs"_a, "rounds"_a, Open(), "malloc and free, to compare with.");
}

}  // namespace

void bind_bench(nb::module_& m) {
  nb::module_ b = m.def_submodule("bench", "What calls and pools cost.");
  bind_numbers(b);
  bind_pairs(b);
}

}  // namespace forebay
