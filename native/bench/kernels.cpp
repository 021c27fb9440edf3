// kernels: the work that benchmarks launch. On CUDA two kernels written in PTX here, loaded by the driver itself.
#include <utility>

#include "bench/numbers.hpp"

namespace forebay::bench {

namespace {

constexpr std::int64_t kNothingNs = 500;  // an empty kernel, as a node of a graph takes on an H200 (graphs.json)

constexpr const char* kModule = R"(
.version 7.0
.target sm_70
.address_size 64
.visible .entry nothing(.param .u64 unused) { ret; }
.visible .entry spin(.param .u64 ns) {
  .reg .u64 %t<4>;
  .reg .pred %p;
  ld.param.u64 %t0, [ns];
  mov.u64 %t1, %globaltimer;
again:
  mov.u64 %t2, %globaltimer;
  sub.u64 %t3, %t2, %t1;
  setp.lt.u64 %p, %t3, %t0;
  @%p bra again;
  ret;
}
)";

class SimKernels final : public Kernels {
 public:
  SimKernels(SimDriver& driver, int device) : driver_(driver), device_(device) {}
  Status launch(StreamHandle stream) override { return work("nothing", stream, kNothingNs); }
  Status spin(StreamHandle stream, std::int64_t ns) override { return work("spin", stream, ns); }

 private:
  Status work(const char* name, StreamHandle stream, std::int64_t ns) {
    return driver_.launch(device_, stream,
                          {.name = name, .cost_ns = ns, .uses = {}, .run = [](auto) { return Status::ok; }});
  }
  SimDriver& driver_;
  const int device_;
};

class CudaKernels final : public Kernels {
 public:
  CudaKernels(CudaDriver& driver, int device, std::uint64_t nothing, std::uint64_t spin)
      : driver_(driver), device_(device), nothing_(nothing), spin_(spin) {}
  Status launch(StreamHandle stream) override { return driver_.launch_kernel(device_, stream, nothing_, 0); }
  Status spin(StreamHandle stream, std::int64_t ns) override {
    return driver_.launch_kernel(device_, stream, spin_, static_cast<std::uint64_t>(ns));
  }

 private:
  CudaDriver& driver_;
  const int device_;
  const std::uint64_t nothing_, spin_;
};

}  // namespace

std::unique_ptr<Kernels> kernels(SimDriver& driver, int device) { return std::make_unique<SimKernels>(driver, device); }

Result<std::unique_ptr<Kernels>> kernels(CudaDriver& driver, int device) {
  const auto nothing = driver.kernel(device, kModule, "nothing");
  if (!nothing) return nothing.status();
  const auto spin = driver.kernel(device, kModule, "spin");
  if (!spin) return spin.status();
  return Result<std::unique_ptr<Kernels>>(std::make_unique<CudaKernels>(driver, device, *nothing, *spin));
}

}  // namespace forebay::bench
