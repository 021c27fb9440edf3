// paged: a pool of fixed blocks for the dominant consumer. Sequences of tokens hold pages through tables; full pages
// are shared by what they hold, a page that is to be written while shared is copied first. One lock, held over no
// driver call, wait or row. Lists and counts are pages.hpp's, finding by content prefixes.hpp's, the memory
// reservation.hpp's.
//
// Note [Who orders a page]: a sequence remembers the streams that it was grown, written or used on, and its end frees
// its pages after all of them. A page found by its content was written on some stream: it is shared only with a stream
// that comes after that write, by an edge the domain was told of or because the write is known complete.
//
// Note [A free is told before it is done]: a page that nobody holds any more belongs to no list until its row is
// written, so that on the tape, too, its next alloc comes after.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "pool/fault.hpp"
#include "pool/gauges.hpp"
#include "pool/pages.hpp"
#include "pool/prefixes.hpp"
#include "pool/reservation.hpp"
#include "pool/short_lock.hpp"
#include "tape/columns.hpp"

namespace forebay {

class PageCustody;

// Debug mode (paged_debug.hpp): how many bytes of pages are kept from reuse, and where the program is at a call.
struct PagedDebug {
  std::uint64_t quarantine = 0;
  std::function<std::string()> here;
};

struct PagedOptions {
  std::string name;              // for messages
  std::uint64_t page_bytes = 0;  // a multiple of page_tokens
  std::uint32_t pages = 0;
  std::uint32_t page_tokens = 0;
  std::uint32_t index = 0;                                         // the pool's id in the tape's side table
  std::chrono::nanoseconds wait_limit = std::chrono::seconds(10);  // of one wait for frees; 0: never wait
  Sink* tape = nullptr;                                            // outlives the pool
  std::optional<PagedDebug> debug;
};

// One sequence's pages. Its owner makes one call on it at a time; different sequences know nothing of each other.
class Sequence {
 public:
  std::span<const PageId> table() const { return table_; }
  std::uint32_t room() const { return room_; }        // tokens that it has pages for
  std::uint32_t written() const { return written_; }  // of those, tokens known to be written: found, or committed

 private:
  friend class PagedPool;
  std::vector<PageId> table_;
  std::uint32_t room_ = 0, written_ = 0;
  std::vector<Token> tail_;  // written, of the page that is not full
  Content last_;             // of the page before `tail_`
  bool findable_ = true;     // `last_` is known: every page before it could be published
  std::vector<Channel> channels_;
  std::vector<std::uint64_t> ends_;  // the epoch of each channel when pages were last let go
  std::string ended_at_;             // in debug mode, where in the program
  Sequence* next_ = nullptr;         // among the spare, or those that ended while the lock was taken
};

class PagedPool {
 public:
  // Throws PoolFault: impossible (the shape), or driver.
  PagedPool(Domain& domain, PagedOptions options);
  ~PagedPool();
  PagedPool(const PagedPool&) = delete;
  PagedPool& operator=(const PagedPool&) = delete;

  const PagedOptions& options() const { return options_; }
  Address address(PageId page) const { return memory_.address() + page * options_.page_bytes; }
  Domain& domain() const { return domain_; }
  // An adopted stream's channel. Takes no lock for one of the first streams to ask again. Throws PoolFault:
  // unknown_stream.
  Channel channel(std::uint64_t stream);

  // Single pages. Throws PoolFault: exhausted, pending or driver. False: nobody holds that page.
  PageId take(Channel channel);
  bool drop(PageId page, Channel channel);

  // A sequence that begins with the whole pages that hold the first of these tokens already; maybe none.
  Sequence& open(std::span<const Token> tokens, Channel channel);
  // Room for `tokens` more. A shared page that is not full is copied on the stream first. Throws as take does, and then
  // nothing has changed.
  void grow(Sequence& sequence, std::uint32_t tokens, Channel channel);
  // The next of its room hold these tokens, by work that the stream has been given: full pages become findable. False:
  // there is not so much room.
  bool commit(Sequence& sequence, std::span<const Token> tokens, Channel channel);
  // Work that the stream has been given, or will be given before the end, touches its pages.
  void use(Sequence& sequence, Channel channel);
  // The same tokens once more, on the same pages. Null: some of its room is not written.
  Sequence* fork(const Sequence& sequence, Channel channel);
  // Its end, after all that its streams have been given. Never waits: where the lock is taken the next holder does it.
  void finish(Sequence& sequence);

  void limit(std::uint32_t pages);
  // How many pages the stream can have without a wait. Asks the streams.
  std::uint32_t available(Channel channel);
  // `largest_*` are bytes of pages: a table needs no two of them side by side. The first two are the channel's; without
  // one, what any stream may have.
  Gauges gauges(std::optional<Channel> channel);
  // Every page in one place, counts equal to a recount: the first thing that is not so, or "".
  std::string_view walk();
  PageCustody* custody() const { return custody_.get(); }  // null: not in debug mode
  void check();  // in debug mode: looks at every page that it has in quarantine. Throws PoolFault: pending or driver

 private:
  class Guard;

  // paged_miss.cpp
  std::optional<PageId> take_one(Channel channel);
  bool take_pages(std::vector<PageId>& into, std::size_t count, Channel channel);
  void take_or_throw(std::vector<PageId>& into, std::size_t count, Channel channel);
  bool wait_for_pages(std::vector<PageId>& into, std::size_t count, Channel channel);
  std::vector<Point> ask(Channel channel);
  [[noreturn]] void give_up(std::size_t count, Channel channel, const std::vector<Point>& awaited);
  PoolFault fault(PoolFault::Code code, std::uint64_t asked) const;
  [[noreturn]] void refuse(Status status, std::string_view call) const;
  bool fits(std::size_t count) const { return count <= limit_ && pages_.live() <= limit_ - count; }
  Verdict verdict(std::uint64_t bytes);  // of what does not fit; under no lock
  void refuse_dead() const;
  void undo(std::vector<PageId>& pages, std::size_t keep, Channel channel);

  // sequences.cpp
  Sequence& fresh(Channel channel);
  static void note(Sequence& sequence, Channel channel);
  static void note_ends(Sequence& sequence);
  std::optional<Point> find_pages(Sequence& sequence, std::span<const Token> tokens, Channel channel);
  bool tail_is_shared(const Sequence& sequence) const;
  void copy_tail(Sequence& sequence, std::size_t tail, Channel channel);
  void settle(Sequence& sequence, std::size_t fresh_from, std::uint32_t room, Channel channel);
  void fill(PageId page, std::uint32_t tokens);
  void publish(Sequence& sequence, Point written);
  void release(PageId page, std::span<const Channel> channels, std::span<const std::uint64_t> epochs);
  void end(Sequence& sequence);
  void drain();
  bool taped() const { return options_.tape != nullptr && options_.tape->wants(); }
  bool told() const { return custody_ != nullptr || taped(); }
  // In debug mode: where the program is, and what the custody is to hear once the lock is given up.
  std::string here() const { return options_.debug ? options_.debug->here() : std::string(); }
  struct Change {
    PageId page;
    std::vector<Channel> streams;  // given to; freed: used on, the latest first
    bool given = false, kept = false;
    std::string site;
  };
  void apply(std::vector<Change>& changes);
  void take_back(PageId page, Channel channel, std::uint64_t epoch);  // its custody is over
  void tell(PageId page, Channel channel) {                           // that it is given to the channel
    if (told()) [[unlikely]]
      tell_given(page, channel);
  }
  void tell_given(PageId page, Channel channel);
  void tell_free(PageId page);
  void write_row(Kind kind, PageId page, Channel channel);
  void tell_refusal(std::size_t pages, Channel channel) const;  // under no lock

  Domain& domain_;
  const PagedOptions options_;
  Reservation memory_;
  std::array<std::atomic<Clock*>, 64> first_channels_{};  // by channel
  ShortLock mutex_;                                       // guards what follows
  Pages pages_;
  Prefixes prefixes_;
  std::vector<Point> written_;         // of a findable page
  std::vector<std::uint32_t> filled_;  // tokens asked for in each live page
  std::vector<PageId> leaving_;        // held by nobody, told by rows_
  std::vector<Row> rows_;              // to be written when the lock is given up
  std::vector<Change> changes_;        // likewise, to be told
  bool news_ = false;                  // there is one of these
  std::string freed_at_;               // of the pages that are being released
  std::vector<std::unique_ptr<Sequence>> sequences_;
  Sequence* spare_ = nullptr;
  std::atomic<Sequence*> ended_{nullptr};
  std::uint32_t limit_;
  std::uint64_t requested_ = 0;  // tokens
  std::uint64_t hits_ = 0, misses_ = 0, ooms_ = 0;
  std::unique_ptr<PageCustody> custody_;  // the last: it ends before the memory does
};

// Holds the lock; at its end writes the rows that were made under it, and tells what is to be told, without it; only
// then it lets go what they free.
class PagedPool::Guard {
 public:
  explicit Guard(PagedPool& pool) : pool_(pool) {
    pool_.mutex_.lock();
    receive();
  }
  Guard(PagedPool& pool, std::adopt_lock_t) : pool_(pool) { receive(); }
  ~Guard() {
    if (pool_.news_) [[unlikely]]
      write();
    pool_.mutex_.unlock();
  }
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;

 private:
  void receive() {
    if (pool_.ended_.load(std::memory_order_relaxed) != nullptr) [[unlikely]]
      pool_.drain();
  }
  [[gnu::noinline]] void write() {
    const std::vector<Row> rows = std::exchange(pool_.rows_, {});
    const std::vector<PageId> leaving = std::exchange(pool_.leaving_, {});
    std::vector<Change> changes = std::exchange(pool_.changes_, {});
    pool_.news_ = false;
    pool_.mutex_.unlock();
    for (const Row& row : rows) pool_.options_.tape->write(row);
    pool_.apply(changes);
    pool_.mutex_.lock();
    for (const PageId page : leaving) pool_.pages_.shelve(page);
  }
  PagedPool& pool_;
};

inline std::optional<PageId> PagedPool::take_one(Channel channel) {
  if (pages_.live() >= limit_) return std::nullopt;
  const std::optional<PageId> page = pages_.next(channel.id);
  if (page && pages_.take(*page)) prefixes_.withdraw(*page);
  return page;
}

}  // namespace forebay
