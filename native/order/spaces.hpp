// spaces: the bytes of all memories, device and host apart. What a row's columns mean is program.hpp's.
#pragma once

#include "order/memory.hpp"
#include "tape/columns.hpp"

namespace forebay::order {

class Spaces {
 public:
  Spaces(Judge& judge, Keep keep) : device_(judge, keep), host_(judge, keep) {}

  Memory& of(Space space) { return space == Space::pinned || space == Space::pageable ? host_ : device_; }

  // `access` says who touches; the use says what, and how.
  void touch(Access access, const Use& use, const Moment& m) {
    if (use.size == 0) return;
    access.epoch = m.epoch;
    access.mode = use.mode;
    access.hull = use.extent == Extent::hull;
    of(use.space).touch(access, use.address, use.address + use.size, m);
  }
  void prune(const Clock& known_to_all, RowId now) {
    device_.prune(known_to_all, now);
    host_.prune(known_to_all, now);
  }
  bool crowded() const { return device_.crowded() || host_.crowded(); }
  std::size_t pieces() const { return device_.pieces() + host_.pieces(); }

 private:
  Memory device_, host_;
};

}  // namespace forebay::order
