#include "model/report/several_gpus/plan_report.hpp"

#include <algorithm>
#include <array>

#include "arch/fabric/cluster.hpp"
#include "arch/format.hpp"
#include "model/report/json_parts.hpp"
#include "model/report/report.hpp"
#include "model/stacks/stack.hpp"
#include "model/words.hpp"

namespace plumbline {
namespace {

Json row_json(const RankedPlan& p, std::int64_t gpus) {
  return {{"tp", p.plan.tensor},
          {"pp", p.plan.pipeline},
          {"cp", p.plan.context},
          {"dp", p.plan.data},
          {"ep", p.plan.expert},
          {"micro_batches", p.micro_batches},
          {"latency_s", finite(p.latency.in(units::s), "latency_s")},
          {"latency_low_s", finite(p.low.in(units::s), "latency_low_s")},
          {"latency_high_s", finite(p.high.in(units::s), "latency_high_s")},
          {"tokens_per_s", finite(p.tokens_per_s, "tokens_per_s")},
          {"tokens_per_s_per_gpu", finite(p.tokens_per_s / static_cast<double>(gpus), "tokens_per_s_per_gpu")},
          {"tokens_per_J", p.energy ? Json(finite(p.tokens_per_J(), "tokens_per_J")) : Json(nullptr)},
          {"power_W", optional_figure(p.power, units::W, "power_W")},
          {"memory_bytes", finite(p.memory.in(units::B), "memory_bytes")},
          {"network_s", finite(p.network.in(units::s), "network_s")},
          {"bubble_s", finite(p.bubble.in(units::s), "bubble_s")}};
}

}  // namespace

std::string_view name(PlanGoal goal) {
  switch (goal) {
    case PlanGoal::latency: return "latency";
    case PlanGoal::tokens_per_s: return "tokens/s/GPU";
    case PlanGoal::tokens_per_J: return "tokens/J";
  }
  return "latency";
}

PlanWords plan_words(const PlanReport& r) {
  const Workload& w = r.workload;
  PlanWords words;
  words.title = r.llm.name + ", " + std::string(word_of(kPhaseWords, w.phase)) + ", on " +
                std::to_string(r.question.gpus) + " x " + r.machine.gpu().title + ": parallel plans by " +
                std::string(name(r.question.goal));
  words.inputs = "batch " + std::to_string(w.batch) + (w.phase == Phase::decode ? ", context " : ", prompt ") +
                 std::to_string(length(w)) + ", weights " + weight_format(r.llm, w) + ", stack " +
                 r.machine.stack().name + ", cluster " + r.machine.rates().fabric->name;
  const PlanRanking& all = r.ranking;
  words.plans = std::to_string(all.legal) + " legal, " + std::to_string(all.plans.size()) + " ranked";
  const std::pair<const char*, std::int64_t> dropped[] = {
      {"do not fit", all.too_large}, {"are slower than asked", all.too_slow}, {"are not modelled", all.not_modelled}};
  for (const auto& [why, plans] : dropped) {
    if (plans > 0) words.plans += ", " + std::to_string(plans) + " " + why;
  }
  return words;
}

std::size_t plans_shown(const PlanReport& r) {
  const std::size_t all = r.ranking.plans.size();
  return r.top > 0 ? std::min(all, static_cast<std::size_t>(r.top)) : all;
}

Columns plan_columns(const PlanReport& r) {
  using enum Columns::Align;
  Columns table({{"#", right},
                 {"tp", right},
                 {"pp", right},
                 {"cp", right},
                 {"dp", right},
                 {"ep", right},
                 {"latency", right},
                 {"5-95 % band", left},
                 {"tokens/s", right},
                 {"per GPU", right},
                 {"tokens/J", right},
                 {"memory", right},
                 {"network", right},
                 {"bubble", right}});
  for (std::size_t i = 0; i < plans_shown(r); ++i) {
    const RankedPlan& p = r.ranking.plans[i];
    std::vector<std::string> cells{std::to_string(i + 1)};
    for (const NamedDegree& each : degrees(p.plan)) cells.push_back(std::to_string(each.degree));
    cells.insert(cells.end(), {format(p.latency), format(p.low) + " to " + format(p.high), format(p.tokens_per_s),
                               format(p.tokens_per_s / static_cast<double>(r.question.gpus)),
                               p.energy ? format(p.tokens_per_J()) : std::string("-"), format(p.memory),
                               percent(p.network / p.latency), percent(p.bubble / p.latency)});
    table.add(std::move(cells));
  }
  return table;
}

std::string plan_table(const PlanReport& r, const TextStyle& style) {
  const PlanWords words = plan_words(r);
  std::string out = style.bold(words.title) + "\n" + labelled("inputs", words.inputs) + labelled("plans", words.plans) +
                    "\n" + plan_columns(r).text(2, style);
  const std::size_t left_out = r.ranking.plans.size() - plans_shown(r);
  if (left_out > 0) out += "  ... and " + std::to_string(left_out) + " more (--top 0 shows all)\n";
  return out + "\n" + bullets("assumptions", all_assumptions(r.machine, r.llm.assumptions, r.remarks), style);
}

std::string plan_json(const PlanReport& r) {
  Json out;
  out["schema"] = "plumbline.plan.v1";
  out["model"] = r.llm.name;
  out["gpu"] = r.machine.gpu().name;
  out["gpus"] = r.question.gpus;
  out["cluster"] = r.machine.rates().fabric->name;
  out["stack"] = r.machine.stack().name;
  out["phase"] = word_of(kPhaseWords, r.workload.phase);
  out["batch"] = r.workload.batch;
  out[r.workload.phase == Phase::decode ? "context" : "prompt"] = length(r.workload);
  out["goal"] = name(r.question.goal);
  out["legal"] = r.ranking.legal;
  out["too_large"] = r.ranking.too_large;
  out["too_slow"] = r.ranking.too_slow;
  out["not_modelled"] = r.ranking.not_modelled;
  out["plans"] = Json::array();
  for (const RankedPlan& plan : r.ranking.plans) out["plans"].push_back(row_json(plan, r.question.gpus));
  out["assumptions"] = all_assumptions(r.machine, r.llm.assumptions, r.remarks);
  return out.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string plan_csv(const PlanReport& r) {
  std::string out;
  for (const RankedPlan& plan : r.ranking.plans) {
    const Json row = row_json(plan, r.question.gpus);
    if (out.empty()) {
      for (const auto& [key, value] : row.items()) out += (out.empty() ? "" : ",") + key;
      out += "\n";
    }
    bool first = true;
    for (const auto& [key, value] : row.items()) {
      out += first ? "" : ",";
      first = false;
      if (!value.is_null()) out += value.is_number_integer() ? value.dump() : format_exact(value.get<double>());
    }
    out += "\n";
  }
  return out;
}

}  // namespace plumbline
