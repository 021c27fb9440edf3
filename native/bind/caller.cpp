#include "bind/caller.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace nb = nanobind;

namespace forebay {
namespace {

constexpr std::size_t kDeepest = 64;  // frames; a recursion would make a site of every depth

// Under the GIL. Frames of files that begin like one of these are the runtime's own, not the program's; none: nobody
// wants frames. Whoever walks a stack holds them: a frame is an object, to make one may collect garbage, and what is
// collected may be the last who wanted them.
using Files = std::shared_ptr<const std::vector<std::string>>;
Files own_files;
std::size_t who_want = 0;

bool is_one_of(const Files& own, std::string_view file) {
  return std::any_of(own->begin(), own->end(), [&](const std::string& begin) { return file.starts_with(begin); });
}

std::string_view text_of(PyObject* text) {
  Py_ssize_t size = 0;
  const char* const first = PyUnicode_AsUTF8AndSize(text, &size);
  if (first == nullptr) PyErr_Clear();  // a file's name that is no text: said to be ""
  return first == nullptr ? std::string_view() : std::string_view(first, static_cast<std::size_t>(size));
}

// The text belongs to the code objects of frames that are under way: it outlives the call.
std::vector<SourceFrame> stack(const Files own) {
  std::vector<SourceFrame> frames;
  PyFrameObject* frame = PyThreadState_GetFrame(PyThreadState_Get());
  while (frame != nullptr && frames.size() < kDeepest) {
    PyCodeObject* const code = PyFrame_GetCode(frame);
    const std::string_view file = text_of(code->co_filename);
    if (!is_one_of(own, file))
      frames.push_back({file, static_cast<std::uint32_t>(PyFrame_GetLineNumber(frame)), text_of(code->co_qualname)});
    Py_DECREF(code);
    Py_DECREF(std::exchange(frame, PyFrame_GetBack(frame)));
  }
  Py_XDECREF(frame);
  return frames;
}

}  // namespace

FromPython::FromPython() {
  if (own_files) caller_.emplace(stack(own_files));
}

void bind_caller(nb::module_& m) {
  m.def(
      "note_callers",
      [](std::optional<std::vector<std::string>> own) {
        who_want = own ? who_want + 1 : who_want - (who_want > 0);
        if (own)
          own_files = std::make_shared<const std::vector<std::string>>(std::move(*own));
        else if (who_want == 0)
          own_files.reset();
      },
      nb::arg("own").none(),
      "From now on rows and reports get the stack of the call that makes them, without the frames whose file begins "
      "with one of `own`; until None was given as often: they get none then.");
}

}  // namespace forebay
