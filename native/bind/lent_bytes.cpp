#include "bind/lent_bytes.hpp"

namespace nb = nanobind;

namespace forebay {
namespace {

int get_buffer(PyObject* self, Py_buffer* view, int flags) {
  LentBytes& bytes = *nb::inst_ptr<LentBytes>(nb::handle(self));
  if (!bytes.data) {
    PyErr_SetString(PyExc_BufferError, "these bytes were given back");
    return -1;
  }
  const int status =
      PyBuffer_FillInfo(view, self, bytes.data, static_cast<Py_ssize_t>(bytes.size), !bytes.writable, flags);
  if (status == 0) ++bytes.lookers;
  return status;
}

void release_buffer(PyObject* self, Py_buffer*) { --nb::inst_ptr<LentBytes>(nb::handle(self))->lookers; }

}  // namespace

void bind_lent_bytes(nb::module_& m) {
  static PyType_Slot slots[] = {{Py_bf_getbuffer, reinterpret_cast<void*>(get_buffer)},
                                {Py_bf_releasebuffer, reinterpret_cast<void*>(release_buffer)},
                                {0, nullptr}};
  nb::class_<LentBytes>(m, "LentBytes", nb::type_slots(slots),
                        "Bytes with the buffer protocol, lent until `give_back`.")
      .def(
          "give_back",
          [](LentBytes& self) {
            self.data = nullptr;
            return self.lookers == 0;
          },
          "Nobody gets at them from now on; false: somebody still looks at them.");
}

}  // namespace forebay
