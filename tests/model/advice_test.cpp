// What the reports advise: padding, full waves, pages, fewer launches; each priced as it is predicted, none below 2 %.
#include "model/advice.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "arch/error.hpp"
#include "ops/table/text.hpp"

namespace plumbline::advice_test {
namespace {

using ::testing::HasSubstr;

Machine h200(const char* stack = "trt-llm") {
  MachineKey key{"h200_sxm"};
  key.options.stack = stack;
  return machines().get(key);
}

std::vector<Advice> of(const Op& op, const Machine& machine) {
  Predictor predictor;
  return advise(op, predictor.predict(op, machine), machine, predictor);
}

/// cuBLAS on an H200, measured: [4096,700] x [700,100000] in fp16 takes 2.85 ms with weights [N,K], 2.68 ms with [K,N], and
/// 0.77 ms at K = 704 (0.82 and 0.84 where each call comes from memory). Rows of 1400 bytes have no tensor map: kernels of
/// an older generation load 4 bytes at a time.
TEST(Advice, RowsThatAreNoMultipleOf16BytesSayWhatPaddingGains) {
  const Machine machine = h200();
  for (const auto& [layout, measured] : {std::pair("nk", 2.85), std::pair("kn", 2.68)}) {
    const Op op = parse_op("gemm", "fp16", std::string("M=4096;N=100000;K=700;layout=") + layout);
    EXPECT_NEAR(predict(op, machine).time.in(units::ms) / measured, 1, 0.1) << layout;
    const auto advice = of(op, machine);
    ASSERT_EQ(advice.size(), 1U);
    EXPECT_EQ(advice[0].kind, "padding");
    EXPECT_THAT(advice[0].text, HasSubstr("pad K 700 -> 704"));
    EXPECT_NEAR(advice[0].time.in(units::ms), 0.8, 0.055);
    EXPECT_EQ(advice[0].time,
              predict(parse_op("gemm", "fp16", std::string("M=4096;N=100000;K=704;layout=") + layout), machine).time);
  }
  EXPECT_TRUE(of(parse_op("gemm", "fp16", "M=4096;N=100000;K=704"), machine).empty());
}

/// 8-bit operands are multiplied along K alone.
TEST(WeightLayout, OfEightBitOperandsIsNkAlone) {
  EXPECT_THROW((void)predict(parse_op("gemm", "fp8", "M=64;N=64;K=64;layout=kn"), h200()), NotModelled);
  EXPECT_THROW((void)predict(parse_op("gemm", "w4a16", "M=64;N=64;K=64;layout=kn"), h200()), NotModelled);
  EXPECT_EQ(predict(parse_op("gemm", "bf16", "M=64;N=4096;K=4092;layout=kn"), h200("own")).provider, "cublas")
      << "ours read rows of whole 16 bytes";
}

/// Our own menu has few tiles: one tile more than the SMs hold at a time costs a wave.
TEST(Advice, APartialWaveNamesTheNearestSizeThatFillsIt) {
  const Machine machine = h200("own");
  bool said = false;
  for (const int rows : {2304, 4352, 8448}) {
    const Op op = Gemm{rows, 8192, 8192, 1, {}, false};
    for (const Advice& each : of(op, machine)) {
      said = true;
      EXPECT_EQ(each.kind, "wave");
      EXPECT_THAT(each.text, HasSubstr("places on the SMs"));
      EXPECT_THAT(each.text, HasSubstr("->"));
    }
  }
  EXPECT_TRUE(said);
}

/// Our decode kernel takes pages that its step holds whole; others go to another kernel.
TEST(Advice, APageThatTheKernelsStepDoesNotHoldIsNamed) {
  const Machine machine = h200("own");
  const Op op = parse_op("attention_decode", "bf16", "B=64;Hq=32;Hkv=8;D=128;S=4096;page=48");
  const auto advice = of(op, machine);
  ASSERT_EQ(advice.size(), 1U);
  EXPECT_EQ(advice[0].kind, "page");
  EXPECT_THAT(advice[0].text, HasSubstr("pages of 48 -> "));
  EXPECT_LT(advice[0].time, 0.98 * predict(op, machine).time);
  EXPECT_TRUE(of(parse_op("attention_decode", "bf16", "B=64;Hq=32;Hkv=8;D=128;S=4096;page=64"), machine).empty());
}

std::vector<Advice> of_step(const char* model, Phase phase, Runtime runtime) {
  const Machine machine = h200();
  Workload workload;
  workload.phase = phase;
  Predictor predictor;
  const RunOptions run{runtime};
  return advise(predictor.predict(load_llm(model), workload, machine, run), machine, run, predictor);
}

bool has(const std::vector<Advice>& all, std::string_view kind, const char* part) {
  for (const Advice& each : all) {
    if (each.kind == kind && each.text.find(part) != std::string::npos) return true;
  }
  return false;
}

TEST(Advice, AStepNamesTheVocabularyToPadAndTheGraphToCapture) {
  EXPECT_TRUE(has(of_step("gpt2", Phase::decode, Runtime::graph), "padding", "lm_head: pad N 50257 -> 50264"));
  EXPECT_FALSE(has(of_step("llama-3.1-8b", Phase::decode, Runtime::graph), "padding", ""));
  const auto eager = of_step("llama-3.2-1b", Phase::decode, Runtime::eager);
  EXPECT_TRUE(has(eager, "graph", "CUDA graph"));
  Workload workload;
  const StepPrediction graph = predict(load_llm("llama-3.2-1b"), workload, h200(), RunOptions{});
  for (const Advice& each : eager) {
    if (each.kind != "graph") continue;
    EXPECT_NEAR(each.time / graph.latency, 1, 1e-9);
  }
}

TEST(Advice, AGraphSavesWhatTheBoardDrawsWhileItWaits) {
  Workload workload;
  Predictor predictor;
  const RunOptions eager{Runtime::eager};
  const StepPrediction step = predictor.predict(load_llm("llama-3.2-1b"), workload, h200(), eager);
  bool said = false;
  for (const Advice& each : advise(step, h200(), eager, predictor)) {
    if (each.kind != "graph") continue;
    said = true;
    ASSERT_TRUE(each.energy);
    const Joules saved = (step.latency - each.time) * *step.waiting_power;
    EXPECT_NEAR((*step.energy - *each.energy) / saved, 1, 1e-9);
    EXPECT_THAT(each.text, HasSubstr("J, x"));
  }
  EXPECT_TRUE(said);
}

/// What calls of NCCL take longer than the stack's own all-reduce is no element-wise work.
TEST(Advice, ExchangesAreNamedAsSuch) {
  Predictor predictor;
  Workload decode;
  decode.parallel.tensor = 8;
  const Llm llm = load_llm("llama-3.1-70b");
  const StepPrediction slow = predictor.predict(llm, decode, h200("vllm-2023"), RunOptions{Runtime::eager});
  const StepPrediction quick = predictor.predict(llm, decode, h200(), RunOptions{});
  const auto advice = advise_stack(slow, quick, "trt-llm");
  ASSERT_TRUE(advice);
  EXPECT_THAT(advice->text, HasSubstr(" of exchanges between GPUs (the stack's own all-reduce"));
  EXPECT_THAT(advice->text, Not(HasSubstr("element-wise")));
}

TEST(Advice, AStackIsHeldAgainstAnotherByItsLaunches) {
  Predictor predictor;
  Workload decode;
  decode.fusion = Fusion::none;
  const Llm llm = load_llm("llama-3.1-8b");
  const StepPrediction slow = predictor.predict(llm, decode, h200("hf-eager"), RunOptions{Runtime::eager});
  const StepPrediction quick = predictor.predict(llm, Workload(), h200(), RunOptions{});
  const auto advice = advise_stack(slow, quick, "trt-llm");
  ASSERT_TRUE(advice);
  EXPECT_EQ(advice->kind, "stack");
  EXPECT_EQ(advice->time, quick.latency);
  EXPECT_EQ(advice->energy, quick.energy);
  EXPECT_THAT(advice->text, HasSubstr("by trt-llm, in its fusions and launches ("));
  EXPECT_THAT(advice->text, HasSubstr("; saved: "));
  EXPECT_THAT(advice->text, HasSubstr(" of launching (capture in a graph, fewer launches)"));
  EXPECT_THAT(advice->text, HasSubstr(" of element-wise work and copies (fusion)"));
  EXPECT_THAT(advice->text, Not(HasSubstr("exchanges")));  // one GPU
  EXPECT_FALSE(advise_stack(quick, slow, "hf-eager"));
  EXPECT_FALSE(advise_stack(quick, quick, "trt-llm"));
}

TEST(Advice, NeighboursThatMostlyStartAndEndAreNamedTogether) {
  const auto advice = of_step("qwen3-30b-a3b", Phase::decode, Runtime::graph);
  EXPECT_TRUE(has(advice, "launches", "each group as one kernel"));
}

}  // namespace
}  // namespace plumbline::advice_test
