#include "model/report/html/markup.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <stdexcept>

#include "arch/printable.hpp"
#include "model/report/html/style.hpp"

namespace plumbline::html {

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : printable(text)) {
    switch (c) {
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '&': out += "&amp;"; break;
      case '"': out += "&quot;"; break;
      case '\'': out += "&#39;"; break;
      default: out += c;
    }
  }
  return out;
}

std::string words(std::string_view name) {
  std::string out(name);
  std::replace(out.begin(), out.end(), '_', ' ');
  return out;
}

std::string shortened(std::string_view text, std::size_t letters) {
  const std::string all = printable(text);
  std::size_t seen = 0, end = 0;
  while (end < all.size() && seen < letters) {
    ++end;
    while (end < all.size() && (static_cast<unsigned char>(all[end]) & 0xC0U) == 0x80U) ++end;  // UTF-8 goes on
    ++seen;
  }
  return end == all.size() ? all : all.substr(0, end) + "...";
}

std::string fixed(double value) {
  if (!std::isfinite(value)) throw std::logic_error("a place on a page is not finite");
  char text[64];
  std::snprintf(text, sizeof text, "%.2f", value);
  return text;
}

std::string document(std::string_view title, const std::string& body, std::string_view script) {
  return "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n"
         "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n<title>" +
         escaped(title) + "</title>\n<style>" + std::string(kStyle) + "</style>\n</head>\n<body>\n" + body +
         "<footer>Written by Plumbline's predict-model: predicted, not measured. Bands hold 90 % of what was measured "
         "of kernels like these.</footer>\n" +
         (script.empty() ? "" : "<script>" + std::string(script) + "</script>\n") + "</body>\n</html>\n";
}

std::string section(std::string_view heading, const std::string& markup, bool is_long) {
  return std::string(is_long ? "<section class=\"long\">\n" : "<section>\n") + "<h2>" + escaped(heading) + "</h2>\n" +
         markup + "</section>\n";
}

std::string tiles(const std::vector<Tile>& all) {
  std::string out = "<div class=\"tiles\">\n";
  for (const Tile& tile : all) {
    out += "<dl class=\"tile\"><dt>" + escaped(tile.label) + "</dt><dd class=\"value\">" + escaped(tile.value) +
           "</dd><dd class=\"note\">" + escaped(tile.note) + "</dd></dl>\n";
  }
  return out + "</div>\n";
}

std::string facts(const std::vector<std::pair<std::string, std::string>>& all) {
  std::string out = "<dl class=\"facts\">\n";
  for (const auto& [label, text] : all) {
    out += "<dt>" + escaped(label) + "</dt><dd>" + escaped(text) + "</dd>\n";
  }
  return out + "</dl>\n";
}

std::string bullets(const std::vector<std::string>& sentences) {
  std::string out = "<ul class=\"notes\">\n";
  for (const std::string& sentence : sentences) out += "<li>" + escaped(sentence) + "</li>\n";
  return out + "</ul>\n";
}

std::string preformatted(std::string_view text) {
  std::string out = "<pre>";
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    out += escaped(text.substr(0, end)) + "\n";
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out + "</pre>\n";
}

std::string note(std::string_view text) { return "<p class=\"note\">" + escaped(text) + "</p>\n"; }

std::string table_row(const std::vector<Cell>& cells, std::string_view css) {
  std::string out = css.empty() ? "<tr>" : "<tr class=\"" + std::string(css) + "\">";
  for (const Cell& cell : cells) {
    std::string classes = cell.right ? "right" : "";
    if (cell.share >= 0) classes += classes.empty() ? "share" : " share";
    out += "<td";
    if (!classes.empty()) out += " class=\"" + classes + "\"";
    if (cell.share >= 0) out += " style=\"--share:" + fixed(100 * std::min(1.0, cell.share)) + "%\"";
    if (!cell.hint.empty()) out += " title=\"" + escaped(cell.hint) + "\"";
    out += ">" + escaped(cell.text) + "</td>";
  }
  return out + "</tr>\n";
}

std::string table_head(const std::vector<Columns::Column>& columns) {
  std::string out = "<tr>";
  for (const Columns::Column& column : columns) {
    out += (column.align == Columns::Align::right ? "<th class=\"right\">" : "<th>") + escaped(column.title) + "</th>";
  }
  return out + "</tr>\n";
}

std::string table_of(const std::string& head, const std::string& rows, bool sorts) {
  return std::string("<div class=\"scroll\"><table") + (sorts ? " class=\"sorts\"" : "") + ">\n<thead>\n" + head +
         "</thead>\n<tbody>\n" + rows + "</tbody>\n</table></div>\n";
}

namespace {

std::string rows_of(const Columns& columns) {
  std::string rows;
  for (const std::vector<std::string>& row : columns.rows()) {
    if (row.empty()) continue;  // a rule of the text table
    std::vector<Cell> cells;
    for (std::size_t i = 0; i < columns.columns().size(); ++i) {
      cells.push_back({i < row.size() ? row[i] : "", columns.columns()[i].align == Columns::Align::right, -1, ""});
    }
    rows += table_row(cells);
  }
  return rows;
}

}  // namespace

std::string table(const Columns& columns) { return table_of(table_head(columns.columns()), rows_of(columns)); }

std::string worded(const std::string& markup) { return "<div class=\"words\">\n" + markup + "</div>\n"; }

std::string sorting_table(const Columns& columns) {
  return table_of(table_head(columns.columns()), rows_of(columns), true);
}

}  // namespace plumbline::html
