// The ranking of parallel plans as a table, JSON, CSV and a page.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "model/plan_search.hpp"
#include "model/report/columns.hpp"

namespace plumbline {

struct PlanReport {
  const Llm& llm;
  const Workload& workload;
  const Machine& machine;
  const PlanQuestion& question;
  const PlanRanking& ranking;
  std::int64_t top = 0;  ///< plans of the table; 0: all
  std::vector<std::string> remarks;
};

std::string_view name(PlanGoal goal);

std::string plan_table(const PlanReport& report, const TextStyle& style);
std::string plan_json(const PlanReport& report);  ///< schema plumbline.plan.v1
std::string plan_csv(const PlanReport& report);
std::string plan_html(const PlanReport& report);

/// What the table and the page share: what was asked, how many plans there are, and the best of them (`top`).
struct PlanWords {
  std::string title, inputs, plans;
};
PlanWords plan_words(const PlanReport& report);
Columns plan_columns(const PlanReport& report);
std::size_t plans_shown(const PlanReport& report);

}  // namespace plumbline
