// Pieces of an HTML report: every text that comes from outside passes escaped(), every tag is closed, as XML asks.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/report/columns.hpp"

namespace plumbline::html {

/// As text or as an attribute's value: markup escaped, controls and bytes that are no UTF-8 as printable() has them.
std::string escaped(std::string_view text);

/// A name of JSON and CSV as words: "never_measured" -> "never measured".
std::string words(std::string_view name);

/// The first so many letters as text, with "..." where there are more; never within a letter.
std::string shortened(std::string_view text, std::size_t letters);

/// "12.50": two digits behind the point, which is a hundredth of a pixel or of a percent.
std::string fixed(double value);

/// A whole document. `body` is markup, `title` is text; `script` runs when all of it is there and holds no character
/// that XML escapes.
std::string document(std::string_view title, const std::string& body, std::string_view script = "");

/// <section> under a heading. A long one may be broken over printed pages.
std::string section(std::string_view heading, const std::string& markup, bool is_long = false);

struct Tile {
  std::string label, value, note;
};
/// The headline figures, side by side.
std::string tiles(const std::vector<Tile>& all);

/// Label and text, a line each.
std::string facts(const std::vector<std::pair<std::string, std::string>>& all);
std::string bullets(const std::vector<std::string>& sentences);
/// Several lines of plain text, as they are.
std::string preformatted(std::string_view text);
std::string note(std::string_view text);

/// The same columns and cells as the text table's.
std::string table(const Columns& columns);
/// Tables whose last cells are sentences or long words: these are broken where a line is full.
std::string worded(const std::string& markup);
/// The same for the pages' script: it sorts by a heading and keeps rows by words (script.hpp).
std::string sorting_table(const Columns& columns);

/// A row of a table that is no plain list of cells: cells with classes and styles of their own.
struct Cell {
  std::string text;
  bool right = false;
  double share = -1;  ///< at least 0: a bar behind the text, as long as that part of the cell
  std::string hint;   ///< shown on hovering
};
std::string table_row(const std::vector<Cell>& cells, std::string_view css = "");
std::string table_head(const std::vector<Columns::Column>& columns);
/// <table> that scrolls sideways where it is wider than the page.
std::string table_of(const std::string& head, const std::string& rows, bool sorts = false);

}  // namespace plumbline::html
