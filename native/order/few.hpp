// few: a list of plain values that is nearly always short, and then lies where it is held.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>

namespace forebay::order {

template <class T, std::size_t N>
class Few {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  Few() = default;
  Few(const Few& other) : size_(other.size_), room_(other.size_ > N ? other.size_ : N) {
    if (room_ > N) more_ = std::make_unique<T[]>(room_);
    std::copy(other.begin(), other.end(), begin());
  }
  Few& operator=(const Few&) = delete;

  T* begin() { return more_ ? more_.get() : here_; }
  T* end() { return begin() + size_; }
  const T* begin() const { return more_ ? more_.get() : here_; }
  const T* end() const { return begin() + size_; }
  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }

  void push_back(const T& value) {
    if (size_ == room_) grow();
    begin()[size_++] = value;
  }
  void keep_first(std::size_t count) { size_ = static_cast<std::uint32_t>(count); }
  template <class Unwanted>
  void erase_if(Unwanted unwanted) {
    keep_first(static_cast<std::size_t>(std::remove_if(begin(), end(), unwanted) - begin()));
  }

 private:
  void grow() {
    auto larger = std::make_unique<T[]>(2 * room_);
    std::copy(begin(), end(), larger.get());
    more_ = std::move(larger);
    room_ *= 2;
  }

  std::uint32_t size_ = 0, room_ = N;
  std::unique_ptr<T[]> more_;
  T here_[N];
};

}  // namespace forebay::order
