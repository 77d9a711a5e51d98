#include "model/study/lines.hpp"

#include <charconv>
#include <cmath>

#include "arch/format.hpp"
#include "arch/printable.hpp"
#include "model/report/ops_batch_row.hpp"
#include "ops/csv.hpp"

namespace plumbline {
namespace {

constexpr std::string_view kErrorKey = "error";

void append_csv_figure(std::string& out, const StudyFigure& figure) {
  if (const auto* number = std::get_if<double>(&figure)) append_number(out, *number);
  else if (const auto* yes = std::get_if<bool>(&figure)) out += *yes ? "true" : "false";
  else if (const auto* word = std::get_if<std::string>(&figure)) append_csv_field(out, *word);
}

void append_json_figure(std::string& out, const StudyFigure& figure) {
  if (const auto* number = std::get_if<double>(&figure)) out += format_exact(*number);
  else if (const auto* yes = std::get_if<bool>(&figure)) out += *yes ? "true" : "false";
  else if (const auto* word = std::get_if<std::string>(&figure)) append_json_string(out, *word);
  else out += "null";
}

/// A number as JSON writes them: -?digits[.digits][e..], without "+", "inf" or a leading zero.
bool is_json_number(const std::string& text) {
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [after, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || after != end || !std::isfinite(value)) return false;
  const std::size_t first = text.front() == '-' ? 1 : 0;
  if (first >= text.size() || text[first] < '0' || text[first] > '9' || text.back() == '.') return false;
  const bool leading_zero =
      text[first] == '0' && first + 1 < text.size() && text[first + 1] >= '0' && text[first + 1] <= '9';
  const std::size_t point = text.find('.');
  const bool digit_behind =
      point == std::string::npos || (point + 1 < text.size() && text[point + 1] >= '0' && text[point + 1] <= '9');
  return !leading_zero && digit_behind;
}

}  // namespace

void append_json_string(std::string& out, std::string_view text) {
  out += '"';
  for (const char c : printable(text)) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  out += '"';
}

void append_json_value(std::string& out, const std::string& value) {
  if (is_json_number(value)) out += value;
  else append_json_string(out, value);
}

SweepLines::SweepLines(SweepFormat format, const std::vector<std::string>& names,
                       const std::vector<std::string>& columns)
    : format_(format), names_(names), columns_(columns) {
  for (const auto* list : {&names_, &columns_}) {
    for (const std::string& each : *list) {
      std::string key;
      append_json_string(key, each);
      keys_.push_back(key + ":");
    }
  }
}

std::string SweepLines::head() const {
  if (format_ == SweepFormat::json_lines) return "";
  std::string out;
  if (format_ == SweepFormat::csv) {
    for (const auto* list : {&names_, &columns_}) {
      for (const std::string& each : *list) {
        append_csv_field(out, each);
        out += ',';
      }
    }
    return out + std::string(kErrorKey) + "\n";
  }
  out = R"({"schema":"plumbline.sweep.v1","axes":[)";
  for (std::size_t i = 0; i < names_.size(); ++i) {
    if (i > 0) out += ',';
    append_json_string(out, names_[i]);
  }
  out += R"(],"columns":[)";
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    if (i > 0) out += ',';
    append_json_string(out, columns_[i]);
  }
  return out + "],\"points\":[";
}

std::string SweepLines::tail() const { return format_ == SweepFormat::json ? "\n]}\n" : ""; }

void SweepLines::append(const std::vector<const std::string*>& settings, const std::vector<StudyFigure>& figures,
                        std::string_view error, bool first, std::string& out) const {
  if (format_ == SweepFormat::csv) {
    append_csv(settings, figures, error, out);
  } else {
    if (format_ == SweepFormat::json) out += first ? "\n" : ",\n";
    append_json(settings, figures, error, out);
    if (format_ == SweepFormat::json_lines) out += '\n';
  }
}

void SweepLines::append_csv(const std::vector<const std::string*>& settings, const std::vector<StudyFigure>& figures,
                            std::string_view error, std::string& out) const {
  for (const std::string* each : settings) {
    append_csv_field(out, printable(*each));
    out += ',';
  }
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    if (error.empty()) append_csv_figure(out, figures[i]);
    out += ',';
  }
  append_csv_field(out, printable(error));
  out += '\n';
}

void SweepLines::append_json(const std::vector<const std::string*>& settings, const std::vector<StudyFigure>& figures,
                             std::string_view error, std::string& out) const {
  out += '{';
  std::size_t key = 0;
  for (const std::string* each : settings) {
    if (key > 0) out += ',';
    out += keys_[key++];
    append_json_value(out, *each);
  }
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    if (key > 0) out += ',';
    out += keys_[key++];
    if (error.empty()) append_json_figure(out, figures[i]);
    else out += "null";
  }
  if (!error.empty()) {
    if (key > 0) out += ',';
    out += "\"error\":";
    append_json_string(out, error);
  }
  out += '}';
}

}  // namespace plumbline
