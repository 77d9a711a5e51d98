#include "validate/measurement.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>

#include "arch/error.hpp"
#include "arch/files.hpp"
#include "ops/op_text.hpp"

namespace plumbline {

namespace {

constexpr std::size_t kNoColumn = static_cast<std::size_t>(-1);

/// Takes the next record off `text`: RFC 4180 fields, quotes may hide commas and line ends. False when none is left.
/// `lines` is how many lines it took.
bool next_record(std::string_view& text, std::vector<std::string>& fields, long& lines) {
  fields.clear();
  lines = 0;
  if (text.empty()) return false;
  bool quoted = false;
  std::string field;
  std::size_t at = 0;
  for (; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '\n') ++lines;
    if (quoted) {
      if (c != '"') {
        field += c;
      } else if (at + 1 < text.size() && text[at + 1] == '"') {
        field += c;
        ++at;
      } else {
        quoted = false;
      }
    } else if (c == '"' && field.empty()) {
      quoted = true;
    } else if (c == ',') {
      fields.push_back(std::move(field));
      field.clear();
    } else if (c == '\n') {
      break;
    } else if (c != '\r') {
      field += c;
    }
  }
  fields.push_back(std::move(field));
  text.remove_prefix(std::min(at + 1, text.size()));
  return true;
}

bool blank(const std::vector<std::string>& fields) {
  return (fields.size() == 1 && fields[0].empty()) || (!fields[0].empty() && fields[0][0] == '#');
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  for (;;) {
    const std::size_t end = text.find(separator);
    parts.emplace_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

std::optional<double> positive_number(const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value) || value <= 0) return {};
  return value;
}

/// Where each column that we know stands in this file.
class Columns {
 public:
  Columns(std::vector<std::string> header, const std::string& place) : header_(std::move(header)) {
    op_ = needed("op", place);
    shape_ = needed("shape", place);
    time_ = needed("measured_us", place);
    dtype_ = find("dtype");
    power_ = find("measured_W");
    gpu_ = find("gpu");
    clock_ = find("clock");
    stack_ = find("stack");
    kernel_ = find("kernel");
    scope_ = find("scope");
    id_ = find("id");
  }

  std::size_t needed(const std::string& column, const std::string& place) const {
    const std::size_t at = find(column);
    if (at != kNoColumn) return at;
    throw BadInput(place + ":1: no column '" + column + "'" + did_you_mean(column, header_));
  }

  std::size_t count() const { return header_.size(); }

  Measurement read(const std::vector<std::string>& fields) const {
    if (fields.size() != header_.size()) {
      throw BadInput("expected " + std::to_string(header_.size()) + " fields, found " + std::to_string(fields.size()));
    }
    Measurement row;
    const auto time = positive_number(fields[time_]);
    if (!time) throw BadInput("measured_us: expected a number above 0, found '" + fields[time_] + "'");
    row.time = *time * units::us;
    row.op = parse_op(fields[op_], text(fields, dtype_), fields[shape_]);
    row.shape = shape_text(row.op);
    if (const std::string watts = text(fields, power_); !watts.empty()) {
      const auto power = positive_number(watts);
      if (!power) throw BadInput("measured_W: expected a number above 0 or nothing, found '" + watts + "'");
      row.power = *power * units::W;
    }
    if (const std::string clock = text(fields, clock_); !clock.empty()) row.clock = read_clock_mode(clock, "clock");
    row.gpu = text(fields, gpu_);
    row.stack = text(fields, stack_);
    row.kernel = text(fields, kernel_);
    row.scope = text(fields, scope_);
    row.id = text(fields, id_);
    return row;
  }

 private:
  std::size_t find(std::string_view column) const {
    const auto at = std::find(header_.begin(), header_.end(), column);
    return at == header_.end() ? kNoColumn : static_cast<std::size_t>(at - header_.begin());
  }
  static std::string text(const std::vector<std::string>& fields, std::size_t at) {
    return at == kNoColumn ? std::string() : fields[at];
  }

  std::vector<std::string> header_;
  std::size_t op_, shape_, time_, dtype_, power_, gpu_, clock_, stack_, kernel_, scope_, id_;
};

}  // namespace

bool RowFilter::keeps(std::string_view field) const {
  return std::any_of(values.begin(), values.end(), [&](const std::string& value) {
    return contains ? field.find(value) != std::string_view::npos : field == value;
  });
}

RowFilter parse_row_filter(std::string_view text) {
  const std::size_t at = text.find_first_of("=~");
  if (at == std::string_view::npos || at == 0 || at + 1 == text.size()) {
    throw BadInput("--where '" + std::string(text) + "': expected COLUMN=VALUE[,VALUE...] or COLUMN~TEXT");
  }
  RowFilter filter;
  filter.text = text;
  filter.column = text.substr(0, at);
  filter.contains = text[at] == '~';
  filter.values =
      filter.contains ? std::vector<std::string>{std::string(text.substr(at + 1))} : split(text.substr(at + 1), ',');
  return filter;
}

ClockMode read_clock_mode(std::string_view text, const std::string& place) {
  if (text == "burst") return ClockMode::burst;
  if (text == "steady") return ClockMode::steady;
  throw BadInput(place + ": expected burst or steady, found '" + std::string(text) + "'" +
                 did_you_mean(text, {"burst", "steady"}));
}

std::string_view text_of(ClockMode clock) { return clock == ClockMode::burst ? "burst" : "steady"; }

void read_measurements(std::string_view csv, const std::string& place, const std::vector<RowFilter>& where,
                       Measurements& into) {
  if (csv.substr(0, 3) == "\xEF\xBB\xBF") csv.remove_prefix(3);
  std::vector<std::string> fields;
  long line = 1, lines = 0;
  while (next_record(csv, fields, lines) && blank(fields)) line += lines;
  if (fields.empty()) throw BadInput(place + ": empty; expected a header with op, dtype, shape, measured_us");
  const Columns columns(fields, place);
  std::vector<std::size_t> filter_columns;
  for (const RowFilter& filter : where) filter_columns.push_back(columns.needed(filter.column, place));
  for (line += lines; next_record(csv, fields, lines); line += lines) {
    if (blank(fields)) continue;
    bool kept = true;
    for (std::size_t i = 0; i < where.size() && fields.size() == columns.count(); ++i) {
      kept = kept && where[i].keeps(fields[filter_columns[i]]);
    }
    if (!kept) {
      ++into.filtered;
      continue;
    }
    const std::string row_place = place + ":" + std::to_string(line);
    try {
      into.rows.push_back(columns.read(fields));
      into.rows.back().place = row_place;
    } catch (const Error& error) {
      into.bad.push_back(row_place + ": " + error.what());
    }
  }
}

}  // namespace plumbline
