// view: a Python Tape (forebay.tape.rows.Tape) seen as a forebay::View, without a copy. For every binding that takes a
// tape.
#pragma once

#include <nanobind/nanobind.h>

#include "tape/columns.hpp"

namespace forebay {

// The columns of `tape`. Valid as long as the tape is: a tape keeps the arrays that it hands out. Arrays that are not
// contiguous or have another type raise TypeError, naming the column.
View view_of(nanobind::handle tape);

}  // namespace forebay
