#include "validate/compare/report.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <map>
#include <utility>

#include "arch/error.hpp"
#include "arch/format.hpp"
#include "ops/table/text.hpp"
#include "validate/compare/pricing.hpp"
#include "validate/record/study.hpp"
#include "validate/statistics.hpp"

namespace plumbline {

namespace {

std::string mode_of(const StudyCase& what) {
  const std::string mode = std::string(name(what.cache)) + " " + std::string(text_of(what.clock));
  return what.data == DataPattern::normal ? mode : mode + " " + std::string(name(what.data));
}

/// The library's measurements by case, where it answered.
std::map<std::string, const Measurement*> of_the_library(const Recording& recording) {
  std::map<std::string, const Measurement*> by_case;
  for (const Measurement& c : recording.cases) {
    if (c.kernels == KernelSet::library && c.fault.empty()) by_case[case_key(c.what)] = &c;
  }
  return by_case;
}

bool asked_for(const Measurement& c, const CompareOptions& options, KernelSet kernels) {
  const auto& ops = options.ops;
  if (c.kernels != kernels || !keeps_case(options.where, c.what, c.kernel)) return false;
  return ops.empty() || std::find(ops.begin(), ops.end(), op_name(c.what.op)) != ops.end();
}

/// Takes what `options` ask for into `report` and returns the rows to price.
std::vector<Measurement> choose(const Recording& recording, const CompareOptions& options, KernelSet kernels,
                                const std::string& gpu, Report& report) {
  std::vector<Measurement> measured;
  for (const Measurement& c : recording.cases) {
    if (c.kernels == KernelSet::library && kernels == KernelSet::own) continue;  // beside its own row
    if (!asked_for(c, options, kernels) || (c.fault.empty() && c.time < options.at_least)) {
      ++report.summary.filtered;
    } else if (!c.fault.empty()) {
      report.faults.push_back({c.what.place, case_text(c.what), c.fault});
    } else {
      measured.push_back(c);
      measured.back().origin.gpu = gpu;
      report.rows.push_back({c, {}, {}, {}, 0, ""});
    }
  }
  if (measured.empty() && report.faults.empty()) {
    throw BadInput("no case is left: expected measurements of " + std::string(key_of(kernels)) + " kernels, " +
                   std::to_string(report.summary.filtered) + " cases were left out");
  }
  return measured;
}

/// Rows below a demand that is not met are not representative. (A mean over the list that is met excuses its members.)
void mark_rows(Report& report) {
  for (DemandResult& result : report.results) {
    if (result.met()) continue;
    for (const std::size_t i : result.below) {
      ReportRow& row = report.rows[i];
      if (!row.compared.representative) continue;
      row.compared.representative = false;
      row.reason = "below " + result.demand->demanded() + ": " + reason_for(report.demands, row.measured.what);
    }
  }
}

void add_not_modelled(Report& report) {
  for (const ReportRow& row : report.rows) {
    if (row.compared.modelled()) continue;
    const std::string what = report.session ? " " + case_text(row.measured.what) : "";
    add_missing(report.summary, row.compared.place + what, row.compared.error);
  }
}

}  // namespace

std::vector<const ClassSummary*> Report::behind_roofline() const {
  std::vector<const ClassSummary*> found;
  for (const ClassSummary& c : summary.classes) {
    if (c.size != SizeClass::all && c.mape >= c.roofline_mape) found.push_back(&c);
  }
  return found;
}

void finish(Report& report, const Gpu& gpu, KernelSet kernels) {
  std::vector<AchievedCase> achieved;
  std::vector<Comparison> compared;
  for (ReportRow& row : report.rows) {
    row.achieved = achieved_by(row.measured.what, row.measured.time, row.compared.library);
    row.bandwidth_fraction = row.achieved.bandwidth / gpu.memory.bandwidth;
    achieved.push_back(row.achieved);
  }
  if (kernels == KernelSet::own) {  // demands are on our own
    report.results = hold_against(report.demands, achieved, gpu.name, gpu.memory.bandwidth);
    mark_rows(report);
  }
  ReportSummary& summary = report.summary;
  summary.not_modelled = 0;
  for (const ReportRow& row : report.rows) {
    compared.push_back(row.compared);
    if (!row.compared.modelled()) ++summary.not_modelled;
  }
  summary.kernels = key_of(kernels);
  summary.clock = "as measured";
  summary.classes = summarize(compared);
  summary.not_measured = static_cast<long>(report.faults.size());
  summary.compared = static_cast<long>(compared.size()) - summary.not_modelled;
  summary.not_compared.clear();
  for (const CaseFault& fault : report.faults) add_missing(summary, fault.place + " " + fault.what, fault.reason);
  add_not_modelled(report);
}

void add_missing(ReportSummary& summary, const std::string& place, const std::string& reason) {
  constexpr std::size_t kMostReasons = 100;  // a file of noise has one a row
  auto& all = summary.not_compared;
  auto known = std::find_if(all.begin(), all.end(), [&](const NotCompared& n) { return n.reason == reason; });
  if (known == all.end() && all.size() < kMostReasons) {
    known = all.insert(all.end(), {all.size() + 1 < kMostReasons ? reason : "other reasons", place, 0});
  }
  ++(known == all.end() ? all.back() : *known).rows;
}

std::string gpu_of(const MeasuringSession& session, const CompareOptions& options) {
  if (!options.gpu.empty()) return options.gpu;
  if (!session.gpu.empty()) return session.gpu;
  throw BadInput("card '" + session.card + "': no descriptor is known for it; expected --gpu NAME");
}

bool keeps_case(const std::vector<RowFilter>& where, const StudyCase& what, std::string_view kernel) {
  for (const RowFilter& filter : where) {
    std::string_view field;
    if (filter.column == "op") field = op_name(what.op);
    else if (filter.column == "dtype") field = dtype_text(what.op);
    else if (filter.column == "shape") field = what.shape;
    else if (filter.column == "cache") field = name(what.cache);
    else if (filter.column == "clock") field = text_of(what.clock);
    else if (filter.column == "study") field = what.study;
    else if (filter.column == "side") field = held_out(what) == HeldOut::no ? "train" : "heldout";
    else if (filter.column == "kernel") field = kernel;
    else
      throw BadInput("--where '" + filter.text +
                     "': expected one of op, dtype, shape, cache, clock, study, side, kernel");
    if (!filter.keeps(field)) return false;
  }
  return true;
}

std::unique_ptr<Report> compare_recording(const Recording& recording, const CompareOptions& options, Demands demands) {
  auto report = std::make_unique<Report>();  // not moved afterwards: results point into its demands
  report->session = recording.session;
  report->demands = std::move(demands);
  const std::string gpu = gpu_of(recording.session, options);
  const KernelSet kernels = kernels_of(options.stack);
  const std::vector<Measurement> measured = choose(recording, options, kernels, gpu, *report);
  PricingOptions pricing;
  pricing.gpu = gpu;
  pricing.overrides = options.overrides;
  pricing.stack = options.stack;
  pricing.calibration_file = options.calibration_file;
  Priced priced = price(measured, pricing);
  const auto library = of_the_library(recording);
  for (std::size_t i = 0; i < priced.rows.size(); ++i) {
    ReportRow& row = report->rows[i];
    row.compared = std::move(priced.rows[i]);
    row.compared.mode = mode_of(row.measured.what);
    const auto beside = library.find(case_key(row.measured.what));
    if (kernels != KernelSet::own || beside == library.end()) continue;
    row.library = *beside->second;
    row.compared.library = row.library->time;
  }
  std::sort(priced.assumptions.begin(), priced.assumptions.end());  // not in the order that rows asked for machines
  report->summary.assumptions = std::move(priced.assumptions);
  report->summary.stack = options.stack.name;
  finish(*report, load_gpu(gpu, options.overrides), kernels);
  return report;
}

std::unique_ptr<Report> compare_rows(Measurements measured, const std::vector<std::string>& files,
                                     const PricingOptions& options) {
  auto report = std::make_unique<Report>();
  Priced priced = price(measured.rows, options);
  ReportSummary& summary = report->summary;
  summary.files = files;
  summary.stack = options.stack.name;
  summary.kernels = key_of(kernels_of(options.stack));
  summary.clock = options.clock ? std::string(text_of(*options.clock)) : "as measured";
  summary.classes = summarize(priced.rows);
  summary.assumptions = std::move(priced.assumptions);
  summary.bad = static_cast<long>(measured.bad.size());
  summary.filtered = measured.filtered;
  for (std::size_t i = 0; i < priced.rows.size(); ++i) {
    ReportRow& row = report->rows.emplace_back();
    row.measured = std::move(measured.rows[i]);
    row.compared = std::move(priced.rows[i]);
    row.achieved = achieved_by(row.measured.what, row.measured.time, {});
    if (!row.compared.modelled()) ++summary.not_modelled;
  }
  summary.compared = static_cast<long>(report->rows.size()) - summary.not_modelled;
  for (const std::string& line : measured.bad) {
    const std::size_t end_of_place = std::min(line.find(": "), line.size());
    add_missing(summary, line.substr(0, end_of_place), line.substr(std::min(end_of_place + 2, line.size())));
  }
  add_not_modelled(*report);
  return report;
}

std::string text_in(const Report& report, std::string_view format) {
  if (format == "json") return json_report(report);
  if (format == "csv") return csv_report(report);
  if (format == "html") return html_report(report);
  return table_report(report);
}

std::string reasons_text(std::uint64_t bits) {
  // nvml.h, nvmlClocksEventReasons*.
  static constexpr std::array<std::pair<std::uint64_t, const char*>, 9> kReasons{{{0x1, "idle"},
                                                                                  {0x2, "application clocks"},
                                                                                  {0x4, "power cap"},
                                                                                  {0x8, "hardware slowdown"},
                                                                                  {0x10, "sync boost"},
                                                                                  {0x20, "software thermal"},
                                                                                  {0x40, "hardware thermal"},
                                                                                  {0x80, "power brake"},
                                                                                  {0x100, "display clocks"}}};
  std::string text;
  for (const auto& [bit, words] : kReasons) {
    if ((bits & bit) != 0) text += (text.empty() ? "" : ", ") + std::string(words);
  }
  return text.empty() ? "none" : text;
}

std::vector<ConditionRange> condition_ranges(const Report& report) {
  std::vector<double> clock, memory, power, temperature;
  std::uint64_t reasons = 0;
  const auto take = [&](const Conditions& c) {
    if (c.sm_clock) clock.push_back(c.sm_clock->in(units::MHz));
    if (c.memory_clock) memory.push_back(c.memory_clock->in(units::MHz));
    if (c.power) power.push_back(c.power->in(units::W));
    if (c.temperature_C) temperature.push_back(*c.temperature_C);
    reasons |= c.clock_event_reasons;
  };
  for (const ReportRow& row : report.rows) {
    take(row.measured.conditions);
    if (row.library) take(row.library->conditions);
  }
  std::vector<ConditionRange> ranges;
  const auto add = [&](const char* what, const std::vector<double>& values, const char* unit) {
    if (values.empty()) return;
    char text[96];
    std::snprintf(text, sizeof text, "%.0f to %.0f %s, median %.0f %s", quantile(values, 0), quantile(values, 1), unit,
                  median(values), unit);
    ranges.push_back({what, text});
  };
  add("SM clock", clock, "MHz");
  add("memory clock", memory, "MHz");
  add("power", power, "W");
  add("temperature", temperature, "C");
  ranges.push_back({"clock event reasons", reasons_text(reasons)});
  return ranges;
}

}  // namespace plumbline
