#include "pool/paged_debug.hpp"

#include <utility>

namespace forebay {

PageCustody::PageCustody(Domain& domain, CustodyOptions options, std::uint64_t page_bytes, std::uint32_t pages,
                         Owner owner)
    : Custody(domain, std::move(options)),
      page_bytes_(page_bytes),
      owner_(std::move(owner)),
      base_(owner_.address(0)),
      pages_(pages) {}

PageCustody::~PageCustody() { close(); }

void PageCustody::given(PageId page, Channel channel, std::string site) {
  const auto block = std::make_shared<Guarded>();
  block->begin = block->address = owner_.address(page);
  block->size = block->nbytes = page_bytes_;
  block->clock = channel.clock;
  block->allocated_at = std::move(site);
  GuardedPtr before;
  {
    const std::lock_guard lock(lock_);
    before = std::exchange(pages_[page], {block, channel}).block;
  }
  if (before != nullptr) witness().remove(*before);
  witness().add(block);
}

void PageCustody::freed(PageId page, const std::vector<Channel>& streams, Content content, std::string site) {
  GuardedPtr block;
  {
    const std::lock_guard lock(lock_);
    block = pages_[page].block;
    pages_[page].channel = streams.front();
    if (content == Content::gone) pages_[page].block = nullptr;
  }
  std::vector<Point> points;
  for (const Channel& used : streams) points.push_back({used.clock, used.clock->at_free()});
  block->clock = streams.front().clock;
  witness().free(*block, std::move(points), std::move(site));
  if (content == Content::findable) return;
  held_.fetch_add(1, std::memory_order_relaxed);
  dead() ? give(*block) : take(block);
}

void PageCustody::hand_back(const Guarded& block) {
  const auto page = static_cast<PageId>((block.begin - base_) / page_bytes_);
  Channel channel;
  {
    const std::lock_guard lock(lock_);
    channel = pages_[page].channel;
  }
  owner_.shelve(page, channel, channel.clock->at_free());
  held_.fetch_sub(1, std::memory_order_relaxed);
}

}  // namespace forebay
