// paged_debug: a paged pool in debug mode. Which pages are whose its paged.hpp tells it, under no lock; here the
// witness hears of them, and pages that nobody holds and nobody can find go through custody.hpp before they are given
// again.
//
// Note [No canaries between pages]. The pages of different sequences lie side by side, so a write beyond one is a write
// into another's. What is found is the use of a page that its sequence let go: by a block table that was kept too long.
// A kept page (one that can still be found by its content) holds that content until it is taken: it is watched, and
// never poisoned.
#pragma once

#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "pool/custody.hpp"
#include "pool/pages.hpp"

namespace forebay {

class PageCustody final : private Custody {
 public:
  // Where a page lies, and who gets it when its custody ends: with the point that it was last worked on at.
  struct Owner {
    std::function<Address(PageId)> address;
    std::function<void(PageId, Channel, std::uint64_t epoch)> shelve;
  };
  PageCustody(Domain& domain, CustodyOptions options, std::uint64_t page_bytes, std::uint32_t pages, Owner owner);
  ~PageCustody() override;

  void given(PageId page, Channel channel, std::string site);
  // Nobody holds it any more: `streams` used it, the latest first. `stays`: it comes to the owner's `shelve` when its
  // custody is over; maybe at once.
  enum class Content : std::uint8_t { findable, gone };
  void freed(PageId page, const std::vector<Channel>& streams, Content content, std::string site);

  using Custody::blocks_unseen;
  using Custody::check;
  using Custody::give_up;
  using Custody::staging_reserved;
  using Custody::tend;
  std::vector<Report> reports() const { return over() ? std::vector<Report>{} : witness().reports(); }
  std::uint32_t held() const { return held_.load(std::memory_order_relaxed); }  // pages that are in no list

 private:
  struct Held {
    GuardedPtr block;
    Channel channel{};
  };
  void hand_back(const Guarded& block) override;

  const std::uint64_t page_bytes_;
  const Owner owner_;
  const Address base_;
  std::mutex lock_;          // of what follows
  std::vector<Held> pages_;  // by page: whose it is, or whose it was last
  std::atomic<std::uint32_t> held_{0};
};

}  // namespace forebay
