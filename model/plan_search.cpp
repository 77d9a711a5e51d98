#include "model/plan_search.hpp"

#include <algorithm>

#include "arch/error.hpp"
#include "ops/lower/two_batch.hpp"
#include "ops/memory/memory.hpp"
#include "ops/resolve/ranks.hpp"

namespace plumbline {
namespace {

std::vector<std::int64_t> divisors(std::int64_t n) {
  std::vector<std::int64_t> out;
  for (std::int64_t i = 1; i <= n; ++i) {
    if (n % i == 0) out.push_back(i);
  }
  return out;
}

bool has_experts(const Llm& llm) {
  const auto& kinds = llm.main().kinds;
  return std::any_of(kinds.begin(), kinds.end(), [](const LayerSpec& l) { return l.ffn && l.ffn->is_moe(); });
}

/// Plans of one (tp, pp, cp, dp): experts dealt to each number of ranks that goes with them.
void add_expert_plans(const Llm& llm, Workload& w, bool experts, std::vector<ParallelPlan>& plans) {
  w.parallel.expert = 1;
  if (!lowering::allowed(llm, w)) return;
  plans.push_back(w.parallel);
  if (!experts) return;
  for (const std::int64_t ranks : divisors(w.parallel.stage_ranks())) {
    if (ranks == 1) continue;
    w.parallel.expert = ranks;
    if (lowering::allowed(llm, w)) plans.push_back(w.parallel);
  }
}

RankedPlan figures_of(const ParallelPlan& plan, const StepPrediction& step) {
  return {plan,         step.graph.pipeline.micro_batches,
          step.latency, step.low,
          step.high,    step.network_exposed,
          step.bubble,  step.tokens_per_s,
          step.energy,  step.graph.tokens,
          step.power,   step.graph.memory.total()};
}

double worth(const RankedPlan& plan, PlanGoal goal) {
  switch (goal) {
    case PlanGoal::latency: return -plan.latency.in(units::s);
    case PlanGoal::tokens_per_s: return plan.tokens_per_s;
    case PlanGoal::tokens_per_J: return plan.tokens_per_J();
  }
  return 0;
}

int ways(const ParallelPlan& p) {
  return (p.tensor > 1) + (p.pipeline > 1) + (p.context > 1) + (p.data > 1) + (p.expert > 1);
}

}  // namespace

std::vector<ParallelPlan> legal_plans(const Llm& llm, const Workload& workload, std::int64_t gpus) {
  std::vector<ParallelPlan> plans;
  Workload w = workload;
  const bool experts = has_experts(llm);
  for (const std::int64_t pipeline : divisors(gpus)) {
    for (const std::int64_t data : divisors(gpus / pipeline)) {
      if (data > w.batch) continue;
      for (const std::int64_t context : divisors(gpus / pipeline / data)) {
        w.parallel.pipeline = pipeline;
        w.parallel.data = data;
        w.parallel.context = context;
        w.parallel.tensor = gpus / pipeline / data / context;
        w.parallel.sequence = workload.parallel.sequence && w.parallel.tensor > 1;
        w.parallel.attention_data = workload.parallel.attention_data && w.parallel.tensor > 1;
        add_expert_plans(llm, w, experts, plans);
      }
    }
  }
  return plans;
}

PlanRanking rank_plans(Predictor& predictor, const Llm& llm, const Workload& workload, const Machine& machine,
                       const RunOptions& options, const PlanQuestion& question) {
  if (question.goal == PlanGoal::tokens_per_J && !machine.rates().power) {
    throw BadInput(machine.gpu().name + ": tokens per joule: no energies of the card are on file");
  }
  PlanRanking out;
  const std::vector<ParallelPlan> legal = legal_plans(llm, workload, question.gpus);
  out.legal = static_cast<std::int64_t>(legal.size());
  Workload w = workload;
  StepPrediction step;
  for (const ParallelPlan& plan : legal) {
    w.parallel = plan;
    w.overlap = lowering::possible_overlap(workload.overlap, llm, w);
    if (memory_need(llm, w).total() > machine.gpu().memory.usable_capacity() - question.reserve) {
      ++out.too_large;
      continue;
    }
    try {
      predictor.predict(llm, w, machine, options, step);
    } catch (const NotModelled&) {
      ++out.not_modelled;
      continue;
    }
    const bool late = question.most_latency && step.latency > *question.most_latency;
    if (late || step.tokens_per_s < question.least_tokens_per_s) {
      ++out.too_slow;
      continue;
    }
    out.plans.push_back(figures_of(plan, step));
  }
  std::stable_sort(out.plans.begin(), out.plans.end(), [&](const RankedPlan& a, const RankedPlan& b) {
    const double left = worth(a, question.goal), right = worth(b, question.goal);
    return left != right ? left > right : ways(a.plan) < ways(b.plan);
  });
  return out;
}

}  // namespace plumbline
