// fault: how a driver's status becomes Python's DriverError: thrown without the GIL, translated with it. What a status
// means is driver/status.hpp's.
#pragma once

#include <exception>
#include <string>
#include <utility>

#include "driver/call.hpp"
#include "driver/status.hpp"

namespace forebay {

struct CallFailed final : std::exception {
  CallFailed(Call c, Status s, std::string a, std::string u = {})
      : call(c), status(s), arguments(std::move(a)), underneath(std::move(u)) {}
  Call call;
  Status status;
  std::string arguments;   // "device=0, bytes=512"
  std::string underneath;  // what the driver says of it (Driver::failure)
};

// Once a module: CallFailed becomes forebay.errors.DriverError.
void bind_faults();

}  // namespace forebay
