// A mixture of experts, and activations that are rounded by scales found on the way: which launches run, and what they move.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "arch/error.hpp"
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
  EXPECT_THAT(launches(on("a100_sxm", qwen3_30b(64))),
              ElementsAre("top-k of the logits", "order of experts", "expand rows", "grouped gemm, up",
                          "grouped gemm, down", "weighted sum"))
      << "no strides without tensor maps, the activation in the product's tiles";
}

/// Rows are rounded before each product, as for blocks of 128; a byte for 32 values is read and written beside them.
TEST(MoeCall, ScalesOf32ValuesAreTheTensorUnits) {
  for (const char* stack : {"trt-llm", "vllm"}) {
    const OpPrediction scaled = on("b200_sxm", qwen3_30b(4096, "fp8", 32), {}, stack);
    EXPECT_EQ(scaled.provenance, Provenance::never_measured);
    EXPECT_GT(scaled.time, on("b200_sxm", qwen3_30b(4096, "fp8"), {}, stack).time);
  }
  EXPECT_EQ(launches(on("b200_sxm", qwen3_30b(64, "fp8", 32))), launches(on("b200_sxm", qwen3_30b(64, "fp8", 128))));
  for (const char* other : {"h200_sxm", "l40s"}) {
    EXPECT_THROW(on(other, qwen3_30b(64, "fp8", 32)), NotModelled) << other;
  }
}

/// kind::mxf8f6f4 multiplies 4-bit weights beside 8-bit rows as they are: no lanes unpack them.
TEST(MoeCall, FourBitWeightsAreNotUnpackedWhereUnitsTakeThem) {
  Moe narrow = qwen3_30b(64, "fp8");
  narrow.precision.weight = DType::mxfp4;
  const OpPrediction p = on("b200_sxm", narrow);
  EXPECT_EQ(p.provenance, Provenance::never_measured);
  EXPECT_LT(p.time, on("b200_sxm", qwen3_30b(64, "fp8")).time) << "half of the bytes";
}

TEST(MoeCall, ExpertsThatAreChosenAlreadyCostNoTopK) {
  Moe chosen = qwen3_30b(64);
  chosen.routed = 1;
  for (const char* stack : {"trt-llm", "vllm-triton"}) {
    const std::vector<std::string> all = launches(on("h200_sxm", qwen3_30b(64), {}, stack));
    EXPECT_EQ(launches(on("h200_sxm", chosen, {}, stack)), std::vector<std::string>(all.begin() + 1, all.end()));
  }
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

OpPrediction by_triton(const std::string& gpu, const Moe& s) { return on(gpu, s, {}, "vllm-triton"); }

/// Rows are rounded before each product, and the second rounding goes over all places of tokens, wherever their experts are.
TEST(VllmExperts, InEightBitsByTritonRoundBeforeEachProduct) {
  Moe s = qwen3_30b(8192, "fp8");
  s.ep = 8;
  const OpPrediction p = by_triton("h200_sxm", s);
  EXPECT_THAT(launches(p),
              ElementsAre("top-k of the logits", "quantize", "blocks of rows", "blocks of rows", "grouped gemm, up",
                          "activation", "quantize", "clear", "grouped gemm, down", "weighted sum"));
  const Bytes places = 8192.0 * 8 * 768 * units::B;
  EXPECT_DOUBLE_EQ(p.launches[6].demand.dram_read / places, 2);
  EXPECT_DOUBLE_EQ(p.launches[6].demand.dram_write / places, 1);
  EXPECT_EQ(launches(by_vllm("l40s", s)), launches(p)) << "FlashInfer has none for mma.sync";
  const Moe narrow = qwen3_30b(64, "nvfp4");
  EXPECT_EQ(launches(by_vllm("rtx_pro_6000", narrow)), launches(on("rtx_pro_6000", narrow))) << "but of 4 bits";
  for (const char* type : {"bf16", "fp8"}) {
    const Moe plain = qwen3_30b(64, type);
    EXPECT_EQ(launches(by_vllm("rtx_pro_6000", plain)), launches(on("rtx_pro_6000", plain))) << "from 9.0 on";
  }
}

/// 16384 x 8 rows of 768 are six blocks of 128 each, at 80 clocks of an SM.
TEST(Moe, VllmsRoundingByBlocksIsLimitedByIssue) {
  const OpPrediction p = on("h200_sxm", qwen3_30b(16384, "fp8", 128), {}, "vllm");
  std::vector<double> clk;
  for (int i = 0; i < p.launch_count; ++i) {
    const LaunchPrediction& launch = p.launches[static_cast<std::size_t>(i)];
    if (std::string(launch.kernel) != "quantize") continue;
    clk.push_back(launch.demand.issue_clk * static_cast<double>(launch.demand.plan.ctas) * launch.demand.plan.steps);
  }
  EXPECT_THAT(clk, ElementsAre(::testing::Ge(80.0 * 16384 * 16), ::testing::Ge(80.0 * 16384 * 8 * 6)));
}

/// vLLM hands scales of blocks to FlashInfer where experts are on other ranks, else to Triton.
TEST(VllmExperts, ScalesOfBlocksAreTritonsOnTensorRanks) {
  Moe s = qwen3_30b(64, "fp8", 128);
  EXPECT_EQ(launches(by_vllm("h200_sxm", s)), launches(by_triton("h200_sxm", s)));
  s.ep = 4;
  EXPECT_EQ(launches(by_vllm("h200_sxm", s)), launches(on("h200_sxm", s)));
}

/// Sums of 128 products are multiplied by two scales and added up while the tensor units wait: 2 x 64 x 128 operations on 128
/// lanes of each tile of 64 x 128.
TEST(VllmExperts, SumsOfBlocksByTritonAreSeen) {
  Moe s = qwen3_30b(8192, "fp8", 128);
  const OpPrediction p = by_triton("h200_sxm", s);
  const Demand& d = p.launches[4].demand;
  EXPECT_DOUBLE_EQ(d.exposed_clk, d.tensor_clk / (2.0 * 128 / 8192) * 2 / 128)
      << "tensor clocks are of 2 x 128 a value";
  s.block = 0;
  EXPECT_GT(p.time, by_triton("h200_sxm", s).time);
}

/// trtllm-gen gathers rows in the first product and leaves the activation there, but of scales of 128.
TEST(TrtllmGenExperts, LaunchesAreThoseOfTheSource) {
  const auto names = [](const char* type, std::int64_t block, const char* stack = "vllm", std::int64_t tokens = 64) {
    return launches(on("b200_sxm", qwen3_30b(tokens, type, block), {}, stack));
  };
  EXPECT_THAT(names("bf16", 0),
              ElementsAre("top-k of the logits", "grouped gemm, up", "grouped gemm, down", "weighted sum"));
  const auto rounded =
      ElementsAre("top-k of the logits", "quantize", "grouped gemm, up", "grouped gemm, down", "weighted sum");
  EXPECT_THAT(names("fp8", 0), rounded);
  EXPECT_THAT(names("nvfp4", 0), rounded);
  EXPECT_THAT(names("fp8", 128), ElementsAre("top-k of the logits", "quantize", "grouped gemm, up", "activation",
                                             "grouped gemm, down", "weighted sum"));
  EXPECT_EQ(names("bf16", 0, "vllm", 257).size(), 6U) << "three launches choose and order more than 256 tokens";
  for (const char* narrow : {"nvfp4", "mxfp4"}) EXPECT_FALSE(names(narrow, 0, "sglang").empty());
}

/// A Triton kernel multiplies nothing narrower than 8 bits, nor by scales of 32.
TEST(TrtllmGenExperts, AreTakenWhereTritonMultipliesNothing) {
  for (const char* stack : {"sglang", "vllm-triton"}) {
    for (const Moe& s : {qwen3_30b(4096, "nvfp4"), qwen3_30b(4096, "fp8", 32)}) {
      EXPECT_EQ(on("b200_sxm", s, {}, stack).time, by_vllm("b200_sxm", s).time) << stack;
    }
    EXPECT_EQ(launches(on("b200_sxm", qwen3_30b(4096), {}, stack)), launches(by_vllm("h200_sxm", qwen3_30b(4096))));
  }
}

/// 64 rows of an instruction of one SM of tcgen05 take as long as 128, of scales of blocks and of Triton's tiles alike.
TEST(TrtllmGenExperts, HalfOfTheLanesIsIdleBelow128Rows) {
  const auto product = [](const OpPrediction& p, int i) { return p.launches[static_cast<std::size_t>(i)].demand; };
  const Moe s = qwen3_30b(16384, "fp8", 128);
  const Demand gen = product(by_vllm("b200_sxm", s), 4), triton = product(by_triton("b200_sxm", s), 4);
  const double peak = 16384;  // FLOP a clock of an SM
  EXPECT_DOUBLE_EQ(gen.tensor_clk, 2 * (2.0 * 128 * 128 * 128 / peak)) << "tiles of 128 x 128";
  EXPECT_DOUBLE_EQ(triton.tensor_clk, 2 * (2.0 * 64 * 128 * 128 / peak));
}

/// The first tile of the list has 128 tokens and 16 columns of weights: 128 experts x 96 and 128 tiles.
TEST(UntunedExperts, TakeTheFirstTile) {
  const Moe s = qwen3_30b(1024, "fp8");  // 64 rows an expert
  const OpPrediction p = on("h200_sxm", s, {}, "vllm-untuned");
  const OpPrediction tuned = on("h200_sxm", s);
  ASSERT_EQ(launches(p), launches(tuned));
  EXPECT_EQ(p.launches[7].demand.plan.ctas, 128 * 96);
  EXPECT_EQ(p.launches[9].demand.plan.ctas, 128 * 128);
  EXPECT_GT(p.time, 2 * tuned.time);
}

/// Boxes of tensor maps have 128 rows: 64 of them there cost less a row than 32, and those that are missing are not free.
TEST(UntunedExperts, RowsOutsideOfAnExpertCost) {
  const OpPrediction half = on("h200_sxm", qwen3_30b(1024, "fp8"), {}, "vllm-untuned");
  const OpPrediction full = on("h200_sxm", qwen3_30b(2048, "fp8"), {}, "vllm-untuned");
  EXPECT_DOUBLE_EQ(half.launches[7].demand.edge_fill_clk, 2.8 * 64);
  EXPECT_DOUBLE_EQ(full.launches[7].demand.edge_fill_clk, 0);
  EXPECT_GT(half.launches[7].time.total, full.launches[7].time.total) << "twice the products in less time";
}

TEST(MoeCall, KernelsOfMmaSyncHaveTheirOwnFamilies) {
  const Moe s = qwen3_30b(512);
  for (const char* gpu : {"a100_sxm", "l40s"}) {
    EXPECT_EQ(on(gpu, s).family, "moe_mma") << gpu;
    EXPECT_EQ(by_vllm(gpu, s).family, "moe_triton_mma") << gpu;
  }
  EXPECT_EQ(on("b200_sxm", s).family, "moe");
  EXPECT_EQ(on("b200_sxm", qwen3_30b(512, "fp8", 128)).family, "moe") << "scales are the instruction's";
  EXPECT_EQ(on("h200_sxm", qwen3_30b(512, "fp8", 128)).family, "moe_block");
}

/// Accumulators leave tensor memory while the next tile is summed; wgmma's are in registers.
TEST(MoeCall, EpiloguesHideInTensorMemory) {
  EXPECT_DOUBLE_EQ(on("b200_sxm", qwen3_30b(8192)).launches[6].demand.serial_clk, 0);
  EXPECT_GT(on("h200_sxm", qwen3_30b(8192)).launches[6].demand.serial_clk, 0);
}

/// 8 experts of 1024 rows: 8 x 8 tiles of 128 rows by whatever columns.
TEST(DeepGemm, GroupsHaveWholeTilesAndSumsOnLanes) {
  const GroupedGemm s{8, 8, 1024, 4096, 7168, 0, *parse_precision("fp8")};
  const OpPrediction p = on("h200_sxm", s, {}, "deepgemm");
  EXPECT_THAT(launches(p), ElementsAre("grouped block-scaled gemm"));
  EXPECT_EQ(p.family, "gemm_block");
  const auto columns = static_cast<double>(p.gemm_plan.tile_n), rows = static_cast<double>(p.gemm_plan.tile_m);
  EXPECT_DOUBLE_EQ(static_cast<double>(p.launches[0].demand.plan.ctas), 8 * (1024 / rows) * std::ceil(4096 / columns));
  EXPECT_GT(p.time, on("h200_sxm", s).time) << "than with one scale";
  GroupedGemm drawn = s;
  drawn.skew = 30;
  EXPECT_GT(on("h200_sxm", drawn, {}, "deepgemm").time, 1.05 * p.time) << "half of the experts have a tile more";
}

Gemm of_blocks(std::int64_t m, std::int64_t n, std::int64_t k) {
  Gemm s;
  s.m = m;
  s.n = n;
  s.k = k;
  s.precision = *parse_precision("fp8");
  s.block = 128;
  return s;
}

/// get_best_gemm_config(): 3072 columns are one wave of 16 to 128 columns each, and 24 fill it best.
TEST(DeepGemm, TakesItsOwnTile) {
  const OpPrediction p = on("h200_sxm", of_blocks(128, 3072, 7168));
  EXPECT_EQ(p.gemm_plan.tile_m, 128);
  EXPECT_EQ(p.gemm_plan.tile_n, 24);
  EXPECT_EQ(p.launches[0].demand.plan.ctas, 128);
  EXPECT_EQ(on("h200_sxm", of_blocks(64, 7168, 7168)).gemm_plan.tile_m, 64);
  const OpPrediction few = on("h200_sxm", of_blocks(16, 16384, 7168));
  EXPECT_TRUE(few.gemm_plan.swapped) << "weights in the rows below 32 tokens";
  EXPECT_EQ(few.launches[0].demand.plan.ctas, 128);
}

/// One token more than a whole tile: 64 of 128 CTAs ask for 127 rows outside, all of one line of L2.
TEST(DeepGemm, RowsOutsideHoldUpAllCtas) {
  const OpPrediction whole = on("h200_sxm", of_blocks(256, 1536, 7168)),
                     more = on("h200_sxm", of_blocks(257, 1536, 7168));
  EXPECT_DOUBLE_EQ(whole.launches[0].demand.outside_clk, 0);
  EXPECT_DOUBLE_EQ(more.launches[0].demand.outside_clk, 127.0 / 3 / 10.5);
  EXPECT_GT(more.time, 1.4 * whole.time);
  // eight CTAs do not get into each other's way
  EXPECT_LT(on("h200_sxm", of_blocks(65, 128, 7168)).time, 1.05 * on("h200_sxm", of_blocks(128, 128, 7168)).time);
}

/// From 1024 tokens on, where columns are whole pairs of tiles (2048 of 128).
TEST(DeepGemm, PairsFetchTheirTokensOnce) {
  const auto cluster = [](std::int64_t m, std::int64_t n) {
    return on("h200_sxm", of_blocks(m, n, 7168)).launches[0].demand.plan.cluster;
  };
  EXPECT_EQ(cluster(1024, 2048), 2);
  EXPECT_EQ(cluster(1023, 2048), 1);
  EXPECT_EQ(cluster(16, 2048), 1) << "weights in the rows";
}

/// Products of heads: tokens stay in the rows however few, results leave by rows, and a CTA walks to its product.
TEST(DeepGemm, ABatchIsWrittenByRows) {
  const auto of_heads = [](std::int64_t m, std::int64_t heads) {
    Gemm s = of_blocks(m, 512, 128);
    s.batch = heads;
    return on("h200_sxm", s);
  };
  const OpPrediction few = of_heads(2, 8), more = of_heads(64, 8), many = of_heads(2, 32);
  EXPECT_FALSE(few.gemm_plan.swapped);
  EXPECT_DOUBLE_EQ(few.launches[0].demand.outside_clk, 0) << "boxes reach into the next head's rows";
  const double one_row = few.launches[0].demand.exposed_clk;
  EXPECT_DOUBLE_EQ(more.launches[0].demand.exposed_clk - one_row, 15 * 180.0);
  EXPECT_DOUBLE_EQ(many.launches[0].demand.exposed_clk - one_row, 24 * 75.0);
}

GroupedGemm of_qwen3(std::int64_t block) {
  GroupedGemm s{128, 8, 512, 1536, 2048, 0, *parse_precision("fp8")};
  s.block = block;
  return s;
}

/// What a step multiplies and what a call with all launches multiplies are one kernel.
TEST(BlockProducts, AreThoseOfTheCallsThatHaveThem) {
  const Precision fp8 = *parse_precision("fp8");
  Gemm s;
  s.m = 512;
  s.n = s.k = 4096;
  s.precision = fp8;
  s.block = 128;
  for (const char* stack : {"trt-llm", "vllm", "sglang"}) {
    const OpPrediction product = on("h200_sxm", s, {}, stack);
    const OpPrediction call = on("h200_sxm", GemmDynamic{512, 4096, 4096, 128, fp8}, {}, stack);
    EXPECT_EQ(product.family, "gemm_block") << stack;
    EXPECT_EQ(product.gemm_plan, call.gemm_plan) << stack;
    EXPECT_THAT(launches(product), ElementsAre("block-scaled gemm")) << stack;
  }
  const OpPrediction trtllm = on("h200_sxm", of_qwen3(128)), triton = on("h200_sxm", of_qwen3(128), {}, "vllm");
  EXPECT_EQ(trtllm.family, "moe_block");
  EXPECT_EQ(triton.family, "moe_triton");
  const OpPrediction call = by_vllm("h200_sxm", qwen3_30b(512, "fp8", 128));
  const std::vector<std::string> names = launches(call);
  const auto up = std::find(names.begin(), names.end(), "grouped gemm, up") - names.begin();
  EXPECT_NEAR(triton.time / call.launches[static_cast<std::size_t>(up)].time.total, 1, 0.05);
}

TEST(BlockProducts, OneScaleStandsInWhereNoKernelSumsBlocks) {
  for (const char* gpu : {"l40s", "b200_sxm"}) {
    for (const char* stack : {"trt-llm", "vllm"}) {
      EXPECT_EQ(on(gpu, of_qwen3(128), {}, stack).time, on(gpu, of_qwen3(0), {}, stack).time) << gpu << stack;
    }
  }
  EXPECT_EQ(on("h200_sxm", of_qwen3(0), {}, "vllm").family, "grouped_gemm") << "as --dtype fp8 asks";
  EXPECT_THROW(on("a100_sxm", of_qwen3(128), {}, "vllm"), BadInput);
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
