// rows: what a pool of any kind says on a tape: a block that changed hands, a request that was refused, a flush. Where
// a row goes, and whether anybody wants it, is its pool's; the recording's own numbers are driver/pool_rows.hpp's.
#pragma once

#include <cstdint>

#include "pool/domain.hpp"
#include "tape/columns.hpp"

namespace forebay {

inline Row pool_row(Kind kind, const Domain& domain, std::uint32_t pool) {
  Row row{.kind = kind};
  row.device = static_cast<std::int16_t>(domain.device());
  row.pool = pool;
  row.known = columns(Column::device, Column::pool);
  return row;
}

// `size` bytes in the order of the clock's stream, of which the program asked for `requested`.
inline Row sized_row(Kind kind, const Domain& domain, std::uint32_t pool, const Clock& clock, std::uint64_t size,
                     std::uint64_t requested) {
  Row row = pool_row(kind, domain, pool);
  row.stream = clock.on_tape.load(std::memory_order_relaxed);
  row.size = size;
  row.requested = requested;
  row.known |= columns(Column::stream, Column::size, Column::requested);
  return row;
}

inline Row block_row(Kind kind, const Domain& domain, std::uint32_t pool, const Clock& clock, Address address,
                     std::uint64_t size, std::uint64_t requested) {
  Row row = sized_row(kind, domain, pool, clock, size, requested);
  row.address = address;
  row.known |= columns(Column::address);
  return row;
}

inline Row refusal_row(const Domain& domain, std::uint32_t pool, const Clock& clock, std::uint64_t bytes) {
  return sized_row(Kind::oom, domain, pool, clock, bytes, bytes);
}

}  // namespace forebay
