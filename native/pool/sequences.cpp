// sequences: paged.hpp's tables: growing, copying before a write, sharing by content, ending.
#include <algorithm>

#include "pool/check.hpp"
#include "pool/paged.hpp"
#include "pool/paged_debug.hpp"

namespace forebay {

Sequence& PagedPool::fresh(Channel channel) {
  if (spare_ == nullptr) {
    sequences_.push_back(std::make_unique<Sequence>());
    spare_ = sequences_.back().get();
  }
  Sequence& sequence = *std::exchange(spare_, spare_->next_);
  sequence.next_ = nullptr;
  note(sequence, channel);
  return sequence;
}

void PagedPool::note(Sequence& sequence, Channel channel) {
  auto& known = sequence.channels_;
  const bool is_known = std::any_of(known.begin(), known.end(), [&](const Channel& c) { return c.id == channel.id; });
  if (!is_known) known.push_back(channel);
}

// A page whose content may be on its way in another stream: that stream is asked; it is read only if it got there.
Sequence& PagedPool::open(std::span<const Token> tokens, Channel channel) {
  refuse_dead();
  if (custody_ != nullptr) custody_->tend();
  Sequence* sequence = nullptr;
  std::optional<Point> unseen;
  {
    Guard guard(*this);
    sequence = &fresh(channel);
    unseen = find_pages(*sequence, tokens, channel);
  }
  while (unseen && unseen->clock->reached(unseen->epoch)) {
    Guard guard(*this);
    unseen = find_pages(*sequence, tokens, channel);
  }
  return *sequence;
}

// Holds what can be found; where that ends at a page that may not be read yet, the point that it waits for.
std::optional<Point> PagedPool::find_pages(Sequence& sequence, std::span<const Token> tokens, Channel channel) {
  const std::uint32_t step = options_.page_tokens;
  for (; tokens.size() - sequence.written_ >= step; sequence.written_ = sequence.room_ += step) {
    const auto page = prefixes_.find(sequence.last_, tokens.subspan(sequence.written_, step));
    if (!page || pages_.leaving(*page) || (pages_.holders(*page) == 0 && pages_.live() >= limit_)) return std::nullopt;
    if (!channel.clock->sees(written_[*page])) return written_[*page];
    if (pages_.hold(*page, channel.id)) {
      fill(*page, step);
      tell(*page, channel);
    }
    sequence.table_.push_back(*page);
    sequence.last_ = prefixes_.content(*page);
  }
  return std::nullopt;
}

void PagedPool::grow(Sequence& sequence, std::uint32_t tokens, Channel channel) {
  refuse_dead();
  if (custody_ != nullptr) custody_->tend();
  const std::uint32_t step = options_.page_tokens, room = sequence.room_ + tokens;
  if (room < tokens) throw fault(PoolFault::Code::impossible, std::uint64_t{tokens} * options_.page_bytes);
  const std::size_t before = sequence.table_.size();
  std::size_t missing = (std::size_t{room} + step - 1) / step - before;
  bool copy = false;
  {
    Guard guard(*this);
    note(sequence, channel);
    copy = tokens > 0 && tail_is_shared(sequence);
    missing += copy;
    const bool taken = take_pages(sequence.table_, missing, channel);
    hits_ += taken && missing > 0;
    if (taken && !copy) return settle(sequence, before, room, channel);
  }
  if (sequence.table_.size() == before) take_or_throw(sequence.table_, missing, channel);
  if (copy) copy_tail(sequence, before - 1, channel);
  Guard guard(*this);
  settle(sequence, before, room, channel);
}

bool PagedPool::tail_is_shared(const Sequence& sequence) const {
  return sequence.room_ % options_.page_tokens != 0 && pages_.holders(sequence.table_.back()) > 1;
}

// The last page taken becomes the sequence's own copy. The shared one is let go only after the copy was issued, and
// after whatever else this sequence did to it.
void PagedPool::copy_tail(Sequence& sequence, std::size_t tail, Channel channel) {
  const PageId own = sequence.table_.back(), shared = sequence.table_[tail];
  Clock& clock = *channel.clock;
  if (custody_ != nullptr) custody_->given(own, channel, here());  // before the copy writes it
  const Status status =
      domain_.driver().copy(domain_.device(), address(own), address(shared), options_.page_bytes, clock.handle());
  domain_.note(status);
  note_ends(sequence);
  Guard guard(*this);
  if (status != Status::ok) {
    undo(sequence.table_, tail + 1, channel);
    refuse(status, "copy");
  }
  sequence.table_[tail] = own;
  sequence.table_.pop_back();
  fill(own, sequence.room_ % options_.page_tokens);
  tell(own, channel);
  freed_at_ = here();
  release(shared, sequence.channels_, sequence.ends_);
}

void PagedPool::settle(Sequence& sequence, std::size_t fresh_from, std::uint32_t room, Channel channel) {
  const std::uint32_t step = options_.page_tokens;
  for (std::size_t i = sequence.room_ / step; i < sequence.table_.size(); ++i)
    fill(sequence.table_[i], std::min(step, static_cast<std::uint32_t>(room - i * step)));
  for (std::size_t i = fresh_from; i < sequence.table_.size(); ++i) tell(sequence.table_[i], channel);
  sequence.room_ = room;
  FOREBAY_CHECK(sequence.table_.size() == (room + std::size_t{step} - 1) / step);
}

bool PagedPool::commit(Sequence& sequence, std::span<const Token> tokens, Channel channel) {
  if (tokens.size() > sequence.room_ - sequence.written_) return false;
  sequence.tail_.insert(sequence.tail_.end(), tokens.begin(), tokens.end());
  sequence.written_ += static_cast<std::uint32_t>(tokens.size());
  note(sequence, channel);
  if (sequence.tail_.size() < options_.page_tokens) return true;
  const Point written{channel.clock, channel.clock->at_free()};
  Guard guard(*this);
  while (sequence.tail_.size() >= options_.page_tokens) publish(sequence, written);
  return true;
}

// Where the same tokens can be found already, the sequence keeps its own page and goes on from the other's content.
void PagedPool::publish(Sequence& sequence, Point written) {
  const std::span<const Token> tokens(sequence.tail_.data(), options_.page_tokens);
  const std::size_t full = (sequence.written_ - sequence.tail_.size()) / options_.page_tokens;
  const PageId page = sequence.table_[full];
  const auto known = prefixes_.find(sequence.last_, tokens);
  if (sequence.findable_ && !known && prefixes_.publish(page, sequence.last_, tokens)) {
    pages_.keep(page);
    written_[page] = written;
    sequence.last_ = prefixes_.content(page);
  } else if (sequence.findable_ && known) {
    sequence.last_ = prefixes_.content(*known);
  } else {
    sequence.findable_ = false;
  }
  sequence.tail_.erase(sequence.tail_.begin(), sequence.tail_.begin() + options_.page_tokens);
}

void PagedPool::use(Sequence& sequence, Channel channel) { note(sequence, channel); }

Sequence* PagedPool::fork(const Sequence& sequence, Channel channel) {
  refuse_dead();
  if (sequence.written_ != sequence.room_) return nullptr;
  Guard guard(*this);
  Sequence& twin = fresh(channel);
  twin.table_ = sequence.table_;
  twin.tail_ = sequence.tail_;
  twin.last_ = sequence.last_;
  twin.findable_ = sequence.findable_;
  twin.room_ = twin.written_ = sequence.room_;
  for (const PageId page : twin.table_) pages_.hold(page, channel.id);
  return &twin;
}

void PagedPool::note_ends(Sequence& sequence) {
  sequence.ends_.clear();
  for (const Channel& channel : sequence.channels_) sequence.ends_.push_back(channel.clock->at_free());
}

void PagedPool::finish(Sequence& sequence) {
  note_ends(sequence);
  if (custody_ != nullptr) sequence.ended_at_ = here();
  if (mutex_.try_lock()) {
    Guard guard(*this, std::adopt_lock);
    return end(sequence);
  }
  sequence.next_ = ended_.load(std::memory_order_relaxed);
  while (
      !ended_.compare_exchange_weak(sequence.next_, &sequence, std::memory_order_release, std::memory_order_relaxed)) {
  }
}

// From the last page to the first: kept pages are taken oldest first, and a beginning is worth more than its ends.
void PagedPool::end(Sequence& sequence) {
  if (custody_ != nullptr) freed_at_ = std::move(sequence.ended_at_);
  for (; !sequence.table_.empty(); sequence.table_.pop_back())
    release(sequence.table_.back(), sequence.channels_, sequence.ends_);
  sequence.room_ = sequence.written_ = 0;
  sequence.tail_.clear();
  sequence.last_ = {};
  sequence.findable_ = true;
  sequence.channels_.clear();
  sequence.next_ = spare_;
  spare_ = &sequence;
}

void PagedPool::drain() {
  for (Sequence* ended = ended_.exchange(nullptr, std::memory_order_acquire); ended != nullptr;) {
    Sequence& sequence = *ended;
    ended = sequence.next_;
    end(sequence);
  }
}

}  // namespace forebay
