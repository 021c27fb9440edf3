// cuda_graph: the part of the CUDA driver that captures, and launches what was captured.
#include "driver/cuda_inside.hpp"

namespace forebay {

namespace {

cuda::GraphPointer pointer_of(GraphHandle graph) { return reinterpret_cast<cuda::GraphPointer>(graph.value); }
cuda::ExecutablePointer pointer_of(ExecutableHandle executable) {
  return reinterpret_cast<cuda::ExecutablePointer>(executable.value);
}

}  // namespace

// ---- captures

Status CudaDriver::capture_begin(int device, StreamHandle stream, CaptureMode mode) {
  return on_stream(device, stream, [&](auto s) { return api_.capture_begin(s, static_cast<std::int32_t>(mode)); });
}

Result<GraphHandle> CudaDriver::capture_end(int device, StreamHandle stream) {
  cuda::GraphPointer made = nullptr;
  const Status status = on_stream(device, stream, [&](auto s) { return api_.capture_end(s, &made); });
  if (status != Status::ok) return status;
  const GraphHandle graph{reinterpret_cast<std::uint64_t>(made)};
  const std::lock_guard hold(lock_);
  graphs_[graph.value] = device;
  return graph;
}

Result<CaptureInfo> CudaDriver::capture_info(int device, StreamHandle stream) {
  std::int32_t state = 0;
  CaptureInfo info;
  const Status status = on_stream(
      device, stream, [&](auto s) { return api_.capture_info(s, &state, &info.id, nullptr, nullptr, nullptr); });
  if (status != Status::ok) return status;
  info.status = static_cast<CaptureStatus>(state);
  if (info.status == CaptureStatus::none) info.id = 0;
  return info;
}

Result<CaptureMode> CudaDriver::exchange_capture_mode(CaptureMode mode) {
  if (const Status s = enter(); s != Status::ok) return s;
  auto exchanged = static_cast<std::int32_t>(mode);
  const auto status = static_cast<Status>(api_.exchange_capture_mode(&exchanged));
  if (status != Status::ok) return status;
  return static_cast<CaptureMode>(exchanged);
}

// ---- graphs

Result<std::uint64_t> CudaDriver::graph_nodes(int device, GraphHandle graph) {
  if (const Status s = enter(device); s != Status::ok) return s;
  if (!knows(graphs_, device, graph.value)) return Status::invalid_handle;
  std::size_t nodes = 0;
  const Status status = on(device, [&] { return api_.graph_nodes(forebay::pointer_of(graph), nullptr, &nodes); });
  if (status != Status::ok) return status;
  return std::uint64_t{nodes};
}

Result<ExecutableHandle> CudaDriver::graph_instantiate(int device, GraphHandle graph) {
  if (const Status s = enter(device); s != Status::ok) return s;
  if (!knows(graphs_, device, graph.value)) return Status::invalid_handle;
  cuda::ExecutablePointer made = nullptr;
  const auto make = [&] { return api_.graph_instantiate(&made, forebay::pointer_of(graph), 0); };
  if (const Status s = relaxed_on(device, make); s != Status::ok) return s;
  const ExecutableHandle executable{reinterpret_cast<std::uint64_t>(made)};
  const std::lock_guard hold(lock_);
  executables_[executable.value] = device;
  return executable;
}

Status CudaDriver::graph_launch(int device, ExecutableHandle executable, StreamHandle stream) {
  if (const Status s = enter(device); s != Status::ok) return s;
  if (!knows(executables_, device, executable.value)) return Status::invalid_handle;
  return on_stream(device, stream, [&](auto s) { return api_.graph_launch(forebay::pointer_of(executable), s); });
}

Status CudaDriver::graph_destroy(int device, GraphHandle graph) {
  return gone(graphs_, device, graph.value, Status::invalid_handle,
              [&] { return api_.graph_destroy(forebay::pointer_of(graph)); });
}

Status CudaDriver::executable_destroy(int device, ExecutableHandle executable) {
  return gone(executables_, device, executable.value, Status::invalid_handle,
              [&] { return api_.executable_destroy(forebay::pointer_of(executable)); });
}

}  // namespace forebay
