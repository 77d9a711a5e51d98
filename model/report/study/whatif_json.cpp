#include <nlohmann/json.hpp>

#include "model/report/json_parts.hpp"
#include "model/report/study/sweep_report.hpp"
#include "model/report/study/whatif_report.hpp"

namespace plumbline {
namespace {

std::string dumped(const Json& json) { return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n"; }

Json cost_json(const OperatorCost& cost) {
  Json out{
      {"name", cost.name}, {"time_s", finite(cost.time_s, "time_s")}, {"energy_J", finite(cost.energy_J, "energy_J")}};
  if (!cost.phase.empty()) out["phase"] = cost.phase;
  if (!cost.limiter.empty()) out["limiter"] = cost.limiter;
  return out;
}

Json effect_json(const ParameterEffect& e) {
  Json out{{"parameter", e.path}, {"unit", e.unit}};
  if (!e.why_not.empty()) {
    out["error"] = e.why_not;
    return out;
  }
  out["value"] = finite(e.value, "value");
  out["changed_value"] = finite(e.changed, "changed_value");
  out["elasticity"] = {{"latency_s", finite(e.latency, "elasticity")},
                       {"energy_J", finite(e.energy, "elasticity")},
                       {"tokens_per_s", finite(e.tokens_per_s, "elasticity")},
                       {"tokens_per_J", finite(e.tokens_per_J, "elasticity")}};
  out["latency_ratio"] = finite(e.latency_ratio.value, "latency_ratio");
  out["latency_ratio_low"] = finite(e.latency_ratio.low, "latency_ratio");
  out["latency_ratio_high"] = finite(e.latency_ratio.high, "latency_ratio");
  out["energy_ratio"] = finite(e.energy_ratio, "energy_ratio");
  out["bound"] = e.bound;
  out["limiter"] = e.limiter;
  out["saved"] = Json::array();
  for (const OperatorCost& each : e.saved) out["saved"].push_back(cost_json(each));
  return out;
}

Json side_json(const Study& study, const DifferenceSide& s) {
  return {{"question", study_line(study)},
          {"latency_s", finite(s.latency_s, "latency_s")},
          {"latency_low_s", finite(s.latency_low_s, "latency_low_s")},
          {"latency_high_s", finite(s.latency_high_s, "latency_high_s")},
          {"energy_J", finite(s.energy_J, "energy_J")},
          {"power_W", finite(s.power_W, "power_W")},
          {"tokens_per_s", finite(s.tokens_per_s, "tokens_per_s")},
          {"bound", s.bound},
          {"fits", s.fits}};
}

}  // namespace

std::string sensitivity_json(const SensitivityReport& r) {
  Json out;
  out["schema"] = "plumbline.sensitivity.v1";
  out["question"] = study_line(r.study);
  out["latency_s"] = finite(r.result.latency_s, "latency_s");
  out["energy_J"] = finite(r.result.energy_J, "energy_J");
  out["tokens_per_s"] = finite(r.result.tokens_per_s, "tokens_per_s");
  out["tokens_per_J"] = finite(r.result.tokens_per_J, "tokens_per_J");
  out["bound"] = r.result.bound;
  out["parameters"] = Json::array();
  for (const ParameterEffect& each : r.result.parameters) out["parameters"].push_back(effect_json(each));
  out["interactions"] = Json::array();
  for (const ParameterInteraction& each : r.result.interactions) {
    out["interactions"].push_back({{"parameters", each.paths},
                                   {"together", finite(each.together, "together")},
                                   {"product", finite(each.product, "product")}});
  }
  return dumped(out);
}

std::string solve_json(const SolveReport& r) {
  const Solution& s = r.result;
  Json out;
  out["schema"] = "plumbline.solve.v1";
  out["question"] = study_line(r.study);
  out["vary"] = r.question.name;
  out["sought"] = r.question.largest ? "most" : "least";
  out["targets"] = r.question.targets;
  out["found"] = s.found;
  out["value"] = finite(s.value, "value");
  out["present"] = s.present > 0 ? Json(finite(s.present, "present")) : Json(nullptr);
  out["unmet"] = s.unmet.empty() ? Json(nullptr) : Json(s.unmet);
  out["reached"] = Json::object();
  for (const auto& [name, figure] : s.reached) out["reached"][name] = finite(figure, "reached");
  out["fits"] = s.fits;
  out["bound"] = s.bound;
  out["longest"] = s.longest;
  out["limiter"] = s.limiter;
  out["tried"] = Json::array();
  for (const SolveTrial& trial : s.tried) {
    Json figures = Json::array();
    for (const double figure : trial.figures) figures.push_back(finite(figure, "tried"));
    out["tried"].push_back(
        {{"value", finite(trial.value, "tried")}, {"figures", figures}, {"fits", trial.fits}, {"met", trial.met}});
  }
  return dumped(out);
}

std::string diff_json(const DiffReport& r) {
  const StudyDifference& d = r.result;
  Json out;
  out["schema"] = "plumbline.diff.v1";
  out["first"] = side_json(r.before, d.before);
  out["second"] = side_json(r.after, d.after);
  out["latency_ratio"] = finite(d.latency_ratio.value, "latency_ratio");
  out["latency_ratio_low"] = finite(d.latency_ratio.low, "latency_ratio");
  out["latency_ratio_high"] = finite(d.latency_ratio.high, "latency_ratio");
  out["same_machine"] = d.same_machine;
  out["cross_overs"] = Json::array();
  for (const CrossOver& each : d.cross_overs) {
    out["cross_overs"].push_back(
        {{"name", each.name}, {"from", each.at}, {"faster", each.second_from ? "second" : "first"}});
  }
  out["ops"] = Json::array();
  for (const OperatorDifference& each : d.operators) {
    out["ops"].push_back({{"first", each.before.name.empty() ? Json(nullptr) : cost_json(each.before)},
                          {"second", each.after.name.empty() ? Json(nullptr) : cost_json(each.after)}});
  }
  return dumped(out);
}

}  // namespace plumbline
