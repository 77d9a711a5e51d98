#include "validate/measurement.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <span>

#include "arch/error.hpp"
#include "arch/files.hpp"
#include "ops/csv.hpp"
#include "ops/op_text.hpp"

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

std::optional<double> positive_number(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value) || value <= 0) return {};
  return value;
}

/// Where each column that we know stands in this file.
class Columns {
 public:
  explicit Columns(const CsvHeader& header)
      : op_(header.require("op")),
        shape_(header.require("shape")),
        time_(header.require("measured_us")),
        dtype_(header.find("dtype")),
        power_(header.find("measured_W")),
        gpu_(header.find("gpu")),
        clock_(header.find("clock")),
        stack_(header.find("stack")),
        kernel_(header.find("kernel")),
        scope_(header.find("scope")),
        id_(header.find("id")) {}

  Measurement read(std::span<const std::string_view> fields) const {
    Measurement row;
    const auto time = positive_number(fields[time_]);
    if (!time) throw BadInput("measured_us: expected a number above 0, found '" + std::string(fields[time_]) + "'");
    row.time = *time * units::us;
    row.op = parse_op(fields[op_], text(fields, dtype_), fields[shape_]);
    row.shape = shape_text(row.op);
    if (const std::string_view watts = text(fields, power_); !watts.empty()) {
      const auto power = positive_number(watts);
      if (!power)
        throw BadInput("measured_W: expected a number above 0 or nothing, found '" + std::string(watts) + "'");
      row.power = *power * units::W;
    }
    if (const std::string_view clock = text(fields, clock_); !clock.empty())
      row.clock = read_clock_mode(clock, "clock");
    row.gpu = text(fields, gpu_);
    row.stack = text(fields, stack_);
    row.kernel = text(fields, kernel_);
    row.scope = text(fields, scope_);
    row.id = text(fields, id_);
    return row;
  }

 private:
  static std::string_view text(std::span<const std::string_view> fields, std::optional<std::size_t> at) {
    return at ? fields[*at] : std::string_view();
  }

  std::size_t op_, shape_, time_;
  std::optional<std::size_t> dtype_, power_, gpu_, clock_, stack_, kernel_, scope_, id_;
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
  CsvReader reader(csv, place);
  const CsvHeader header(reader);
  const Columns columns(header);
  std::vector<std::size_t> filter_columns;
  for (const RowFilter& filter : where) filter_columns.push_back(header.require(filter.column));
  while (reader.next()) {
    const auto fields = reader.fields();
    const std::string row_place = place + ":" + std::to_string(reader.line());
    if (fields.size() != header.size()) {
      into.bad.push_back(row_place + ": expected " + std::to_string(header.size()) + " fields, found " +
                         std::to_string(fields.size()));
      continue;
    }
    bool kept = true;
    for (std::size_t i = 0; i < where.size(); ++i) kept = kept && where[i].keeps(fields[filter_columns[i]]);
    if (!kept) {
      ++into.filtered;
      continue;
    }
    try {
      into.rows.push_back(columns.read(fields));
      into.rows.back().place = row_place;
    } catch (const Error& error) {
      into.bad.push_back(row_place + ": " + error.what());
    }
  }
}

}  // namespace plumbline
