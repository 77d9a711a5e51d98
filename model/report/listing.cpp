#include "model/report/listing.hpp"

#include <stdexcept>

namespace plumbline {

void Listing::add(std::vector<Cell> cells) {
  if (cells.size() != columns_.size()) throw std::logic_error("a row of a list does not fit its columns");
  rows_.push_back(std::move(cells));
}

std::string Listing::table(const TextStyle& style) const {
  std::vector<Columns::Column> columns;
  for (const Column& column : columns_) columns.push_back({column.title, column.align});
  Columns table(std::move(columns));
  for (const auto& row : rows_) {
    std::vector<std::string> texts;
    for (const Cell& cell : row) texts.push_back(cell.text);
    table.add(std::move(texts));
  }
  return table.text(0, style);
}

}  // namespace plumbline
