// Prompts of the gated delta rule in chunks: which launches run, what they move, and what a chunk costs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "model/machines.hpp"
#include "model/predict.hpp"
#include "ops/facts/work.hpp"
#include "ops/shape/causal_conv.hpp"
#include "ops/shape/recurrence.hpp"

namespace plumbline::fla_test {
namespace {

using ::testing::ElementsAre;

OpPrediction on(const std::string& gpu, const std::string& stack, const Op& op) {
  MachineOptions options{stack};
  options.clock = ClockMode::burst;
  Predictor predictor;
  OpPrediction out;
  predictor.predict(op, machines().get({gpu, options}), out, {});
  return out;
}

std::vector<std::string> launches(const OpPrediction& p) {
  std::vector<std::string> names;
  for (int i = 0; i < p.launch_count; ++i) names.emplace_back(p.launches[static_cast<std::size_t>(i)].kernel);
  return names;
}

/// Qwen3-Next's heads: 16 of keys, 32 of values, 128 wide.
Recurrence qwen3_next(std::int64_t batch, std::int64_t tokens) {
  Recurrence s;
  s.kind = RecurrentKind::gated_delta_net;
  s.batch = batch;
  s.seq = tokens;
  s.heads = 32;
  s.groups = 16;
  s.head_dim = s.state = 128;
  return s;
}

TEST(LinearAttention, LaunchesAreThoseOfTheSource) {
  EXPECT_THAT(launches(on("h200_sxm", "trt-llm", qwen3_next(1, 4096))),
              ElementsAre("sums of the decay", "products of keys", "inverse of blocks", "inverse", "rows of the update",
                          "walk over the chunks", "results"));
  EXPECT_THAT(launches(on("h200_sxm", "vllm", qwen3_next(1, 4096))),
              ElementsAre("powers of the decay", "walk over the chunks"));
  Recurrence narrow = qwen3_next(1, 4096);
  narrow.state_dtype = DType::bf16;
  EXPECT_THAT(launches(on("h200_sxm", "vllm", narrow)),
              ElementsAre("powers of the decay", "states to fp32", "walk over the chunks"));
  EXPECT_THAT(launches(on("h200_sxm", "trt-llm", qwen3_next(8, 1))), ElementsAre("step of the states"));
  Recurrence kimi = qwen3_next(1, 4096);
  kimi.groups = kimi.heads;
  kimi.channel_decay = true;
  for (const char* stack : {"trt-llm", "vllm"}) {  // FlashInfer has no kernel of it
    EXPECT_THAT(launches(on("h200_sxm", stack, kimi)),
                ElementsAre("sums of the decay", "clear", "blocks below the diagonal", "blocks on the diagonal",
                            "inverse", "rows of the update", "walk over the chunks", "results"));
  }
}

/// Codestral Mamba's heads: 128 of 64, a state of 128, eight groups.
Recurrence codestral(std::int64_t batch, std::int64_t tokens) {
  Recurrence s;
  s.kind = RecurrentKind::mamba2;
  s.batch = batch;
  s.seq = tokens;
  s.heads = 128;
  s.groups = 8;
  s.head_dim = 64;
  s.state = 128;
  return s;
}

/// mamba_ssm's five launches; with keys a head (lightning attention) Flash Linear Attention's two.
TEST(LinearAttention, Mamba2sPromptIsFiveLaunches) {
  const OpPrediction p = on("h200_sxm", "trt-llm", codestral(2, 4096));
  EXPECT_THAT(launches(p), ElementsAre("sums of the decay", "states of the chunks", "states passed on",
                                       "products of B and C", "results"));
  EXPECT_EQ(p.launches[1].demand.plan.ctas, 2 * 16 * 128) << "chunks of 256";
  EXPECT_EQ(p.launches[3].demand.plan.ctas, 2 * 16 * 8 * 4 * 4);
  EXPECT_EQ(p.launches[4].demand.plan.ctas, 2 * 16 * 128 * 4);
  Recurrence lightning = codestral(2, 4096);
  lightning.heads = lightning.groups = 64;
  lightning.head_dim = 128;
  const OpPrediction l = on("h200_sxm", "trt-llm", lightning);
  EXPECT_THAT(launches(l), ElementsAre("walk over the chunks", "results"));
  EXPECT_EQ(l.launches[0].demand.plan.ctas, 2 * 64 * 4);
  EXPECT_EQ(l.launches[1].demand.plan.ctas, 2 * 64 * 64);
}

/// A step of Mamba-2 is limited by instructions: a state of 16 bits, half the bytes, takes as long (recorded: 1234 and 1216 us of
/// 512 sequences). Chunks of 128 tokens keep twice the states and half the scores.
TEST(LinearAttention, StepsTakeInstructionsAndNotBytes) {
  Recurrence step = codestral(512, 1);
  const double wide = on("h200_sxm", "trt-llm", step).time.in(units::us);
  step.state_dtype = DType::bf16;
  EXPECT_NEAR(wide, 1234, 110);
  EXPECT_NEAR(on("h200_sxm", "trt-llm", step).time.in(units::us), 1216, 110);
  Recurrence shorter = codestral(8, 4096);
  shorter.chunk = 128;
  const OpPrediction half = on("h200_sxm", "trt-llm", shorter), whole = on("h200_sxm", "trt-llm", codestral(8, 4096));
  EXPECT_GT(half.launches[2].time.total, 1.9 * whole.launches[2].time.total);
  EXPECT_LT(half.launches[3].time.total, 0.6 * whole.launches[3].time.total);
}

RC_GTEST_PROP(LinearAttention, StatesMoveAtLeastTheCompulsoryBytesAndMoreTokensAreNeverFaster, ()) {
  Recurrence s = codestral(*rc::gen::inRange<std::int64_t>(1, 64), *rc::gen::inRange<std::int64_t>(1, 5000));
  s.groups = *rc::gen::element<std::int64_t>(1, 8, 128);
  s.chunk = *rc::gen::element<std::int64_t>(64, 128, 256);
  s.state = *rc::gen::element<std::int64_t>(16, 64, 128, 256);
  s.carry = *rc::gen::arbitrary<bool>();
  const OpPrediction p = on("h200_sxm", "trt-llm", s);
  const Work w = work(s);
  constexpr double kRounding = 1 + 1e-12;
  RC_ASSERT(p.dram_read * kRounding >= w.read);
  RC_ASSERT(p.dram_write * kRounding >= w.write);
  if (s.seq == 1) return;                // a prompt of two tokens is other kernels than a step
  constexpr double kWholeCtas = 1.0001;  // a stream's CTAs are whole, and share their bytes otherwise
  Recurrence longer = s;
  longer.seq += *rc::gen::inRange<std::int64_t>(1, 500);
  RC_ASSERT(on("h200_sxm", "trt-llm", longer).time * kWholeCtas >= p.time);
}

/// 64 chunks of 32 heads; a CTA of the walk has 32 of 128 columns and takes the chunks one after the other.
TEST(LinearAttention, CtasAreOfChunksAndTheWalkIsOfSequences) {
  const OpPrediction p = on("h200_sxm", "trt-llm", qwen3_next(1, 4096));
  EXPECT_EQ(p.launches[1].demand.plan.ctas, 64 * 32);
  EXPECT_EQ(p.launches[2].demand.plan.ctas, 4 * 64 * 32);
  EXPECT_EQ(p.launches[5].demand.plan.ctas, 4 * 32);
  EXPECT_EQ(p.launches[5].demand.plan.steps, 64);
  EXPECT_EQ(p.launches[6].demand.plan.ctas, 2 * 64 * 32);
}

/// One sequence walks its chunks alone: twice as many tokens take twice as long from some length on. FlashInfer's CTAs of
/// eight sequences of 16 heads do not fill the SMs (128 of 132), so that they take little longer than one sequence: for memory.
TEST(LinearAttention, AWalkTakesItsChunks) {
  const auto time = [](std::int64_t batch, std::int64_t tokens) {
    Recurrence s = qwen3_next(batch, tokens);
    s.heads = 16;
    return on("h100_sxm", "vllm", s).time.in(units::us);
  };
  EXPECT_NEAR(time(1, 16384) / time(1, 8192), 2, 0.05);
  EXPECT_NEAR(time(8, 8192) / time(1, 8192), 1.15, 0.15);
}

/// A CTA for each channel of each sequence, 1024 values of two bytes a turn; of one token a thread for each channel.
TEST(ShortConvolution, CtasAreOfChannels) {
  const auto demand = [](std::int64_t batch, std::int64_t tokens) {
    return on("h200_sxm", "trt-llm", CausalConv{batch, tokens, 6144, 4}).launches[0].demand;
  };
  EXPECT_EQ(demand(2, 1024).plan.ctas, 2 * 6144);
  EXPECT_EQ(demand(2, 1024).plan.steps, 1);
  EXPECT_EQ(demand(2, 1025).plan.steps, 2);
  EXPECT_EQ(demand(2, 1024).plan.ctas_per_sm, 16) << "of 128 threads";
  EXPECT_GT(demand(2, 1023).issue_clk, demand(2, 1024).issue_clk) << "no whole vectors: values come one by one";
  EXPECT_EQ(demand(32, 1).plan.ctas, 32 * 96);
  EXPECT_EQ(on("h200_sxm", "trt-llm", CausalConv{2, 1024, 6144, 5}).launches[0].family->name, std::string("rowwise"))
      << "it has no kernel of five taps";
}

/// Threads of tokens that are not there go through the same instructions: published rows of 64 sequences say 330 us of 8 tokens
/// and 357 of 512 (H200).
TEST(ShortConvolution, ShortSequencesTakeNearlyAsLongAsThoseOf512) {
  const auto time = [](std::int64_t tokens) {
    return on("h200_sxm", "trt-llm", CausalConv{64, tokens, 6144, 4}).time.in(units::us);
  };
  EXPECT_NEAR(time(8), 330, 20);
  EXPECT_LT(time(512), 1.25 * time(8));
  EXPECT_NEAR(time(4) - time(8), 437 - 330, 25);
}

RC_GTEST_PROP(ShortConvolution, MovesAtLeastTheCompulsoryBytesAndMoreChannelsAreNeverFaster, ()) {
  CausalConv s{*rc::gen::inRange<std::int64_t>(1, 64), *rc::gen::inRange<std::int64_t>(1, 5000),
               *rc::gen::inRange<std::int64_t>(1, 20000), *rc::gen::inRange<std::int64_t>(2, 5)};
  const OpPrediction p = on("h200_sxm", "trt-llm", s);
  const Work w = work(s);
  constexpr double kRounding = 1 + 1e-12;
  RC_ASSERT(p.dram_read * kRounding >= w.read);
  RC_ASSERT(p.dram_write * kRounding >= w.write);
  s.channels += *rc::gen::inRange<std::int64_t>(1, 500);
  RC_ASSERT(on("h200_sxm", "trt-llm", s).time * kRounding >= p.time);
}

RC_GTEST_PROP(LinearAttention, MovesAtLeastTheCompulsoryBytesAndMoreTokensAreNeverFaster, ()) {
  Recurrence s = qwen3_next(*rc::gen::inRange<std::int64_t>(1, 64), *rc::gen::inRange<std::int64_t>(2, 5000));
  s.groups = *rc::gen::element<std::int64_t>(1, 2, 4, 8, 16, 32);
  s.carry = *rc::gen::arbitrary<bool>();
  s.state_dtype = *rc::gen::element(DType::fp32, DType::bf16);
  const std::string stack = *rc::gen::element<std::string>("trt-llm", "vllm", "sglang");
  const OpPrediction p = on("h200_sxm", stack, s);
  const Work w = work(s);
  constexpr double kRounding = 1 + 1e-12;
  RC_ASSERT(p.dram_read * kRounding >= w.read);
  RC_ASSERT(p.dram_write * kRounding >= w.write);
  Recurrence longer = s;
  longer.seq += *rc::gen::inRange<std::int64_t>(1, 500);
  // one CTA more of a launch that fills a hundredth of the SMs has its loads in flight beside the others': 0.003 % were seen
  constexpr double kOneCtaMore = 1.001;
  RC_ASSERT(on("h200_sxm", stack, longer).time * kOneCtaMore >= p.time);
}

/// 5120 channels of 2048 tokens, a state of 16: a CTA of 128 threads a channel takes them in one piece, each number of the
/// state a step. 10 instructions a token and 50 a thread: 2048 x 10 + 128 x 50 = 26,880 of 32 lanes, four a clock: 210 clk.
TEST(SelectiveScan, IsBoundByWhatItIssues) {
  Recurrence s;
  s.kind = RecurrentKind::mamba1;
  s.batch = 1;
  s.seq = 2048;
  s.heads = 5120;
  s.head_dim = 1;
  s.state = 16;
  const OpPrediction p = on("h200_sxm", "trt-llm", s);
  EXPECT_THAT(launches(p), ElementsAre("selective scan"));
  const Demand& scan = p.launches[0].demand;
  EXPECT_EQ(scan.plan.ctas, 5120);
  EXPECT_DOUBLE_EQ(scan.plan.steps, 16);
  EXPECT_DOUBLE_EQ(scan.issue_clk, 210);
  EXPECT_DOUBLE_EQ(scan.sfu_clk, 128) << "an exponential a token";
  EXPECT_GT(p.time, 0.9 * (std::ceil(5120 / 132.0) * 16 * 210 / (1.98e9 * units::Hz)));
  EXPECT_DOUBLE_EQ((p.dram_read + p.dram_write) / work(Op{s}).bytes(), 1) << "all operands once";
  s.seq = 1;
  EXPECT_NE(launches(on("h200_sxm", "trt-llm", s)).front(), "selective scan") << "steps move their states";
}

/// Twice the tokens of a whole piece take twice as long, but for what a launch takes.
TEST(SelectiveScan, GoesWithTheTokens) {
  Recurrence s;
  s.kind = RecurrentKind::mamba1;
  s.batch = 4;
  s.heads = 8192;
  s.head_dim = 1;
  s.state = 16;
  s.seq = 2048;
  const Seconds one = on("h100_sxm", "vllm", s).time;
  s.seq = 4096;
  EXPECT_NEAR(on("h100_sxm", "vllm", s).time / one, 2, 0.05);
}

}  // namespace
}  // namespace plumbline::fla_test
