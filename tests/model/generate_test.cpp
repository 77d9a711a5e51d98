// A whole answer is the sum of its steps.
#include "model/generate.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "arch/error.hpp"

namespace plumbline::generate_test {
namespace {

Machine card(const char* stack = "trt-llm") {
  MachineOptions options;
  options.stack = stack;
  options.clock = ClockMode::steady;
  return machines().get({"h200_sxm", options});
}

Workload prompt_of(std::int64_t tokens, std::int64_t batch) {
  Workload w;
  w.phase = Phase::prefill;
  w.prompt = tokens;
  w.batch = batch;
  return w;
}

/// A prefill and every step behind it, one after another.
struct Sum {
  Seconds time, decode;
  Joules energy;
  Flops flops;
};
Sum sum_of_all_steps(const Llm& llm, const Workload& prefill, std::int64_t output, const Machine& machine) {
  Predictor predictor;
  Sum sum;
  const auto add = [&](const Workload& w) {
    const StepPrediction step = predictor.predict(llm, w, machine, RunOptions{});
    sum.time += step.latency;
    sum.energy += *step.energy;
    sum.flops += step.flops;
    return step.latency;
  };
  (void)add(prefill);
  for (std::int64_t i = 0; i + 1 < output; ++i) {
    Workload w = prefill;
    w.phase = Phase::decode;
    w.cached = 0;
    w.context = prefill.cached + prefill.prompt + i;
    sum.decode += add(w);
  }
  return sum;
}

TEST(Generate, IsWithinATenthPercentOfTheSumOfAllSteps) {
  // short ones are summed; of long ones 512 steps stand for all
  const std::int64_t outputs[] = {1, 2, 300, 2500};
  for (const char* name : {"llama-3.1-8b", "deepseek-v3", "mamba2-2.7b", "gemma-3-27b"}) {
    const Llm llm = load_llm(name);
    for (const std::int64_t output : outputs) {
      if (output > 300 && std::string(name) != "llama-3.1-8b" && std::string(name) != "gemma-3-27b") continue;
      const Workload prefill = prompt_of(200, 4);
      Predictor predictor;
      const GeneratePrediction all = predict_generate(predictor, llm, prefill, output, card(), RunOptions{});
      const Sum sum = sum_of_all_steps(llm, prefill, output, card());
      const double bound = output <= kPricedSteps ? 1e-9 : 1e-3;
      EXPECT_NEAR(all.latency / sum.time, 1, bound) << name << " " << output;
      EXPECT_NEAR(*all.energy / sum.energy, 1, bound) << name << " " << output;
      EXPECT_NEAR(all.flops / sum.flops, 1, bound) << name << " " << output;
      EXPECT_EQ(all.tpot().has_value(), output > 1);
      if (output > 1) {
        EXPECT_NEAR(*all.tpot() * static_cast<double>(output - 1) / sum.decode, 1, bound) << name << " " << output;
      }
      EXPECT_DOUBLE_EQ(all.tokens, 4.0 * static_cast<double>(output));
    }
  }
}

TEST(Generate, IsAPrefillAndThenDecodeSteps) {
  const Llm llm = load_llm("llama-3.1-8b");
  Predictor predictor;
  Workload prefill = prompt_of(512, 8);
  prefill.cached = 1000;
  const GeneratePrediction all = predict_generate(predictor, llm, prefill, 10, card(), RunOptions{});
  EXPECT_EQ(all.ttft(), predict(llm, prefill, card(), RunOptions{}).latency);
  EXPECT_EQ(all.steps, 9);
  EXPECT_EQ(decode_step(llm, prefill, 0).context, 1512);
  EXPECT_EQ(decode_step(llm, prefill, 8).context, 1520);
  EXPECT_LE(all.low, all.latency);
  EXPECT_GE(all.high, all.latency);
  const TimeShare& s = all.share;
  EXPECT_NEAR(s.compute + s.memory + s.network + s.latency + s.launch, 1, 1e-9);
  Seconds operators;
  for (const OperatorSum& o : all.ops) operators += o.time;
  EXPECT_NEAR(operators / all.latency, 1, 1e-9) << "operators and the gaps behind them are all of it";
}

/// Energy is that of all GPUs, power the mean of one.
TEST(Generate, PowerIsOfOneGpu) {
  Predictor predictor;
  Workload workload = prompt_of(512, 8);
  workload.parallel.tensor = 4;
  const GeneratePrediction all =
      predict_generate(predictor, load_llm("llama-3.1-8b"), workload, 4, card(), RunOptions{});
  ASSERT_TRUE(all.power() && all.energy);
  EXPECT_NEAR(4 * all.power()->in(units::W), (*all.energy / all.latency).in(units::W), 1e-6);
  EXPECT_LT(*all.power(), card().gpu().tdp);
}

/// Each of its steps would be cut into products of a row or two, which no framework does.
TEST(Generate, StepsBehindAPrefillByShares) {
  Workload w = prompt_of(4096, 2);
  w.parallel.tensor = 4;
  w.parallel.sequence = true;
  w.overlap = Overlap::async_tp;
  const Llm llm = load_llm("llama-3.1-8b");
  EXPECT_EQ(decode_step(llm, w, 1).overlap, Overlap::none);
  w.overlap = Overlap::two_batch;
  EXPECT_EQ(decode_step(llm, w, 1).overlap, Overlap::two_batch);
}

TEST(Generate, ADecoderBehindAnEncoderStartsFromItsStartToken) {
  Workload prefill = prompt_of(300, 1);
  EXPECT_EQ(decode_step(load_llm("t5-3b"), prefill, 4).context, 5);
}

TEST(Generate, RefusesAnOutputOfNothingAndModelsThatWriteNone) {
  Predictor predictor;
  EXPECT_THROW((void)predict_generate(predictor, load_llm("llama-3.1-8b"), prompt_of(8, 1), 0, card(), {}), BadInput);
  EXPECT_THROW((void)predict_generate(predictor, load_llm("bert-base-uncased"), prompt_of(8, 1), 2, card(), {}),
               BadInput);
}

TEST(ChunkedPrefill, EqualsItsOperatorsAndIsNeverFasterWithMoreContext) {
  const Llm llm = load_llm("llama-3.1-8b");
  for (const char* stack : {"ideal", "own", "trt-llm"}) {
    const Machine machine = card(stack);
    Seconds before;
    for (const std::int64_t cached : {0, 1, 100, 1000, 8000, 65536, 120000}) {
      Workload w = prompt_of(512, 1);
      w.cached = cached;
      const StepPrediction step = predict(llm, w, machine, RunOptions{});
      Seconds sum;
      for (const NodePrediction& n : step.nodes) sum += static_cast<double>(n.node->count) * (n.op.time + n.gap);
      EXPECT_NEAR(sum / step.latency, 1, 1e-12) << stack << " " << cached;
      EXPECT_GE(step.latency, before * (1 - 1e-3)) << stack << " " << cached;
      before = step.latency;
    }
  }
}

}  // namespace
}  // namespace plumbline::generate_test
