// arrow: a growing Arrow IPC stream of tape rows (https://arrow.apache.org/docs/format/Columnar.html), written without
// any library, so that a recorded process needs none. Who batches rows is recorder.hpp's; reading is Python's.
//
// The schema is fixed: every column of events.hpp, nullable but `kind`. A cell that its kind does not fill, or whose
// value is unknown, is null. No dictionaries and no footer: whatever whole batches are in the file can be read.
#pragma once

#include <span>
#include <string>
#include <utility>

#include "tape/columns.hpp"

namespace forebay {

using Metadata = std::span<const std::pair<std::string, std::string>>;

class ArrowStream {
 public:
  // Makes or empties the file and writes the schema; throws std::system_error. "forebay.schema" and "forebay.kinds" are
  // added to the metadata.
  ArrowStream(const std::string& path, Metadata metadata);
  ~ArrowStream();
  ArrowStream(const ArrowStream&) = delete;
  ArrowStream& operator=(const ArrowStream&) = delete;

  // One batch by one write(2). Returns 0, or errno: the file then ends with the batch before, and stays so.
  int write(const Columns& rows);
  // Writes the end mark; the file is complete. Returns 0 or errno.
  int close();

 private:
  int put(const std::string& bytes);

  int file_ = -1;
  long long size_ = 0;
};

inline constexpr int kSchemaVersion = 1;

}  // namespace forebay
