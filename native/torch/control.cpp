// control: what Python calls of the library, through ctypes: plain C that throws nothing. What fails answers false and
// writes one line; whoever calls gives room for it.
#include <algorithm>
#include <array>
#include <cstring>
#include <string>

#include "torch/service.hpp"
#include "torch/words.hpp"

#define FOREBAY_CONTROL extern "C" __attribute__((visibility("default")))

namespace forebay::torch {
namespace {

constexpr std::uint64_t kNone = ~std::uint64_t{0};
constexpr std::size_t kRoom = 512;  // of every text that is written, its end included

using AskSite = void (*)(char* text, std::size_t room);
std::atomic<AskSite> ask_site{nullptr};

std::string site() {
  std::array<char, kRoom> text{};
  if (const AskSite ask = ask_site.load()) ask(text.data(), text.size());
  return text.data();
}

void write(char* to, const std::string& text) {
  const std::size_t n = std::min(text.size(), kRoom - 1);
  std::memcpy(to, text.data(), n);
  to[n] = 0;
}

template <class F>
bool told(char* why, int device, F call) {
  try {
    call();
    return true;
  } catch (const PoolFault& fault) {
    write(why, in_words(fault, device));
  } catch (const std::exception& error) {
    write(why, error.what());
  }
  return false;
}

std::optional<std::uint64_t> maybe(std::uint64_t bytes) { return bytes == kNone ? std::nullopt : std::optional(bytes); }
// 0 segments, 1 frames, 2 whichever suits.
std::optional<GrowBy> growth_of(int number) {
  if (number == 2) return std::nullopt;
  return number == 1 ? GrowBy::frames : GrowBy::segments;
}

}  // namespace

// Bytes are 2^64-1 for none.
FOREBAY_CONTROL bool forebay_torch_set(const char* libcuda, std::uint64_t limit, int growth, std::uint64_t quarantine,
                                       char* why) {
  return told(why, 0,
              [&] { Service::only().set({libcuda, maybe(limit), maybe(quarantine), growth_of(growth), &site}); });
}

FOREBAY_CONTROL bool forebay_torch_started() { return Service::only().started(); }

// Who tells where in the program a call comes from; null: nobody.
FOREBAY_CONTROL void forebay_torch_sites(AskSite ask) { ask_site.store(ask); }

// As PyTorch's calls, but what fails is told. A stream is its handle.
FOREBAY_CONTROL bool forebay_torch_try(std::size_t bytes, int device, std::uint64_t stream, std::uint64_t* address,
                                       char* why) {
  return told(why, device, [&] { *address = Service::only().alloc(bytes, device, stream); });
}

FOREBAY_CONTROL bool forebay_torch_vouch(int device, std::uint64_t stream, char* why) {
  return told(why, device, [&] { Service::only().at(device).streams().vouch(stream); });
}

// The number of a consumer of that name; 0: refused. Its limit and growth are those of its first call.
FOREBAY_CONTROL std::size_t forebay_torch_consumer(const char* name, std::uint64_t limit, int growth, char* why) {
  std::size_t number = 0;
  told(why, 0, [&] { number = Service::only().consumer({name, maybe(limit), growth_of(growth)}); });
  return number;
}
FOREBAY_CONTROL void forebay_torch_enter(std::size_t consumer) { Service::only().enter(consumer); }
FOREBAY_CONTROL void forebay_torch_leave() { Service::only().leave(); }

// The names of a pool's figures, with spaces between.
FOREBAY_CONTROL const char* forebay_torch_gauge_names() {
#define X(name) #name " "
  return FOREBAY_POOL_GAUGES(X);
#undef X
}

// The device's pool by number, with its name and figures; false: there are no more.
FOREBAY_CONTROL bool forebay_torch_gauges(int device, std::size_t pool, char* name, std::uint64_t* figures) {
  DevicePools* const pools = Service::only().used(device);
  if (pools == nullptr) return false;
  const auto all = pools->gauges();
  if (pool >= all.size()) return false;
  write(name, all[pool].first);
  const Gauges& g = all[pool].second;
#define X(name) *figures++ = g.name;
  FOREBAY_POOL_GAUGES(X)
#undef X
  return true;
}

// Bytes that all pools of the device have reserved, now and at most so far.
FOREBAY_CONTROL void forebay_torch_reserved(int device, std::uint64_t* now, std::uint64_t* peak) {
  DevicePools* const pools = Service::only().used(device);
  *now = pools == nullptr ? 0 : pools->reserved();
  *peak = pools == nullptr ? 0 : pools->peak();
}
FOREBAY_CONTROL void forebay_torch_reset_peak(int device) {
  if (DevicePools* const pools = Service::only().used(device)) pools->reset_peak();
}
FOREBAY_CONTROL std::uint64_t forebay_torch_unknown_frees() { return Service::only().unknown_frees(); }

// Debug mode: what DevicePools has. Of a device that was not used there is nothing to say.
FOREBAY_CONTROL void forebay_torch_used(int device, std::uint64_t address, std::uint64_t stream, const char* name,
                                        const char* site) {
  std::array<char, kRoom> unsaid{};  // a stream that cannot be asked for was used by nobody
  if (DevicePools* const pools = Service::only().used(device))
    told(unsaid.data(), device, [&] { pools->used(address, stream, name, site); });
}
FOREBAY_CONTROL bool forebay_torch_check(int device, char* why) {
  return told(why, device, [&] {
    if (DevicePools* const pools = Service::only().used(device)) pools->check();
  });
}
// One by number, in `room` bytes; false: there are no more.
FOREBAY_CONTROL bool forebay_torch_report(int device, std::size_t number, char* text, std::size_t room) {
  DevicePools* const pools = Service::only().used(device);
  if (pools == nullptr) return false;
  const std::vector<std::string> all = pools->reports();
  if (number >= all.size()) return false;
  all[number].copy(text, room - 1);
  text[std::min(all[number].size(), room - 1)] = 0;
  return true;
}

// What is wrong with a device's pools; empty: nothing. For when no other thread is in them.
FOREBAY_CONTROL void forebay_torch_walk(int device, char* what) {
  DevicePools* const pools = Service::only().used(device);
  write(what, pools == nullptr ? "" : pools->walk().value_or(""));
}

}  // namespace forebay::torch
