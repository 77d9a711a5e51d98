// Laws over plans drawn at random: model, phase, sizes, number of GPUs and one of all legal plans.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "arch/error.hpp"
#include "model/plan_search.hpp"
#include "ops/memory/memory.hpp"
#include "tests/support/workloads.hpp"

namespace plumbline::plan_laws_test {
namespace {

using testing_support::decode;
using testing_support::prefill;

Machine h200() {
  MachineOptions options;
  options.clock = ClockMode::burst;
  return make_machine(load_gpu("h200_sxm"), options);
}

const Llm& drawn_model() {
  static const std::vector<Llm> models = [] {
    std::vector<Llm> all;
    for (const char* name : {"llama-3.1-8b", "llama-3.1-70b", "mixtral-8x7b", "deepseek-v3", "gpt-oss-120b"}) {
      all.push_back(load_llm(name));
    }
    return all;
  }();
  return models[*rc::gen::inRange<std::size_t>(0, models.size())];
}

Workload drawn_sizes() {
  if (*rc::gen::arbitrary<bool>()) return decode(*rc::gen::inRange(1, 512), *rc::gen::inRange(1, 8192));
  return prefill(*rc::gen::inRange(1, 32), *rc::gen::inRange(1, 4096));
}

/// One of all legal plans of so many GPUs, sequence parallel or not; none where there is none.
bool draw_plan(const Llm& llm, Workload& w, std::int64_t gpus) {
  const std::vector<ParallelPlan> plans = legal_plans(llm, w, gpus);
  if (plans.empty()) return false;
  w.parallel = plans[*rc::gen::inRange<std::size_t>(0, plans.size())];
  return true;
}

/// A plan's memory times its ranks holds the model; its ranks do the work. Memory is that of the stage that holds most in all,
/// whose weights may be fewer than the mean stage's where caches are larger (DeepSeek-V3's dense layers). Of a pipeline the
/// slowest stage alone is priced, so that its layers, not the mean stage's, are counted for all.
RC_GTEST_PROP(PlanLaws, RanksTogetherHoldTheModelAndDoItsWork, ()) {
  static const Machine machine = h200();
  const Llm& llm = drawn_model();
  Workload w = drawn_sizes();
  const auto gpus = *rc::gen::element(2, 4, 8, 16, 64);
  Predictor predictor;
  const double whole = predictor.predict(llm, w, machine, {}).flops.in(units::FLOP);
  const Bytes weights = memory_need(llm, w).weights;
  RC_PRE(draw_plan(llm, w, gpus));
  RC_ASSERT(memory_need(llm, w).total() * static_cast<double>(gpus) >= weights * (1 - 1e-9));
  const StepPrediction step = predictor.predict(llm, w, machine, {});
  if (w.parallel.pipeline == 1) {
    RC_ASSERT(step.flops.in(units::FLOP) * static_cast<double>(gpus) >= whole * (1 - 1e-6));
  }
  RC_ASSERT(step.low <= step.latency);
  RC_ASSERT(step.latency <= step.high);
}

/// More bandwidth between GPUs never makes a plan slower, but by what NCCL loses where its own cost model then picks another
/// algorithm or protocol for a collective.
RC_GTEST_PROP(PlanLaws, FasterLinksAreNeverSlowerButByNcclsOwnChoice, ()) {
  static const Machine machine = h200();
  const Llm& llm = drawn_model();
  Workload w = drawn_sizes();
  RC_PRE(draw_plan(llm, w, *rc::gen::element(2, 4, 8, 16, 64)));
  GpuNumbers numbers = machine.numbers();
  numbers.links.nvlink_per_direction = *rc::gen::element(1.1, 1.5, 2.0, 4.0) * numbers.links.nvlink_per_direction;
  Predictor predictor;
  const StepPrediction before = predictor.predict(llm, w, machine, {});
  const StepPrediction after = predictor.predict(llm, w, machine.with(numbers), {});
  RC_PRE(before.stage == after.stage);
  Seconds lost;
  for (std::size_t i = 0; i < before.nodes.size(); ++i) {
    const OpPrediction &was = before.nodes[i].op, &is = after.nodes[i].op;
    if (is.time <= was.time * (1 + 1e-12)) continue;
    RC_ASSERT(is.provider == "nccl");
    RC_ASSERT(std::string_view(was.launches[0].kernel) != is.launches[0].kernel);
    lost += static_cast<double>(before.nodes[i].node->count) * (is.time - was.time);
  }
  // where nobody says how many parts a batch has, a pipeline has one a stage at most
  const std::int64_t parts = w.parallel.micro_batches > 0 ? w.parallel.micro_batches : w.parallel.pipeline;
  const double passes = static_cast<double>(parts * w.parallel.pipeline);
  RC_ASSERT(after.latency <= (before.latency + passes * lost) * (1 + 1e-9));
}

/// Halves of a batch side by side, beside the same halves one after the other at the same clock.
RC_GTEST_PROP(PlanLaws, OverlapIsNeverSlowerThanNoneByMoreThanItsTax, ()) {
  static const Machine machine = h200();
  const Llm& llm = drawn_model();
  Workload w = drawn_sizes();
  RC_PRE(draw_plan(llm, w, *rc::gen::element(2, 4, 8, 16)));
  RC_PRE(w.parallel.pipeline == 1);
  w.overlap = Overlap::two_batch;
  Graph graph;
  try {
    graph = lower(llm, w);
  } catch (const Error&) {
    RC_DISCARD("a plan without halves, or without collectives");
  }
  Predictor predictor;
  const StepPrediction beside = predictor.predict(graph, machine, {});
  Seconds one_by_one;
  for (const NodePrediction& n : beside.nodes) one_by_one += static_cast<double>(n.node->count) * (n.op.time + n.gap);
  RC_ASSERT(beside.latency <= (one_by_one + beside.overlap_tax) * (1 + 1e-9));
  RC_ASSERT(beside.latency >= (one_by_one - beside.network_hidden) * (1 - 1e-9));
}

}  // namespace
}  // namespace plumbline::plan_laws_test
