// Which kernels cuBLAS takes, against what its heuristic answered and what was recorded (training shapes of
// data/measurements/h200/pytorch: choices.csv.gz, products_second.jsonl.gz).
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <string>
#include <utility>

#include "model/machines.hpp"
#include "model/predict.hpp"
#include "model/stacks/cublas/answers.hpp"
#include "model/stacks/cublas/choice.hpp"
#include "model/stacks/cublas/lane_answers.hpp"
#include "model/stacks/cublas/xmma.hpp"
#include "ops/shape/shapes.hpp"
#include "ops/table/text.hpp"

namespace plumbline::cublas_choices_test {
namespace {

OpPrediction product(const char* dtype, const std::string& shape) {
  MachineOptions options{"hf-sdpa"};
  options.clock = ClockMode::burst;
  return predict(parse_op("gemm", dtype, shape), machines().get({"h200_sxm", options}));
}

TEST(CublasChoices, ClustersReachAsManySmsAsGpcsHold) {
  constexpr std::array<std::pair<double, double>, 12> kReached{{{1, 132},
                                                                {2, 132},
                                                                {3, 117},
                                                                {4, 120},
                                                                {5, 110},
                                                                {6, 102},
                                                                {7, 105},
                                                                {8, 120},
                                                                {12, 84},
                                                                {13, 91},
                                                                {14, 98},
                                                                {16, 112}}};
  for (const auto& [size, ctas] : kReached) EXPECT_DOUBLE_EQ(cublas::ctas_in_clusters(size, 132), ctas) << size;
  EXPECT_DOUBLE_EQ(cublas::ctas_in_clusters(8, 66), 56) << "half the SMs, whole clusters";
  EXPECT_DOUBLE_EQ(cublas::ctas_in_clusters(16, 4), 16) << "one cluster at least";
}

TEST(CublasChoices, AnswersAreOfACardOfAsManySmsAsItsGpcsHold) { EXPECT_DOUBLE_EQ(cublas::sms_of_asked_card(), 132); }

TEST(CublasChoices, AShapeThatWasAskedGetsItsOwnAnswer) {
  for (const cublas::LaneAnswer& a : cublas::kLaneAnswers) {
    const cublas::LaneAnswer& found = cublas::nearest_lane_answer(a.m, a.n, a.k, 132);
    EXPECT_EQ(found.tile, a.tile) << a.m << " " << a.n << " " << a.k;
    EXPECT_EQ(found.parts, a.parts) << a.m << " " << a.n << " " << a.k;
  }
}

TEST(CublasChoices, AnswersFitKernels) {
  for (const cublas::LaneAnswer& a : cublas::kLaneAnswers) {
    EXPECT_LT(a.tile, 9);
    EXPECT_GE(a.parts, 1);
  }
}

TEST(CublasChoices, Tf32CutsKOfSmallProductsUntilAllSmsHaveAPart) {
  const OpPrediction deep = product("tf32", "M=64;N=1024;K=14592"), large = product("tf32", "M=1024;N=4096;K=4096");
  EXPECT_EQ(deep.gemm_plan.splits, 16) << "cutlass_80_tensorop_s1688gemm_128x64_32x6, a grid of 8 x 1 x 16";
  EXPECT_EQ(std::distance(deep.launches.begin(), deep.launches.end()), 2) << "a second launch adds the parts up";
  EXPECT_NEAR(deep.time.in(units::us), 20.9, 2) << "recorded";
  EXPECT_EQ(std::distance(large.launches.begin(), large.launches.end()), 1) << "a kernel of sm_90";
}

TEST(CublasChoices, Tf32TakesAsManyTurnsAsClustersLeave) {
  // 576 tiles of 128 x 128 in clusters of eight ran as five turns of 120
  const OpPrediction p = product("tf32", "M=2304;N=4096;K=14336");
  EXPECT_NEAR(p.time.in(units::us), 701, 42);
  EXPECT_LE(p.gemm_plan.cluster_m * p.gemm_plan.cluster_n, 16);
}

TEST(CublasChoices, Tf32CutsALastTurnOfHalfTheSms) {
  // recorded as "segment_k_on": 192 tiles of 128 x 256, of which 60 are left to a last turn, and a memset
  const OpPrediction p = product("tf32", "M=1024;N=6144;K=4096");
  EXPECT_NEAR(p.time.in(units::us), 141, 8);
  EXPECT_EQ(product("tf32", "M=8192;N=8192;K=8192").gemm_plan.splits, 1) << "many turns, the last one nearly full";
}

TEST(CublasChoices, Tf32WeightsAcrossPassThroughRegisters) {
  // 31 turns of 128 x 128 recorded, 372 us
  const OpPrediction across = product("tf32", "M=4357;N=15284;K=748;layout=kn"),
                     along = product("tf32", "M=4357;N=15284;K=748");
  const auto clk_of_a_sum = [](const OpPrediction& p) {
    return p.launches[0].demand.tensor_clk / static_cast<double>(p.gemm_plan.tile_m * p.gemm_plan.tile_n);
  };
  EXPECT_NEAR(across.time.in(units::us), 372, 40);
  EXPECT_NEAR(clk_of_a_sum(across) / clk_of_a_sum(along), 1.125, 0.01)
      << "tensor units wait for half of what registers take";
}

/// wgmma reads operands of 32 bits along K alone: one that lies across passes through registers, and of two each passes shared
/// memory twice (data/measurements/h200/pytorch, products_eleventh). Narrower ones it turns by itself. Short products with
/// weights [K,N] have the library's tiles.
TEST(CublasChoices, OperandsThatLieAcrossTakeLonger) {
  const auto us = [](const char* type, const char* layout) {
    return product(type, std::string("M=8192;N=8192;K=8192;layout=") + layout).time.in(units::us);
  };
  EXPECT_LT(us("tf32", "nk"), us("tf32", "kn"));
  EXPECT_NEAR(us("tf32", "km") / us("tf32", "nk"), 1979.0 / 1210, 0.1) << "steps of 128 x 256 of recorded launches";
  EXPECT_EQ(us("bf16", "km"), us("bf16", "kn"));
  EXPECT_EQ(product("tf32", "M=8192;N=8192;K=2048;layout=kn").gemm_plan.tile_m, 128);
  EXPECT_EQ(product("tf32", "M=8192;N=8192;K=2048;layout=kn").gemm_plan.tile_n, 128);
}

/// Tiles of recorded training launches (products_eleventh), by the library's answers to the shapes around them. Names of those with
/// weights [K,N] ("tilesize64x256") begin with the side along N.
TEST(CublasChoices, TilesOfOperandsThatLieAcrossAreTheLibrarys) {
  const auto tile = [](const std::string& shape) {
    const GemmPlan plan = product("tf32", shape).gemm_plan;
    return std::pair{plan.tile_m, plan.tile_n};
  };
  using Sides = std::pair<std::int64_t, std::int64_t>;
  EXPECT_EQ(tile("M=2432;N=576;K=4032;layout=kn"), Sides(256, 64));
  EXPECT_EQ(tile("M=3968;N=768;K=4224;layout=kn"), Sides(256, 128));
  EXPECT_EQ(tile("M=1984;N=1216;K=4160;layout=km"), Sides(128, 128));
  EXPECT_EQ(tile("M=5952;N=4800;K=1344;layout=km"), Sides(128, 256));
  EXPECT_EQ(tile("M=1024;N=15168;K=5376;layout=km"), Sides(256, 128));
}

/// Of several products in fp32 an A100 runs one kernel, a V100 two, K whole; none has a side below 32 (names in NeuSight's rows:
/// 64 x 3072 x 3072 twelve times took an A100 1945 us, with half of each tile's rows outside).
TEST(CublasChoices, ProductsOnLanesHaveFewKernels) {
  const auto on = [](const char* card, const std::string& shape) {
    MachineOptions options{"hf-sdpa"};
    options.clock = ClockMode::burst;
    return predict(parse_op("gemm", "fp32", shape), machines().get({card, options}));
  };
  const OpPrediction ampere = on("a100_pcie", "M=64;N=3072;K=3072;batch=12");
  EXPECT_EQ(ampere.gemm_plan.tile_m, 128);
  EXPECT_EQ(ampere.gemm_plan.tile_n, 128);
  EXPECT_EQ(ampere.gemm_plan.tile_k, 8);
  EXPECT_EQ(ampere.gemm_plan.splits, 1);
  EXPECT_NEAR(ampere.time.in(units::us), 1945, 300);
  EXPECT_EQ(on("v100_pcie", "M=512;N=512;K=96;batch=256").gemm_plan.tile_m *
                on("v100_pcie", "M=512;N=512;K=96;batch=256").gemm_plan.tile_n,
            64 * 64);
  EXPECT_GE(on("v100_pcie", "M=16;N=1760;K=1760").gemm_plan.tile_m, 32);
}

/// Clocks of the load unit for a warp's instruction that asks for pieces, of tiles that lie across the operands' ends.
double clk_of_a_request(const std::string& shape, double m, double n, double pieces_an_element) {
  const OpPrediction p = product("bf16", shape);
  const GemmPlan& plan = p.gemm_plan;
  const auto held = [](double size, auto tile) {
    const auto side = static_cast<double>(tile);
    return size / std::ceil(size / side);
  };
  const double elements = (held(m, plan.tile_m) + held(n, plan.tile_n)) * static_cast<double>(plan.tile_k);
  return p.launches[0].demand.pieces_clk / (elements * pieces_an_element / 32);
}

/// Single elements: eight rows of 64 bytes. Where all begin at lines their 32 words lie in four banks, eight in each; where one
/// begins four bytes behind the other two, and 48 of 128 lie across two lines (of 50 bytes from the first to the last piece's end).
TEST(CublasChoices, RaggedRowsByHand) {
  EXPECT_NEAR(clk_of_a_request("M=2048;N=4097;K=1024", 2048, 4097, 1), 0.28 * 8 + 0.5 * 8 + 1.95, 1e-6);
  EXPECT_NEAR(clk_of_a_request("M=2048;N=4097;K=1026", 2048, 4097, 1), 0.28 * 8 * (1 + 12.0 / 32) + 0.5 * 2 + 1.95,
              1e-6);
  // pairs: four rows of 128 bytes, at lines or across two of them
  EXPECT_NEAR(clk_of_a_request("M=2048;N=4098;K=1024", 2048, 4098, 0.5), 4.25 + 0.375 * 4, 1e-6);
  EXPECT_NEAR(clk_of_a_request("M=2048;N=4098;K=1056", 2048, 4098, 0.5), 4.25 + 0.375 * 6, 1e-6);
}

TEST(CublasChoices, SumsOfPartsOfScaledProductsFitTheWorkspace) {
  const auto parts = [](const std::string& shape) { return product("fp8", shape + ";block=128").gemm_plan.splits; };
  EXPECT_EQ(parts("M=64;N=1280;K=15232"), 3) << "118 / 20 is 5; 1 MiB holds 3 sums of 64 x 1280";
  EXPECT_EQ(parts("M=40;N=1536;K=12416"), 4);
  EXPECT_EQ(parts("M=56;N=1280;K=7680"), 2);
  EXPECT_EQ(parts("M=56;N=1280;K=5120"), 1) << "40 steps are no two parts of more than 20";
  EXPECT_EQ(parts("M=32;N=4096;K=14336"), 1) << "two sums are 1 MiB, and 16 bytes are wanted beside them";
}

/// What the library was asked for, at its edges: 32 rows, 512 columns, a depth of 512, operands of the type of the maths, no batch,
/// seven turns of tiles of 128 x 128 on 132 SMs (3696 x 4096).
TEST(CublasChoices, TheNetIsAskedForWhatTheLibraryWasAskedFor) {
  const Machine machine = machines().get({"h200_sxm", MachineOptions{"hf-sdpa"}});
  const FamilyScalars family{};
  const auto asked = [&](double m, double n, double k, double weight_bytes = 2, double batch = 1) {
    GemmTask task;
    task.m = m;
    task.n = n;
    task.k = k;
    task.weight_bytes = weight_bytes;
    task.batch = batch;
    return cublas::was_asked_for({task, machine.rates(), family, family, machine.rates().path, {}});
  };
  EXPECT_TRUE(asked(32, 512, 512));
  EXPECT_FALSE(asked(31, 512, 512));
  EXPECT_FALSE(asked(32, 511, 512));
  EXPECT_FALSE(asked(32, 512, 511));
  EXPECT_FALSE(asked(32, 512, 512, 1)) << "weights of a byte";
  EXPECT_FALSE(asked(32, 512, 512, 2, 2)) << "a batch";
  EXPECT_TRUE(asked(3696, 4096, 512));
  EXPECT_FALSE(asked(3697, 4096, 512));
}

struct RecordedTile {
  const char* dtype;
  const char* shape;
  std::int64_t along_n, along_m;
};

/// Twenty launches, drawn by a seed, of training shapes (names of data/measurements/h200/pytorch/products*.jsonl.gz): the cheapest
/// of our prices is the tile of seven.
TEST(CublasChoices, TilesOfAnyMeasureAreMostlyThoseThatRan) {
  constexpr std::array<RecordedTile, 20> kRecorded{
      {{"fp16", "M=816;N=1024;K=3200", 128, 64},   {"fp16", "M=496;N=5248;K=2304", 160, 128},
       {"fp8", "M=240;N=4480;K=6272", 128, 80},    {"fp16", "M=1024;N=1408;K=6400", 96, 128},
       {"bf16", "M=64;N=8320;K=1280", 72, 64},     {"fp16", "M=1536;N=2240;K=1792", 112, 128},
       {"fp16", "M=176;N=3072;K=1536", 64, 88},    {"fp16", "M=4344;N=2816;K=1792", 128, 248},
       {"fp8", "M=2496;N=10112;K=2944", 128, 256}, {"fp16", "M=104;N=1920;K=2560", 64, 40},
       {"fp16", "M=520;N=8832;K=10816", 384, 104}, {"bf16", "M=2720;N=4224;K=2688", 192, 160},
       {"bf16", "M=280;N=15104;K=3072", 256, 144}, {"fp16", "M=688;N=6528;K=15488", 256, 144},
       {"fp8", "M=2320;N=15360;K=3584", 256, 160}, {"fp16", "M=1336;N=1408;K=13056", 128, 112},
       {"fp8", "M=312;N=2816;K=9216", 64, 104},    {"fp16", "M=424;N=9856;K=5504", 256, 144},
       {"fp8", "M=3184;N=1024;K=3072", 128, 208},  {"fp16", "M=408;N=3520;K=6144", 128, 104}}};
  int named = 0;
  for (const RecordedTile& r : kRecorded) {
    const GemmPlan plan = product(r.dtype, r.shape).gemm_plan;
    named += plan.tile_n == r.along_n && plan.tile_m == r.along_m;
  }
  EXPECT_GE(named, 12);
}

Demand one_row(int columns, int products, int batch, const char* layout) {
  return product("bf16", "M=1;N=" + std::to_string(columns) + ";K=" + std::to_string(products) +
                             ";batch=" + std::to_string(batch) + layout)
      .launches[0]
      .demand;
}

/// 64,000 rows: of up to 111 products they are four threads', 16 a CTA of 64, of up to 222 eight threads', eight a CTA; a
/// quarter more rows of 63 are four threads' of CTAs of 128.
TEST(CublasChoices, OneRowByRowsOfWeightsByHand) {
  EXPECT_EQ(one_row(320, 63, 200, "").plan.ctas, 200 * 320 / 16);
  EXPECT_EQ(one_row(320, 63, 300, "").plan.ctas, 300 * 320 / 32);
  EXPECT_EQ(one_row(320, 100, 200, "").plan.ctas, 200 * 320 / 16);
  EXPECT_EQ(one_row(320, 190, 200, "").plan.ctas, 200 * 320 / 8);
  EXPECT_EQ(one_row(320, 190, 200, "").plan.threads, 64);
  EXPECT_DOUBLE_EQ(one_row(320, 190, 200, "").issue_clk, 54 + 2 * 190);
}

/// Two threads share a column of 64 a CTA: of 97 rows 49 are left over of the loop over 64, of 129 one; a row that is left
/// over waits as long as 2.1 others, and a CTA's beginning and end count as 11.5.
TEST(CublasChoices, OneRowByColumnsOfWeightsByHand) {
  const Demand left = one_row(256, 97, 2272, ";layout=kn"), whole = one_row(256, 129, 2272, ";layout=kn");
  EXPECT_EQ(left.plan.ctas, 2272 * 4);
  EXPECT_DOUBLE_EQ(left.plan.steps, 49 * 2.1 + 11.5);
  EXPECT_DOUBLE_EQ(whole.plan.steps, 64 + 2.1 + 11.5);
}

/// Of 22 x 64 columns, which warps share: a remainder of 16 rows from four on waits 900 clocks, each row beyond the first that is no
/// whole four 800.
TEST(CublasChoices, WhatIsLeftOfRowsThatAWarpSharesWaits) {
  const auto start = [](int rows) { return one_row(64, rows, 22, ";layout=kn").start; };
  EXPECT_EQ(start(97), Seconds{});
  EXPECT_DOUBLE_EQ(start(101) / start(99), 900.0 / 1600);
  EXPECT_DOUBLE_EQ(start(103) / start(99), 2500.0 / 1600);
}

TEST(CublasChoices, RowsLeftOverOfAnUnrolledLoopWaitForOneAnother) {
  const auto us = [](int keys) {
    return product("bf16", "M=1;N=256;K=" + std::to_string(keys) + ";batch=2272;layout=kn").time.in(units::us);
  };
  EXPECT_GT(us(97), us(129)) << "94 us recorded; 129 are whole turns of the loop and one row";
}

}  // namespace
}  // namespace plumbline::cublas_choices_test
