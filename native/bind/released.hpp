// released: a class whose end may wait for work, as Python sees it: the work may need the GIL, so the end lets go of
// it.
#pragma once

#include <Python.h>

namespace forebay {

class WithoutGil {
 protected:
  ~WithoutGil() {
    if (state_ != nullptr) PyEval_RestoreThread(state_);
  }
  void let_go() { state_ = PyEval_SaveThread(); }

 private:
  PyThreadState* state_ = nullptr;
};

// The base that was named first ends last.
template <class T>
class Released final : WithoutGil, public T {
 public:
  using T::T;
  ~Released() { let_go(); }
};

}  // namespace forebay
