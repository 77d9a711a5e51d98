// Lists of values as a command line has them.
#include <charconv>
#include <cmath>
#include <cstdio>
#include <optional>

#include "arch/error.hpp"
#include "model/study.hpp"
#include "model/study/points.hpp"

namespace plumbline {
namespace {

constexpr std::size_t kMostValues = 1'000'000;

/// A number and what stands behind it.
struct Measure {
  double number = 0;
  std::string unit, text;
};

std::optional<Measure> measure_of(const std::string& text) {
  Measure m;
  m.text = text;
  const char* begin = text.data();
  const char* end = begin + text.size();
  if (begin != end && *begin == '+') ++begin;  // +20%
  const auto [after, error] = std::from_chars(begin, end, m.number);
  if (error != std::errc() || !std::isfinite(m.number)) return std::nullopt;
  m.unit.assign(after, end);
  if (!m.unit.empty() && m.unit.front() == ' ') m.unit.erase(0, m.unit.find_first_not_of(' '));
  return m;
}

/// Thousands of tokens: part of their number, where a unit is of all numbers.
bool multiplies(const std::string& unit) { return unit == "k" || unit == "K" || unit == "M"; }

std::vector<std::string> parts_of(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::size_t begin = 0;
  for (;;) {
    const std::size_t at = text.find(separator, begin);
    parts.push_back(text.substr(begin, at == std::string::npos ? at : at - begin));
    if (at == std::string::npos) return parts;
    begin = at + 1;
  }
}

/// Twelve digits: what a step adds up to is what people would have written.
std::string number_text(double value, const std::string& unit) {
  char buffer[40];
  std::snprintf(buffer, sizeof buffer, "%.12g", value == 0 ? 0.0 : value);
  const bool relative = unit == "%";
  return (relative && value >= 0 ? "+" : "") + std::string(buffer) + unit;
}

struct Range {
  Measure from, to, step;
  bool factor = false;
};

std::optional<Range> range_of(const std::string& text) {
  const std::vector<std::string> parts = parts_of(text, ':');
  if (parts.size() != 3) return std::nullopt;
  Range range;
  range.factor = parts[2].starts_with('x');
  const auto from = measure_of(parts[0]), to = measure_of(parts[1]),
             step = measure_of(range.factor ? parts[2].substr(1) : parts[2]);
  if (!from || !to || !step) return std::nullopt;
  range.from = *from, range.to = *to, range.step = *step;
  return range;
}

void refuse_list(const std::string& place, const std::string& expected, const std::string& found) {
  throw BadInput(place + ": expected " + expected + ", found '" + found + "'");
}

/// The unit that all three have, or that the last one has for all; a factor has none of its own.
std::string unit_of(const Range& r, const std::string& place, const std::string& text) {
  std::string unit = r.step.unit;
  for (const Measure* each : {&r.from, &r.to}) {
    if (each->unit.empty()) continue;
    if (!unit.empty() && unit != each->unit) refuse_list(place, "one unit in a range", text);
    unit = each->unit;
  }
  if (multiplies(unit) && (r.from.unit != unit || r.to.unit != unit || (!r.factor && r.step.unit != unit))) {
    refuse_list(place, "'" + unit + "' behind each number", text);
  }
  return unit;
}

void add_range(const Range& r, const std::string& place, const std::string& text, std::vector<std::string>& out) {
  const std::string unit = unit_of(r, place, text);
  const double from = r.from.number, to = r.to.number, step = r.step.number;
  const bool rises = r.factor ? step > 1 && from > 0 : step > 0;
  if (!rises || to < from) {
    refuse_list(place,
                r.factor ? "FROM:TO:xFACTOR with FROM above 0, TO no less and a factor above 1"
                         : "FROM:TO:STEP with TO no less than FROM and a step above 0",
                text);
  }
  constexpr double kSlack = 1e-9;  // of a step
  const double steps = r.factor ? std::log(to / from) / std::log(step) : (to - from) / step;
  if (!(steps < static_cast<double>(kMostValues))) refuse_list(place, "at most a million values", text);
  const auto count = static_cast<std::int64_t>(std::floor(steps + kSlack)) + 1;
  for (std::int64_t i = 0; i < count; ++i) {
    const auto n = static_cast<double>(i);
    out.push_back(number_text(r.factor ? from * std::pow(step, n) : from + n * step, unit));
  }
}

/// A unit behind the last number is that of those which have none. A number beside +20% is another one, not a share.
void spread_unit(const std::string& place, const std::string& text, std::vector<std::string>& values) {
  const auto last = measure_of(values.back());
  if (!last || last->unit.empty() || last->unit == "%") return;
  for (std::string& value : values) {
    const auto number = measure_of(value);
    if (!number || !number->unit.empty()) continue;
    if (multiplies(last->unit)) refuse_list(place, "'" + last->unit + "' behind each number", text);
    value += last->unit;
  }
}

}  // namespace

std::vector<std::string> expand_list(const std::string& place, const std::string& text) {
  std::vector<std::string> values;
  for (const std::string& part : parts_of(text, ',')) {
    if (part.empty()) refuse_list(place, "a value between commas", text);
    if (const auto range = range_of(part)) add_range(*range, place, text, values);
    else values.push_back(part);
    if (values.size() > kMostValues) refuse_list(place, "at most a million values", text.substr(0, 40) + "...");
  }
  spread_unit(place, text, values);
  return values;
}

std::vector<std::string> evenly_spaced(const std::string& place, const std::string& from, const std::string& to,
                                       std::int64_t count) {
  const auto first = measure_of(from), last = measure_of(to);
  if (!first || !last || last->number < first->number) {
    refuse_list(place, "numbers that rise", from + " to " + to);
  }
  const std::string unit = last->unit.empty() ? first->unit : last->unit;
  if (!first->unit.empty() && first->unit != unit) refuse_list(place, "one unit", from + " to " + to);
  std::vector<std::string> values;
  for (std::int64_t i = 0; i < count; ++i) {
    const double share = count > 1 ? static_cast<double>(i) / static_cast<double>(count - 1) : 0;
    values.push_back(number_text(first->number + share * (last->number - first->number), unit));
  }
  return values;
}

StudyAxis axis(const std::string& name, const std::string& list) {
  StudyAxis out;
  out.names = {name};
  for (std::string& value : expand_list(name, list)) out.values.push_back({std::move(value)});
  return out;
}

}  // namespace plumbline
