#include "validate/record/measurement.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <span>

#include "arch/error.hpp"
#include "arch/files.hpp"
#include "ops/csv.hpp"
#include "ops/op/text.hpp"
#include "validate/record/study.hpp"

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
        board_(header.find("board_MHz")),
        gpu_(header.find("gpu")),
        clock_(header.find("clock")),
        data_(header.find("data")),
        stack_(header.find("stack")),
        kernel_(header.find("kernel")),
        scope_(header.find("scope")),
        id_(header.find("id")),
        cache_(header.find("cache")),
        plan_(header.find("plan")),
        held_out_(header.find("held_out")) {}

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
    if (const std::string_view board = text(fields, board_); !board.empty()) {
      const auto set = positive_number(board);
      if (!set) throw BadInput("board_MHz: expected a number above 0 or nothing, found '" + std::string(board) + "'");
      row.board_clock = *set * units::MHz;
    }
    if (const std::string_view clock = text(fields, clock_); !clock.empty())
      row.clock = read_clock_mode(clock, "clock");
    if (const std::string_view data = text(fields, data_); !data.empty()) row.data = read_data_pattern(data, "data");
    row.gpu = text(fields, gpu_);
    row.stack = text(fields, stack_);
    row.kernel = text(fields, kernel_);
    row.scope = text(fields, scope_);
    row.id = text(fields, id_);
    if (const std::string_view cache = text(fields, cache_); cache == "warm") row.warm = true;
    else if (!cache.empty() && cache != "cold")
      throw BadInput("cache: expected cold or warm, found '" + std::string(cache) + "'");
    row.plan = text(fields, plan_);
    // The shape as the file has it: the split was made on published texts.
    const bool flagged = read_held_out_flag(text(fields, held_out_), "held_out");
    row.held_out = flagged ? HeldOut::by_flag : plumbline::held_out(fields[op_], fields[shape_]);
    return row;
  }

 private:
  static std::string_view text(std::span<const std::string_view> fields, std::optional<std::size_t> at) {
    return at ? fields[*at] : std::string_view();
  }

  std::size_t op_, shape_, time_;
  std::optional<std::size_t> dtype_, power_, board_, gpu_, clock_, data_, stack_, kernel_, scope_, id_, cache_, plan_,
      held_out_;
};

}  // namespace

namespace {

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

void read_measurement_file(const std::string& file, const std::vector<RowFilter>& where, Measurements& into) {
  const std::size_t first = into.rows.size();
  read_measurements(read_text_file(file), file, where, into);
  const Protocols protocols = Protocols::beside(file);
  for (std::size_t i = first; i < into.rows.size(); ++i) {
    Measurement& row = into.rows[i];
    row.protocol = protocols.of(std::string(op_name(row.op)), row.stack);
  }
}

}  // namespace plumbline
