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

OpPrediction on(const std::string& gpu, const Op& op, const PredictOptions& options = {},
                const std::string& stack = "trt-llm") {
  MachineOptions machine{stack};
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

OpPrediction by_vllm(const std::string& gpu, const Moe& s) { return on(gpu, s, {}, "vllm"); }

TEST(VllmExperts, LaunchesAreThoseOfTheSource) {
  Moe s = qwen3_30b(64);
  EXPECT_THAT(launches(by_vllm("h200_sxm", s)),
              ElementsAre("top-k of the logits", "blocks of rows", "blocks of rows", "grouped gemm, up", "activation",
                          "grouped gemm, down", "weighted sum"));
  s.ep = 8;
  EXPECT_EQ(by_vllm("h200_sxm", s).launch_count, 8) << "the second product's result is cleared";
  EXPECT_EQ(launches(by_vllm("h200_sxm", qwen3_30b(64, "fp8"))), launches(on("h200_sxm", qwen3_30b(64, "fp8"))))
      << "8 bits: FlashInfer's, which are TensorRT-LLM's";
}

/// All T x topk places are passed over, whatever experts are elsewhere: 65536 of 2048 halves each.
TEST(VllmExperts, PassesDoNotShrinkWithExpertParallelRanks) {
  Moe s = qwen3_30b(8192);
  s.ep = 8;
  const OpPrediction p = by_vllm("h200_sxm", s);
  const Bytes places = 8192.0 * 8 * 2048 * 2 * units::B;
  EXPECT_DOUBLE_EQ(p.launches[5].demand.dram_write / places, 1) << "cleared";
  EXPECT_DOUBLE_EQ(p.launches[7].demand.dram_read / places, 1) << "summed";
  EXPECT_LT(on("h200_sxm", s).time, 0.6 * p.time) << "TensorRT-LLM's passes have the rank's own rows";
}

/// 112 experts of other ranks have a block each of the 448 places that are not this rank's: 24 and 32 CTAs of 64 columns a block.
TEST(VllmExperts, BlocksOfExpertsElsewhereArePassedBy) {
  Moe s = qwen3_30b(64);
  const OpPrediction alone = by_vllm("h200_sxm", s);
  s.ep = 8;
  const OpPrediction p = by_vllm("h200_sxm", s);
  const Seconds a_cta = 250 / 132.0 / (1.98e9 * units::Hz);
  EXPECT_NEAR((p.launches[3].demand.serial_latency - alone.launches[3].demand.serial_latency) / a_cta, 112.0 * 24, 1);
  EXPECT_NEAR((p.launches[6].demand.serial_latency - alone.launches[5].demand.serial_latency) / a_cta, 112.0 * 32, 1);
}

/// Of 128 experts 64 x 8 rows are four each: blocks of 8, of 2048 rows 128 each: blocks of 64. Bytes are those of the shape.
TEST(VllmExperts, WeightsOfFourBitsGoByMarlinInBlocks) {
  for (const char* type : {"mxfp4", "w4a16"}) {
    const Moe s = qwen3_30b(64, type);
    const OpPrediction p = by_vllm("h100_sxm", s);
    EXPECT_EQ(p.family, "moe_marlin");
    const double weights = 128.0 * 2 * 2048 * 768 * bytes_of(s.precision.weight);
    EXPECT_NEAR(p.launches[3].demand.dram_read.in(units::B), weights, 0.001 * weights) << "rows are in L2";
    EXPECT_LT(p.launches[3].demand.plan.ctas, 2 * 132 + 1) << "steps are dealt out to the SMs";
  }
  EXPECT_NE(by_vllm("b200_sxm", qwen3_30b(64, "mxfp4")).family, "moe_marlin");
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
