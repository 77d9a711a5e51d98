// A mixture of experts, and activations that are rounded by scales found on the way: which launches run, and what they move.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "model/machines.hpp"
#include "model/predict.hpp"
#include "ops/shape/shapes.hpp"

namespace plumbline::moe_call_test {
namespace {

using ::testing::ElementsAre;

OpPrediction on(const std::string& gpu, const Op& op, const PredictOptions& options = {}) {
  MachineOptions machine{"trt-llm"};
  machine.clock = ClockMode::burst;
  Predictor predictor;
  OpPrediction out;
  predictor.predict(op, machines().get({gpu, machine}), out, options);
  return out;
}

std::vector<std::string> launches(const OpPrediction& p) {
  std::vector<std::string> names;
  for (int i = 0; i < p.launch_count; ++i) names.emplace_back(p.launches[static_cast<std::size_t>(i)].kernel);
  return names;
}

Moe qwen3_30b(std::int64_t tokens, const char* precision = "bf16", std::int64_t block = 0) {
  Moe s;
  s.tokens = tokens;
  s.hidden = 2048;
  s.width = 768;
  s.experts = 128;
  s.topk = 8;
  s.block = block;
  s.precision = *parse_precision(precision);
  return s;
}

TEST(MoeCall, LaunchesAreThoseOfTheSource) {
  EXPECT_THAT(launches(on("h200_sxm", qwen3_30b(64))),
              ElementsAre("top-k of the logits", "order of experts", "expand rows", "strides", "grouped gemm, up",
                          "activation", "grouped gemm, down", "weighted sum"));
  EXPECT_EQ(on("h200_sxm", qwen3_30b(257)).launch_count, 10) << "three launches order more than 256 tokens";
  EXPECT_EQ(on("h200_sxm", qwen3_30b(64, "fp8")).launch_count, 9) << "tokens are rounded before they are copied";
  EXPECT_EQ(on("h200_sxm", qwen3_30b(64, "fp8", 128)).launch_count, 10) << "rows are rounded before each product";
  EXPECT_EQ(on("a100_sxm", qwen3_30b(64)).launch_count, 7) << "no strides without tensor maps";
}

TEST(MoeCall, WeightsOfTouchedExpertsAreReadOnce) {
  const Moe s = qwen3_30b(16);  // 16 tokens x 8 of 128 experts: each has one row
  const OpPrediction p = on("h200_sxm", s);
  const double weights = 128.0 * 3 * 2048 * 768 * 2;
  EXPECT_NEAR(p.dram_read.in(units::B), weights + 16 * (128 + 2048) * 2, 0.001 * weights);
  PredictOptions held;
  held.resident.weights = 1;
  EXPECT_LT(on("h200_sxm", s, held).dram_read.in(units::B), 0.01 * weights);
}

TEST(MoeCall, ASkewedRankTakesLongerWhereRowsCount) {
  Moe s = qwen3_30b(8192);
  s.ep = 8;
  const OpPrediction even = on("h200_sxm", s);
  s.alpha_percent = 120;
  EXPECT_GT(on("h200_sxm", s).time, even.time);
}

/// The launches of one pass for the largest value, its turns one latency long each.
Seconds largest_value(std::int64_t rows) {
  const OpPrediction p = on("h200_sxm", QuantizeDynamic{rows, 4096, 0, DType::bf16});
  EXPECT_THAT(launches(p), ElementsAre("clear the scale", "largest value", "round"));
  return p.launches[1].time.total;
}

TEST(QuantizeDynamic, ATurnOfAllThreadsTakesALatency) {
  // 1024 CTAs of 1024 threads, one value each at a time: 256 rows of 4096 are a turn
  EXPECT_NEAR(largest_value(256) / largest_value(128), 1, 0.02) << "but for the bytes";
  const double turn = ((largest_value(2560 * 4) - largest_value(2560)) / (3 * 10.0)).in(units::us);
  EXPECT_NEAR(turn, 4 * 0.349, 0.12) << "four waves of two CTAs on each of 132 SMs, the latency of memory each";
}

TEST(QuantizeDynamic, ScalesOfTheirOwnTakeOnePass) {
  EXPECT_EQ(on("h200_sxm", QuantizeDynamic{64, 4096, 128, DType::bf16}).launch_count, 1);
  EXPECT_EQ(on("h200_sxm", QuantizeDynamic{64, 4096, 1, DType::bf16}).launch_count, 1);
}

TEST(GemmDynamic, IsTheRoundingAndTheProduct) {
  const Precision fp8 = *parse_precision("fp8");
  const OpPrediction whole = on("h200_sxm", GemmDynamic{512, 4096, 4096, 0, fp8});
  EXPECT_THAT(launches(whole), ElementsAre("clear the scale", "largest value", "round", "gemm"));
  Gemm product;
  product.m = 512;
  product.n = product.k = 4096;
  product.precision = fp8;
  const OpPrediction alone = on("h200_sxm", product);
  EXPECT_EQ(whole.gemm_plan, alone.gemm_plan);
  EXPECT_GT(whole.time, alone.time);
}

}  // namespace
}  // namespace plumbline::moe_call_test
