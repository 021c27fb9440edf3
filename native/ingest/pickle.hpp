// pickle: reads a pickle (protocols 0 to 5) of plain builtins into a document. Nothing in it can be called, imported or
// built: an opcode that names a class is refused where it stands. What the values mean is snapshot.cpp's.
#pragma once

#include <string_view>

#include "ingest/document.hpp"

namespace forebay::ingest {

// The document refers to `input`, which must outlive it. Time and memory are linear in the input, whatever lengths it
// claims. Throws Fault, naming the byte offset. Opcodes: Python's documentation of pickletools.
Document read_pickle(std::string_view input);

}  // namespace forebay::ingest
