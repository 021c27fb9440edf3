// numbers: what single calls of a driver and a pool's hit cost, each measured alone on the calling thread's clock: a
// real one's, or the virtual clock of a simulated device. What the figures are compared with is forebay.bench's.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "driver/cuda.hpp"
#include "driver/sim.hpp"

namespace forebay::bench {

enum class Clock : std::uint8_t { driver, host };

// One figure: nanoseconds of a call, one sample a round. `status` says why there is none, or not more.
struct Number {
  std::string name;
  Clock clock = Clock::driver;
  std::vector<double> samples;
  std::uint64_t calls = 0;  // that were timed, over all samples
  Status status = Status::ok;
};

// The work that is launched: kernels that do nothing, and one that keeps a stream busy.
class Kernels {
 public:
  virtual ~Kernels() = default;
  [[nodiscard]] virtual Status launch(StreamHandle stream) = 0;
  [[nodiscard]] virtual Status spin(StreamHandle stream, std::int64_t ns) = 0;
};
std::unique_ptr<Kernels> kernels(SimDriver& driver, int device);
Result<std::unique_ptr<Kernels>> kernels(CudaDriver& driver, int device);

inline constexpr int kDecodeKernels = 300;  // of a decode step, launched one by one and as one graph

// Every figure, the median of whose samples is the one to tell. Answers the status that kept it from beginning.
Result<std::vector<Number>> numbers(Driver& driver, int device, Kernels& kernels, int rounds);

}  // namespace forebay::bench
