// bytes_driver: the plain driver with bytes behind its addresses. Work is what it does to them, and runs when the test
// lets its stream get that far; a watch hears of it. Pinned addresses are the host's own.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "driver/watch.hpp"
#include "plain_driver.hpp"

namespace forebay::test {

class BytesDriver final : public PlainDriver {
 public:
  BytesDriver(std::uint64_t capacity, std::uint64_t granularity)
      : PlainDriver(capacity, granularity),
        size_(16 * capacity),
        bytes_(static_cast<std::uint8_t*>(std::calloc(size_, 1)), &std::free) {}
  ~BytesDriver() override {
    for (void* block : pinned_) std::free(block);
  }

  std::uint8_t* at(Address address) const {
    const bool is_device = address >= kBase && address < kBase + size_;
    return is_device ? bytes_.get() + (address - kBase) : reinterpret_cast<std::uint8_t*>(address);
  }
  // Work of the program: what it declares, and what it does.
  void work(std::uint64_t stream, std::vector<Use> uses, std::function<void()> code) {
    put(stream, {"work", std::move(uses), stream, Upkeep::now(), {}}, std::move(code));
  }

  Status memset(int, Address to, std::uint8_t value, std::uint64_t bytes, StreamHandle stream) override {
    put(stream.value, {"memset", {use(to, bytes, Mode::write)}, stream.value, Upkeep::now(), {}},
        [this, to, value, bytes] { std::memset(at(to), value, bytes); });
    return Status::ok;
  }
  Status copy(int, Address to, Address from, std::uint64_t bytes, StreamHandle stream) override {
    put(stream.value,
        {"copy", {use(from, bytes, Mode::read), use(to, bytes, Mode::write)}, stream.value, Upkeep::now(), {}},
        [this, to, from, bytes] { std::memcpy(at(to), at(from), bytes); });
    return Status::ok;
  }
  Result<Address> host_alloc(std::uint64_t bytes) override {
    const std::lock_guard lock(pinned_lock_);
    pinned_.push_back(std::calloc(bytes, 1));
    return reinterpret_cast<Address>(pinned_.back());
  }
  Status host_free(Address address) override {
    (void)device_sync(0);
    const std::lock_guard lock(pinned_lock_);
    std::erase(pinned_, reinterpret_cast<void*>(address));
    std::free(reinterpret_cast<void*>(address));
    return Status::ok;
  }
  Result<void*> host_pointer(Address address, std::uint64_t) override { return reinterpret_cast<void*>(address); }
  bool watch(const std::shared_ptr<Watch>& watch) override {
    const std::lock_guard lock(pinned_lock_);
    watch_ = watch;  // of one pool; before threads start
    return true;
  }
  static Use use(Address address, std::uint64_t bytes, Mode mode) { return {address, bytes, mode}; }

 protected:
  void run(std::uint64_t stream, std::uint64_t until) override {
    while (auto item = next(stream, until)) {
      if (const auto watch = watch_.lock()) watch->begins(item->work);
      item->code();
    }
  }

 private:
  struct Item {
    std::uint64_t number;
    Issued work;
    std::function<void()> code;
  };
  void put(std::uint64_t stream, Issued work, std::function<void()> code) {
    if (const auto watch = watch_.lock()) watch->issued(work);
    const std::lock_guard lock(queue_locks_[stream]);
    const std::uint64_t number = next_item(stream);
    queues_[stream].push_back({number, std::move(work), std::move(code)});
  }
  std::unique_ptr<Item> next(std::uint64_t stream, std::uint64_t until) {
    const std::lock_guard lock(queue_locks_[stream]);
    auto& queue = queues_[stream];
    if (queue.empty() || queue.front().number > until) return nullptr;
    auto item = std::make_unique<Item>(std::move(queue.front()));
    queue.pop_front();
    return item;
  }

  const std::uint64_t size_;
  std::unique_ptr<std::uint8_t, void (*)(void*)> bytes_;
  std::weak_ptr<Watch> watch_;
  std::array<std::mutex, kStreams> queue_locks_;
  std::array<std::deque<Item>, kStreams> queues_;
  std::mutex pinned_lock_;
  std::vector<void*> pinned_;
};

}  // namespace forebay::test
