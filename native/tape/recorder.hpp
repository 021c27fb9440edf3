// recorder: rows of many threads into one tape, in memory or as a growing file. It gives out `seq`, and the ids of
// strings, sites, streams, pools and threads, and writes each id's meaning as a `define` row. The bytes of the file are
// arrow.hpp's; sorting by `seq` and folding the define rows into side tables is left to whoever reads it.
//
// Note [What a recording holds]. Rows stand in the order in which they were written; `seq` is the order to read them
// in. `cause` holds the `seq` of the row that made this one. A define row's `ref` is the id, its `text` is the table's
// name, a space, and the entry: a string as it is; else one line of JSON (a site: [[file, line, function], …],
// innermost first). String 0 is "" and site 0 the empty stack: they are not defined.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tape/arrow.hpp"
#include "tape/columns.hpp"

namespace forebay {

struct SourceFrame {
  std::string_view file;
  std::uint32_t line = 0;
  std::string_view function;
};

// What the tables of streams, threads and pools hold; an absent value is one that nobody knows.
struct StreamFacts {
  std::string name;
  std::optional<std::uint64_t> handle, context;
  int device = 0;
  std::optional<StreamClass> kind;
  std::optional<int> priority;
  std::optional<std::uint16_t> thread;
};
struct ThreadFacts {
  std::string name;
  std::optional<std::uint64_t> tid;  // the operating system's number
};
struct PoolFacts {
  std::string name;
  std::optional<std::string> consumer, kind;
  int device = 0;
  std::string space = "device";
  std::optional<std::uint32_t> parent;
  std::optional<std::pair<std::uint64_t, std::uint64_t>> private_id;
  bool trusted = false;
};

// One counter for the whole process: draw a number when a call begins (and one when it returned, where that matters).
std::uint64_t next_seq();

// The program's stack while a call is under way on this thread, innermost first: rows that are written meanwhile and
// know no site get it. Whoever may look at the stack makes one at the call's entry, where no lock is held yet.
class Caller {
 public:
  explicit Caller(std::vector<SourceFrame> frames);
  ~Caller();
  Caller(const Caller&) = delete;
  Caller& operator=(const Caller&) = delete;
  static const Caller* here() { return here_; }
  std::span<const SourceFrame> frames() const { return frames_; }
  static std::string place();  // where the program is, "file:line (function)"; "" where nobody looked

 private:
  const std::vector<SourceFrame> frames_;
  const Caller* const outer_;
  static thread_local const Caller* here_;
};

class Recorder final : public Sink {
 public:
  Recorder();                                                     // rows stay in memory
  explicit Recorder(const std::string& path, Metadata metadata);  // rows go to a file; throws std::system_error
  ~Recorder() override;                                           // closes

  // A row without `seq` gets the next one. A batch goes to the file once it has kBatchRows rows or its first row is
  // kBatchAge old, whichever the next write finds; nothing is written between two writes.
  void write(const Row& row) override;

  std::uint32_t string(std::string_view text);
  std::uint32_t site(std::span<const SourceFrame> frames);  // innermost first
  std::uint32_t stream(const StreamFacts& facts);           // a new id every time: a handle that comes back is another
  std::uint32_t pool(const PoolFacts& facts);               // a new id every time
  std::uint16_t thread(const ThreadFacts& facts = {});      // of the calling thread; its first call gives the facts
  // What two machines of one recording must not share: a `ref` that nobody had, and the first of `count` numbers of
  // devices, which runs out (none) after 2^15 devices.
  std::uint32_t ref() { return refs_.fetch_add(1, std::memory_order_relaxed); }
  std::optional<std::int16_t> devices(int count);
  // A device tells rows that held memory before: of that device the tape does not show the beginning.
  void note_mid_life() { mid_life_.store(true, std::memory_order_relaxed); }
  bool mid_life() const { return mid_life_.load(std::memory_order_relaxed); }

  void flush();  // what is pending goes to the file, now
  void close();  // flush, end the file; later rows are lost. Idempotent

  std::uint64_t rows() const;     // taken so far, define rows included
  std::uint64_t flushed() const;  // of these, the rows that the file holds
  std::uint64_t lost() const;     // of these, rows that no file holds: it failed, or was closed
  int error() const;              // errno of the write that failed, else 0: nothing is recorded after it
  Columns copy() const;           // the rows in memory; of a recorder with a file, those pending

  static constexpr std::size_t kBatchRows = 4096;
  static constexpr std::chrono::milliseconds kBatchAge{100};

 private:
  class Table;
  void push(Row row);
  void flush_locked();
  std::uint32_t define(Table& table, std::string text);
  std::uint32_t intern(Table& table, std::string text);

  mutable std::mutex lock_;
  std::unique_ptr<ArrowStream> file_;
  std::unique_ptr<Table> strings_, sites_, streams_, pools_, threads_;
  std::unordered_map<std::uint64_t, std::uint16_t> thread_ids_;
  Columns pending_;
  std::chrono::steady_clock::time_point first_pending_{};
  std::uint64_t rows_ = 0, flushed_ = 0, lost_ = 0;
  int error_ = 0;
  bool open_ = true;
  std::atomic<std::uint32_t> refs_{0};
  int devices_ = 0;
  std::atomic<bool> mid_life_{false};
};

}  // namespace forebay
