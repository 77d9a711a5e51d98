// Several GPUs: pipelines against their formula, and laws over all legal plans of a few models.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <string>
#include <vector>

#include "model/load_time.hpp"
#include "model/plan_search.hpp"
#include "model/schedule/pipeline.hpp"
#include "ops/memory/memory.hpp"
#include "tests/support/workloads.hpp"

namespace plumbline::parallel_test {
namespace {

using testing_support::decode;
using testing_support::prefill;

Machine h200(ClockMode clock = ClockMode::burst) {
  MachineOptions options;
  options.clock = clock;
  return make_machine(load_gpu("h200_sxm"), options);
}

Seconds time_of(const StepPrediction& step, std::string_view name) {
  for (const NodePrediction& n : step.nodes) {
    if (name == n.node->name) return n.op.time + n.gap;
  }
  ADD_FAILURE() << "no node " << name;
  return {};
}

/// The slowest stage holds the head. A micro-batch's way through both is that of one sequence through the whole model and
/// one hand-over.
TEST(Pipeline, APrefillFillsAndDrains) {
  const Machine machine = h200();
  const Llm llm = load_llm("llama-3.1-8b");
  Predictor predictor;
  const StepPrediction alone = predictor.predict(llm, prefill(1, 2048), machine, {});
  Workload w = prefill(4, 2048);
  w.parallel.pipeline = 2;
  w.parallel.micro_batches = 4;
  const StepPrediction piped = predictor.predict(llm, w, machine, {});
  // Stage 0 hands over: its 16 layers, the embedding and the send are as long as stage 1's layers and head or longer.
  const Seconds slowest = (piped.latency - piped.bubble) / 4.0;
  Seconds send;
  const Graph graph = lower(llm, w);
  for (const Node& node : graph.nodes) {
    if (std::string_view(node.name) == "stage_send") send = predictor.predict(node.op, machine).time;
  }
  const Seconds way = piped.latency - 3.0 * slowest;
  EXPECT_NEAR(way / (alone.latency + send), 1, 2e-3) << "but for the gap of a launch";
  EXPECT_GT(piped.bubble, Seconds{});
  EXPECT_EQ(piped.graph.pipeline.micro_batches, 4);
}

TEST(Pipeline, DecodeKeepsItsSlowestStageBusyWithAsManyMicroBatchesAsStages) {
  const Machine machine = h200();
  const Llm llm = load_llm("llama-3.1-8b");
  Workload w = decode(4, 1024);
  w.parallel.pipeline = 4;
  const StepPrediction full = predict(llm, w, machine, {});
  EXPECT_NEAR(full.bubble / full.latency, 0, 1e-12);
  EXPECT_EQ(full.stage, 3) << "it has the head";
  w.parallel.micro_batches = 1;
  const StepPrediction one = predict(llm, w, machine, {});
  EXPECT_GT(one.bubble / one.latency, 0.6) << "three of four stages wait";
  w.batch = 1;
  w.parallel.micro_batches = 0;
  EXPECT_EQ(predict(llm, w, machine, {}).graph.pipeline.micro_batches, 1);
}

TEST(Pipeline, KeepsTheNodesOfOneStage) {
  const Machine machine = h200();
  Workload w = decode(8, 512);
  w.parallel.pipeline = 5;
  const StepPrediction step = predict(load_llm("deepseek-v3"), w, machine, {});
  ASSERT_EQ(step.nodes.size(), step.graph.nodes.size());
  std::int64_t layers = 0;
  for (const Segment& s : step.graph.segments) {
    if (std::string_view(s.name).find("layer") != std::string_view::npos) layers += s.repeat;
  }
  EXPECT_EQ(layers, 12 * 5) << "the last of 13, 12, 12, 12, 12; five micro-batches";
  for (std::size_t i = 0; i < step.nodes.size(); ++i) {
    const NodePrediction& n = step.nodes[i];
    EXPECT_EQ(n.node, &step.graph.nodes[i]);
    EXPECT_LE(n.first, i);
    EXPECT_EQ(step.nodes[n.first].first, n.first);
    for (const int other : n.node->depends) EXPECT_LT(other, static_cast<int>(i));
  }
}

TEST(Parallel, CollectivesAreTheExposedNetwork) {
  Workload w = decode(16, 4096);
  w.parallel.tensor = 8;
  const StepPrediction step = predict(load_llm("llama-3.1-70b"), w, h200(), {});
  Seconds collectives;
  for (const NodePrediction& n : step.nodes) {
    if (std::holds_alternative<Collective>(n.node->op)) {
      collectives += static_cast<double>(n.node->count) * (n.op.time + n.gap);
    }
  }
  EXPECT_DOUBLE_EQ(step.network_exposed / collectives, 1);
  EXPECT_GT(time_of(step, "attn_all_reduce"), 3.4e-6 * units::s) << "the stack's call";
}

TEST(Parallel, EnergyIsOfAllGpusAndPowerOfOne) {
  const Llm llm = load_llm("llama-3.1-8b");
  const Machine machine = h200(ClockMode::steady);
  const StepPrediction one = predict(llm, decode(16, 1024), machine, {});
  Workload w = decode(64, 1024);
  w.parallel.data = 4;
  const StepPrediction four = predict(llm, w, machine, {});
  EXPECT_EQ(four.latency, one.latency) << "replicas have nothing to do with each other";
  EXPECT_EQ(*four.power, *one.power);
  EXPECT_DOUBLE_EQ(*four.energy / *one.energy, 4);
  EXPECT_DOUBLE_EQ(four.tokens_per_s, 4 * one.tokens_per_s);
}

/// Links that carry 333 GB/s, and links that are awake: 278.5 W a board where SMs and memory alone take 179 (data/measurements/
/// h200/links/x2_overlap.csv, the row that the scalar was read off).
TEST(Parallel, LinksTakePower) {
  MachineOptions options{"own"};
  options.clock = ClockMode::steady;
  const Machine machine = make_machine(load_gpu("h200_sxm"), options);
  Collective sum;
  sum.bytes = 64 << 20;
  sum.gpus = 2;
  EXPECT_NEAR(predict(sum, machine).power->in(units::W), 278.5, 8);
  Transfer copy;
  copy.kind = TransferKind::h2d;
  copy.bytes = 64 << 20;
  EXPECT_LT(predict(copy, machine).power->in(units::W), 160) << "no NVLink on the way to the host";
}

/// 160 GB from disks of 10 GB/s a node, eight GPUs to a node.
TEST(LoadTime, ANodeReadsEachByteOnce) {
  const Machine machine = h200();
  Predictor predictor;
  const Bytes model = 160e9 * units::B;
  const Bandwidth disk = 10.0 * units::GB_per_s;
  const auto load = [&](const ParallelPlan& plan, double shares) {
    return load_time(predictor, machine, plan, model / shares, model, disk);
  };
  const LoadTime split = load({.tensor = 8}, 8), copies = load({.tensor = 2, .data = 4}, 2),
                 two = load({.tensor = 16}, 16);
  EXPECT_DOUBLE_EQ(split.storage->in(units::s), 16);
  EXPECT_DOUBLE_EQ(copies.storage->in(units::s), 16) << "replicas of a node share what it reads";
  EXPECT_DOUBLE_EQ(two.storage->in(units::s), 8) << "each of two nodes reads its half";
  EXPECT_NEAR(copies.host / split.host, 4, 1e-3);
  EXPECT_EQ(*split.total(), *split.storage);
  EXPECT_FALSE(load_time(predictor, machine, {}, model, model, {}).total()) << "nothing says how fast nodes read";
}

struct Case {
  const char* model;
  Workload workload;
  std::int64_t gpus;
};

std::vector<Case> cases() {
  return {{"llama-3.1-8b", decode(32, 2048), 8},   {"llama-3.1-8b", prefill(8, 1024), 8},
          {"mixtral-8x7b", decode(64, 1024), 8},   {"deepseek-v3", decode(256, 1024), 64},
          {"deepseek-v3", prefill(16, 512), 32},   {"gpt-oss-120b", decode(16, 4096), 4},
          {"llama-3.1-405b", prefill(2, 4096), 16}};
}

std::string text_of(const char* model, const ParallelPlan& p) {
  std::string text = model;
  for (const std::int64_t degree : {p.tensor, p.pipeline, p.context, p.data, p.expert})
    text += " " + std::to_string(degree);
  return text;
}

/// A rank's work times the ranks is at least the whole: the slowest stage has the most layers, the fullest replica the most
/// sequences.
TEST(ParallelLaws, RanksTogetherHoldTheModelAndDoItsWork) {
  const Machine machine = h200();
  Predictor predictor;
  for (const Case& c : cases()) {
    const Llm llm = load_llm(c.model);
    const double whole = predictor.predict(llm, c.workload, machine, {}).flops.in(units::FLOP);
    Workload w = c.workload;
    const Bytes weights = memory_need(llm, w).weights;
    for (const ParallelPlan& plan : legal_plans(llm, w, c.gpus)) {
      w.parallel = plan;
      const std::string text = text_of(c.model, plan);
      EXPECT_GE(memory_need(llm, w).weights * static_cast<double>(c.gpus), weights * (1 - 1e-9)) << text;
      const StepPrediction step = predictor.predict(llm, w, machine, {});
      const double all = step.flops.in(units::FLOP) * static_cast<double>(c.gpus);
      if (plan.pipeline == 1) {
        EXPECT_GE(all, whole * (1 - 1e-6)) << text;
      }
      EXPECT_LE(step.low, step.latency) << text;
      EXPECT_GE(step.high, step.latency) << text;
      EXPECT_GT(step.tokens_per_s, 0) << text;
    }
  }
}

/// How many operators the second step takes longer for. Each is a collective for which NCCL's cost model picks another
/// algorithm or protocol there: nothing else gets slower by faster links.
int operators_slower(const StepPrediction& before, const StepPrediction& after, const std::string& plan) {
  int slower = 0;
  if (before.nodes.size() != after.nodes.size()) return slower;  // another stage is the slowest one
  for (std::size_t i = 0; i < before.nodes.size(); ++i) {
    const OpPrediction &was = before.nodes[i].op, &is = after.nodes[i].op;
    if (is.time <= was.time * (1 + 1e-12)) continue;
    ++slower;
    EXPECT_STRNE(was.launches[0].kernel, is.launches[0].kernel) << plan << ' ' << before.nodes[i].node->name;
    EXPECT_EQ(is.provider, "nccl") << plan << ' ' << before.nodes[i].node->name;
  }
  return slower;
}

/// More bandwidth between GPUs never makes a plan slower, but by what NCCL loses where its own cost model then picks another
/// protocol.
TEST(ParallelLaws, AFasterNetworkIsNeverSlower) {
  const Machine machine = h200();
  GpuNumbers numbers = machine.numbers();
  numbers.links.nvlink_per_direction = 2 * numbers.links.nvlink_per_direction;
  const Machine faster = machine.with(numbers);
  Predictor predictor;
  int slower = 0;
  for (const Case& c : cases()) {
    const Llm llm = load_llm(c.model);
    Workload w = c.workload;
    for (const ParallelPlan& plan : legal_plans(llm, w, c.gpus)) {
      w.parallel = plan;
      const StepPrediction before = predictor.predict(llm, w, machine, {});
      const StepPrediction after = predictor.predict(llm, w, faster, {});
      EXPECT_LE(after.latency / before.latency, 1.02) << text_of(c.model, plan);
      slower += operators_slower(before, after, text_of(c.model, plan));
    }
  }
  EXPECT_GT(slower, 0) << "else the 2 % above are for nothing";
}

/// Random plans of a model with experts, whose tokens go by kernels that pick nothing by the links' rate.
RC_GTEST_PROP(ParallelLaws, FasterLinksNeverSlowExchangesOfTokens, ()) {
  static const Machine machine = [] {
    MachineOptions options;
    options.stack.name = "sglang";
    options.clock = ClockMode::burst;
    return make_machine(load_gpu("h200_sxm"), options);
  }();
  static const Llm llm = load_llm("deepseek-v3");
  const bool decodes = *rc::gen::arbitrary<bool>();
  Workload w = decodes ? decode(*rc::gen::inRange(8, 1024), 4096) : prefill(*rc::gen::inRange(8, 64), 512);
  const std::vector<ParallelPlan> plans = legal_plans(llm, w, *rc::gen::element(8, 16, 64));
  w.parallel = plans[*rc::gen::inRange<std::size_t>(0, plans.size())];
  GpuNumbers numbers = machine.numbers();
  numbers.links.nvlink_per_direction = *rc::gen::element(1.25, 2.0, 4.0) * numbers.links.nvlink_per_direction;
  Predictor predictor;
  const StepPrediction before = predictor.predict(llm, w, machine, {});
  const StepPrediction after = predictor.predict(llm, w, machine.with(numbers), {});
  RC_PRE(before.stage == after.stage);
  for (std::size_t i = 0; i < before.nodes.size(); ++i) {
    if (!std::holds_alternative<ExpertExchange>(before.nodes[i].node->op)) continue;
    RC_ASSERT(after.nodes[i].op.time <= before.nodes[i].op.time);
  }
}

TEST(PlanSearch, CountsWhatItDrops) {
  const Machine machine = h200(ClockMode::steady);
  const Llm llm = load_llm("llama-3.1-405b");
  Predictor predictor;
  PlanQuestion question;
  question.gpus = 8;
  const Workload w = decode(8, 2048);
  const PlanRanking all = rank_plans(predictor, llm, w, machine, {}, question);
  EXPECT_EQ(all.legal, static_cast<std::int64_t>(legal_plans(llm, w, 8).size()));
  EXPECT_EQ(all.legal, static_cast<std::int64_t>(all.plans.size()) + all.too_large + all.too_slow + all.not_modelled);
  EXPECT_GT(all.too_large, 0) << "four replicas of 812 GB";
  question.most_latency = all.plans.front().latency;
  EXPECT_EQ(rank_plans(predictor, llm, w, machine, {}, question).plans.size(), 1U);
  question = {};
  question.gpus = 8;
  question.goal = PlanGoal::tokens_per_J;
  const PlanRanking thrifty = rank_plans(predictor, llm, w, machine, {}, question);
  for (std::size_t i = 1; i < thrifty.plans.size(); ++i) {
    EXPECT_GE(thrifty.plans[i - 1].tokens_per_J(), thrifty.plans[i].tokens_per_J());
  }
}

}  // namespace
}  // namespace plumbline::parallel_test
