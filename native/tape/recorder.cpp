// recorder: one lock around the rows, the tables and the file.
#include "tape/recorder.hpp"

#include <atomic>
#include <cstdio>
#include <functional>

namespace forebay {
namespace {

struct TextHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
};

std::string in_quotes(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (static_cast<unsigned char>(c) >= 0x20) {
      out += c;
      continue;
    }
    char escaped[8];
    std::snprintf(escaped, sizeof escaped, "\\u%04x", static_cast<unsigned>(c));
    out += escaped;
  }
  return out + '"';
}

// A JSON object, absent values left out.
class Object {
 public:
  void add(std::string_view key, const std::string& text) { put(key, in_quotes(text)); }
  template <class T>
    requires std::is_integral_v<T>
  void add(std::string_view key, T number) {
    put(key, std::to_string(number));
  }
  void add(std::string_view key, StreamClass kind) { add(key, static_cast<int>(kind)); }
  void add(std::string_view key, const std::pair<std::uint64_t, std::uint64_t>& two) {
    std::string text = "[";
    ((text += std::to_string(two.first)) += ',') += std::to_string(two.second);
    put(key, text + "]");
  }
  template <class T>
  void add(std::string_view key, const std::optional<T>& value) {
    if (value) add(key, *value);
  }
  std::string text() const { return "{" + body_ + "}"; }

 private:
  void put(std::string_view key, const std::string& value) {
    (body_ += body_.empty() ? "" : ",") += in_quotes(key) + ":" + value;
  }
  std::string body_;
};

std::string text_of(const StreamFacts& f) {
  Object o;
  o.add("name", f.name), o.add("handle", f.handle), o.add("device", f.device), o.add("context", f.context);
  o.add("kind", f.kind), o.add("priority", f.priority), o.add("thread", f.thread);
  return o.text();
}

std::string text_of(const ThreadFacts& f) {
  Object o;
  o.add("name", f.name), o.add("tid", f.tid);
  return o.text();
}

std::string text_of(const PoolFacts& f) {
  Object o;
  o.add("name", f.name), o.add("consumer", f.consumer), o.add("kind", f.kind), o.add("device", f.device);
  o.add("space", f.space), o.add("parent", f.parent), o.add("private", f.private_id);
  o.add("trusted", f.trusted ? 1 : 0);
  return o.text();
}

std::string text_of(std::span<const SourceFrame> frames) {
  std::string text;
  for (const SourceFrame& f : frames)
    (text += text.empty() ? "[" : ",[") +=
        in_quotes(f.file) + "," + std::to_string(f.line) + "," + in_quotes(f.function) + "]";
  return "[" + text + "]";
}

// A number of the calling thread that no other thread of the process ever has.
std::uint64_t thread_number() {
  static std::atomic<std::uint64_t> next{0};
  thread_local const std::uint64_t mine = next.fetch_add(1, std::memory_order_relaxed);
  return mine;
}

}  // namespace

std::uint64_t next_seq() {
  static std::atomic<std::uint64_t> next{1};
  return next.fetch_add(1, std::memory_order_relaxed);
}

thread_local const Caller* Caller::here_ = nullptr;

Caller::Caller(std::vector<SourceFrame> frames) : frames_(std::move(frames)), outer_(here_) { here_ = this; }

Caller::~Caller() { here_ = outer_; }

std::string Caller::place() {
  if (here_ == nullptr || here_->frames_.empty()) return {};
  const SourceFrame& at = here_->frames_.front();
  return std::string(at.file) + ":" + std::to_string(at.line) + " (" + std::string(at.function) + ")";
}

// The ids of one side table. `known` maps an entry to its id, where entries that read the same are the same.
class Recorder::Table {
 public:
  Table(std::string_view name, std::uint32_t first) : name(name), next(first) {}
  const std::string name;
  std::uint32_t next;
  std::unordered_map<std::string, std::uint32_t, TextHash, std::equal_to<>> known;
};

Recorder::Recorder()
    : strings_(std::make_unique<Table>("string", 1)),
      sites_(std::make_unique<Table>("site", 1)),
      streams_(std::make_unique<Table>("stream", 0)),
      pools_(std::make_unique<Table>("pool", 0)),
      threads_(std::make_unique<Table>("thread", 0)) {}

Recorder::Recorder(const std::string& path, Metadata metadata) : Recorder() {
  file_ = std::make_unique<ArrowStream>(path, metadata);
}

Recorder::~Recorder() { close(); }

void Recorder::write(const Row& row) {
  const Caller* const caller = row.known & bit(Column::site) ? nullptr : Caller::here();
  if (caller == nullptr) {
    const std::lock_guard hold(lock_);
    return push(row);
  }
  Row placed = row;
  placed.site = site(caller->frames());
  placed.known |= bit(Column::site);
  const std::lock_guard hold(lock_);
  push(placed);
}

void Recorder::push(Row row) {
  ++rows_;
  if (!open_ || error_ != 0) {
    ++lost_;
    return;
  }
  if (!(row.known & bit(Column::seq))) row.seq = next_seq(), row.known |= bit(Column::seq);
  const bool first = pending_.rows() == 0;
  pending_.push(row);
  if (file_ == nullptr) return;
  const auto now = std::chrono::steady_clock::now();
  if (first) first_pending_ = now;
  if (pending_.rows() >= kBatchRows || now - first_pending_ >= kBatchAge) flush_locked();
}

void Recorder::flush_locked() {
  if (file_ == nullptr || pending_.rows() == 0) return;
  error_ = file_->write(pending_);
  (error_ == 0 ? flushed_ : lost_) += pending_.rows();
  pending_.clear();
}

std::uint32_t Recorder::define(Table& table, std::string text) {
  const std::uint32_t id = table.next++;
  text.insert(0, table.name + " ");
  push({.kind = Kind::define, .ref = id, .known = columns(Column::ref, Column::text), .text = text});
  return id;
}

std::uint32_t Recorder::intern(Table& table, std::string text) {
  if (const auto found = table.known.find(text); found != table.known.end()) return found->second;
  const std::uint32_t id = define(table, text);
  table.known.emplace(std::move(text), id);
  return id;
}

std::uint32_t Recorder::string(std::string_view text) {
  if (text.empty()) return 0;
  const std::lock_guard hold(lock_);
  const auto found = strings_->known.find(text);
  return found != strings_->known.end() ? found->second : intern(*strings_, std::string(text));
}

std::uint32_t Recorder::site(std::span<const SourceFrame> frames) {
  if (frames.empty()) return 0;
  std::string text = text_of(frames);
  const std::lock_guard hold(lock_);
  return intern(*sites_, std::move(text));
}

std::uint32_t Recorder::stream(const StreamFacts& facts) {
  const std::lock_guard hold(lock_);
  return define(*streams_, text_of(facts));
}

std::optional<std::int16_t> Recorder::devices(int count) {
  const std::lock_guard hold(lock_);
  if (count > std::numeric_limits<std::int16_t>::max() - devices_) return std::nullopt;
  const int first = devices_;
  devices_ += count;
  return static_cast<std::int16_t>(first);
}

std::uint32_t Recorder::pool(const PoolFacts& facts) {
  const std::lock_guard hold(lock_);
  return define(*pools_, text_of(facts));
}

std::uint16_t Recorder::thread(const ThreadFacts& facts) {
  const std::uint64_t number = thread_number();
  const std::lock_guard hold(lock_);
  const auto [at, is_new] = thread_ids_.try_emplace(number);
  if (is_new) at->second = static_cast<std::uint16_t>(define(*threads_, text_of(facts)));
  return at->second;
}

void Recorder::flush() {
  const std::lock_guard hold(lock_);
  flush_locked();
}

void Recorder::close() {
  const std::lock_guard hold(lock_);
  if (!open_) return;
  flush_locked();
  open_ = false;
  if (file_ == nullptr) return;
  const int failed = file_->close();
  if (error_ == 0) error_ = failed;
}

std::uint64_t Recorder::rows() const {
  const std::lock_guard hold(lock_);
  return rows_;
}

std::uint64_t Recorder::flushed() const {
  const std::lock_guard hold(lock_);
  return flushed_;
}

std::uint64_t Recorder::lost() const {
  const std::lock_guard hold(lock_);
  return lost_;
}

int Recorder::error() const {
  const std::lock_guard hold(lock_);
  return error_;
}

Columns Recorder::copy() const {
  const std::lock_guard hold(lock_);
  return pending_;
}

}  // namespace forebay
