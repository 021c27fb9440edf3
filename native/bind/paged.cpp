// _core.paged: the paged pool seen from Python. The GIL is free in every call that takes the pool's lock, but for the
// end of a sequence, which never waits for it. What an error says is bind/pool.cpp's and runtime/pool.py's.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bind/caller.hpp"
#include "bind/module.hpp"
#include "bind/released.hpp"
#include "pool/paged.hpp"
#include "pool/paged_debug.hpp"
#include "tape/recorder.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace forebay {
namespace {

using Open = nb::call_guard<Leaving>;
using BoundPagedPool = Released<PagedPool>;
using Tokens = nb::ndarray<const Token, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

std::span<const Token> span_of(const Tokens& tokens) { return {tokens.data(), tokens.shape(0)}; }

// Ends its sequence with its Python object, without waiting for anything. Its pool lives longer: Python keeps it.
class Handle {
 public:
  Handle(PagedPool& pool, Sequence& sequence) : pool_(pool), sequence_(&sequence) {}
  ~Handle() { finish(); }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;

  // In debug mode it issues work, and what that runs may need the GIL.
  void finish() {
    if (sequence_ == nullptr) return;
    Sequence& ended = *std::exchange(sequence_, nullptr);
    if (pool_.custody() == nullptr) return pool_.finish(ended);
    const nb::gil_scoped_release open;
    pool_.finish(ended);
  }
  PagedPool& pool() const { return pool_; }
  Sequence& sequence() const {
    if (sequence_ == nullptr) throw nb::value_error("the sequence was finished; open another");
    return *sequence_;
  }

 private:
  PagedPool& pool_;
  Sequence* sequence_;
};

std::unique_ptr<Handle> open(BoundPagedPool& pool, const Tokens& tokens, std::uint64_t stream) {
  const std::span<const Token> span = span_of(tokens);
  const Leaving released{};
  return std::make_unique<Handle>(pool, pool.open(span, pool.channel(stream)));
}

void grow(const Handle& h, std::uint32_t tokens, std::uint64_t stream) {
  Sequence& sequence = h.sequence();
  const Leaving released{};
  h.pool().grow(sequence, tokens, h.pool().channel(stream));
}

bool commit(const Handle& h, const Tokens& tokens, std::uint64_t stream) {
  const std::span<const Token> span = span_of(tokens);
  Sequence& sequence = h.sequence();
  const Leaving released{};
  return h.pool().commit(sequence, span, h.pool().channel(stream));
}

void use(const Handle& h, std::uint64_t stream) {
  Sequence& sequence = h.sequence();
  const Leaving released{};
  h.pool().use(sequence, h.pool().channel(stream));
}

std::unique_ptr<Handle> fork(BoundPagedPool& pool, const Handle& h, std::uint64_t stream) {
  const Sequence& sequence = h.sequence();
  const Leaving released{};
  Sequence* twin = pool.fork(sequence, pool.channel(stream));
  return twin == nullptr ? nullptr : std::make_unique<Handle>(pool, *twin);
}

std::vector<PageId> table_of(const Handle& h) {
  const auto table = h.sequence().table();
  return {table.begin(), table.end()};
}

void bind_sequence(nb::module_& p) {
  nb::class_<Handle>(p, "Sequence",
                     "The pages of one sequence, in the order of its tokens. Streams go by their driver id.")
      .def_prop_ro("table", &table_of, "The pages, by number.")
      .def_prop_ro(
          "room", [](const Handle& h) { return h.sequence().room(); }, "Tokens that it has pages for.")
      .def_prop_ro(
          "written", [](const Handle& h) { return h.sequence().written(); }, "Tokens found or committed.")
      .def("grow", &grow, "tokens"_a, "stream"_a, "Room for more tokens. Raises PoolExhausted, Pending, DriverError.")
      .def("commit", &commit, "tokens"_a, "stream"_a,
           "The next tokens (uint32) of its room are written by work that the stream was given. False: no such room.")
      .def("use", &use, "stream"_a, "Work on this stream touches its pages too.")
      .def("finish", &Handle::finish, nb::call_guard<FromPython>(),
           "Its end, after all that its streams were given. Never waits; again is nothing.");
}

PagedOptions options_of(std::string name, std::uint64_t page_bytes, std::uint32_t pages, std::uint32_t page_tokens,
                        std::uint32_t index, std::int64_t wait_limit_ns, Sink* tape,
                        std::optional<std::uint64_t> quarantine) {
  PagedOptions o;
  o.name = std::move(name);
  o.page_bytes = page_bytes;
  o.pages = pages;
  o.page_tokens = page_tokens;
  o.index = index;
  o.wait_limit = std::chrono::nanoseconds(wait_limit_ns);
  o.tape = tape;
  if (quarantine) o.debug = PagedDebug{*quarantine, &Caller::place};
  return o;
}

std::optional<std::string> walk(BoundPagedPool& pool) {
  const std::string_view broken = pool.walk();
  if (broken.empty()) return std::nullopt;
  return std::string(broken);
}

// Without debug mode nothing is ever found.
void bind_debug(nb::class_<BoundPagedPool>& pool) {
  pool.def(
          "check",
          [](BoundPagedPool& p) {
            if (p.custody() != nullptr) p.check();
          },
          Open(), "Looks at every page in quarantine, and waits for what that takes.")
      .def_prop_ro("reports",
                   [](const BoundPagedPool& p) {
                     return p.custody() == nullptr ? std::vector<Report>{} : p.custody()->reports();
                   })
      .def_prop_ro(
          "unseen", [](const BoundPagedPool& p) { return p.custody() == nullptr ? 0 : p.custody()->blocks_unseen(); },
          "Pages that could not be looked at.")
      .def_prop_ro(
          "staging_reserved",
          [](const BoundPagedPool& p) { return p.custody() == nullptr ? 0 : p.custody()->staging_reserved(); },
          "Pinned bytes that its checks hold.");
}

void bind_pool_of_pages(nb::module_& p) {
  nb::class_<BoundPagedPool> pool(p, "PagedPool",
                                  "Fixed blocks in one reservation, held by sequences in stream order.");
  pool.def(
          "__init__",
          [](BoundPagedPool* self, Domain& domain, std::string name, std::uint64_t page_bytes, std::uint32_t pages,
             std::uint32_t page_tokens, std::uint32_t index, std::int64_t wait_limit_ns, Sink* tape,
             std::optional<std::uint64_t> quarantine) {
            const Leaving released{};
            new (self) BoundPagedPool(domain, options_of(std::move(name), page_bytes, pages, page_tokens, index,
                                                         wait_limit_ns, tape, quarantine));
          },
          "domain"_a, "name"_a, nb::kw_only(), "page_bytes"_a, "pages"_a, "page_tokens"_a, "index"_a = 0,
          "wait_limit_ns"_a = std::int64_t{10'000'000'000}, "tape"_a = nb::none(), "quarantine"_a = nb::none(),
          nb::keep_alive<1, 2>(), nb::keep_alive<1, 9>(),
          "With `quarantine` in debug mode, so many bytes of it. Raises BadInput for an impossible shape, DriverError.")
      .def("open", &open, "tokens"_a, "stream"_a, nb::keep_alive<0, 1>(),
           "A sequence that begins with the pages that hold the first of these tokens (uint32) already.")
      .def("fork", &fork, "sequence"_a, "stream"_a, nb::keep_alive<0, 1>(),
           nb::sig("def fork(self, sequence: Sequence, stream: int) -> Sequence | None"),
           "The same tokens on the same pages. None: some of the room is not written.")
      .def("address", nb::overload_cast<PageId>(&PagedPool::address, nb::const_), "page"_a)
      .def("limit", &PagedPool::limit, "pages"_a, Open(), "At most so many pages live at once.")
      .def(
          "available", [](BoundPagedPool& pool, std::uint64_t stream) { return pool.available(pool.channel(stream)); },
          "stream"_a, Open(), "Pages that the stream can have without a wait.")
      .def(
          "gauges", [](BoundPagedPool& pool) { return pool.gauges(std::nullopt); }, Open())
      .def(
          "gauges", [](BoundPagedPool& pool, std::uint64_t stream) { return pool.gauges(pool.channel(stream)); },
          "stream"_a, Open())
      .def("walk", &walk, Open(), "The full check: what is wrong, or None.");
  bind_debug(pool);
}

}  // namespace

void bind_paged(nb::module_& m) {
  nb::module_ p = m.def_submodule("paged", "The paged pool.");
  bind_sequence(p);
  bind_pool_of_pages(p);
}

}  // namespace forebay
