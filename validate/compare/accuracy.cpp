#include "validate/compare/accuracy.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <memory>

#include "arch/error.hpp"
#include "arch/files.hpp"
#include "arch/format.hpp"
#include "arch/json_reader.hpp"
#include "ops/table/text.hpp"
#include "validate/compare/pricing.hpp"
#include "validate/compare/report.hpp"
#include "validate/printed.hpp"
#include "validate/record/measurement_csv.hpp"
#include "validate/record/recorded.hpp"
#include "validate/record/study.hpp"
#include "validate/records.hpp"

namespace plumbline {

namespace {

constexpr std::string_view kAll = "all";

KernelSet kernels_in(const JsonValue& value) {
  const std::string text = value.as_string();
  for (const KernelSet set : {KernelSet::own, KernelSet::library}) {
    if (text == key_of(set)) return set;
  }
  value.fail("expected own or library, found '" + text + "'");
}

std::pair<std::string, double> ceiling_in(const JsonValue& ceilings, const std::string& op) {
  const JsonValue value = ceilings.at(op);
  if (op != kAll && std::find(op_names().begin(), op_names().end(), op) == op_names().end()) {
    value.fail("expected an operator's name, found '" + op + "'" + did_you_mean(op, op_names()));
  }
  const double percent = value.as_number();
  if (percent <= 0) value.fail("expected a percentage above 0, found " + format_exact(percent));
  return {op, percent / 100};
}

AccuracySet set_in(const JsonValue& value) {
  value.refuse_unknown_keys(
      {"label", "file", "gpu", "kernels", "where", "min_us", "below_us", "never_measured", "median_percent_at_most"});
  AccuracySet set;
  set.label = value.at("label").as_string();
  set.file = value.at("file").as_string();
  set.gpu = value.at("gpu").as_string();
  set.kernels = kernels_in(value.at("kernels"));
  if (const auto where = value.find("where")) {
    for (const JsonValue& filter : where->elements()) {
      set.filters.push_back(filter.as_string());
      set.where.push_back(parse_row_filter(set.filters.back()));
    }
  }
  if (const auto least = value.find("min_us")) set.at_least = least->as_number() * units::us;
  if (const auto below = value.find("below_us")) set.below = below->as_number() * units::us;
  if (const auto never = value.find("never_measured")) set.never_measured = never->as_bool();
  const JsonValue ceilings = value.at("median_percent_at_most");
  for (const std::string& op : ceilings.keys()) set.ceilings.push_back(ceiling_in(ceilings, op));
  if (set.ceilings.empty()) ceilings.fail("expected operators, found none");
  return set;
}

std::string path_of(const AccuracySet& set) { return (std::filesystem::path(data_folder()) / set.file).string(); }

[[noreturn]] void lost(const AccuracySet& set, const std::string& what) {
  throw BadInput(set.file + " (" + set.label + "): " + what);
}

/// Anyone's rows.
std::vector<Comparison> compare_rows(const AccuracySet& set) {
  Measurements measured;
  const std::string path = path_of(set);
  read_measurement_file(path, set.where, measured);
  if (!measured.bad.empty()) lost(set, "expected rows that can be read; first: " + measured.bad.front());
  long others = 0;
  measured.rows = rows_of_gpu(std::move(measured.rows), set.gpu, others);
  std::erase_if(measured.rows, [&](const Measurement& row) {
    return row.time < set.at_least || (set.below && row.time >= *set.below);
  });
  PricingOptions options;
  options.gpu = set.gpu;
  options.stack = usual_stack(set.kernels);
  return price(measured.rows, options).rows;
}

/// `recordings`: by path, as several sets look at one recording.
std::vector<Comparison> compare_cases(const AccuracySet& set,
                                      std::map<std::string, std::unique_ptr<Recording>>& recordings) {
  std::unique_ptr<Recording>& recording = recordings[path_of(set)];
  if (recording == nullptr) recording = std::make_unique<Recording>(read_recording(path_of(set)));
  CompareOptions options;
  options.gpu = set.gpu;
  options.stack = usual_stack(set.kernels);
  options.where = set.where;
  options.at_least = set.at_least;
  std::vector<Comparison> rows;
  const std::unique_ptr<Report> report = compare_recording(*recording, options, {});
  for (const ReportRow& row : report->rows) rows.push_back(row.compared);
  return rows;
}

AccuracyRow row_of(const AccuracySet& set, const std::pair<std::string, double>& ceiling,
                   const std::vector<Comparison>& compared) {
  std::vector<const Comparison*> of_op;
  for (const Comparison& row : compared) {
    if (ceiling.first != kAll && row.op != ceiling.first) continue;
    if (!row.modelled()) lost(set, "expected rows that are modelled; " + row.place + ": " + row.error);
    of_op.push_back(&row);
  }
  if (of_op.empty()) lost(set, "expected rows of " + ceiling.first + ", found none");
  const std::string label = set.label + (set.never_measured ? ", never measured" : "");
  AccuracyRow row{label, set.kernels, summarize_class(of_op), ceiling.second, kept_rows(set)};
  row.summary.gpu = set.gpu;
  row.summary.op = ceiling.first;
  return row;
}

}  // namespace

std::vector<AccuracySet> read_accuracy_sets(const std::string& path) {
  const JsonDocument document = JsonDocument::read_file(path);
  const JsonValue root = document.root();
  root.refuse_unknown_keys({"schema", "note", "sets"});
  if (root.at("schema").as_string() != "plumbline.accuracy.v1") {
    root.at("schema").fail("expected plumbline.accuracy.v1, found " + root.at("schema").dump());
  }
  std::vector<AccuracySet> sets;
  for (const JsonValue& value : root.at("sets").elements()) sets.push_back(set_in(value));
  if (sets.empty()) root.at("sets").fail("expected sets of measurements, found none");
  return sets;
}

std::vector<AccuracyRow> accuracy_of(const std::vector<AccuracySet>& sets) {
  std::map<std::string, std::unique_ptr<Recording>> recordings;
  std::vector<AccuracyRow> rows;
  for (const AccuracySet& set : sets) {
    const bool recorded = std::filesystem::path(set.file).extension() == ".json";
    const std::vector<Comparison> compared = recorded ? compare_cases(set, recordings) : compare_rows(set);
    for (const auto& ceiling : set.ceilings) rows.push_back(row_of(set, ceiling, compared));
  }
  return rows;
}

std::string kept_rows(const AccuracySet& set) {
  std::string text;
  const auto add = [&text](const std::string& part) { text += (text.empty() ? "" : ", ") + part; };
  for (const std::string& filter : set.filters) {
    if (filter.rfind("stack", 0) != 0 && filter.rfind("study", 0) != 0) add(filter);
  }
  if (set.at_least > Seconds{}) add(">= " + format_exact(set.at_least.in(units::us)) + " us");
  if (set.below) add("< " + format_exact(set.below->in(units::us)) + " us");
  return text;
}

std::string accuracy_table(const std::vector<AccuracyRow>& rows) {
  std::string text =
      "| GPU | operator | kernels, measured by | rows kept | rows | median % | p90 % | bias % | MAPE % | in band % | "
      "roofline % |\n"
      "|---|---|---|---|--:|--:|--:|--:|--:|--:|--:|\n";
  for (const AccuracyRow& row : rows) {
    const ClassSummary& c = row.summary;
    text += "| " + c.gpu + " | " + c.op + " | " + std::string(key_of(row.kernels)) + ", " + row.label + " | " +
            (row.kept.empty() ? "all" : row.kept) + " | " + std::to_string(c.count) + " | " +
            percent_number(c.median_error) + " | " + percent_number(c.p90_error) + " | " +
            printed("%+.1f", 100 * c.median_bias) + " | " + percent_number(c.mape) + " | " +
            printed("%.0f", 100 * c.within_band) + " | " + printed("%.0f", 100 * c.roofline_median_error) + " |\n";
  }
  return text;
}

namespace {

constexpr std::array<std::string_view, 3> kOps{"gemm", "attention_prefill", "attention_decode"};

/// Of one GPU and set of kernels: the first row of each of those operators.
struct Line {
  std::string gpu;
  KernelSet kernels = KernelSet::library;
  std::array<const AccuracyRow*, kOps.size()> first{};
};

}  // namespace

std::string accuracy_by_gpu(const std::vector<AccuracyRow>& rows) {
  std::vector<Line> lines;
  for (const AccuracyRow& row : rows) {
    const auto op = static_cast<std::size_t>(std::find(kOps.begin(), kOps.end(), row.summary.op) - kOps.begin());
    if (op == kOps.size()) continue;
    const auto same = [&](const Line& line) { return line.gpu == row.summary.gpu && line.kernels == row.kernels; };
    auto line = std::find_if(lines.begin(), lines.end(), same);
    if (line == lines.end()) line = lines.insert(lines.end(), Line{row.summary.gpu, row.kernels, {}});
    if (line->first[op] == nullptr) line->first[op] = &row;
  }
  std::string text =
      "| GPU | kernels | GEMM: median error % | prefill attention % | decode attention % | rows | in band % |\n"
      "|---|---|--:|--:|--:|--:|--:|\n";
  for (const Line& line : lines) {
    text += "| " + line.gpu + " | " + std::string(key_of(line.kernels)) + " | ";
    double rows_of_all = 0, inside = 0;
    for (const AccuracyRow* row : line.first) {
      text += row == nullptr ? "- | " : percent_number(row->summary.median_error) + " | ";
      if (row == nullptr) continue;
      rows_of_all += static_cast<double>(row->summary.count);
      inside += static_cast<double>(row->summary.count) * row->summary.within_band;
    }
    text += printed("%.0f", rows_of_all) + " | " + printed("%.0f", 100 * inside / rows_of_all) + " |\n";
  }
  return text;
}

namespace {

std::vector<FieldRecord> records_of(const std::vector<AccuracyRow>& rows) {
  std::vector<FieldRecord> records;
  for (const AccuracyRow& row : rows) {
    const ClassSummary& c = row.summary;
    records.push_back({{"gpu", c.gpu},
                       {"op", c.op},
                       {"kernels", std::string(key_of(row.kernels))},
                       {"label", row.label},
                       {"count", c.count},
                       {"median_abs_ln", c.median_error},
                       {"p90_abs_ln", c.p90_error},
                       {"bias_median_ln", c.median_bias},
                       {"mape", c.mape},
                       {"within_band", c.within_band},
                       {"roofline_median_abs_ln", c.roofline_median_error},
                       {"ceiling", row.ceiling}});
  }
  return records;
}

}  // namespace

std::string accuracy_csv(const std::vector<AccuracyRow>& rows) { return records_csv(records_of(rows)); }

std::string accuracy_json(const std::vector<AccuracyRow>& rows) {
  return records_json("plumbline.validate.accuracy.v1", "sets", records_of(rows));
}

}  // namespace plumbline
