#include "bind/fault.hpp"

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

namespace nb = nanobind;

namespace forebay {
namespace {

// Why, and what to do next, for the statuses that a caller can do something about.
const char* advice(Status status) {
  switch (status) {
    case Status::out_of_memory:
      return "; free or trim something, or give the device more capacity";
    case Status::invalid_handle:
      return "; it was destroyed, or belongs to another device";
    case Status::illegal_address:
    case Status::launch_failed:
      return "; the device is lost: make a new one";
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
                             " (" + std::to_string(static_cast<int>(e.status)) + ")" + advice(e.status);
    const nb::object type = nb::module_::import_("forebay.errors").attr("DriverError");
    const nb::object error = type(text, nb::arg("call") = name_of(e.call).data(),
                                  nb::arg("status") = static_cast<int>(e.status), nb::arg("sticky") = sticky(e.status));
    PyErr_SetObject(type.ptr(), error.ptr());
  }
}

}  // namespace

void bind_faults() { nb::register_exception_translator(translate); }

}  // namespace forebay
