#include "driver/cost.hpp"

#include <algorithm>

namespace forebay {

namespace {

constexpr std::uint64_t kMiB = 1u << 20, kGiB = 1u << 30;
constexpr std::int64_t kUs = 1000, kMs = 1000 * kUs;

// Source: the guide's table (driver malloc 10-50 us, free = device sync, launch 5-10 us, pinned alloc milliseconds,
// pool hit 100 ns). Where it is silent: mapping calls and what a copy takes whatever its size as measured on the H200
// below, a PCIe 4 link and HBM2e's rate; captures as measured on the H200, but for the launch of a graph, which is one
// launch.
Costs guide() {
  return {.malloc = {{512, 10 * kUs}, {2 * kMiB, 20 * kUs}, {512 * kMiB, 50 * kUs}},
          .free = 10 * kUs,
          .host_alloc = {{kMiB, kMs}, {64 * kMiB, 30 * kMs}, {512 * kMiB, 240 * kMs}, {4 * kGiB, 1920 * kMs}},
          .host_free = {{kMiB, kMs / 4}, {512 * kMiB, 50 * kMs}},
          .reserve_range = 45 * kUs,
          .release_range = 10 * kUs,
          .create = 8 * kUs,
          .release = 10 * kUs,
          .map = kUs,
          .set_access = 23 * kUs,
          .unmap = 15 * kUs,
          .launch = 7 * kUs,
          .record = 230,
          .wait = 220,
          .query = 190,
          .sync = 5 * kUs,
          .stream_create = 10 * kUs,
          .event_create = kUs,
          .capture_begin = 390,
          .capture_node = 500,
          .capture_end = {{1, 180}, {100, 2200}, {1000, 34600}},
          .graph_instantiate = {{1, 5800}, {100, 154 * kUs}, {1000, 1772 * kUs}},
          .executable_destroy = {{1, 3300}, {100, 37300}, {1000, 421 * kUs}},
          .graph_launch = 7 * kUs,
          .pool_hit = 100,
          .kernel = 10 * kUs,
          .copy_within = 1900,
          .copy_down = 5400,
          .copy_other = 2400,
          .device_bytes_per_us = 1'500'000,
          .host_bytes_per_us = 25'000};
}

// Source: medians of one H200 (driver 580.159, CUDA 13.0), device idle. Copies: what each adds to a stream of kernels,
// 128 B and 64 MiB, pinned memory: 5.4 us and 1224 us down, 2.5 us and 1225 us up, 1.9 us and 35 us within the device.
Costs h200() {
  Costs c = guide();
  c.malloc = {
      {512, 1400}, {2 * kMiB, 38 * kUs}, {512 * kMiB, 67 * kUs}, {4 * kGiB, 193 * kUs}, {64 * kGiB, 2353 * kUs}};
  c.free = {{512, 1400}, {2 * kMiB, 30 * kUs}, {512 * kMiB, 186 * kUs}, {4 * kGiB, 1554 * kUs}, {64 * kGiB, 25 * kMs}};
  c.host_alloc = {{kMiB, 700 * kUs}, {64 * kMiB, 30600 * kUs}, {512 * kMiB, 234 * kMs}, {4 * kGiB, 1872 * kMs}};
  c.host_free = {{kMiB, 200 * kUs}, {64 * kMiB, 6100 * kUs}, {512 * kMiB, 52 * kMs}, {4 * kGiB, 416 * kMs}};
  c.create = 8300;
  c.release = {{2 * kMiB, 9100}, {20 * kMiB, 13300}};
  c.map = 700;
  c.set_access = 22800;
  c.unmap = 14500;
  c.launch = 3500;
  c.graph_launch = {{1, 2080}, {100, 2390}, {300, 3250}, {1000, 5430}};
  c.sync = 9700;
  c.device_bytes_per_us = 2'000'000;
  c.host_bytes_per_us = 55'000;
  return c;
}

}  // namespace

std::int64_t Curve::at(std::uint64_t bytes) const {
  const auto above = std::find_if(points_.begin(), points_.end(), [bytes](const Point& p) { return bytes <= p.bytes; });
  if (above == points_.begin()) return points_.front().ns;
  if (above == points_.end()) return points_.back().ns;
  const Point &lo = above[-1], &hi = above[0];
  const double part = static_cast<double>(bytes - lo.bytes) / static_cast<double>(hi.bytes - lo.bytes);
  return lo.ns + static_cast<std::int64_t>(part * static_cast<double>(hi.ns - lo.ns));
}

std::int64_t Costs::copy(Way way, std::uint64_t bytes) const {
  const std::int64_t start = way == Way::within ? copy_within : way == Way::down ? copy_down : copy_other;
  const auto rate = static_cast<double>(way == Way::within ? device_bytes_per_us : host_bytes_per_us);
  return start + static_cast<std::int64_t>(static_cast<double>(bytes) * 1000 / rate);
}

Result<Costs> costs_named(std::string_view preset) {
  if (preset == "guide") return guide();
  if (preset == "h200") return h200();
  return Status::invalid_value;
}

}  // namespace forebay
