#include <nlohmann/json.hpp>

#include "validate/compare/report.hpp"

namespace plumbline {

namespace {

using nlohmann::ordered_json;

ordered_json worst_of(const ClassSummary& c) {
  return {{"shape", c.worst.shape},
          {"place", c.worst.place},
          {"measured_s", c.worst.measured.in(units::s)},
          {"predicted_s", c.worst.predicted.in(units::s)},
          {"ratio", c.worst.predicted / c.worst.measured},
          {"limiter", c.worst.limiter}};
}

ordered_json class_of(const ClassSummary& c) {
  ordered_json out = {{"gpu", c.gpu},
                      {"op", c.op},
                      {"dtype", c.dtype},
                      {"mode", c.mode},
                      {"size", name(c.size)},
                      {"count", c.count},
                      {"mape", c.mape},
                      {"median_abs_ln", c.median_error},
                      {"p90_abs_ln", c.p90_error},
                      {"bias_mean_ln", c.mean_bias},
                      {"bias_median_ln", c.median_bias},
                      {"within_band", c.within_band},
                      {"spearman", nullptr},
                      {"roofline_median_abs_ln", c.roofline_median_error},
                      {"roofline_bias_median_ln", c.roofline_median_bias},
                      {"roofline_mape", c.roofline_mape},
                      {"worst", worst_of(c)}};
  if (c.spearman) out["spearman"] = *c.spearman;
  if (c.mode.empty()) out.erase("mode");
  if (c.library_count > 0) out["library"] = {{"count", c.library_count}, {"geomean_of_library", c.library_ratio}};
  if (c.unrepresentative > 0) out["not_representative"] = c.unrepresentative;
  if (c.power_count > 0) out["power"] = {{"count", c.power_count}, {"median_abs_ln", c.power_median_error}};
  return out;
}

ordered_json base_of(const ReportSummary& report) {
  ordered_json out = {{"schema", "plumbline.validate.v1"},
                      {"files", report.files},
                      {"stack", report.stack},
                      {"kernels", report.kernels},
                      {"clock", report.clock},
                      {"rows",
                       {{"compared", report.compared},
                        {"bad", report.bad},
                        {"not_modelled", report.not_modelled},
                        {"filtered", report.filtered},
                        {"other_gpu", report.other_gpu},
                        {"not_measured", report.not_measured}}},
                      {"not_compared", ordered_json::array()},
                      {"classes", ordered_json::array()},
                      {"assumptions", report.assumptions}};
  for (const ClassSummary& c : report.classes) out["classes"].push_back(class_of(c));
  for (const NotCompared& missing : report.not_compared) {
    out["not_compared"].push_back({{"rows", missing.rows}, {"reason", missing.reason}, {"first", missing.first}});
  }
  return out;
}

/// Names come from files: bytes that are not UTF-8 become U+FFFD instead of an exception, and all but ASCII is escaped, as
/// controls beyond it would reach a terminal.
std::string text_of(const ordered_json& value) {
  return value.dump(2, ' ', true, ordered_json::error_handler_t::replace) + "\n";
}

ordered_json session_of(const Report& report) {
  const MeasuringSession& s = *report.session;
  ordered_json out = {{"gpu", s.gpu},
                      {"card", s.card},
                      {"driver", s.driver},
                      {"toolkit", s.toolkit},
                      {"profiler", s.profiler},
                      {"date", s.date},
                      {"sms", s.sms},
                      {"power_limit_W", s.power_limit_W},
                      {"dropped_records", s.dropped_records},
                      {"other_processes", s.other_processes}};
  for (const ConditionRange& range : condition_ranges(report)) out["conditions"][range.name] = range.text;
  return out;
}

ordered_json demand_of(const DemandResult& r) {
  return {{"title", r.demand->title},     {"demanded", r.demand->demanded()},
          {"achieved", r.achieved()},     {"cases", r.cases.size()},
          {"below", r.below.size()},      {"met", r.met()},
          {"demanded_value", r.demanded}, {"achieved_value", r.median},
          {"worst_value", r.worst},       {"reason", r.reason}};
}

void add_measured(const Measurement& m, ordered_json& out) {
  out["kernel"] = m.kernel;
  out["plan"] = m.plan;
  out["measured_s"] = m.time.in(units::s);
  out["measured_low_s"] = m.low.in(units::s);
  out["measured_high_s"] = m.high.in(units::s);
  out["samples"] = m.samples;
  if (m.conditions.sm_clock) out["sm_clock_Hz"] = m.conditions.sm_clock->in(units::Hz);
  if (m.conditions.power) out["power_W"] = m.conditions.power->in(units::W);
}

ordered_json case_of(const ReportRow& row) {
  const Comparison& c = row.compared;
  ordered_json out = {
      {"op", c.op},      {"dtype", c.dtype}, {"shape", c.shape}, {"mode", c.mode}, {"study", row.measured.what.study},
      {"place", c.place}};
  add_measured(row.measured, out);
  if (c.library) {
    out["library_s"] = c.library->in(units::s);
    out["of_library"] = *c.library / c.measured;
    if (row.library) out["library_kernel"] = row.library->kernel;
  }
  out["achieved_FLOP_per_s"] = row.achieved.flop_rate.in(units::FLOP_per_s);
  out["achieved_B_per_s"] = row.achieved.bandwidth.in(units::B_per_s);
  out["bandwidth_fraction"] = row.bandwidth_fraction;
  out["representative"] = c.representative;
  if (!row.reason.empty()) out["reason"] = row.reason;
  if (!c.modelled()) {
    out["error"] = c.error;
    return out;
  }
  out["predicted_s"] = c.predicted.in(units::s);
  out["predicted_low_s"] = c.low.in(units::s);
  out["predicted_high_s"] = c.high.in(units::s);
  out["ratio"] = c.predicted / c.measured;
  out["limiter"] = c.limiter;
  out["provenance"] = c.provenance;
  out["roofline_s"] = c.roofline.in(units::s);
  out["roofline_ratio"] = c.roofline / c.measured;
  return out;
}

}  // namespace

std::string json_report(const Report& report) {
  ordered_json out = base_of(report.summary);
  if (!report.session) return text_of(out);
  out["session"] = session_of(report);
  out["demands"] = ordered_json::array();
  for (const DemandResult& result : report.results) out["demands"].push_back(demand_of(result));
  out["cases"] = ordered_json::array();
  for (const ReportRow& row : report.rows) out["cases"].push_back(case_of(row));
  out["faults"] = ordered_json::array();
  for (const CaseFault& fault : report.faults) {
    out["faults"].push_back({{"place", fault.place}, {"case", fault.what}, {"reason", fault.reason}});
  }
  return text_of(out);
}

}  // namespace plumbline
