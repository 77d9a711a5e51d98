#include "model/report/columns.hpp"

#include <algorithm>
#include <cstdio>
#include <stdexcept>

#include "arch/format.hpp"
#include "arch/printable.hpp"

namespace plumbline {

std::string TextStyle::paint(std::string_view code, std::string_view text) const {
  if (!colour) return std::string(text);
  return "\x1b[" + std::string(code) + "m" + std::string(text) + "\x1b[0m";
}

void Columns::add(std::vector<std::string> cells) {
  if (cells.empty() || cells.size() > columns_.size()) throw std::logic_error("table row does not fit its columns");
  for (std::string& cell : cells) cell = printable(cell);  // names come from files
  cells.resize(columns_.size());
  rows_.push_back(std::move(cells));
}

void Columns::add_rule() { rows_.emplace_back(); }

std::vector<std::size_t> Columns::widths() const {
  std::vector<std::size_t> widths;
  for (const Column& column : columns_) widths.push_back(column.title.size());
  for (const auto& row : rows_) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  return widths;
}

std::string Columns::text(std::size_t indent, const TextStyle& style) const {
  const std::vector<std::size_t> width = widths();
  std::size_t total = width.empty() ? 0 : 2 * (width.size() - 1);
  for (const std::size_t w : width) total += w;
  const auto line_of = [&](const auto& cell_of) {
    std::string line(indent, ' ');
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      const std::string& cell = cell_of(i);
      const std::string pad(width[i] - cell.size(), ' ');
      line += columns_[i].align == Align::right ? pad + cell : cell + pad;
      if (i + 1 < columns_.size()) line += "  ";
    }
    line.erase(line.find_last_not_of(' ') + 1);
    return line;
  };
  std::string out = style.bold(line_of([&](std::size_t i) -> const std::string& { return columns_[i].title; })) + "\n";
  for (const auto& row : rows_) {
    if (row.empty()) out += std::string(indent, ' ') + std::string(total, '-') + "\n";
    else out += line_of([&](std::size_t i) -> const std::string& { return row[i]; }) + "\n";
  }
  return out;
}

std::string wrapped(std::string_view text, std::size_t width, std::size_t hanging) {
  std::string out;
  std::size_t column = hanging;
  while (!text.empty()) {
    const std::size_t blank = text.find(' ');
    const std::string_view word = text.substr(0, blank);
    if (column > hanging && column + 1 + word.size() > width) {
      out += "\n" + std::string(hanging, ' ');
      column = hanging;
    } else if (!out.empty()) {
      out += ' ';
      ++column;
    }
    out += word;
    column += word.size();
    text = blank == text.npos ? std::string_view() : text.substr(blank + 1);
  }
  return out;
}

std::string fitted(std::string_view text) {
  constexpr std::size_t kDeeper = 4;
  std::string out;
  while (!text.empty()) {
    const std::size_t end = std::min(text.size(), text.find('\n'));
    const std::string_view line = text.substr(0, end);
    const std::size_t indent = std::min(line.size(), line.find_first_not_of(' '));
    out += line.substr(0, indent);
    out += line.size() <= kPageWidth ? std::string(line.substr(indent))
                                     : wrapped(line.substr(indent), kPageWidth, indent + kDeeper);
    out += '\n';
    text.remove_prefix(std::min(text.size(), end + 1));
  }
  return out;
}

std::string labelled(std::string_view label, std::string_view text) {
  constexpr std::size_t kTextColumn = 18;
  std::string line = "  " + std::string(label);
  line.resize(kTextColumn, ' ');
  return line + wrapped(text, kPageWidth, kTextColumn) + "\n";
}

std::string bullets(std::string_view title, const std::vector<std::string>& sentences, const TextStyle& style) {
  if (sentences.empty()) return "";
  std::string out = style.bold(title) + "\n";
  for (const std::string& sentence : sentences) out += "  - " + wrapped(sentence, kPageWidth, 4) + "\n";
  return out;
}

std::string percent(double fraction) {
  char text[40];
  const double value = 100.0 * fraction;
  if (value != 0 && value > -0.05 && value < 0.05) return "<0.1 %";
  std::snprintf(text, sizeof text, value > -9.95 && value < 9.95 && value != 0 ? "%.1f %%" : "%.0f %%", value);
  return text;
}

std::string parameter_count(double count) {
  if (count >= 1e12) return format(count / 1e12) + " T";
  if (count >= 1e9) return format(count / 1e9) + " B";
  return format(count / 1e6) + " M";
}

}  // namespace plumbline
