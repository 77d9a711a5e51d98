// cuSPARSELt's products of 2:4 sparse weights and the launch that compresses them (model/stacks/cublas/sparse.cpp).
#include <gtest/gtest.h>

#include "arch/calibration/calibration.hpp"
#include "model/machines.hpp"
#include "model/predict.hpp"
#include "ops/shape/shapes.hpp"

namespace plumbline::sparse_test {
namespace {

OpPrediction on(const char* gpu, const Op& op) {
  MachineOptions machine{"hf-sdpa"};
  machine.clock = ClockMode::burst;
  Predictor predictor;
  OpPrediction out;
  predictor.predict(op, machines().get({gpu, machine}), out, {});
  return out;
}

/// One tile, one turn for each 132 of them: 13.4 turns of 10560 x 5376 are 14.
TEST(SparseProducts, HaveOneTileOnHopper) {
  const OpPrediction p = on("h200_sxm", GemmSparse24{10560, 5376, 8192, {}});
  EXPECT_EQ(p.gemm_plan.tile_n, 128);
  EXPECT_EQ(p.gemm_plan.tile_m, 256);
  EXPECT_TRUE(p.gemm_plan.swapped);
}

/// Whatever calibration there is: an A100's has no scalars of sparse products, and those of dense ones stand in. SMs without room for
/// two steps take other kernels.
TEST(SparseProducts, HaveThatTileWithoutScalarsOfTheirOwn) {
  MachineOptions options{"hf-sdpa"};
  Calibration other = load_calibration("a100_sxm", "");
  ASSERT_EQ(other.families.count("library.gemm_sparse24"), 0U);
  other.inherited = true;
  const Op op = GemmSparse24{10560, 5376, 8192, {}};
  Gpu gpu = machines().gpu("h200_sxm");
  const OpPrediction p = predict(op, make_machine(gpu, other, options));
  EXPECT_EQ(p.gemm_plan.tile_m * p.gemm_plan.tile_n, 256 * 128);
  gpu.sm.smem = 64.0 * units::KiB;
  EXPECT_LT(predict(op, make_machine(gpu, other, options)).gemm_plan.tile_m, 256);
}

/// K is cut in halves where both have a place, from 128 steps of 64 columns on.
TEST(SparseProducts, CutLongKOfFewTiles) {
  EXPECT_EQ(on("h200_sxm", GemmSparse24{320, 1024, 8192, {}}).gemm_plan.splits, 2);
  EXPECT_EQ(on("h200_sxm", GemmSparse24{320, 1024, 8128, {}}).gemm_plan.splits, 1);
  EXPECT_EQ(on("h200_sxm", GemmSparse24{1280, 2432, 12800, {}}).gemm_plan.splits, 1);
}

/// Half of the multiplications take more than half of a dense product's time: L2 gives no more than it does there.
TEST(SparseProducts, AreNotTwiceAsFastAsDenseOnes) {
  const Seconds dense = on("h200_sxm", Gemm{8192, 8192, 8192, 1, {}, false}).time,
                sparse = on("h200_sxm", GemmSparse24{8192, 8192, 8192, {}}).time;
  EXPECT_LT(sparse, dense);
  EXPECT_GT(sparse, 0.7 * dense);
}

/// A card whose kernels nobody measured has the dense product's planner at twice the rate, and a band of another generation.
TEST(SparseProducts, GoByDenseKernelsElsewhere) {
  EXPECT_EQ(on("a100_sxm", GemmSparse24{4096, 4096, 4096, {}}).provenance, Provenance::other_generation);
}

/// A warp has 32 x 64 weights: 14080 x 9088 are 62,480 of them, each of some 1,950 clocks of an SM: 466 us.
TEST(Sparsify, IsBoundByItsInstructions) {
  const OpPrediction p = on("h200_sxm", Sparsify24{14080, 9088});
  ASSERT_EQ(p.launch_count, 1);
  EXPECT_NEAR(p.time.in(units::us), 62480 / 132.0 * 1950 / 1980, 0.03 * 466);
  EXPECT_NEAR(on("h200_sxm", Sparsify24{14080, 18176}).time / p.time, 2, 0.05);
}

}  // namespace
}  // namespace plumbline::sparse_test
