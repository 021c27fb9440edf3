#include "torch/words.hpp"

#include <array>
#include <charconv>
#include <cmath>

namespace forebay::torch {
namespace {

// By the pool's verdict.
const char* remedy(Verdict verdict) {
  switch (verdict) {
    case Verdict::pending:
      return "freed bytes would do, but streams still use them: synchronise those streams";
    case Verdict::stranded:
      return "idle bytes would do, but other streams or pools hold them: torch.cuda.empty_cache()";
    case Verdict::fragmented:
      return "fragmented, not full: give the large consumers pools of their own (forebay.adapters.torch.pool)";
    case Verdict::capped:
      return "the pool's own limit, while the device has room: raise the limit or the memory fraction";
    case Verdict::full:
      return "the device is full: free something, or lower what other pools and processes hold";
  }
  return "";
}

std::string joined(const std::vector<std::string>& names) {
  std::string all;
  for (const std::string& name : names) all += (all.empty() ? "" : ", ") + name;
  return all;
}

std::string figures(const Gauges& g, const std::optional<std::uint64_t>& limit) {
  return "largest free block " + size_in_words(g.largest_free_if_idle) + " (reserved " + size_in_words(g.reserved) +
         ", allocated " + size_in_words(g.allocated) + ", stranded " + size_in_words(g.stranded) + ", pending " +
         size_in_words(g.pending) + (limit ? ", limit " + size_in_words(*limit) : "") + ")";
}

std::string driver_words(const PoolFault& fault) {
  const std::string answered = std::string(fault.call) + " answered " + std::string(name_of(fault.status)) + " (" +
                               std::to_string(static_cast<int>(fault.status)) + ")";
  if (fault.status == Status::not_initialized)
    return answered + "; this process was forked after CUDA began: start it with spawn";
  if (fault.status == Status::deinitialized) return answered + "; the driver was shut down";
  return answered + (sticky(fault.status) ? "; the device is lost to this process" : "; the pool is as it was");
}

}  // namespace

std::string size_in_words(std::uint64_t bytes) {
  constexpr std::array units = {"B", "KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  auto amount = static_cast<double>(bytes);
  for (; amount >= 1024 && unit + 1 < units.size(); ++unit) amount /= 1024;
  const auto tenths = static_cast<std::uint64_t>(std::floor(amount * 10));
  const std::string fraction = unit == 0 ? "" : "." + std::to_string(tenths % 10);
  return std::to_string(tenths / 10) + fraction + " " + units[unit];
}

std::string address_in_words(Address address) {
  std::array<char, 16> digits{};
  const auto end = std::to_chars(digits.begin(), digits.end(), address, 16).ptr;
  return "0x" + std::string(digits.begin(), end);
}

std::string place_in_words(const std::string& site) { return site.empty() ? "a place that nobody saw" : site; }

std::string in_words(const Report& report) {
  const std::string block = "pool torch: the block of " + size_in_words(report.nbytes) + " at " +
                            address_in_words(report.address) + ", allocated at " + place_in_words(report.allocated_at) +
                            " for stream " + report.stream + ", ";
  const std::int64_t offset = report.offset.value_or(0);
  if (report.misuse != Misuse::overrun)
    return block + "freed at " + place_in_words(report.freed_at) + ", was written after that, at byte " +
           std::to_string(offset);
  const auto beyond = offset - static_cast<std::int64_t>(report.nbytes);
  return block + "was overrun, first " +
         (offset < 0 ? std::to_string(-offset) + " bytes before its begin"
                     : std::to_string(beyond + 1) + " bytes beyond its end");
}

std::string in_words(const PoolFault& fault, int device) {
  const std::string where = "forebay pool " + fault.pool + " of device " + std::to_string(device) + ": ";
  const std::string asked = "CUDA out of memory. Tried to allocate " + size_in_words(fault.asked) + ". " + where;
  switch (fault.code) {
    case PoolFault::Code::exhausted:
      return asked + figures(fault.gauges, fault.limit) + ": " + remedy(fault.verdict) +
             (fault.awaited.empty() ? "" : " (waiting for streams " + joined(fault.awaited) + ")");
    case PoolFault::Code::pending:
      return asked + "waited " + std::to_string(fault.waited_ns / 1'000'000) + " ms for frees on streams " +
             joined(fault.awaited) + ", " + figures(fault.gauges, fault.limit);
    case PoolFault::Code::impossible:
      return where + "asked " + size_in_words(fault.asked) + ", more than any device has; check the request";
    default:
      return where + driver_words(fault);
  }
}

}  // namespace forebay::torch
