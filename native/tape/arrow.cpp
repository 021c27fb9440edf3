// arrow: the messages of an Arrow IPC stream. Field numbers are those of Arrow's format/Schema.fbs and Message.fbs.
#include "tape/arrow.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <vector>

#include "tape/flat.hpp"

namespace forebay {
namespace {

using At = FlatBuilder::At;
static_assert(std::endian::native == std::endian::little, "buffers are written as they lie in memory");

enum class Type : std::uint8_t { integer = 2, utf8 = 5, list = 12, structure = 13 };
enum class Header : std::uint8_t { schema = 1, batch = 3 };
constexpr std::int16_t kVersion5 = 4;

// A type's own table: empty, but for an integer its width and sign.
At type_table(FlatBuilder& b, Type type, int bits, bool is_signed) {
  b.begin();
  if (type == Type::integer) {
    b.field<std::int32_t>(0, bits);
    b.field<std::uint8_t>(1, is_signed ? 1 : 0);
  }
  return b.end();
}

struct FieldOf {
  std::string_view name;
  Type type = Type::integer;
  int bits = 0;
  bool is_signed = false, nullable = false;
};

At field(FlatBuilder& b, const FieldOf& f, std::span<const At> children = {}) {
  const At name = b.string(f.name), type = type_table(b, f.type, f.bits, f.is_signed), below = b.vector(children);
  b.begin();
  b.link(0, name);
  b.field<std::uint8_t>(1, f.nullable ? 1 : 0);
  b.field<std::uint8_t>(2, static_cast<std::uint8_t>(f.type));
  b.link(3, type);
  b.link(5, below);
  return b.end();
}

template <class T>
At integer(FlatBuilder& b, std::string_view name, bool nullable = false) {
  return field(b, {.name = name, .bits = 8 * sizeof(T), .is_signed = std::is_signed_v<T>, .nullable = nullable});
}

At uses_field(FlatBuilder& b) {
  const At parts[] = {integer<std::uint64_t>(b, "address"), integer<std::uint64_t>(b, "size"),
                      integer<std::uint8_t>(b, "mode"), integer<std::uint8_t>(b, "extent"),
                      integer<std::uint8_t>(b, "space")};
  const At item[] = {field(b, {.name = "item", .type = Type::structure}, parts)};
  return field(b, {.name = "uses", .type = Type::list, .nullable = true}, item);
}

std::vector<At> fields(FlatBuilder& b) {
  std::vector<At> all{integer<std::uint8_t>(b, "kind")};
#define X(column, type) all.push_back(integer<type>(b, #column, true));
  FOREBAY_SCALARS(X)
#undef X
  all.push_back(uses_field(b));
  all.push_back(field(b, {.name = "text", .type = Type::utf8, .nullable = true}));
  return all;
}

At key_value(FlatBuilder& b, std::string_view key, std::string_view value) {
  const At k = b.string(key), v = b.string(value);
  b.begin();
  b.link(0, k);
  b.link(1, v);
  return b.end();
}

std::string kind_names() {
  std::string names;
  for (const std::string_view name : kKindNames) (names += names.empty() ? "" : ",") += name;
  return names;
}

// The frame of a message: continuation mark, length of the metadata, metadata; the body follows.
std::string message(FlatBuilder& b, Header type, At header, std::size_t body) {
  b.begin();
  b.field<std::int64_t>(3, static_cast<std::int64_t>(body));
  b.link(2, header);
  b.field<std::int16_t>(0, kVersion5);
  b.field<std::uint8_t>(1, static_cast<std::uint8_t>(type));
  const std::string metadata = b.finish(b.end());
  const std::uint32_t frame[] = {0xFFFFFFFFu, static_cast<std::uint32_t>(metadata.size())};
  return std::string(reinterpret_cast<const char*>(frame), sizeof frame) + metadata;
}

std::string schema_message(Metadata metadata) {
  FlatBuilder b;
  const std::vector<At> columns = fields(b);
  std::vector<At> entries{key_value(b, "forebay.schema", std::to_string(kSchemaVersion)),
                          key_value(b, "forebay.kinds", kind_names())};
  for (const auto& [key, value] : metadata) entries.push_back(key_value(b, key, value));
  const At list = b.vector(columns), extra = b.vector(entries);
  b.begin();
  b.field<std::int16_t>(0, 0);  // little endian
  b.link(1, list);
  b.link(2, extra);
  return message(b, Header::schema, b.end(), 0);
}

// The body of a record batch, with the description of its nodes and buffers.
class Body {
 public:
  explicit Body(std::size_t bytes) { bytes_.reserve(bytes); }

  void node(std::size_t rows, std::size_t nulls) { nodes_.insert(nodes_.end(), {as_long(rows), as_long(nulls)}); }

  template <class T>
  void values(std::span<const T> of) {
    buffers_.insert(buffers_.end(), {as_long(bytes_.size()), as_long(of.size_bytes())});
    bytes_.append(reinterpret_cast<const char*>(of.data()), of.size_bytes());
    bytes_.append(-bytes_.size() % 8, '\0');
  }

  // A column's node and its bitmap of known cells; no bitmap where all are known.
  void validity(std::span<const ColumnSet> known, Column column) {
    std::vector<std::uint8_t> bits((known.size() + 7) / 8);
    std::size_t set = 0;
    for (std::size_t i = 0; i < known.size(); ++i) {
      const bool is = known[i] & bit(column);
      bits[i / 8] |= static_cast<std::uint8_t>(is << (i % 8));
      set += is;
    }
    node(known.size(), known.size() - set);
    values<std::uint8_t>(set == known.size() ? std::span<const std::uint8_t>{} : bits);
  }

  template <class T>
  void dense(std::span<const T> of) {
    node(of.size(), 0);
    values<std::uint8_t>({});
    values(of);
  }

  std::string message() const {
    FlatBuilder b;
    const At nodes = b.pairs(nodes_), buffers = b.pairs(buffers_);
    b.begin();
    b.field<std::int64_t>(0, nodes_.front());
    b.link(1, nodes);
    b.link(2, buffers);
    return forebay::message(b, Header::batch, b.end(), bytes_.size()) + bytes_;
  }

 private:
  static std::int64_t as_long(std::size_t n) { return static_cast<std::int64_t>(n); }

  std::string bytes_;
  std::vector<std::int64_t> nodes_, buffers_;
};

template <class T>
void scalar(Body& body, const View& v, Column column, std::span<const T> values) {
  const std::vector<T> none(values.empty() ? v.rows : 0);
  body.validity(v.known, column);
  body.values(values.empty() ? std::span<const T>(none) : values);
}

// Lists and strings count in 32 bits: a batch holds a few thousand rows.
std::vector<std::int32_t> offsets32(std::span<const std::uint64_t> offsets, std::size_t rows) {
  if (offsets.empty()) return std::vector<std::int32_t>(rows + 1);
  return {offsets.begin(), offsets.end()};
}

void uses_column(Body& body, const View& v) {
  body.validity(v.known, Column::uses);
  body.values<std::int32_t>(offsets32(v.use_offsets, v.rows));
  body.node(v.use_address.size(), 0);
  body.values<std::uint8_t>({});
  body.dense(v.use_address);
  body.dense(v.use_size);
  body.dense(v.use_mode);
  body.dense(v.use_extent);
  body.dense(v.use_space);
}

void text_column(Body& body, const View& v, const Columns& rows) {
  std::vector<std::int32_t> offsets{0};
  std::string all;
  for (std::size_t i = 0; i < v.rows; ++i) {
    all += rows.text(i);
    offsets.push_back(static_cast<std::int32_t>(all.size()));
  }
  body.validity(v.known, Column::text);
  body.values<std::int32_t>(offsets);
  body.values<char>(all);
}

std::string batch_message(const Columns& rows) {
  const View v = rows.view();
  Body body(v.rows * 128);
  body.dense(v.kind);
#define X(column, type) scalar<type>(body, v, Column::column, v.column);
  FOREBAY_SCALARS(X)
#undef X
  uses_column(body, v);
  text_column(body, v, rows);
  return body.message();
}

}  // namespace

ArrowStream::ArrowStream(const std::string& path, Metadata metadata)
    : file_(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644)) {
  const int failed = file_ < 0 ? errno : put(schema_message(metadata));
  if (failed == 0) return;
  if (file_ >= 0) ::close(file_);
  throw std::system_error(failed, std::generic_category(), path);
}

ArrowStream::~ArrowStream() {
  if (file_ >= 0) ::close(file_);
}

int ArrowStream::write(const Columns& rows) { return rows.rows() == 0 ? 0 : put(batch_message(rows)); }

int ArrowStream::close() {
  if (file_ < 0) return 0;
  const int failed = put(std::string("\xFF\xFF\xFF\xFF\0\0\0\0", 8));
  const int closed = ::close(file_) == 0 ? 0 : errno;
  file_ = -1;
  return failed ? failed : closed;
}

// A write that the disk cut short is taken back: a file never holds half a batch while its process lives.
int ArrowStream::put(const std::string& bytes) {
  for (std::size_t done = 0; done < bytes.size();) {
    const ssize_t wrote = ::write(file_, bytes.data() + done, bytes.size() - done);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) {
      const int why = errno;
      [[maybe_unused]] const int cut =
          ::ftruncate(file_, size_);  // a pipe or a device cannot be cut, nor be read again
      return why;
    }
    done += static_cast<std::size_t>(wrote);
  }
  size_ += static_cast<long long>(bytes.size());
  return 0;
}

}  // namespace forebay
