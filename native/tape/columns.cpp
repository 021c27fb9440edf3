// columns: how rows are pushed into vectors and looked at again.
#include "tape/columns.hpp"

namespace forebay {
namespace {

// A column starts at the first row that knows it: the rows before hold zeros that `known` marks as nulls.
template <class T>
void put(std::vector<T>& column, T value, bool present, std::size_t rows) {
  if (!present) return;
  column.resize(rows);
  column.push_back(value);
}

}  // namespace

ColumnSet View::present() const {
  ColumnSet set = 0;
#define X(column, type) \
  if (!column.empty()) set |= bit(Column::column);
  FOREBAY_SCALARS(X)
#undef X
  return use_offsets.empty() ? set : set | bit(Column::uses);
}

Row View::row_at(std::size_t i, std::vector<Use>& into) const {
  Row row;
  row.kind = kind_at(i), row.known = known_at(i) & present();
#define X(column, type) \
  if (row.known & bit(Column::column)) row.column = column[i];
  FOREBAY_SCALARS(X)
#undef X
  into.clear();
  if (row.known & bit(Column::uses))
    for (std::uint64_t u = use_offsets[i]; u < use_offsets[i + 1]; ++u)
      into.push_back({use_address[u], use_size[u], static_cast<Mode>(use_mode[u]), static_cast<Extent>(use_extent[u]),
                      static_cast<Space>(use_space[u])});
  row.uses = into;
  return row;
}

void Columns::push(const Row& row) {
  const std::size_t rows = kind_.size();
  const ColumnSet known = row.known & kKindFills[static_cast<std::size_t>(row.kind)];
  present_ |= known;
  kind_.push_back(static_cast<std::uint8_t>(row.kind));
  known_.push_back(known);
#define X(column, type) \
  put<type>(column##_, known & bit(Column::column) ? row.column : type{}, present_ & bit(Column::column), rows);
  FOREBAY_SCALARS(X)
#undef X
  if (known & bit(Column::uses))
    for (const Use& use : row.uses) {
      use_address_.push_back(use.address);
      use_size_.push_back(use.size);
      use_mode_.push_back(static_cast<std::uint8_t>(use.mode));
      use_extent_.push_back(static_cast<std::uint8_t>(use.extent));
      use_space_.push_back(static_cast<std::uint8_t>(use.space));
    }
  if (known & bit(Column::text)) text_ += row.text;
  use_offsets_.push_back(use_address_.size());
  text_offsets_.push_back(text_.size());
}

void Columns::clear() { *this = Columns(); }

View Columns::view() const {
  View v;
  v.rows = rows(), v.kind = kind_, v.known = known_;
#define X(column, type) \
  if (present_ & bit(Column::column)) v.column = column##_;
  FOREBAY_SCALARS(X)
#undef X
  if (!(present_ & bit(Column::uses))) return v;
  v.use_offsets = use_offsets_, v.use_address = use_address_, v.use_size = use_size_;
  v.use_mode = use_mode_, v.use_extent = use_extent_, v.use_space = use_space_;
  return v;
}

std::string_view Columns::text(std::size_t row) const {
  return std::string_view(text_).substr(text_offsets_[row], text_offsets_[row + 1] - text_offsets_[row]);
}

}  // namespace forebay
