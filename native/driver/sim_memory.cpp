#include "driver/sim_memory.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <bitset>
#include <mutex>
#include <stdexcept>
#include <string>

namespace forebay::sim {

namespace {

// Above every user address of x86-64 (47 bits) and aarch64 (48 bits), below 2^53 so that JSON keeps it exact.
constexpr Address kFirstAddress = 1ull << 48, kEndAddress = 1ull << 53;
constexpr int kSlots = static_cast<int>((kEndAddress - kFirstAddress) / Memory::kSpan);
constexpr std::uint64_t rounded(std::uint64_t bytes, std::uint64_t step) { return (bytes + step - 1) / step * step; }
constexpr bool aligned(std::uint64_t value) { return value % Memory::kGranularity == 0; }

}  // namespace

// ---- extents

void Extents::insert(std::uint64_t begin, std::uint64_t bytes) {
  by_begin_.emplace(begin, bytes);
  by_size_.emplace(bytes, begin);
}

void Extents::erase(std::uint64_t begin, std::uint64_t bytes) {
  by_begin_.erase(begin);
  by_size_.erase({bytes, begin});
}

std::optional<std::uint64_t> Extents::take(std::uint64_t bytes) {
  const auto fit = by_size_.lower_bound({bytes, 0});
  if (fit == by_size_.end()) return std::nullopt;
  const auto [size, begin] = *fit;
  erase(begin, size);
  if (size > bytes) insert(begin + bytes, size - bytes);
  return begin;
}

void Extents::give(std::uint64_t begin, std::uint64_t bytes) {
  const auto next = by_begin_.upper_bound(begin);
  std::uint64_t end = begin + bytes;
  if (next != by_begin_.begin()) {
    const auto [before, size] = *std::prev(next);
    if (before + size == begin) {
      erase(before, size);
      begin = before;
    }
  }
  if (const auto after = by_begin_.find(end); after != by_begin_.end()) {
    const std::uint64_t size = after->second;
    erase(end, size);
    end += size;
  }
  insert(begin, end - begin);
}

// ---- the file

MemoryFile::~MemoryFile() {
  if (fd_ >= 0) ::close(fd_);
}

int MemoryFile::open() {
  if (fd_ >= 0) return fd_;
#ifdef MFD_CLOEXEC
  fd_ = ::memfd_create("forebay", MFD_CLOEXEC);
#else
  const std::string name =
      "/forebay." + std::to_string(::getpid()) + "." + std::to_string(reinterpret_cast<std::uintptr_t>(this));
  fd_ = ::shm_open(name.c_str(), O_RDWR | O_CREAT | O_EXCL, 0600);
  if (fd_ >= 0) ::shm_unlink(name.c_str());
#endif
  if (fd_ >= 0 && ::ftruncate(fd_, static_cast<off_t>(Memory::kSpan)) != 0) {
    ::close(fd_);
    fd_ = -1;
  }
  return fd_;
}

bool MemoryFile::map(void* at, std::uint64_t bytes, std::uint64_t offset) {
  return open() >= 0 && ::mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd_,
                               static_cast<off_t>(offset)) != MAP_FAILED;
}

void MemoryFile::discard(std::uint64_t offset, std::uint64_t bytes) {
#ifdef FALLOC_FL_PUNCH_HOLE
  // Only host memory is at stake: a host that cannot punch keeps the pages until the file is closed.
  (void)::fallocate(fd_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
                    static_cast<off_t>(bytes));
#else
  (void)offset, (void)bytes;
#endif
}

// ---- slots

namespace {

struct Taken {
  std::mutex lock;
  std::bitset<kSlots> slots;
  int next = 0;
};

Taken& taken() {
  static Taken* const taken = new Taken;  // never destroyed: drivers may outlive the end of main
  return *taken;
}

}  // namespace

AddressSlots::AddressSlots(int count) : count_(count) {
  Taken& t = taken();
  const std::lock_guard hold(t.lock);
  for (int tried = 0; tried < kSlots; ++tried) {
    const int first = (t.next + tried) % kSlots;
    int run = 0;
    while (run < count && first + run < kSlots && !t.slots[static_cast<std::size_t>(first + run)]) ++run;
    if (run < count) continue;
    for (int i = 0; i < count; ++i) t.slots.set(static_cast<std::size_t>(first + i));
    first_ = first;
    t.next = (first + count) % kSlots;
    return;
  }
  throw std::length_error("the simulated devices alive in this process have all the addresses there are");
}

AddressSlots::~AddressSlots() {
  Taken& t = taken();
  const std::lock_guard hold(t.lock);
  for (int i = 0; i < count_; ++i) t.slots.reset(static_cast<std::size_t>(first_ + i));
}

// ---- regions

Memory::Memory(int slot, std::uint64_t capacity)
    : slot_(slot),
      base_(kFirstAddress + static_cast<std::uint64_t>(slot) * kSpan),
      capacity_(capacity),
      addresses_(base_, base_ + kSpan) {}

Memory::~Memory() {
  settle();
  for (auto& [address, region] : regions_)
    if (region.host) ::munmap(region.host, region.bytes);
}

std::optional<int> Memory::address_slot(Address address) {
  if (address < kFirstAddress || address >= kEndAddress) return std::nullopt;
  return static_cast<int>((address - kFirstAddress) / kSpan);
}

Result<Address> Memory::malloc(std::uint64_t bytes) {
  if (bytes == 0) return Status::invalid_value;
  const std::uint64_t physical = rounded(bytes, kRounding);
  if (bytes > capacity_ || physical > capacity_ - used_) return Status::out_of_memory;
  const std::uint64_t span = rounded(bytes, kGranularity);
  const auto address = addresses_.take(span);
  if (!address) return Status::out_of_memory;
  const std::uint32_t slot = add_frame(physical);
  frames_[slot].mappings = 1;
  regions_.emplace(*address, Region{span, true});
  mappings_.emplace(*address, Mapping{physical, slot, {}, false, true});
  ++segments_;
  return *address;
}

bool Memory::is_segment(Address address) const {
  const auto region = regions_.find(address);
  return region != regions_.end() && region->second.segment;
}

Result<std::uint64_t> Memory::free(Address segment) {
  const auto region = regions_.find(segment);
  if (region == regions_.end() || !region->second.segment) return Status::invalid_value;
  const auto mapping = mappings_.find(segment);
  const std::uint64_t bytes = mapping->second.bytes;
  --segments_;
  drop_mapping(mapping);
  drop_region(region);
  return bytes;
}

Result<Address> Memory::reserve_range(std::uint64_t bytes) {
  if (bytes == 0 || !aligned(bytes)) return Status::invalid_value;
  const auto address = addresses_.take(bytes);
  if (!address) return Status::out_of_memory;
  regions_.emplace(*address, Region{bytes, false});
  return *address;
}

Status Memory::release_range(Address address, std::uint64_t bytes) {
  const auto region = regions_.find(address);
  if (region == regions_.end() || region->second.segment || region->second.bytes != bytes || mapped_in(address, bytes))
    return Status::invalid_value;
  drop_region(region);
  return Status::ok;
}

void Memory::drop_region(Regions::iterator region) {
  if (region->second.host) stale_.push_back({region->second.host, region->second.bytes, 0});
  addresses_.give(region->first, region->second.bytes);
  regions_.erase(region);
}

Memory::Regions::iterator Memory::region_of(Address address, std::uint64_t bytes) {
  auto region = regions_.upper_bound(address);
  if (region == regions_.begin()) return regions_.end();
  --region;
  const std::uint64_t into = address - region->first;
  return into < region->second.bytes && bytes <= region->second.bytes - into ? region : regions_.end();
}

// ---- frames

std::optional<std::uint32_t> Memory::slot_of(FrameHandle frame) const {
  const std::uint64_t slot = (frame.value & 0xffffffff) - 1;
  if (frame.value >> 32 != static_cast<std::uint64_t>(slot_) || slot >= frames_.size() || !frames_[slot].held)
    return std::nullopt;
  return static_cast<std::uint32_t>(slot);
}

std::uint32_t Memory::add_frame(std::uint64_t bytes) {
  used_ += bytes;
  if (free_slots_.empty()) {
    frames_.emplace_back();
    free_slots_.push_back(static_cast<std::uint32_t>(frames_.size() - 1));
  }
  const std::uint32_t slot = free_slots_.back();
  free_slots_.pop_back();
  frames_[slot] = Frame{.bytes = bytes, .mappings = 0, .held = false, .offset = std::nullopt};
  return slot;
}

void Memory::drop_frame_if_dead(std::uint32_t slot) {
  Frame& frame = frames_[slot];
  if (frame.held || frame.mappings > 0) return;
  used_ -= frame.bytes;
  if (frame.offset) {
    const std::uint64_t extent = rounded(frame.bytes, kGranularity);
    file_.discard(*frame.offset, extent);
    offsets_.give(*frame.offset, extent);
  }
  free_slots_.push_back(slot);
}

Result<FrameHandle> Memory::create(std::uint64_t bytes) {
  if (bytes == 0 || !aligned(bytes)) return Status::invalid_value;
  if (bytes > capacity_ || bytes > capacity_ - used_) return Status::out_of_memory;
  const std::uint32_t slot = add_frame(bytes);
  frames_[slot].held = true;
  return FrameHandle{(static_cast<std::uint64_t>(slot_) << 32) + slot + 1};
}

Result<std::uint64_t> Memory::release(FrameHandle frame) {
  const auto slot = slot_of(frame);
  if (!slot) return Status::invalid_value;
  const std::uint64_t bytes = frames_[*slot].bytes;
  frames_[*slot].held = false;
  drop_frame_if_dead(*slot);
  return bytes;
}

// ---- mappings

bool Memory::mapped_in(Address address, std::uint64_t bytes) const {
  auto next = mappings_.lower_bound(address + bytes);
  if (next == mappings_.begin()) return false;
  --next;
  return next->first + next->second.bytes > address;
}

bool Memory::whole_mappings(Address address, std::uint64_t bytes) const {
  const Address end = address + bytes;
  auto mapping = mappings_.find(address);
  while (address < end && mapping != mappings_.end() && mapping->first == address) {
    address += mapping->second.bytes;
    ++mapping;
  }
  return address == end;
}

Status Memory::map(Address address, std::uint64_t bytes, FrameHandle frame) {
  const auto slot = slot_of(frame);
  if (!slot || !aligned(address)) return Status::invalid_value;
  if (bytes != frames_[*slot].bytes) return Status::not_supported;  // as an H200 answers to a part of a frame
  const auto region = region_of(address, bytes);
  if (region == regions_.end() || region->second.segment || mapped_in(address, bytes)) return Status::invalid_value;
  ++frames_[*slot].mappings;
  mappings_.emplace(address, Mapping{bytes, *slot, {}, false, false});
  return Status::ok;
}

Status Memory::set_access(int device, Address address, std::uint64_t bytes) {
  const auto region = region_of(address, bytes);
  if (bytes == 0 || region == regions_.end() || region->second.segment || !whole_mappings(address, bytes))
    return Status::invalid_value;
  for (auto m = mappings_.find(address); m != mappings_.end() && m->first < address + bytes; ++m)
    if (!m->second.lets_in(device)) m->second.open_to.push_back(device);
  return Status::ok;
}

Status Memory::unmap(Address address, std::uint64_t bytes) {
  const auto region = region_of(address, bytes);
  if (bytes == 0 || region == regions_.end() || region->second.segment || !whole_mappings(address, bytes))
    return Status::invalid_value;
  for (auto m = mappings_.find(address); m != mappings_.end() && m->first < address + bytes;) drop_mapping(m++);
  return Status::ok;
}

void Memory::drop_mapping(Mappings::iterator mapping) {
  if (mapping->second.shown) stale_.push_back({host_of(mapping->first), mapping->second.bytes, mapping->first});
  const std::uint32_t slot = mapping->second.frame;
  mappings_.erase(mapping);
  --frames_[slot].mappings;
  drop_frame_if_dead(slot);
}

// ---- bytes

char* Memory::host_of(Address address) {
  const auto region = region_of(address, 1);
  if (!region->second.host) {
    void* host = ::mmap(nullptr, region->second.bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (host == MAP_FAILED) return nullptr;
    region->second.host = static_cast<char*>(host);
  }
  return region->second.host + (address - region->first);
}

Status Memory::show(Address address, Mapping& mapping) {
  Frame& frame = frames_[mapping.frame];
  char* host = host_of(address);
  if (!host) return Status::out_of_memory;
  if (!frame.offset) frame.offset = offsets_.take(rounded(frame.bytes, kGranularity));
  if (!frame.offset || !file_.map(host, mapping.bytes, *frame.offset)) return Status::out_of_memory;
  mapping.shown = true;
  return Status::ok;
}

bool Memory::Mapping::lets_in(std::optional<int> device) const {
  if (segment || !device) return segment || !open_to.empty();
  return std::find(open_to.begin(), open_to.end(), *device) != open_to.end();
}

Result<void*> Memory::view(std::optional<int> device, Address address, std::uint64_t bytes) {
  auto mapping = mappings_.upper_bound(address);
  if (region_of(address, bytes) == regions_.end() || mapping == mappings_.begin()) return Status::illegal_address;
  --mapping;
  for (Address at = address; at < address + bytes; ++mapping) {
    const bool covers =
        mapping != mappings_.end() && mapping->first <= at && at < mapping->first + mapping->second.bytes;
    if (!covers || !mapping->second.lets_in(device)) return Status::illegal_address;
    if (!mapping->second.shown)
      if (const Status s = show(mapping->first, mapping->second); s != Status::ok) return s;
    at = mapping->first + mapping->second.bytes;
  }
  return static_cast<void*>(host_of(address));
}

void Memory::settle() {
  for (const Stale& stale : stale_) {
    if (!stale.address) {
      ::munmap(stale.host, stale.bytes);
      continue;
    }
    ::mmap(stale.host, stale.bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    // What was mapped there meanwhile is shown again at its next touch.
    auto m = mappings_.upper_bound(stale.address);
    if (m != mappings_.begin()) --m;
    for (; m != mappings_.end() && m->first < stale.address + stale.bytes; ++m) m->second.shown = false;
  }
  stale_.clear();
}

}  // namespace forebay::sim
