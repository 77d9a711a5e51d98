// Prompts of the gated delta rule in chunks: which launches run, what they move, and what a chunk costs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <string>
#include <vector>

#include "model/machines.hpp"
#include "model/predict.hpp"
#include "ops/facts/work.hpp"
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
  EXPECT_EQ(on("h200_sxm", "trt-llm", qwen3_next(8, 1)).launch_count, 1) << "a step is no prompt";
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
  RC_ASSERT(on("h200_sxm", stack, longer).time * kRounding >= p.time);
}

}  // namespace
}  // namespace plumbline::fla_test
