// cuda_inside: how one call of the CUDA driver enters libcuda and leaves it. For cuda*.cpp alone.
#pragma once

#include <utility>

#include "driver/cuda.hpp"
#include "driver/pool_made.hpp"

namespace forebay {

// What a host function needs when it runs, maybe after its driver is gone. One that never runs, because its device was
// lost, is never given back.
struct CudaDriver::Hosted {
  std::function<void()> run;
  Fault fault;
  bool once;  // else a graph's, which its driver keeps
};

// The device's context is this thread's while one lives.
class CudaDriver::Inside {
 public:
  Inside(CudaDriver& driver, int device) : driver_(driver), device_(device), status_(driver.enter(device)) {
    if (status_ != Status::ok) return;
    Device& d = *driver.devices_[static_cast<std::size_t>(device)];
    status_ = driver.retain(device, d);
    cuda::Context current = nullptr;
    if (status_ == Status::ok) status_ = driver.came_to(device, driver.api_.ctx_current(&current));
    if (status_ != Status::ok || current == d.context) return;
    status_ = driver.came_to(device, driver.api_.ctx_push(d.context));
    pushed_ = status_ == Status::ok;
  }
  ~Inside() { leave(); }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;
  Status status() const { return status_; }

  // A context that cannot be taken off stays: the program meets the same refusal at its next call.
  Status leave() {
    cuda::Context ours = nullptr;
    return std::exchange(pushed_, false) ? driver_.came_to(device_, driver_.api_.ctx_pop(&ours)) : Status::ok;
  }

 private:
  CudaDriver& driver_;
  const int device_;
  Status status_;
  bool pushed_ = false;
};

// `call` on the device: it answers a code of libcuda. A sticky error on the way out is the answer too.
template <class F>
Status CudaDriver::on(int device, F call) {
  Inside inside(*this, device);
  if (inside.status() != Status::ok) return inside.status();
  const Status status = came_to(device, call());
  const Status left = inside.leave();
  return sticky(left) ? left : status;
}

// See Note [Relaxed].
template <class F>
Status CudaDriver::relaxed_on(int device, F call) {
  return on(device, [&] { return relaxed(call); });
}

template <class F>
cuda::Code CudaDriver::relaxed(F call) {
  if (!PoolMade::now()) return call();
  std::int32_t mode = cuda::kCaptureRelaxed;  // then what it was before
  if (const cuda::Code refused = api_.exchange_capture_mode(&mode); refused != 0) return refused;
  const cuda::Code code = call();
  const cuda::Code back = api_.exchange_capture_mode(&mode);
  return sticky(static_cast<Status>(back)) ? back : code;
}

// And on a stream that is known there; `call` gets libcuda's own handle.
template <class F>
Status CudaDriver::on_stream(int device, StreamHandle stream, F call) {
  if (const Status s = enter(device); s != Status::ok) return s;
  if (!knows(device, stream)) return Status::invalid_handle;
  return on(device, [&] { return call(pointer_of(stream)); });
}

template <class F>
Status CudaDriver::relaxed_on_stream(int device, StreamHandle stream, F call) {
  return on_stream(device, stream, [&](auto s) { return relaxed([&] { return call(s); }); });
}

// The end of what a handle names. The handle goes first: its number may come back before this returns.
template <class F>
Status CudaDriver::gone(Known& handles, int device, std::uint64_t handle, Status unknown, F destroy) {
  if (const Status s = enter(device); s != Status::ok) return s;
  std::unique_lock hold(lock_);
  const auto at = handles.find(handle);
  if (at == handles.end() || at->second != device) return unknown;
  auto known = handles.extract(at);
  hold.unlock();
  const Status status = relaxed_on(device, destroy);
  hold.lock();
  if (status != Status::ok) handles.insert(std::move(known));
  return status;
}

}  // namespace forebay
