// Single terms of the planners and of a step, each worked out by hand, that no law and no sweep would miss: what the
// mutants of tests/mutants/audit change.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "arch/gpu/gpu.hpp"
#include "model/predict.hpp"
#include "ops/facts/work.hpp"
#include "ops/plan/kernel_menu.hpp"
#include "tests/support/toy_machine.hpp"

namespace plumbline::thin_places_test {
namespace {

using namespace testing_support;

const Machine& h200() {
  static const Machine machine = make_machine(load_gpu("h200_sxm"), MachineOptions{"own"});
  return machine;
}

const Demand& first_launch(const OpPrediction& p) { return p.launches[0].demand; }

/// Our plan of a tile of the Hopper kernel, one CTA an SM, without clusters and splits.
GemmPlan hopper_plan(DType math, std::int64_t rows, std::int64_t cols) {
  for (const GemmVariant& v : own_gemm_menu(GemmEngine::wgmma, math)) {
    if (v.rows != rows || v.cols != cols || v.cluster != 1) continue;
    GemmPlan plan;
    plan.tile_m = rows;
    plan.tile_n = cols;
    plan.tile_k = math == DType::fp8 ? v.step_bytes : v.step_bytes / 2;
    plan.stages = v.stages;
    return plan;
  }
  return {};
}

OpPrediction as_planned(const Gemm& gemm, const GemmPlan& plan) {
  PredictOptions options;
  options.gemm_plan = &plan;
  const OpPrediction p = predict(Op(gemm), h200(), options);
  EXPECT_TRUE(p.gemm_plan == plan);
  return p;
}

Gemm square(std::int64_t n, const char* precision = "bf16") { return {n, n, n, 1, *parse_precision(precision), false}; }

/// 10240 x N x 4096 on 32 MiB of L2: a super-row of 1024 rows of A is 8 MiB. Columns of 20 MiB stay beside it and are read
/// once; 28 MiB would stay alone, but not beside it, so that A, 80 MiB, is swept for each of the 3.5 super-rows of columns.
TEST(GemmTraffic, APanelOfOneOperandTakesRoomFromTheOther) {
  const auto read = [](std::int64_t n) {
    const OpPrediction p = predict(Op(Gemm{10240, n, 4096, 1, {}, false}), toy_machine());
    return p.dram_read.in(units::B) / (2.0 * 4096.0 * static_cast<double>(10240 + n));
  };
  EXPECT_NEAR(read(2560), 1, 1e-9);
  EXPECT_NEAR(read(3584), (28 + 3.5 * 80) / (28 + 80), 1e-9);
}

/// 128 x 128 x 1024 on an A100: sixteen steps of 64, which one or a few CTAs would walk while 100 SMs idle. Parts of
/// fewer than eight steps win, although their sum takes a launch of its own.
TEST(GemmSplits, PartsMayBeShort) {
  MachineOptions options;
  options.stack = "trt-llm";
  const auto a100 = make_machine(load_gpu("a100_sxm"), options);
  const OpPrediction p = predict(Op(Gemm{128, 128, 1024, 1, {}, false}), a100);
  EXPECT_EQ(p.launch_count, 2);
  EXPECT_LT(first_launch(p).plan.steps, 8);
}

/// Partial sums in fp32 that L2 does not hold are written to DRAM and read again.
TEST(GemmSplits, PartialSumsBeyondL2GoThroughDram) {
  Gpu gpu = toy_gpu();
  gpu.l2.size = 64.0 * units::KiB;
  const OpPrediction p = predict(Op(Gemm{128, 256, 65536, 1, {}, false}), toy_machine(gpu));
  ASSERT_EQ(p.launch_count, 2);
  const double partials = 128.0 * 256 * static_cast<double>(p.gemm_plan.splits) * 4;
  EXPECT_DOUBLE_EQ(p.launches[1].demand.dram_read.in(units::B), partials);
  EXPECT_DOUBLE_EQ(p.launches[1].demand.dram_write.in(units::B), partials + 128.0 * 256 * 2);
  EXPECT_DOUBLE_EQ(p.launches[0].demand.dram_write.in(units::B), 0);
}

/// A step of 128 bytes of fp8: 2 x 128 x 128 x 128 FLOP. Every eighth step the sums are added to others on the FP32
/// lanes, 128 of them, behind 120 clocks in which the tensor unit runs dry.
TEST(HopperGemm, Fp8SumsArePromotedEveryEighthStep) {
  const GemmPlan plan = hopper_plan(DType::fp8, 128, 128);
  ASSERT_EQ(plan.tile_m, 128);
  const OpPrediction p = as_planned(square(8192, "fp8"), plan);
  const double step = 2.0 * 128 * 128 * 128 / h200().rates().gpu.sm.tensor_flop_per_clk[DType::fp8];
  EXPECT_NEAR(first_launch(p).tensor_clk, step + (128.0 * 128 / 128 + 120) / 8, 1e-9);
}

/// Both operands of 134 MB pass L2's size, neither is twice the other: neighbours stay together, and two of them look
/// the columns up once. Four times as many rows, and they drift apart.
TEST(HopperGemm, NeighboursShareLookupsUnlessTheyDriftApart) {
  const GemmPlan plan = hopper_plan(DType::bf16, 128, 256);
  ASSERT_EQ(plan.tile_m, 128);
  const double rows = 128 * 128, cols = 256 * 128;  // bytes of a step
  EXPECT_NEAR(first_launch(as_planned(square(8192), plan)).lookups.in(units::B), rows + 0.5 * cols, 1e-6);
  const Gemm tall{32768, 8192, 8192, 1, {}, false};
  EXPECT_NEAR(first_launch(as_planned(tall, plan)).lookups.in(units::B), rows + cols, 1e-6);
}

/// Rows of 8200 bf16 are 16400 bytes: three in four begin inside one of DRAM's accesses of 64 bytes, and a third of
/// what they read is read again with the next step.
TEST(HopperGemm, StepsThatShareAnAccessReadItTwice) {
  const OpPrediction p = predict(Op(Gemm{16, 4096, 8200, 1, {}, false}), h200());
  EXPECT_NEAR(p.dram_read.in(units::B), 2.0 * 8200 * (16 + 4096) * 1.25, 1);
}

/// The first loads of a launch that finds its operands in L2 come at L2's rate.
TEST(WarmLaunches, StartAtTheRateOfL2) {
  const Op op = square(1024);
  PredictOptions warm;
  warm.warm = true;
  const Demand cold_demand = first_launch(predict(op, h200())), warm_demand = first_launch(predict(op, h200(), warm));
  ASSERT_GT(cold_demand.start, Seconds{});
  EXPECT_NEAR(warm_demand.start / cold_demand.start, h200().rates().dram_read / h200().rates().l2, 1e-9);
}

/// mma and wgmma take whole blocks of 16 query rows: eight heads of latent attention cost what sixteen do.
TEST(LatentDecode, RowsFillBlocksOfSixteen) {
  Gpu gpu = toy_gpu();
  gpu.sm.tensor_flop_per_clk[DType::bf16] = 4096;  // Hopper's rate hides the rows of wgmma that have no head
  const auto clocks = [machine = toy_machine(gpu)](std::int64_t heads) {
    return first_launch(predict(Op(MlaDecode{4, heads, 4096, 512, 64}), machine)).tensor_clk;
  };
  EXPECT_DOUBLE_EQ(clocks(8), clocks(16));
  EXPECT_DOUBLE_EQ(clocks(17), clocks(32));
  EXPECT_GT(clocks(32), 1.9 * clocks(16));
}

/// Where a donor's energies skip no cycles (an A100's), those that the card's data sheet says are skipped are, of products.
TEST(CarriedOver, CyclesThatTheDataSheetSkipsAreSkipped) {
  Gpu gpu = load_gpu("h200_sxm");
  gpu.name = "hopper_by_an_a100";
  gpu.calibration = "a100_sxm";
  MachineOptions options{"trt-llm"};
  options.clock = ClockMode::burst;
  const auto time = [&] { return predict(Op(Gemm{8192, 8192, 8192, 1, {}, false}), make_machine(gpu, options)).time; };
  const Seconds skipping = time();
  const double rated = gpu.datasheet_tensor_clock / gpu.boost_clock;
  gpu.datasheet_tensor_clock = gpu.boost_clock;
  EXPECT_NEAR(time() / skipping, rated, 0.02);
}

/// Result rows of 1000 elements do not begin at whole sectors: 256 bytes of one touch nine of them, not eight.
TEST(OwnRows, RaggedTransposesWriteSectorsInPart) {
  const auto written = [](std::int64_t rows) {
    const Op op = Rowwise{RowwiseKind::transpose_copy, rows, 1024};
    return predict(op, h200()).dram_write / work(op).write;
  };
  EXPECT_DOUBLE_EQ(written(1024), 1);
  EXPECT_DOUBLE_EQ(written(1000), 9.0 / 8);
}

/// One element beyond whole vectors is a launch of its own.
TEST(OwnRows, ARaggedTailIsALaunch) {
  const auto time = [](std::int64_t cols) { return predict(Op(Rowwise{RowwiseKind::add, 1, cols}), h200()).time; };
  EXPECT_GT(time(1048577) - time(1048576), 1.0 * units::us);
}

Calibration with_kernel_change(double seconds) {
  Calibration c = toy_calibration();
  c.machine["kernel_change_s"] = Scalar{seconds, "a round number"};
  return c;
}

/// In a stream too every launch follows another kernel.
TEST(Steps, InAStreamLaunchesPayForFollowingAnotherKernel) {
  const Llm llm = load_llm("llama-3.2-1b");
  const RunOptions stream{Runtime::stream};
  const StepPrediction before = predict(llm, {}, toy_machine(toy_gpu(), with_kernel_change(0)), stream);
  const StepPrediction after = predict(llm, {}, toy_machine(toy_gpu(), with_kernel_change(1e-6)), stream);
  double launches = 0;
  for (const NodePrediction& n : after.nodes) launches += static_cast<double>(n.node->count) * n.op.launch_count;
  EXPECT_NEAR((after.latency - before.latency).in(units::us), launches, 1e-6);
}

/// Nodes that run the same operator share a price only when they find the same in L2: some L2 holds what one of two
/// alike reads, and not what the other does.
TEST(Steps, WarmAndColdTwinsAreNotOne) {
  long twins = 0;
  for (const char* model : {"llama-3.2-1b", "qwen3-0.6b", "gpt2"}) {
    const Llm llm = load_llm(model);
    for (const double mib : {1, 2, 4, 8, 16, 32, 64, 128, 256, 512}) {
      Gpu gpu = toy_gpu();
      gpu.l2.size = mib * units::MiB;
      Workload w;
      w.fusion = Fusion::none;
      const StepPrediction step = predict(llm, w, toy_machine(gpu), RunOptions{});
      for (std::size_t i = 0; i < step.nodes.size(); ++i) {
        EXPECT_EQ(step.nodes[step.nodes[i].first].held, step.nodes[i].held) << model << " " << step.nodes[i].node->name;
        for (std::size_t j = 0; j < i; ++j) {
          twins += step.nodes[j].node->op == step.nodes[i].node->op && step.nodes[j].held != step.nodes[i].held ? 1 : 0;
        }
      }
    }
  }
  EXPECT_GT(twins, 0);
}

}  // namespace
}  // namespace plumbline::thin_places_test
