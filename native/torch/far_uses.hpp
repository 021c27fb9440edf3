// far_uses: debug mode's proof that a block was freed while another stream still used it. It is told of uses, in
// program order; bytes around and in freed blocks are pool/guarded.hpp's.
//
// Note [A flag and a look]. Behind a use on another stream than the block's own, that stream writes a flag; at the free
// the block's stream copies the flag, where its next owner's work would begin. The copy shows no flag only if that
// place was reached while the use, or work before it, was still to be done: no edge orders the two, whoever made it. A
// flag that is there proves nothing, since unordered work may come in a lucky order. Streams that were recorded are not
// looked at: the block waits for them.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "pool/guarded.hpp"

namespace forebay::torch {

class FarUses {
 public:
  FarUses(Domain& domain, GuardedPool& blocks);

  // Work was issued on the stream, and uses a block that this address lies in. Nothing is said of what is known done.
  void used(Address address, std::uint64_t stream, std::string name, std::string site);
  // Just before the free of the block that begins there, made at `site`.
  void freeing(Address address, const std::string& site);
  // Looks at what is complete. One line a misuse; each is in the list for good.
  std::vector<std::string> reports();

 private:
  struct Use {
    Address flag = 0, seen = 0;  // pinned: written behind the use; what the block's stream saw of it
    Clock* clock = nullptr;      // of the stream that uses
    std::string name, site;
  };
  struct Look {
    Use use;
    Point done;
    std::string text;
  };
  bool issue(Use& use, std::uint64_t stream, Clock& clock);
  void drop(const Use& use);
  std::uint8_t* host(Address pinned);

  Domain& domain_;
  GuardedPool& blocks_;
  Pool pinned_;
  std::mutex mutex_;                          // of what follows; held across no call of the driver or of the pools
  std::map<Address, std::vector<Use>> uses_;  // by the block, the last of each stream
  std::deque<Look> looks_;
  std::vector<std::string> reports_;
};

}  // namespace forebay::torch
