// sim_memory: the memory of one simulated device (or the host's pinned memory): address ranges, segments, frames and
// mappings, with real bytes behind them from the first touch on. Locking is its owner's; time and streams are
// sim.cpp's.
//
// Note [Bytes on first touch]. Addresses are made up (no host pointer has them) and a frame is an extent of one sparse
// memory file. Until work touches a mapping nothing but these records exists: a what-if over a 140 GiB history costs no
// host memory. On the first touch the region's host range is reserved without access and the frame is mapped into it,
// so two mappings of one frame share bytes and a stray host access to the rest faults.
// Note [Stale views]. Work may still run while its mapping is removed (that is its bug, not a crash of the process):
// host pages are taken away in `settle`, when no view is out.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "driver/port.hpp"

namespace forebay::sim {

// Best fit over [begin, end), given-back extents coalesced. Deterministic.
class Extents {
 public:
  Extents(std::uint64_t begin, std::uint64_t end) { insert(begin, end - begin); }
  std::optional<std::uint64_t> take(std::uint64_t bytes);
  void give(std::uint64_t begin, std::uint64_t bytes);

 private:
  void insert(std::uint64_t begin, std::uint64_t bytes);
  void erase(std::uint64_t begin, std::uint64_t bytes);
  std::map<std::uint64_t, std::uint64_t> by_begin_;
  std::set<std::pair<std::uint64_t, std::uint64_t>> by_size_;
};

// A sparse file without a name, opened when it is first needed.
class MemoryFile {
 public:
  MemoryFile() = default;
  ~MemoryFile();
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  bool map(void* at, std::uint64_t bytes, std::uint64_t offset);
  void discard(std::uint64_t offset, std::uint64_t bytes);  // the pages go back to the host

 private:
  int open();
  int fd_ = -1;
};

// Where the memories of one driver have their addresses: as many slots in a row, of the process. No other driver has
// them while this one lives, and they come round again as late as can be, so that a recording of two machines, or of
// one that outlived another, does not take the bytes of one for the other's. Throws std::length_error where no slots
// are left.
class AddressSlots {
 public:
  explicit AddressSlots(int count);
  ~AddressSlots();
  AddressSlots(const AddressSlots&) = delete;
  AddressSlots& operator=(const AddressSlots&) = delete;
  int first() const { return first_; }

 private:
  int first_ = 0, count_;
};

class Memory {
 public:
  static constexpr std::uint64_t kGranularity = 2u << 20;  // an H200's
  static constexpr std::uint64_t kSpan = 1ull << 44;       // addresses of one memory
  static constexpr std::uint64_t kRounding = 512;          // of a segment's bytes

  Memory(int slot, std::uint64_t capacity);
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  // Which memory an address belongs to by its value alone: the `slot` above. Never of a host pointer.
  static std::optional<int> address_slot(Address address);

  Result<Address> malloc(std::uint64_t bytes);
  bool is_segment(Address address) const;
  Result<std::uint64_t> free(Address segment);  // the bytes it had
  Result<Address> reserve_range(std::uint64_t bytes);
  Status release_range(Address address, std::uint64_t bytes);
  Result<FrameHandle> create(std::uint64_t bytes);
  Result<std::uint64_t> release(FrameHandle frame);  // the bytes it has
  Status map(Address address, std::uint64_t bytes, FrameHandle frame);
  Status set_access(int device, Address address, std::uint64_t bytes);
  Status unmap(Address address, std::uint64_t bytes);

  // The bytes on the host, contiguous, for work of that device (none: of whichever was let in); `illegal_address` where
  // a byte is not mapped with access, `out_of_memory` where the host has no addresses left. Segments are open to all.
  Result<void*> view(std::optional<int> device, Address address, std::uint64_t bytes);
  void settle();  // see Note [Stale views]

  std::uint64_t capacity() const { return capacity_; }
  std::uint64_t used() const { return used_; }
  std::size_t segments() const { return segments_; }
  std::size_t ranges() const { return regions_.size() - segments_; }
  std::size_t frames() const { return frames_.size() - free_slots_.size() - segments_; }
  std::size_t mappings() const { return mappings_.size() - segments_; }

 private:
  struct Region {
    std::uint64_t bytes;
    bool segment;
    char* host = nullptr;
  };
  struct Frame {
    std::uint64_t bytes = 0;
    std::uint32_t mappings = 0;
    bool held = false;  // its handle was not released
    std::optional<std::uint64_t> offset;
  };
  struct Mapping {
    std::uint64_t bytes;
    std::uint32_t frame;
    std::vector<int> open_to;  // devices
    bool shown, segment;
    bool lets_in(std::optional<int> device) const;
  };
  using Regions = std::map<Address, Region>;
  using Mappings = std::map<Address, Mapping>;
  struct Stale {
    char* host;
    std::uint64_t bytes;
    Address address;  // 0: the range itself is gone
  };

  std::optional<std::uint32_t> slot_of(FrameHandle frame) const;
  std::uint32_t add_frame(std::uint64_t bytes);
  void drop_frame_if_dead(std::uint32_t slot);
  Regions::iterator region_of(Address address, std::uint64_t bytes);
  bool mapped_in(Address address, std::uint64_t bytes) const;
  bool whole_mappings(Address address, std::uint64_t bytes) const;
  void drop_mapping(Mappings::iterator mapping);
  void drop_region(Regions::iterator region);
  char* host_of(Address address);
  Status show(Address address, Mapping& mapping);

  int slot_;
  Address base_;
  std::uint64_t capacity_, used_ = 0;
  std::size_t segments_ = 0;
  Extents addresses_;
  Extents offsets_{0, kSpan};
  Regions regions_;
  Mappings mappings_;
  std::vector<Frame> frames_;
  std::vector<std::uint32_t> free_slots_;
  std::vector<Stale> stale_;
  MemoryFile file_;
};

}  // namespace forebay::sim
