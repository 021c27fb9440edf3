// cuda: the driver port over libcuda. Contexts are the devices' primary ones, as every library uses them; each call
// makes its device's current for as long as it lasts and leaves the program's as it was. How libcuda is found is
// cuda_api.hpp's, which statuses there are status.hpp's.
//
// Note [Handles are known]. libcuda may crash on a handle that was destroyed, and gives its number out again. So only
// streams and events that were made here, or streams of others that were adopted here, are let through; all others
// answer `invalid_handle`. A segment is freed on the device that made it, though libcuda would free it from any. A
// stream's id is asked for once: asking while it captures would end the capture.
//
// Note [Relaxed]. While another thread captures, calls that wait, ask or take memory would break its capture. A pool
// makes them unasked: its own (pool_made.hpp) run with the thread's capture mode relaxed, which makes libcuda let them
// pass. The program's own meet the law of the port.
//
// Note [Sticky faults]. After one every call on that device answers it without reaching libcuda, and so does whatever
// has no device. So it goes in a forked child (`not_initialized`) and once libcuda shut down (`deinitialized`).
//
// Note [Host functions]. CUDA allows no call from one: every call there answers `not_permitted`. One that throws is its
// device's fault, as on the simulated device; what comes behind it runs all the same, since CUDA cannot stop it.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "driver/cuda_api.hpp"
#include "driver/port.hpp"

namespace forebay {

class CudaDriver : public Driver {
 public:
  explicit CudaDriver(const cuda::Loaded& loaded);  // nothing is missing of it
  ~CudaDriver() override;
  CudaDriver(const CudaDriver&) = delete;
  CudaDriver& operator=(const CudaDriver&) = delete;

  // Beyond the port: a stream that somebody else made and will outlive its use here, or destroys after `forget_stream`.
  Result<std::uint64_t> adopt_stream(int device, StreamHandle stream);
  void forget_stream(int device, StreamHandle stream);
  Status fault_of(int device);
  // The device's context is this thread's from now on, as cudaSetDevice makes it: else each call goes in and out.
  Status stay(int device);
  // A kernel by its name in a module's text (PTX), which stays loaded; and one block of one thread of it, with one
  // argument of 64 bits.
  Result<std::uint64_t> kernel(int device, const char* module, const char* name);
  Status launch_kernel(int device, StreamHandle stream, std::uint64_t kernel, std::uint64_t argument);

  std::int64_t now_ns() override;
  int device_count() const override { return static_cast<int>(devices_.size()); }
  std::string failure() override;
  Result<DeviceFacts> facts(int device) override;
  Result<MemoryInfo> memory_info(int device) override;
  Result<Address> malloc(int device, std::uint64_t bytes) override;
  Status free(int device, Address address) override;
  Result<Address> host_alloc(std::uint64_t bytes) override;
  Status host_free(Address address) override;
  Result<void*> host_pointer(Address address, std::uint64_t bytes) override;
  Result<Address> reserve_range(int device, std::uint64_t bytes) override;
  Status release_range(int device, Address address, std::uint64_t bytes) override;
  Result<FrameHandle> create(int device, std::uint64_t bytes) override;
  Status release(int device, FrameHandle frame) override;
  Status map(int device, Address address, std::uint64_t bytes, FrameHandle frame) override;
  Status set_access(int device, Address address, std::uint64_t bytes) override;
  Status unmap(int device, Address address, std::uint64_t bytes) override;
  Result<DriverPoolHandle> pool_create(int device, std::uint64_t most) override;
  Status pool_destroy(int device, DriverPoolHandle pool) override;
  Result<Address> pool_alloc(int device, DriverPoolHandle pool, std::uint64_t bytes, StreamHandle stream) override;
  Status pool_free(int device, Address address, StreamHandle stream) override;
  Status pool_trim(int device, DriverPoolHandle pool, std::uint64_t kept) override;
  Result<std::uint64_t> pool_get(int device, DriverPoolHandle pool, PoolAttribute attribute) override;
  Status pool_set(int device, DriverPoolHandle pool, PoolAttribute attribute, std::uint64_t value) override;
  Result<StreamHandle> stream_create(int device, StreamKind kind, int priority) override;
  Status stream_destroy(int device, StreamHandle stream) override;
  Result<std::uint64_t> stream_id(int device, StreamHandle stream) override;
  Result<bool> stream_capturing(int device, StreamHandle stream) override;
  Status stream_sync(int device, StreamHandle stream) override;
  Result<bool> stream_query(int device, StreamHandle stream) override;
  Status stream_wait(int device, StreamHandle stream, EventHandle event) override;
  Status device_sync(int device) override;
  Result<EventHandle> event_create(int device) override;
  Status event_destroy(int device, EventHandle event) override;
  Status event_record(int device, EventHandle event, StreamHandle stream) override;
  Status event_sync(int device, EventHandle event) override;
  Result<bool> event_query(int device, EventHandle event) override;
  Status copy(int device, Address to, Address from, std::uint64_t bytes, StreamHandle stream) override;
  Status upload(int device, Address to, const void* from, std::uint64_t bytes, StreamHandle stream) override;
  Status download(int device, void* to, Address from, std::uint64_t bytes, StreamHandle stream) override;
  Status memset(int device, Address to, std::uint8_t value, std::uint64_t bytes, StreamHandle stream) override;
  Status host_func(int device, StreamHandle stream, std::function<void()> function) override;
  Status launch(int device, StreamHandle stream, Work work) override;
  Status capture_begin(int device, StreamHandle stream, CaptureMode mode) override;
  Result<GraphHandle> capture_end(int device, StreamHandle stream) override;
  Result<CaptureInfo> capture_info(int device, StreamHandle stream) override;
  Result<CaptureMode> exchange_capture_mode(CaptureMode mode) override;
  Result<std::uint64_t> graph_nodes(int device, GraphHandle graph) override;
  Result<ExecutableHandle> graph_instantiate(int device, GraphHandle graph) override;
  Status graph_launch(int device, ExecutableHandle executable, StreamHandle stream) override;
  Status graph_destroy(int device, GraphHandle graph) override;
  Status executable_destroy(int device, ExecutableHandle executable) override;

 private:
  struct Hosted;                                         // a host function that is issued
  using Known = std::unordered_map<std::uint64_t, int>;  // devices by handle
  using Fault = std::shared_ptr<std::atomic<Status>>;
  struct Device {
    cuda::Ordinal ordinal = 0;
    Fault fault = std::make_shared<std::atomic<Status>>(Status::ok);  // host functions outlive the driver
    std::mutex lock;                                                  // of what follows
    std::atomic<cuda::Context> context{nullptr};                      // retained at the first call
    std::unordered_map<std::uint64_t, std::uint64_t> streams;         // id by handle: made or adopted here
    std::optional<std::uint64_t> legacy;                              // ids of the default streams
    std::unordered_map<std::uint32_t, std::uint64_t> per_thread;
  };
  class Inside;  // a call's stay in its device's context

  Status enter() const;            // may this thread call libcuda now?
  Status enter(int device) const;  // and is there such a device, without a fault?
  Status enter_any() const;        // of calls without a device
  Status retain(int device, Device& d);
  Status came_to(int device, cuda::Code code);  // takes note of what ends everything
  template <class F>
  Status on(int device, F call);
  template <class F>
  Status relaxed_on(int device, F call);
  template <class F>
  cuda::Code relaxed(F call);
  template <class F>
  Status on_stream(int device, StreamHandle stream, F call);
  template <class F>
  Status relaxed_on_stream(int device, StreamHandle stream, F call);
  static bool in_host_function();  // this thread runs one
  static cuda::StreamPointer pointer_of(StreamHandle stream);
  static Result<bool> ready(Status answer);
  bool knows(int device, StreamHandle stream);
  bool knows(const Known& handles, int device, std::uint64_t handle);
  bool knows(EventHandle event);
  template <class F>
  Status gone(Known& handles, int device, std::uint64_t handle, Status unknown, F destroy);
  Result<std::uint64_t> default_id(int device, StreamHandle stream);
  Result<std::uint64_t> ask_id(int device, StreamHandle stream);
  bool is_pinned(int device, const void* host);
  Status settled(int device, StreamHandle stream);  // what was issued is done; in a capture it is never waited for
  static void run_hosted(void* given);

  const cuda::Api api_;
  const std::uint32_t forks_;
  std::atomic<bool> over_{false};
  std::vector<std::unique_ptr<Device>> devices_;
  std::mutex lock_;  // of what follows
  Known events_, segments_, graphs_, executables_, pools_;
  std::vector<std::unique_ptr<Hosted>> captured_;  // run at every launch of a graph
  std::map<Address, std::uint64_t> pinned_;
};

}  // namespace forebay
