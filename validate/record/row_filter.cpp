#include "validate/record/row_filter.hpp"

#include <algorithm>
#include <cmath>
#include <optional>

#include "arch/error.hpp"
#include "validate/record/number_field.hpp"

namespace plumbline {

namespace {

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  for (;;) {
    const std::size_t end = text.find(separator);
    parts.emplace_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

/// The number behind `key` in "M=16;N=32;K=64".
std::optional<double> shape_number(std::string_view shape, std::string_view key) {
  while (!shape.empty()) {
    const std::string_view pair = shape.substr(0, shape.find_first_of(";,"));
    shape.remove_prefix(std::min(shape.size(), pair.size() + 1));
    const std::size_t equals = pair.find('=');
    if (equals != std::string_view::npos && pair.substr(0, equals) == key)
      return positive_number(pair.substr(equals + 1));
  }
  return {};
}

[[noreturn]] void refuse_filter(std::string_view text) {
  throw BadInput("--where '" + std::string(text) +
                 "': expected COLUMN=VALUE[,VALUE...], COLUMN~TEXT, COLUMN!~TEXT, or a shape key compared: S>=127, "
                 "Hq/Hkv<=16");
}

RowFilter parse_comparison(std::string_view text, std::size_t at) {
  RowFilter filter;
  filter.text = text;
  filter.column = "shape";
  filter.kind = text[at] == '>' ? RowFilter::Kind::at_least : RowFilter::Kind::at_most;
  filter.values = split(text.substr(0, at), '/');
  const auto limit = positive_number(text.substr(at + 2));
  if (!limit || filter.values.size() > 2 || filter.values.front().empty()) refuse_filter(text);
  filter.limit = *limit;
  return filter;
}

}  // namespace

bool RowFilter::keeps(std::string_view field) const {
  if (kind == Kind::at_least || kind == Kind::at_most) {
    const auto first = shape_number(field, values.front());
    const auto second = values.size() > 1 ? shape_number(field, values.back()) : std::optional<double>(1.0);
    if (!first || !second) return false;
    const double value = *first / *second;
    return kind == Kind::at_least ? value >= limit : value <= limit;
  }
  const bool any = std::any_of(values.begin(), values.end(), [&](const std::string& value) {
    return kind == Kind::equals ? field == value : field.find(value) != std::string_view::npos;
  });
  return any != (kind == Kind::lacks);
}

RowFilter parse_row_filter(std::string_view text) {
  const std::size_t at = text.find_first_of("=~<>!");
  if (at == std::string_view::npos || at == 0 || at + 1 == text.size()) refuse_filter(text);
  const std::string_view sign = text.substr(at, 2);
  if (sign == ">=" || sign == "<=") return parse_comparison(text, at);
  RowFilter filter;
  filter.text = text;
  filter.column = text.substr(0, at);
  std::size_t value = at + 1;
  if (text[at] == '=') {
    filter.kind = RowFilter::Kind::equals;
  } else if (text[at] == '~') {
    filter.kind = RowFilter::Kind::contains;
  } else if (sign == "!~" && at + 2 < text.size()) {
    filter.kind = RowFilter::Kind::lacks;
    value = at + 2;
  } else {
    refuse_filter(text);
  }
  const std::string_view rest = text.substr(value);
  filter.values =
      filter.kind == RowFilter::Kind::equals ? split(rest, ',') : std::vector<std::string>{std::string(rest)};
  return filter;
}

}  // namespace plumbline
