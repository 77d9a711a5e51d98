#include "validate/compare/report_demands.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>

#include "arch/error.hpp"
#include "arch/files.hpp"
#include "arch/format.hpp"
#include "arch/json_reader.hpp"
#include "ops/facts/work.hpp"
#include "ops/table/text.hpp"
#include "validate/record/study.hpp"
#include "validate/statistics.hpp"

namespace plumbline {

namespace {

std::string percent(double fraction) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f %%", 100 * fraction);
  return text;
}

CaseCondition read_condition(const JsonValue& v) {
  CaseCondition on;
  for (const JsonValue& op : v.at("ops").elements()) {
    on.ops.push_back(op.as_string());
    if (std::find(op_names().begin(), op_names().end(), on.ops.back()) == op_names().end()) {
      op.fail("expected an operator's name, found \"" + on.ops.back() + "\"" + did_you_mean(on.ops.back(), op_names()));
    }
  }
  if (on.ops.empty()) v.at("ops").fail("expected at least one operator");
  if (const auto dtype = v.find("dtype")) on.dtype = dtype->as_string();
  if (const auto bytes = v.find("bytes_at_least")) on.at_least = bytes->as_bytes();
  if (const auto where = v.find("where")) {
    for (const JsonValue& filter : where->elements()) {
      on.where.push_back(parse_row_filter(filter.as_string()));
      if (on.where.back().column != "shape") filter.fail("expected a condition on the shape, found " + filter.dump());
    }
  }
  return on;
}

std::optional<double> read_fraction(const JsonValue& v, std::string_view key) {
  const auto value = v.find(key);
  if (!value) return {};
  const double fraction = value->as_number();
  if (!(fraction > 0)) value->fail("expected a fraction above 0, found " + value->dump());
  return fraction;
}

KernelDemand read_demand(const JsonValue& v) {
  v.refuse_unknown_keys(
      {"title", "ops", "dtype", "where", "bytes_at_least", "flop_rate", "bandwidth_fraction", "of_library", "of_copy"});
  KernelDemand demand;
  demand.title = v.at("title").as_string();
  demand.on = read_condition(v);
  if (const auto rate = v.find("flop_rate")) demand.flop_rate = rate->as_flop_rate();
  demand.bandwidth_fraction = read_fraction(v, "bandwidth_fraction");
  demand.of_library = read_fraction(v, "of_library");
  demand.of_copy = read_fraction(v, "of_copy");
  const int figures = demand.flop_rate.has_value() + demand.bandwidth_fraction.has_value() +
                      demand.of_library.has_value() + demand.of_copy.has_value();
  if (figures != 1) v.fail("expected one of flop_rate, bandwidth_fraction, of_library, of_copy");
  return demand;
}

Finding read_finding(const JsonValue& v) {
  v.refuse_unknown_keys({"ops", "dtype", "where", "bytes_at_least", "reason", "date"});
  return {read_condition(v), v.at("reason").as_string(), v.at("date").as_string()};
}

void need_schema(const JsonValue& root, const char* schema) {
  if (root.at("schema").as_string() != schema) {
    root.at("schema").fail(std::string("expected \"") + schema + "\", found " + root.at("schema").dump());
  }
}

/// Median bandwidth of our copies that a demand's size condition takes; 0 without one.
double copy_bandwidth(const KernelDemand& demand, const std::vector<AchievedCase>& cases) {
  std::vector<double> rates;
  for (const AchievedCase& c : cases) {
    if (op_name(c.what.op) != "copy" || c.what.cache != CacheState::cold || c.what.clock != ClockMode::burst) continue;
    if (work(c.what.op).bytes() >= demand.on.at_least) rates.push_back(c.bandwidth.in(units::B_per_s));
  }
  return rates.empty() ? 0 : median(rates);
}

double demanded_figure(const KernelDemand& demand) {
  if (demand.flop_rate) return demand.flop_rate->in(units::FLOP_per_s);
  if (demand.bandwidth_fraction) return *demand.bandwidth_fraction;
  return demand.of_library ? *demand.of_library : demand.of_copy.value_or(0);
}

/// The case's figure in the demand's unit; nothing when it has none (no library time beside it, no copy measured).
std::optional<double> figure(const KernelDemand& demand, const AchievedCase& c, Bandwidth bandwidth, double copy) {
  if (demand.flop_rate) return c.flop_rate.in(units::FLOP_per_s);
  if (demand.bandwidth_fraction) return c.bandwidth / bandwidth;
  if (demand.of_library) return c.library ? std::optional<double>(*c.library / c.time) : std::nullopt;
  return copy > 0 ? std::optional<double>(c.bandwidth.in(units::B_per_s) / copy) : std::nullopt;
}

double geometric_mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += std::log(value);
  return std::exp(sum / static_cast<double>(values.size()));
}

DemandResult result_of(const KernelDemand& demand, const std::vector<AchievedCase>& cases, Bandwidth bandwidth) {
  DemandResult result;
  result.demand = &demand;
  result.demanded = demanded_figure(demand);
  const double copy = demand.of_copy ? copy_bandwidth(demand, cases) : 0;
  std::vector<double> figures;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const StudyCase& what = cases[i].what;
    if (what.cache != CacheState::cold || what.clock != ClockMode::burst || !demand.on.holds(what)) continue;
    const auto achieved = figure(demand, cases[i], bandwidth, copy);
    if (!achieved) continue;
    if (figures.empty() || *achieved < result.worst) {
      result.worst = *achieved;
      result.worst_case = i;
    }
    figures.push_back(*achieved);
    result.cases.push_back(i);
    if (*achieved < result.demanded) result.below.push_back(i);
  }
  if (figures.empty()) return result;
  result.median = demand.of_library ? geometric_mean(figures) : median(figures);
  result.best = *std::max_element(figures.begin(), figures.end());
  return result;
}

}  // namespace

bool CaseCondition::holds(const StudyCase& what) const {
  if (std::find(ops.begin(), ops.end(), op_name(what.op)) == ops.end()) return false;
  if (!dtype.empty() && dtype != dtype_text(what.op)) return false;
  if (at_least > Bytes{} && work(what.op).bytes() < at_least) return false;
  return std::all_of(where.begin(), where.end(), [&](const RowFilter& filter) { return filter.keeps(what.shape); });
}

std::string KernelDemand::demanded() const {
  if (flop_rate) return format(*flop_rate);
  if (bandwidth_fraction) return percent(*bandwidth_fraction) + " of DRAM";
  if (of_library) return percent(*of_library) + " of the library";
  return percent(of_copy.value_or(0)) + " of our copy";
}

bool DemandResult::met() const { return demand->of_library ? median >= demanded : below.empty(); }

std::string DemandResult::achieved() const {
  const auto text = [&](double value) {
    return demand->flop_rate ? format(value * units::FLOP_per_s) : percent(value);
  };
  std::string out = text(median);
  if (cases.size() > 1) out += " (" + text(worst) + " to " + text(best) + ")";
  return out;
}

Demands parse_demands(const std::string& demands_json, const std::string& demands_place,
                      const std::string& findings_json, const std::string& findings_place) {
  Demands out;
  const JsonDocument document = JsonDocument::parse(demands_json, demands_place);
  const JsonValue root = document.root();
  root.refuse_unknown_keys({"schema", "gpu", "demands"});
  need_schema(root, "plumbline.demands.v1");
  out.gpu = root.at("gpu").as_string();
  for (const JsonValue& v : root.at("demands").elements()) out.demands.push_back(read_demand(v));
  if (findings_json.empty()) return out;
  const JsonDocument found = JsonDocument::parse(findings_json, findings_place);
  found.root().refuse_unknown_keys({"schema", "gpu", "findings"});
  need_schema(found.root(), "plumbline.findings.v1");
  if (found.root().at("gpu").as_string() != out.gpu) found.root().at("gpu").fail("expected \"" + out.gpu + "\"");
  for (const JsonValue& v : found.root().at("findings").elements()) out.findings.push_back(read_finding(v));
  return out;
}

Demands read_demands() {
  const std::filesystem::path folder = std::filesystem::path(data_folder()) / "studies";
  const std::string demands = (folder / "demands.json").string(), findings = (folder / "findings.json").string();
  if (!std::filesystem::exists(demands)) return {};
  const std::string reasons = std::filesystem::exists(findings) ? read_text_file(findings) : "";
  return parse_demands(read_text_file(demands), demands, reasons, findings);
}

AchievedCase achieved_by(const StudyCase& what, Seconds time, std::optional<Seconds> library) {
  const Work w = work(what.op);
  return {what, time, library, w.tensor / time, w.bytes() / time};
}

std::vector<DemandResult> hold_against(const Demands& demands, const std::vector<AchievedCase>& cases,
                                       const std::string& gpu, Bandwidth bandwidth) {
  std::vector<DemandResult> results;
  for (const KernelDemand& demand : demands.demands) {
    if (demand.flop_rate && gpu != demands.gpu) continue;
    DemandResult result = result_of(demand, cases, bandwidth);
    if (result.cases.empty()) continue;
    if (!result.met()) result.reason = reason_for(demands, cases[result.worst_case].what);
    results.push_back(std::move(result));
  }
  return results;
}

std::string reason_for(const Demands& demands, const StudyCase& what) {
  for (const Finding& finding : demands.findings) {
    if (finding.on.holds(what)) return finding.reason + " (" + finding.date + ")";
  }
  return "reason not found yet";
}

}  // namespace plumbline
