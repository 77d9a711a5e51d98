// The ranking of parallel plans as one page: each plan a dot by its latency and what it makes of a GPU, the best ones in a
// table.
#include <algorithm>
#include <string>
#include <vector>

#include "arch/format.hpp"
#include "model/report/html/markup.hpp"
#include "model/report/html/plot.hpp"
#include "model/report/report.hpp"
#include "model/report/several_gpus/plan_report.hpp"

namespace plumbline {
namespace {

constexpr double kPlanPlotHeight = 320;
constexpr double kPlanDot = 5, kBestDot = 8;  // radius, in pixels

std::string plan_name(const ParallelPlan& plan) {
  std::string name;
  for (const NamedDegree& each : degrees(plan)) {
    if (each.degree > 1) name += (name.empty() ? "" : " ") + std::string(each.word) + std::to_string(each.degree);
  }
  return name.empty() ? "one GPU" : name;
}

/// What plans are worth beside their latency: tokens a joule where those are the goal, else tokens a second and GPU.
struct Worth {
  double gpus = 1;
  bool by_energy = false;

  explicit Worth(const PlanReport& r)
      : gpus(static_cast<double>(r.question.gpus)), by_energy(r.question.goal == PlanGoal::tokens_per_J) {}
  double of(const RankedPlan& plan) const { return by_energy ? plan.tokens_per_J() : plan.tokens_per_s / gpus; }
  const char* title() const { return by_energy ? "tokens/J" : "tokens/s per GPU"; }
};

std::string scatter(const PlanReport& r) {
  const std::vector<RankedPlan>& plans = r.ranking.plans;
  const Worth worth(r);
  double least = plans.front().latency.in(units::ms), most = least, best = 0;
  for (const RankedPlan& plan : plans) {
    least = std::min(least, plan.latency.in(units::ms));
    most = std::max(most, plan.latency.in(units::ms));
    best = std::max(best, worth.of(plan));
  }
  constexpr double kRoomAbove = 1.08;  // the best plan's dot lies below the axis' title
  html::Plot plot(html::close_log_axis(least, most), html::linear_axis(kRoomAbove * best), kPlanPlotHeight,
                  "parallel plans");
  plot.axes("latency of a step, ms", worth.title());
  for (std::size_t i = plans.size(); i-- > 0;) {  // the best one last, so that it lies on the others
    const RankedPlan& plan = plans[i];
    const std::string hint = "#" + std::to_string(i + 1) + ", " + plan_name(plan.plan) + ": " + format(plan.latency) +
                             ", " + format(worth.of(plan)) + " " + worth.title();
    plot.dot(plan.latency.in(units::ms), worth.of(plan), i == 0 ? kBestDot : kPlanDot, i == 0 ? "c1" : "c0", hint);
  }
  return html::section("All plans", plot.svg() + html::note("A dot is a plan; the large one is the best by " +
                                                            std::string(name(r.question.goal)) + "."));
}

std::string best_tiles(const PlanReport& r) {
  const RankedPlan& best = r.ranking.plans.front();
  const Worth worth(r);
  return html::tiles({{"best plan", plan_name(best.plan), "by " + std::string(name(r.question.goal))},
                      {"latency", format(best.latency), "band " + format(best.low) + " to " + format(best.high)},
                      {worth.title(), format(worth.of(best)), ""},
                      {"memory", format(best.memory), "of the rank that holds most"}});
}

}  // namespace

std::string plan_html(const PlanReport& r) {
  const PlanWords words = plan_words(r);
  std::string body = "<h1>" + html::escaped(words.title) + "</h1>\n<p class=\"soft\">" + html::escaped(words.inputs) +
                     "</p>\n<p>" + html::escaped(words.plans) + "</p>\n";
  if (!r.ranking.plans.empty()) {
    const std::size_t left_out = r.ranking.plans.size() - plans_shown(r);
    const std::string more = left_out > 0 ? html::note("... and " + std::to_string(left_out) + " more: --top 0") : "";
    body += best_tiles(r) + scatter(r) + html::section("Best first", html::table(plan_columns(r)) + more, true);
  }
  const auto sentences = all_assumptions(r.machine, r.llm.assumptions, r.remarks);
  if (!sentences.empty()) body += html::section("Assumptions", html::bullets(sentences), true);
  return html::document(words.title, body);
}

}  // namespace plumbline
