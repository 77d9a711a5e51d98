// Aligned columns of text, and the few terminal styles of the tables.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace plumbline {

/// Whether a table may use ANSI styles. Plain by default: pipes, files and NO_COLOR get plain text.
struct TextStyle {
  bool colour = false;

  std::string bold(std::string_view text) const { return paint("1", text); }
  std::string good(std::string_view text) const { return paint("32", text); }
  std::string bad(std::string_view text) const { return paint("1;31", text); }

 private:
  std::string paint(std::string_view code, std::string_view text) const;
};

/// Rows of cells, padded to the widest cell of their column. Numbers go right, words go left.
class Columns {
 public:
  enum class Align { left, right };
  struct Column {
    std::string title;
    Align align = Align::left;
  };

  explicit Columns(std::vector<Column> columns) : columns_(std::move(columns)) {}
  /// Missing cells are empty; surplus ones are our bug (std::logic_error).
  void add(std::vector<std::string> cells);
  /// A line under the titles or above a total.
  void add_rule();
  /// Every line begins with `indent` spaces; no line ends in blanks. Titles are bold when `style` has colour.
  std::string text(std::size_t indent, const TextStyle& style) const;

  // For a writer of another format: titles, and the rows under them; an empty row is a rule.
  const std::vector<Column>& columns() const { return columns_; }
  const std::vector<std::vector<std::string>>& rows() const { return rows_; }

 private:
  std::vector<std::size_t> widths() const;
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;  // an empty row is a rule
};

inline constexpr std::size_t kPageWidth = 118;

/// Breaks `text` at blanks so that no line passes `width`. The caller has put the first `hanging` columns before it;
/// further lines start with as many spaces.
std::string wrapped(std::string_view text, std::size_t width, std::size_t hanging);

/// Every line of `text` that passes kPageWidth wrapped, its further lines deeper than its first; always ends a line.
std::string fitted(std::string_view text);

/// "  label       text", the text wrapped beside its label.
std::string labelled(std::string_view label, std::string_view text);
/// "  - sentence" a line, wrapped, under a bold title; nothing when there are none.
std::string bullets(std::string_view title, const std::vector<std::string>& sentences, const TextStyle& style);

/// "37.5 %" with three significant digits at most; "0 %" and "<0.1 %" for the small.
std::string percent(double fraction);

/// Large counts the way model cards write them: "110 M", "8.03 B", "1.20 T".
std::string parameter_count(double count);

}  // namespace plumbline
