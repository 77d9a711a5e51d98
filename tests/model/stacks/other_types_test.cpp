// cuBLAS in other types on Hopper: int8 by mma.sync, fp32 on lanes, tf32's few tiles, fp8 with scales of rows and blocks.
#include <gtest/gtest.h>

#include <cmath>

#include "model/bands/bands.hpp"
#include "model/machines.hpp"
#include "model/predict.hpp"
#include "ops/shape/shapes.hpp"

namespace plumbline::other_types_test {
namespace {

OpPrediction on(const char* gpu, const char* dtype, std::int64_t m, std::int64_t n, std::int64_t k,
                std::int64_t block = 0) {
  Gemm s;
  s.m = m;
  s.n = n;
  s.k = k;
  s.precision = *parse_precision(dtype);
  s.block = block;
  MachineOptions machine{"hf-sdpa"};
  machine.clock = ClockMode::burst;
  Predictor predictor;
  OpPrediction out;
  predictor.predict(s, machines().get({gpu, machine}), out, {});
  return out;
}

TEST(OtherTypes, IntegersRunByMmaSyncOnHopper) {
  const OpPrediction large = on("h200_sxm", "int8", 4096, 4096, 14336);
  EXPECT_EQ(large.gemm_plan.tile_m * large.gemm_plan.tile_n, 128 * 256);
  EXPECT_EQ(large.gemm_plan.stages, 3);
  // 512 tiles are four turns of 112 steps; ncu counted 1964 clocks a step (H200, 2026-11-23), at 0.91 of 1980 MHz
  EXPECT_NEAR(large.time.in(units::us), 4 * 112 * 1964 / (0.91 * 1980), 0.08 * 495);
  EXPECT_EQ(on("h200_sxm", "int8", 32, 4096, 14336).gemm_plan.tile_n, 64);
  // Blackwell's and Ampere's own kernels are priced as before
  EXPECT_GT(on("b200", "int8", 4096, 4096, 14336).gemm_plan.stages, 3);
}

TEST(OtherTypes, IntegersTakeTheTileThatTheLibraryTakes) {
  struct Taken {
    std::int64_t m, n, k, tile_m, tile_n, stages;
  };
  // kernel names of training shapes (H200, 2026-11-24): not the quickest tile, but by K and by turns of the SMs
  constexpr Taken kTaken[] = {
      {32, 8320, 3200, 64, 64, 6},     {704, 1408, 2048, 64, 128, 6},   {1024, 4096, 4096, 64, 128, 3},
      {7216, 12672, 1280, 64, 128, 3}, {1408, 1408, 8192, 128, 128, 5}, {5632, 1408, 4096, 256, 128, 3},
  };
  for (const Taken& t : kTaken) {
    const GemmPlan plan = on("h200_sxm", "int8", t.m, t.n, t.k).gemm_plan;
    EXPECT_EQ(plan.tile_m, t.tile_m) << t.m << " x " << t.n << " x " << t.k;
    EXPECT_EQ(plan.tile_n, t.tile_n);
    EXPECT_EQ(plan.stages, t.stages);
  }
}

TEST(OtherTypes, IntegersTilesAreDealtInBlocksOfEight) {
  // 11 tiles along N are two blocks of eight, so that the grid has 352 CTAs for 242 tiles and an SM gets three of them; 1024 rows
  // have 256 for 176, and an SM two. Found: 37.7 and 26.1 us (H200, 2026-11-24)
  const Seconds three = on("h200_sxm", "int8", 1408, 1408, 4096).time,
                two = on("h200_sxm", "int8", 1024, 1408, 4096).time;
  EXPECT_NEAR(three / two, 1.5, 0.1);
}

TEST(OtherTypes, Fp32IsBoundByIssueWhereLanesAreAsManyAsItIssues) {
  const OpPrediction square = on("h200_sxm", "fp32", 4096, 4096, 4096);
  // eight tiles of 128 x 128 an SM, two at a time; 164.3 clocks a column of K each, all of the boost clock
  EXPECT_NEAR(square.time.in(units::us), 8 * 4096 * 164.3 / 1980, 0.04 * 2719);
  EXPECT_EQ(square.gemm_plan.splits, 1);
  // 96 tiles are cut along K until the SMs are busy
  EXPECT_GT(on("h200_sxm", "fp32", 384, 4096, 14336).gemm_plan.splits, 3);
}

/// Half as many lanes as issue slots: they are what limits, and they wait for operands that lie along K, word by word, eight warps'
/// words of 4.2 clocks for a column of 128 x 128, which is 256 clocks. Several products have their weights as they are read.
TEST(OtherTypes, LanesOfAnA100WaitForWordsThatAreTurned) {
  constexpr double kColumn = 256, kTurned = 8 * 4.2, kTiles = 64 * 64, kSms = 108;
  const double lanes = std::ceil(kTiles / kSms) * 4096 * kColumn / 1410;
  const OpPrediction one = on("a100_sxm", "fp32", 8192, 8192, 4096);
  EXPECT_GT(one.time.in(units::us) / lanes, 1 + kTurned / kColumn);
  EXPECT_LT(one.time.in(units::us) / lanes, 1.1 * (1 + kTurned / kColumn)) << "and for what does not hide behind it";
  EXPECT_NEAR(one.launches[0].demand.tensor_clk, 8 * (kColumn + kTurned), 1e-9);
}

/// What would run on a Hopper by an A100's scalars alone: kernels that these do not know are priced by their own plans, and
/// nowhere stand as what was measured. (Products on lanes an A100 has, too.)
TEST(OtherTypes, KernelsThatTheDonorLacksAreClassesOfTheirOwn) {
  Calibration a100 = load_calibration("a100_sxm", "");
  a100.inherited = true;
  MachineOptions options{"hf-sdpa"};
  options.clock = ClockMode::burst;
  const Machine machine = make_machine(load_gpu("h200_sxm"), a100, options);
  const auto class_of = [&](const char* dtype, std::int64_t m, bool alike) {
    Gemm s;
    s.m = m;
    s.n = s.k = 4096;
    s.precision = *parse_precision(dtype);
    Predictor predictor;
    OpPrediction out;
    predictor.predict(s, machine, out, {});
    EXPECT_EQ(out.alike, alike) << dtype;
    EXPECT_EQ(out.provenance, alike ? Provenance::never_measured : Provenance::other_generation) << dtype;
    return band_class_name(out.band_class);
  };
  EXPECT_EQ(class_of("fp32", 4096, false), "gemm_lanes");
  EXPECT_EQ(class_of("int8", 4096, true), "gemm_int8");
  EXPECT_EQ(class_of("tf32", 4096, true), "gemm_xmma");
  EXPECT_EQ(class_of("fp32", 1, true), "gemv");
  EXPECT_EQ(class_of("bf16", 4096, false), "gemm");
}

TEST(OtherTypes, Tf32HasSixTiles) {
  const OpPrediction few = on("h200_sxm", "tf32", 32, 4096, 4096);
  EXPECT_EQ(few.gemm_plan.tile_m, 64);
  EXPECT_EQ(few.gemm_plan.splits, 1);
}

TEST(OtherTypes, ScalesOfRowsAndBlocksHaveOneTile) {
  const OpPrediction tensor = on("h200_sxm", "fp8", 8192, 8192, 8192);
  const OpPrediction row = on("h200_sxm", "fp8", 8192, 8192, 8192, 1);
  const OpPrediction block = on("h200_sxm", "fp8", 8192, 8192, 8192, 128);
  EXPECT_EQ(row.gemm_plan.tile_m, 128);
  EXPECT_EQ(block.gemm_plan.tile_n, 128);
  EXPECT_GT(block.time, 1.08 * row.time) << "each step's sums are added up on lanes";
  EXPECT_GT(row.time, 0.95 * tensor.time);
  EXPECT_GT(on("h200_sxm", "fp8", 32, 4096, 14336, 1).time, 1.4 * on("h200_sxm", "fp8", 32, 4096, 14336).time);
}

TEST(OtherTypes, WarpgroupsThatTakeTurnsBeginOneAfterTheOther) {
  // scales of rows, eight steps of K: 6.72 us found, of blocks, whose warpgroups work together, 6.66, though their steps are
  // longer (1024 x 1408 x 1024, H200, 2026-11-24)
  const Seconds row = on("h200_sxm", "fp8", 1024, 1408, 1024, 1).time,
                block = on("h200_sxm", "fp8", 1024, 1408, 1024, 128).time;
  EXPECT_NEAR(row.in(units::us), 6.72, 0.7);
  EXPECT_NEAR(row / block, 1, 0.08);
}

}  // namespace
}  // namespace plumbline::other_types_test
