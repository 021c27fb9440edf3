// _core.cuda: the driver over libcuda, and what a program needs besides the port where the device runs only its own
// code: work that somebody else's library issues, arrays for DLPack. What the calls do is driver/cuda.hpp's.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <string>
#include <vector>

#include "bind/caller.hpp"
#include "bind/fault.hpp"
#include "bind/module.hpp"
#include "bind/released.hpp"
#include "bind/uses.hpp"
#include "driver/cuda.hpp"

namespace nb = nanobind;

namespace forebay {
namespace {

using Open = nb::call_guard<Leaving>;
using BoundDriver = Released<CudaDriver>;

cuda::Loaded loaded_or_raise(const std::string& library) {
  cuda::Loaded loaded = [&] {
    const nb::gil_scoped_release open;
    return cuda::load(library);
  }();
  if (loaded.missing.empty()) return loaded;
  const nb::object type = nb::module_::import_("forebay.errors").attr("NotSupported");
  PyErr_SetString(type.ptr(), ("no CUDA device: " + loaded.missing).c_str());
  throw nb::python_error();
}

std::uint64_t adopt(BoundDriver& d, int device, std::uint64_t stream) {
  const auto id = d.adopt_stream(device, {stream});
  if (id) return *id;
  const std::string arguments = "device=" + std::to_string(device) + ", stream=" + std::to_string(stream);
  throw CallFailed(Call::stream_id, id.status(), arguments, d.failure());
}

// `run` issues the work before this returns; what it raises is raised from here.
void issue(Driver& d, int device, std::uint64_t stream, std::string name, nb::list uses, nb::object run) {
  Work work{.name = std::move(name), .cost_ns = {}, .uses = {}, .run = {}};
  for (nb::handle row : uses) work.uses.push_back(use_of(row));
  std::exception_ptr raised;
  work.run = [&raised, call = run.ptr()](std::span<void* const>) {
    const nb::gil_scoped_acquire gil;
    try {
      nb::borrow(call)();
    } catch (nb::python_error&) {
      raised = std::current_exception();
    }
    return Status::ok;
  };
  const Status status = [&] {
    const Leaving open{};
    return d.launch(device, {stream}, std::move(work));
  }();
  if (raised) std::rethrow_exception(raised);
  if (status != Status::ok) throw CallFailed(Call::launch, status, "device=" + std::to_string(device), d.failure());
}

// DLPack's capsule of device memory; `owner` lives until the consumer lets go of it.
nb::object capsule(std::uint64_t address, const std::vector<std::size_t>& shape, std::uint8_t code, std::uint8_t bits,
                   int device, nb::object owner) {
  const nb::dlpack::dtype type{code, bits, 1};
  const nb::ndarray<> array(reinterpret_cast<void*>(address), shape.size(), shape.data(), owner, nullptr, type,
                            nb::device::cuda::value, device);
  const nb::object made = nb::cast(array);  // some versions of nanobind wrap the capsule
  return PyCapsule_CheckExact(made.ptr()) ? made : nb::object(made.attr("__dlpack__")());
}

}  // namespace

void bind_cuda(nb::module_& m) {
  nb::module_ c = m.def_submodule("cuda", "The driver over libcuda.");
  nb::class_<BoundDriver, Driver>(c, "CudaDriver", "The devices of this machine, through a libcuda found at run time.")
      .def(
          "__init__",
          [](BoundDriver* self, const std::string& library) { new (self) BoundDriver(loaded_or_raise(library)); },
          nb::arg("library") = "libcuda.so.1",
          "`library` is a path, or what the loader looks for. Raises NotSupported, saying what is missing.")
      .def("adopt_stream", &adopt, nb::arg("device"), nb::arg("stream"), Open(),
           "Lets a stream through that somebody else made; returns its id. Raises DriverError.")
      .def(
          "forget_stream", [](BoundDriver& d, int device, std::uint64_t stream) { d.forget_stream(device, {stream}); },
          nb::arg("device"), nb::arg("stream"), Open(), "Before that stream is destroyed.")
      .def(
          "stay", [](BoundDriver& d, int device) { return d.stay(device) == Status::ok; }, nb::arg("device"), Open(),
          "The device's context is this thread's from now on; whether it is.")
      .def("fault_of", &BoundDriver::fault_of, nb::arg("device"), Open(),
           "Why no call reaches the device any more, or ok.");
  c.def(
      "issue", &issue, nb::arg("driver"), nb::arg("device"), nb::arg("stream"), nb::arg("name"), nb::arg("uses"),
      nb::arg("run"),
      "Work that `run`, a callable without arguments, issues on the stream's handle. `uses` are (address, size, mode, "
      "space), the last two as numbers.");
  c.def("capsule", &capsule, nb::arg("address"), nb::arg("shape"), nb::arg("code"), nb::arg("bits"), nb::arg("device"),
        nb::arg("owner"), "Device memory as a DLPack capsule of an unversioned tensor.");
}

}  // namespace forebay
