// taped_capture: the rows of captures and graphs.
#include "driver/taped.hpp"
#include "driver/taped_rows.hpp"

#include <utility>
#include <vector>

namespace forebay {

namespace {

thread_local std::vector<Use> next_uses;

}  // namespace

void TapedDriver::uses_of_next_launch(std::vector<Use> uses) { next_uses = std::move(uses); }

Status TapedDriver::capture_begin(int device, StreamHandle stream, CaptureMode mode) {
  if (stream == kPerThreadStream) (void)id_of(device, stream);  // it cannot be asked once it captures
  const auto made = [&] {
    const Status status = next_.capture_begin(device, stream, mode);
    if (status == Status::ok) watch_.began(device, stream);
    return status;
  };
  return row(
      Kind::capture_begin, "cuStreamBeginCapture", made, [&](Row& row) { on_stream(row, device, stream); },
      [&](Row& row, Status status) {
        row.flags |= (static_cast<std::uint32_t>(mode) + 1) << kCaptureModeShift;
        const auto capture = watch_.of(device, stream);
        if (status == Status::ok && capture) on_ref(row, captures_, *capture);
      });
}

Result<GraphHandle> TapedDriver::capture_end(int device, StreamHandle stream) {
  const auto made = [&] {
    const auto graph = next_.capture_end(device, stream);
    const auto capture = watch_.ended(device, stream, graph.status());
    const std::lock_guard hold(lock_);
    if (graph) graphs_.erase(graph->value);
    if (graph && capture) ended_in_[graph->value] = *capture;
    return graph;
  };
  return row(
      Kind::capture_end, "cuStreamEndCapture", made, [&](Row& row) { on_stream(row, device, stream); },
      [&](Row& row, const Result<GraphHandle>& graph) {
        if (graph) on_ref(row, graphs_, graph->value);
      });
}

Result<ExecutableHandle> TapedDriver::graph_instantiate(int device, GraphHandle graph) {
  const auto made = [&] {
    const auto executable = next_.graph_instantiate(device, graph);
    const std::lock_guard hold(lock_);
    if (executable) executables_.erase(executable->value);
    return executable;
  };
  return row(
      Kind::graph_instantiate, "cuGraphInstantiateWithFlags", made, [&](Row& row) { on_device(row, device); },
      [&](Row& row, const Result<ExecutableHandle>& executable) {
        if (executable) on_ref(row, executables_, executable->value);
        std::unique_lock hold(lock_);
        const auto capture = ended_in_.find(graph.value);
        if (capture == ended_in_.end()) return;
        const std::uint64_t number = capture->second;
        hold.unlock();
        on_capture(row, number);
      });
}

Status TapedDriver::graph_launch(int device, ExecutableHandle executable, StreamHandle stream) {
  const std::vector<Use> uses = std::exchange(next_uses, {});
  const auto before = [&](Row& row) {
    on_stream(row, device, stream);
    std::unique_lock hold(lock_);
    if (!executables_.contains(executable.value)) row.flags |= kIncomplete;
    hold.unlock();
    on_ref(row, executables_, executable.value);
    row.uses = uses;  // beside those of its nodes
    taped::set(row, Column::uses);
  };
  return row(
      Kind::graph_launch, "cuGraphLaunch", [&] { return next_.graph_launch(device, executable, stream); }, before,
      [&](Row& row, Status status) {
        const auto times = next_.work_times();
        if (!times || status != Status::ok) return;
        row.begin_ns = times->begin_ns, row.end_ns = times->end_ns;
        row.known |= columns(Column::begin_ns, Column::end_ns);
      });
}

template <class Destroy>
Status TapedDriver::graph_row(std::string_view name, Refs& refs, std::uint64_t handle, Destroy&& destroy) {
  return row(
      Kind::graph_destroy, name, destroy, [&](Row& row) { on_ref(row, refs, handle); },
      [&](Row&, Status status) {
        const std::lock_guard hold(lock_);
        if (status == Status::ok) refs.erase(handle);
      });
}

Status TapedDriver::graph_destroy(int device, GraphHandle graph) {
  const Status status =
      graph_row("cuGraphDestroy", graphs_, graph.value, [&] { return next_.graph_destroy(device, graph); });
  const std::lock_guard hold(lock_);
  if (status == Status::ok) ended_in_.erase(graph.value);
  return status;
}

Status TapedDriver::executable_destroy(int device, ExecutableHandle executable) {
  return graph_row("cuGraphExecDestroy", executables_, executable.value,
                   [&] { return next_.executable_destroy(device, executable); });
}

}  // namespace forebay
