#include "driver/status.hpp"

namespace forebay {

std::string_view name_of(Status s) {
  switch (s) {
#define X(status, number, words) \
  case Status::status:           \
    return words;
    FOREBAY_STATUS_TABLE(X)
#undef X
  }
  return "unknown error";
}

}  // namespace forebay
