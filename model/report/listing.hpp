// A list of named things, for people as a table and for programs as JSON.
#pragma once

#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "model/report/columns.hpp"

namespace plumbline {

/// Rows of the same columns. A figure has its text, which may be rounded, and its value in the unit that the key names.
class Listing {
 public:
  struct Column {
    std::string title, key;
    Columns::Align align = Columns::Align::left;
  };
  struct Cell {
    std::string text;
    std::variant<std::string, double> value;

    Cell(std::string word) : text(word), value(std::move(word)) {}  // NOLINT(google-explicit-constructor)
    Cell(std::string shown, double figure) : text(std::move(shown)), value(figure) {}
  };

  explicit Listing(std::vector<Column> columns) : columns_(std::move(columns)) {}
  void add(std::vector<Cell> cells);

  std::string table(const TextStyle& style) const;
  /// An array of objects.
  std::string json() const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<Cell>> rows_;
};

}  // namespace plumbline
