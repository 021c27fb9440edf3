#include "bind/fault.hpp"

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

namespace nb = nanobind;

namespace forebay {
namespace {

// Why, and what to do next, for the statuses that a caller can do something about.
const char* advice(Status status) {
  if (sticky(status)) return "; the device is lost: make a new one; on CUDA only a new process can";
  switch (status) {
    case Status::out_of_memory:
      return "; free or trim something, or use a device with more memory";
    case Status::invalid_handle:
      return "; it was destroyed, or belongs to another device";
    case Status::not_initialized:
      return "; a forked child can never use its parent's devices: make them after the fork, or start with spawn";
    case Status::deinitialized:
      return "; the driver was shut down: nothing works any more in this process";
    case Status::capture_unsupported:
    case Status::capture_invalidated:
      return "; not while a stream captures: make the call before the capture begins or after it ends";
    case Status::not_permitted:
      return "; call it outside kernels and host functions";
    case Status::not_supported:
      return "; this device cannot";
    default:
      return "; check its arguments";
  }
}

void translate(const std::exception_ptr& thrown, void*) {
  try {
    std::rethrow_exception(thrown);
  } catch (const CallFailed& e) {
    const std::string text = std::string(name_of(e.call)) + "(" + e.arguments + "): " + std::string(name_of(e.status)) +
                             " (" + std::to_string(static_cast<int>(e.status)) + ")" +
                             (e.underneath.empty() ? "" : ": " + e.underneath) + advice(e.status);
    const nb::object type = nb::module_::import_("forebay.errors").attr("DriverError");
    const nb::object error = type(text, nb::arg("call") = name_of(e.call).data(),
                                  nb::arg("status") = static_cast<int>(e.status), nb::arg("sticky") = sticky(e.status));
    PyErr_SetObject(type.ptr(), error.ptr());
  }
}

}  // namespace

void bind_faults() { nb::register_exception_translator(translate); }

}  // namespace forebay
