// Plans of operators that are priced alone: chosen by their time at the clock that each really runs at.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "model/predict.hpp"
#include "model/report/rule_loss.hpp"
#include "tests/support/random_gpu.hpp"

namespace plumbline::settled_choice_test {
namespace {

using namespace testing_support;

Machine machine_of(const char* gpu, const char* stack, ClockMode clock, std::optional<Watts> cap = {}) {
  MachineOptions options;
  options.power_cap = cap;
  options.stack = stack;
  options.clock = clock;
  return make_machine(load_gpu(gpu), options);
}

Gemm random_product() {
  Gemm s;
  s.m = whole_between(1, 4000);
  s.n = 64 * whole_between(1, 100);
  s.k = 64 * whole_between(1, 100);
  return s;
}

constexpr Watts kTight = 350.0 * units::W;  ///< most products are held down

/// The search ends up to 0.04 % of power below the cap.
constexpr double kSearch = 1.0005;
/// Of cuts of the keys: since what polls draws power the one that is taken is up to 0.3 % slower than another where the cap
/// binds (12,000 draws; 0.05 % before; why is not taken apart).
constexpr double kCuts = 1.003;

/// Nor is one that another machine would pick.
RC_GTEST_PROP(SettledChoice, NoOtherPlanIsQuickerOnceItSettles, ()) {
  static const Machine burst = machine_of("h200_sxm", "own", ClockMode::burst),
                       steady = machine_of("h200_sxm", "own", ClockMode::steady, kTight);
  const Gemm s = random_product();
  const Seconds settled = predict(s, steady).time;
  GpuNumbers g = burst.numbers();
  g.l2.bandwidth *= between(0.3, 3);
  g.memory.bandwidth *= between(0.3, 3);
  const OpPrediction elsewhere = predict(s, burst.with(g));
  PredictOptions as_cut;
  as_cut.gemm_plan = &elsewhere.gemm_plan;
  RC_ASSERT(settled <= kSearch * predict(s, steady, as_cut).time);
}

/// The clock of a burst is not that of the rates either: SMs skip cycles, the more the more power is drawn.
RC_GTEST_PROP(SettledChoice, NoOtherPlanIsQuickerInABurst, ()) {
  static const Machine burst = machine_of("h200_sxm", "own", ClockMode::burst);
  const Gemm s = random_product();
  GpuNumbers g = burst.numbers();
  g.l2.bandwidth *= between(0.3, 3);
  g.memory.bandwidth *= between(0.3, 3);
  const OpPrediction elsewhere = predict(s, burst.with(g));
  PredictOptions as_cut;
  as_cut.gemm_plan = &elsewhere.gemm_plan;
  RC_ASSERT(predict(s, burst).time <= predict(s, burst, as_cut).time);
}

/// Nor is one of the keys that leaves the SMs no more turns.
RC_GTEST_PROP(SettledChoice, NoOtherCutOfTheKeysIsQuicker, ()) {
  static const Machine steady = machine_of("h200_sxm", "own", ClockMode::steady, kTight);
  const AttentionDecode s{whole_between(1, 8), 32, 8, 128, 128, whole_between(200, 8000), 64};
  AttentionPlan plan = predict(s, steady).attention_plan;
  PredictOptions as_cut;
  as_cut.attention_plan = &plan;
  const Seconds best = predict(s, steady, as_cut).time;
  for (plan.splits = 1; plan.splits <= std::min<std::int64_t>(s.context / 128, 64); ++plan.splits) {
    if (s.batch * 8 * plan.splits > std::int64_t{3} * 132) break;  // a turn of the SMs each
    RC_ASSERT(best <= kCuts * predict(s, steady, as_cut).time);
  }
}

/// What the planner found is what the predictor prices: its own plan, replayed, takes the same time.
RC_GTEST_PROP(SettledChoice, ItsOwnPlanReplayedIsTheAnswer, ()) {
  static const Machine steady = machine_of("h200_sxm", "own", ClockMode::steady, kTight);
  const Gemm s = random_product();
  const OpPrediction settled = predict(s, steady);
  PredictOptions as_cut;
  as_cut.gemm_plan = &settled.gemm_plan;
  RC_ASSERT(predict(s, steady, as_cut).time == settled.time);
}

/// Among 87,185 random pairs this one lost most while plans were chosen at the boost clock: 15.9 % with twice the bandwidth
/// of L2, a larger tile drawing more power there.
TEST(SettledChoice, TwiceTheBandwidthOfL2IsNotSlowerUnderTheCap) {
  const Machine h20 = machine_of("h20", "own", ClockMode::steady);
  GpuNumbers g = h20.numbers();
  g.sm_count = 154;
  g.memory.bandwidth = 3673.2595699019753 * units::GB_per_s;
  g.memory.latency = 334.96494637033595 * units::ns;
  g.l2.size = 37.874731797822854 * units::MiB;
  const double clock = 1601.4829121141759 * units::MHz / g.boost_clock;
  g.boost_clock *= clock;
  g.base_clock *= clock;
  g.tdp = 316.18215007025481 * units::W;
  const Gemm s{416, 128, 1920, 14, {}, false};
  const OpPrediction before = predict(s, h20.with(g));
  EXPECT_TRUE(before.power_limited);
  g.l2.bandwidth *= 2;
  const OpPrediction after = predict(s, h20.with(g));
  EXPECT_LE(after.time, 1.001 * before.time);
}

/// The same machine with some of its numbers changed.
struct Changed {
  double sms, bandwidth, latency, l2, boost, tdp;
  Machine operator()(const Machine& m) const {
    GpuNumbers g = m.numbers();
    g.sm_count = static_cast<std::int64_t>(sms);
    g.memory.bandwidth = bandwidth * units::GB_per_s;
    g.memory.latency = latency * units::ns;
    g.l2.size = l2 * units::MiB;
    const double clock = boost * units::MHz / g.boost_clock;
    g.boost_clock *= clock;
    g.base_clock *= clock;
    g.tdp = tdp * units::W;
    return m.with(g);
  }
};

/// A memory of three times the bandwidth saved time, so more power was drawn and more cycles were skipped than the time was
/// worth: 8.1 % slower while the power was reckoned as if all of the time went with the cycles.
TEST(SettledChoice, AFasterMemoryDoesNotSkipWhatItSaves) {
  const Machine before =
      Changed{103, 453.98546, 279.23290, 24.969729, 2556.39375, 54.244295}(machine_of("l4", "own", ClockMode::burst));
  GpuNumbers g = before.numbers();
  g.memory.bandwidth *= 3;
  Gemm s{51, 3529, 3097, 16, {}, false};
  s.precision.input = DType::fp64;
  s.precision.weight = DType::fp4;
  s.precision.output = DType::fp32;
  EXPECT_LE(predict(s, before.with(g)).time, 1.001 * predict(s, before).time);
}

/// Latent attention, whose keys were cut by times at the boost clock: 1.1 % slower with a nearer L2.
TEST(SettledChoice, LatentAttentionIsCutAsItIsPriced) {
  const Machine l40s = machine_of("l40s", "own", ClockMode::steady);
  GpuNumbers g = l40s.numbers();
  g.l2.latency *= 0.7;
  MlaDecode s{13, 12, 918, 149, 7};
  s.dtype = DType::fp8;
  s.kv_dtype = DType::int8;
  EXPECT_LE(predict(s, l40s.with(g)).time, 1.001 * predict(s, l40s).time);
}

/// Where libraries' kernels stand in for ours, plans that one GPU is offered went with its SMs: 7.8 % slower on twice as
/// many.
TEST(SettledChoice, TwiceTheSmsHaveEveryPlanOfTheFewer) {
  const Machine nvl = machine_of("h100_nvl", "own", ClockMode::steady);
  GpuNumbers g = nvl.numbers();
  g.sm_count *= 2;
  const Gemm s{2, 960, 5056, 2, {}, true};
  EXPECT_LE(predict(s, nvl.with(g)).time, 1.001 * predict(s, nvl).time);
}

/// cuBLAS picks the same kernel whatever the clock is going to be: rows of it were predicted worse otherwise.
TEST(SettledChoice, ALibrarysPickKnowsNoClock) {
  const Machine burst = machine_of("h200_sxm", "trt-llm", ClockMode::burst),
                steady = machine_of("h200_sxm", "trt-llm", ClockMode::steady);
  for (const std::int64_t m : {64, 500, 2048, 8192}) {
    const Gemm s{m, 8192, 4096, 1, {}, false};
    EXPECT_EQ(predict(s, burst).gemm_plan, predict(s, steady).gemm_plan) << m;
  }
}

/// A step settles as a whole, its products by themselves: what one was asked before does not change the other's answer.
TEST(SettledChoice, StepsAndOperatorsDoNotShareAnswers) {
  const Machine steady = machine_of("h200_sxm", "own", ClockMode::steady, kTight);
  const Llm llm = load_llm("llama-3.1-8b");
  Workload prefill;
  prefill.phase = Phase::prefill;
  Predictor predictor;
  int otherwise = 0;
  for (prefill.prompt = 300; prefill.prompt < 1500; prefill.prompt += 100) {
    const StepPrediction step = predictor.predict(llm, prefill, steady, RunOptions{});
    for (const NodePrediction& n : step.nodes) {
      if (!std::holds_alternative<Gemm>(n.node->op)) continue;
      const OpPrediction alone = predict(n.node->op, steady);
      EXPECT_EQ(predictor.predict(n.node->op, steady).time, alone.time);
      otherwise += alone.gemm_plan != n.op.gemm_plan ? 1 : 0;
    }
    EXPECT_EQ(predictor.predict(llm, prefill, steady, RunOptions{}).latency, step.latency);
  }
  EXPECT_GT(otherwise, 0) << "else this test sees nothing";
}

/// One of the comparisons in which a better machine is slower by far with TensorRT-LLM's kernels: its rule cuts the work for 108 SMs otherwise than for 216, and is named with its source.
TEST(SettledChoice, TheWorstJumpOfALibrarysRuleIsExplained) {
  const Machine a100 = machine_of("a100_sxm", "trt-llm", ClockMode::burst);
  GpuNumbers g = a100.numbers();
  g.sm_count *= 2;
  const Machine twice = a100.with(g);
  AttentionDecode s{14, 52, 2, 64, 64, 2};
  s.window = 2003;
  EXPECT_GT(predict(s, twice).time, 1.1 * predict(s, a100).time);
  const auto loss = rule_loss(s, twice);
  ASSERT_TRUE(loss.has_value());
  const std::string text = rule_text(*loss);
  EXPECT_NE(text.find("TensorRT-LLM's choice of the decode kernel"), std::string::npos) << text;
  EXPECT_NE(text.find("mayHavePerfGain()"), std::string::npos) << text;
}

}  // namespace
}  // namespace plumbline::settled_choice_test
