// The planner of matrix products: what it may choose, that it chooses the cheapest, and toy cases by hand.

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "model/engine/tensor_path.hpp"
#include "model/engine/timing.hpp"
#include "ops/facts/work.hpp"
#include "tests/support/planners.hpp"
#include "tests/support/random_gpu.hpp"

namespace plumbline::plan_gemm_test {
namespace {

using namespace testing_support;

constexpr Seconds kNever = 1e30 * units::s;

Seconds price_of(const GemmChoice& choice, const Machine& m, const FamilyScalars& family) {
  Seconds total = price_total(choice.main, m.rates(), family, kNever);
  if (choice.reduces)
    total += price_total(choice.reduce, m.rates(), scalars_of(m, "library.reduce"), kNever) + m.rates().gap_graph;
  return total;
}

GemmChoice planned(const GemmTask& task, const Machine& m) {
  GemmCache cache;
  return plan_gemm(task, m, cache);
}

/// A task of any matrix operator that the machine has a path for.
GemmTask random_task(const Machine& m) {
  for (;;) {
    const Op op = *rc::gen::resize(rc::kNominalSize, rc::gen::exec([] { return random_matrix_op(); }));
    try {
      if (const auto* gemm = std::get_if<Gemm>(&op)) return gemm_task(*gemm, m.rates());
      if (const auto* sparse = std::get_if<GemmSparse24>(&op)) return gemm_task(*sparse, m.rates());
      return gemm_task(std::get<GroupedGemm>(op), m.rates());
    } catch (const BadInput&) {
    }
  }
}

void log_choice(const GemmTask& t, const GemmChoice& c) {
  RC_LOG() << name(t.math) << " kind " << static_cast<int>(t.kind) << " block " << t.block << " M=" << t.m
           << " N=" << t.n << " K=" << t.k << " batch=" << t.batch << ": " << c.plan.tile_m << "x" << c.plan.tile_n
           << "x" << c.plan.tile_k << ", splits " << c.plan.splits << ", " << c.main.plan.ctas << " CTAs, "
           << c.main.plan.ctas_per_sm << " an SM, " << c.total.in(units::us) << " us\n";
}

RC_GTEST_PROP(PlanGemm, ThePromisedTotalIsThePriceOfItsLaunches, ()) {
  const auto m = random_machine();
  for (int i = 0; i < 20; ++i) {
    const GemmTask task = random_task(m);
    const GemmChoice choice = planned(task, m);
    log_choice(task, choice);
    RC_ASSERT(std::abs(price_of(choice, m, gemm_family(task, m)) / choice.total - 1) < 1e-12);
  }
}

RC_GTEST_PROP(PlanGemm, ThePlanDoesTheWorkAndFitsTheSm, ()) {
  const auto m = random_machine();
  const TensorPath path = tensor_path(m.gpu());
  for (int i = 0; i < 20; ++i) {
    const GemmTask t = random_task(m);
    // integers and tf32 on Hopper deal tiles, share out K and count idle SMs by rules of their own (other_types_test.cpp)
    const bool of_other_types = t.kind == GemmKind::dense && (t.math == DType::int8 || t.math == DType::tf32);
    if (of_other_types && path.kind == TensorPath::Kind::wgmma) continue;
    const GemmChoice c = planned(t, m);
    log_choice(t, c);
    const KernelPlan& k = c.main.plan;
    const double ctas = static_cast<double>(k.ctas), tiles = std::ceil(t.m / static_cast<double>(c.plan.tile_m)) *
                                                             std::ceil(t.n / static_cast<double>(c.plan.tile_n)) *
                                                             t.batch;
    RC_ASSERT(c.main.tensor_clk * k.steps * ctas * t.tensor_flop_per_clk * (1 + 1e-9) >= 2 * t.m * t.n * t.k * t.batch);
    RC_ASSERT(k.shared_memory * static_cast<double>(k.ctas_per_sm) <= m.gpu().sm.smem);
    // rings that tensor maps fill are deep
    const bool by_maps = m.gpu().sm.async_copy == AsyncCopy::tma;
    RC_ASSERT(c.plan.stages >= 2 && static_cast<double>(c.plan.stages) <= (by_maps ? 16 : path.most_stages));
    RC_ASSERT(k.ctas_per_sm >= 1 && static_cast<double>(k.ctas_per_sm) <= path.most_ctas);
    // one accumulator register an output, of five eighths of the file; or a column's lane of tensor memory
    const bool in_tensor_memory = path.kind == TensorPath::Kind::tcgen05;
    const std::int64_t sums = in_tensor_memory ? 128 * 512 : m.gpu().sm.registers * 5 / 8;
    RC_ASSERT(c.plan.tile_m * c.plan.tile_n * k.ctas_per_sm <= sums);
    const double writes = (c.main.dram_write + c.reduce.dram_write).in(units::B);
    RC_ASSERT(writes * (1 + 1e-9) >= t.batch * t.m * t.n * t.output_bytes);
    // whole clusters, where a library's kernels are known to take them
    const auto whole = [](double side, std::int64_t cluster) {
      const auto size = static_cast<double>(std::max<std::int64_t>(1, cluster));
      return size * std::ceil(side / size);
    };
    const double in_clusters = whole(std::ceil(t.m / static_cast<double>(c.plan.tile_m)), c.plan.cluster_m) *
                               whole(std::ceil(t.n / static_cast<double>(c.plan.tile_n)), c.plan.cluster_n) * t.batch;
    // turns of sparse products in clusters count SMs that hold no whole one
    const bool idle = t.kind == GemmKind::sparse24 && ctas > tiles * static_cast<double>(c.plan.splits);
    RC_ASSERT(idle || ctas == tiles * static_cast<double>(c.plan.splits) ||
              ctas == in_clusters * static_cast<double>(c.plan.splits));
    constexpr std::int64_t kOfLanes = 8;
    const double whole_step = std::max(16.0, 128 / std::max(t.input_bytes, t.weight_bytes));
    // the step to come waits in registers where no copy goes to shared memory by itself
    const bool by_mma_sync = m.gpu().sm.matrix_unit == MatrixUnit::mma_sync;
    const bool in_registers = by_mma_sync && m.gpu().sm.async_copy == AsyncCopy::none && gemm::whole_units(t);
    const double step = c.plan.tile_k == kOfLanes ? kOfLanes : (in_registers ? 0.5 : 1) * whole_step;
    const double k_steps = std::ceil(t.k / step);
    RC_ASSERT(k.steps == std::ceil(k_steps / static_cast<double>(c.plan.splits)));
    // rows that come in pieces have K cut until turns are full, as launches of an H200 have (48 tiles in 19 parts)
    const double most_turns = gemm::whole_units(t) ? 2.0 : 8.0 * static_cast<double>(k.ctas_per_sm);
    if (c.plan.splits > 1) RC_ASSERT(tiles * static_cast<double>(c.plan.splits) <= most_turns * m.rates().sm_count);
  }
}

/// The same machine but for rates and fixed costs that a plan's demand does not depend on: its planner looks at the
/// same menu of demands and may prefer another.
Machine with_other_tastes(const Machine& m) {
  Calibration c = m.calibration();
  const Calibration other = random_calibration();
  auto& gemm = c.families["library.gemm"];
  auto& second = c.families["library.reduce"];
  for (const char* key : {"fixed_s", "overlap", "efficiency_fraction", "per_cta_s"}) {
    if (coin()) gemm[key] = other.families.at("library.gemm").at(key);
    if (coin()) second[key] = other.families.at("library.reduce").at(key);
  }
  for (const char* key : {"dram_read_fraction", "dram_write_fraction", "dram_mix_loss_fraction", "gap_graph_s",
                          "l2_bandwidth_fraction", "tensor_burst_fraction"}) {
    if (coin()) c.machine[key] = other.machine.at(key);
  }
  // extremes: free or dear launches, no tensor limit
  if (coin()) second["fixed_s"].value = coin() ? 0 : 1e-4;
  if (coin()) c.machine["tensor_burst_fraction"].value = 1e-3;
  return toy_machine(m.gpu(), c);
}

/// Optimality without knowing the menu: no plan that a planner of other tastes would choose is cheaper here.
/// But on Hopper, where the library's kernels are chosen as it chooses them, which is not always the cheapest.
RC_GTEST_PROP(PlanGemm, NoPlanOfAnotherTasteIsCheaper, ()) {
  const auto m = random_machine();
  if (tensor_path(m.gpu()).kind == TensorPath::Kind::wgmma) return;
  std::vector<Machine> others;
  for (int i = 0; i < 6; ++i) others.push_back(with_other_tastes(m));
  for (int i = 0; i < 10; ++i) {
    const GemmTask task = random_task(m);
    const GemmChoice ours = planned(task, m);
    for (const auto& other : others) {
      const GemmChoice theirs = planned(task, other);
      log_choice(task, ours);
      log_choice(task, theirs);
      const Seconds here = price_of(theirs, m, gemm_family(task, m));
      RC_LOG() << "ours " << ours.total.in(units::us) << " us, theirs here " << here.in(units::us) << " us\n";
      RC_ASSERT(ours.total <= here * (1 + 1e-3));  // the search compares bounds that are good to 1e-4 a term
    }
  }
}

// --- by hand: 10 SMs x 1000 FLOP/clk x 1 GHz
// --------------------------------------------------------------------------

class ToyGemm : public ::testing::Test {
 protected:
  Machine machine = toy_machine();
  GemmChoice plan(std::int64_t m, std::int64_t n, std::int64_t k) const {
    return planned(task_of(Gemm{m, n, k, 1, {}, false}, machine), machine);
  }
};

/// 1280 x 256 x 6400: 10 tiles of 128 x 256 for 10 SMs, 2 x 128 x 256 x 6400 FLOP / 1000 = 419430.4 clk. A step of 64
/// keeps shared memory busy for 1024 clk and tensor units for 4194; DRAM needs 20 MB / 1 TB/s = 20 us. 1 us fixed, and
/// four cold ways to memory of 500 ns each before the first product.
TEST_F(ToyGemm, OneExactWaveIsTensorBound) {
  const GemmChoice c = plan(1280, 256, 6400);
  EXPECT_NEAR(c.total.in(units::us), 3 + 419.4304, 1e-6);
  EXPECT_EQ(price(c.main, machine.rates(), scalars_of(machine, "library.gemm")).limiter, Resource::tensor);
  EXPECT_EQ(c.plan.splits, 1);
  EXPECT_EQ(c.main.plan.ctas % 10, 0);
}

/// Twice the rows are exactly two waves.
TEST_F(ToyGemm, TwoExactWavesTakeTwice) {
  EXPECT_NEAR(plan(2560, 256, 6400).total.in(units::us), 3 + 2 * 419.4304, 1e-6);
}

/// Eleven tiles of 128 rows: the best whole cut is 88 tiles of 64 x 64, 9 turns of an eighth of the work of a 128 x 256
/// tile: 9/8 x 419.4304 = 471.8592 us; tiles of 144 columns, 20 for two turns, take the same.
TEST_F(ToyGemm, AnEleventhTileCostsATurnOfSmallerOnes) {
  const double us = plan(1408, 256, 6400).total.in(units::us);
  EXPECT_GT(us, 1 + 1.1 * 419.4304);
  EXPECT_LE(us, 3 + 471.8592 + 1e-6);
}

/// 16 x 128 x 128000, weights on the row side: 2 tiles of 64 x 16 for 10 SMs. Unsplit, each would walk 2000 steps of
/// 131 clk (262 us) and DRAM would idle; its compulsory traffic is 36.9 MB = 36.9 us. Splits must bring it well below.
TEST_F(ToyGemm, ALongKIsSplit) {
  const GemmChoice c = plan(16, 128, 128000);
  EXPECT_GT(c.plan.splits, 1);
  EXPECT_TRUE(c.plan.swapped);
  EXPECT_LT(c.total.in(units::us), 80);
  EXPECT_GT(c.total.in(units::us), 1 + 36.86);
}

/// 1 x 1 x 16: rows of 32 bytes, but results of 2: no tensor map describes those, so a kernel without TMA. One CTA, one
/// step: fixed 1 us + the DRAM latency of 500 ns over the stages of the ring, or Little's law: no more than the whole
/// latency; and pieces of 2 bytes through registers, 1.6 us.
TEST_F(ToyGemm, ATinyOneIsLatency) {
  const GemmChoice c = plan(1, 1, 16);
  EXPECT_GT(c.total.in(units::us), 1);
  EXPECT_LT(c.total.in(units::us), 3.8);
  EXPECT_EQ(c.plan.splits, 1);
}

/// 2048 x 2048 x 2048: operands of 8 MiB each fit in 32 MiB of L2 and are read once. 8192 x 8192 x 8192: 128 MiB each
/// do not; ten tiles at a time sweep one of them again and again, at most once for each row (or column) of tiles.
TEST_F(ToyGemm, OperandsThatL2CannotHoldAreReadAgain) {
  const double small = 2.0 * 2048 * 2048 * 2, large = 2.0 * 8192 * 8192 * 2;
  EXPECT_DOUBLE_EQ(plan(2048, 2048, 2048).main.dram_read.in(units::B), small);
  const GemmChoice c = plan(8192, 8192, 8192);
  const double tiles = 8192.0 / static_cast<double>(std::min(c.plan.tile_m, c.plan.tile_n));
  EXPECT_GE(c.main.dram_read.in(units::B), 2 * large);
  EXPECT_LE(c.main.dram_read.in(units::B), large / 2 * (1 + tiles));
}

// --- tasks -----------------------------------------------------------------------------------------------------------

TEST(GemmTasks, BytesOfThePrecision) {
  const auto m = toy_machine();
  const GemmTask w4 = task_of(Gemm{16, 32, 64, 3, *parse_precision("w4a16"), true}, m);
  EXPECT_DOUBLE_EQ(w4.weight_bytes, 4.125 / 8);
  EXPECT_DOUBLE_EQ(w4.input_bytes, 2);
  EXPECT_DOUBLE_EQ(w4.dequant_per_weight, 1);
  EXPECT_DOUBLE_EQ(w4.slots_per_weight, 15.0 / 8);
  EXPECT_DOUBLE_EQ(w4.batch, 3);
  EXPECT_DOUBLE_EQ(w4.bias_bytes, 64);
  EXPECT_DOUBLE_EQ(task_of(Gemm{16, 32, 64, 1, {}, false}, m).dequant_per_weight, 0);
  const Precision bytes{DType::bf16, DType::int8, DType::bf16, DType::bf16};
  EXPECT_DOUBLE_EQ(task_of(Gemm{16, 32, 64, 1, bytes, false}, m).slots_per_weight, 24.0 / 8);
}

/// Twice the dense rate; 0.5 of the values and 2 bits for each kept one of 16: 0.5625 of the bytes.
TEST(GemmTasks, Sparse) {
  const auto m = toy_machine();
  const GemmTask t = gemm_task(GemmSparse24{16, 32, 64, {}}, m.rates());
  EXPECT_DOUBLE_EQ(t.tensor_flop_per_clk, 2000);
  EXPECT_DOUBLE_EQ(t.weight_kept, 0.5625);
}

/// 4 tokens to 2 of 8 experts each: 8 (1 - 0.75^4) = 5.47 experts are touched: 5 GEMMs of 8 / 5 rows, and
/// the weights of 5.47.
TEST(GemmTasks, Grouped) {
  const auto m = toy_machine();
  const GemmTask t = gemm_task(GroupedGemm{8, 2, 4, 32, 64, 0, {}}, m.rates());
  EXPECT_DOUBLE_EQ(t.batch, 5);
  EXPECT_DOUBLE_EQ(t.m, 1.6);
  EXPECT_DOUBLE_EQ(t.batch * t.weights_read, 8 * (1 - std::pow(0.75, 4)));
}

/// fp32 without a tensor path runs on ordinary lanes, fp64 on fp64 lanes; fp8 without a path is refused.
TEST(GemmTasks, Paths) {
  Gpu gpu = toy_gpu();
  gpu.sm.tensor_flop_per_clk[DType::fp64] = 0;
  gpu.sm.tensor_flop_per_clk[DType::fp8] = 0;
  const auto m = toy_machine(gpu);
  EXPECT_DOUBLE_EQ(task_of(Gemm{1, 1, 1, 1, *parse_precision("fp32"), false}, m).tensor_flop_per_clk, 256);
  EXPECT_DOUBLE_EQ(task_of(Gemm{1, 1, 1, 1, *parse_precision("fp64"), false}, m).tensor_flop_per_clk, 100);
  EXPECT_THROW(task_of(Gemm{1, 1, 1, 1, *parse_precision("fp8"), false}, m), BadInput);
}

/// Tiles beyond two turns of the SMs are handed out by a counter that a launch before clears.
TEST(LibraryGemm, MoreThanTwoTurnsTakeACounter) {
  Calibration c = toy_calibration();
  c.families["library.gemm"]["counter_s"].value = 5e-6;
  const auto m = toy_machine(toy_gpu(), c);
  const auto chain = [&](std::int64_t rows) {
    return planned(task_of(Gemm{rows, 256, 6400, 1, {}, false}, m), m).main.serial_latency.in(units::us);
  };
  EXPECT_NEAR(chain(1280), 2, 1e-9);
  EXPECT_NEAR(chain(2560), 2, 1e-9);
  EXPECT_NEAR(chain(1280 * 64), 7, 1e-9);
}

/// cuBLAS leaves each part of K twenty steps or more.
TEST(LibraryGemm, PartsOfKHaveTwentySteps) {
  const auto m = toy_machine();
  for (std::int64_t k = 1280; k <= 64 * 400; k += 640) {
    const GemmChoice c = planned(task_of(Gemm{16, 64, k, 1, {}, false}, m), m);
    if (c.plan.splits > 1) EXPECT_GE(c.main.plan.steps, 20) << k;
    else EXPECT_EQ(c.plan.splits, 1);
  }
}

/// N or K that are no multiples of 8 bf16 elements: other kernels, several times slower (H200 recordings: 95 TFLOP/s).
TEST(LibraryGemm, RowsThatNoTensorMapDescribes) {
  const auto m = make_machine(load_gpu("h200_sxm"), MachineOptions{"trt-llm", ClockMode::burst, std::nullopt});
  const auto us = [&](std::int64_t n, std::int64_t k) {
    return predict(Gemm{4096, n, k, 1, {}, false}, m).time.in(units::us);
  };
  EXPECT_GT(us(4096, 4095), 4 * us(4096, 4096));
  EXPECT_GT(us(4094, 4096), 2 * us(4096, 4096));
  EXPECT_GT(us(4095, 4096), us(4094, 4096));
}

/// What L2 holds need not come from DRAM, and a kernel is never slower for it.
TEST(LibraryGemm, ResidentOperandsOnlyHelp) {
  const auto m = make_machine(load_gpu("h200_sxm"), MachineOptions{"trt-llm", ClockMode::burst, std::nullopt});
  const Op op = Gemm{64, 4096, 1024, 1, {}, false};
  PredictOptions held;
  held.resident = {1, 1, 1};
  const OpPrediction cold = predict(op, m), warm = predict(op, m, held);
  EXPECT_LT(warm.time, cold.time);
  EXPECT_EQ(warm.dram_read, Bytes{});
  held.resident = {1, 0.5, 0};
  const OpPrediction half = predict(op, m, held);
  EXPECT_LE(half.time, cold.time);
  EXPECT_GE(half.time, warm.time);
}

/// Of a split product the second launch writes the result: what L2 holds of it need not leave.
TEST(LibraryGemm, ASplitProductsResultStaysToo) {
  const auto m = make_machine(load_gpu("h200_sxm"), MachineOptions{"trt-llm", ClockMode::burst, std::nullopt});
  const Op op = Gemm{64, 1024, 16384, 1, {}, false};
  const OpPrediction cold = predict(op, m);
  ASSERT_EQ(cold.launch_count, 2);
  PredictOptions held;
  held.resident.output = 1;
  EXPECT_DOUBLE_EQ(cold.dram_write.in(units::B), 64 * 1024 * 2);
  EXPECT_EQ(predict(op, m, held).dram_write, Bytes{});
  held.resident.output = 0.5;
  EXPECT_DOUBLE_EQ(predict(op, m, held).dram_write.in(units::B), 64 * 1024);
}

/// Operands that L2 holds leave no room for partial sums that it does not: those pass through DRAM, warm or cold.
TEST(LibraryGemm, PartialSumsBeyondL2PassThroughDramWarmToo) {
  const GemmTask task = [] {
    GemmTask t;
    t.m = t.n = 4096;
    t.k = 64;
    return t;
  }();
  const auto m = make_machine(load_gpu("h200_sxm"), MachineOptions{"trt-llm", ClockMode::burst, std::nullopt});
  const Demand sums = gemm::reduction_demand(task, m.rates(), 4);
  EXPECT_EQ(sums.partials, 4096.0 * 4096 * 4 * 4 * units::B);
  EXPECT_EQ(sums.dram_read, sums.partials);
  EXPECT_EQ(sums.dram_write, sums.partials + 4096.0 * 4096 * 2 * units::B);
  EXPECT_EQ(gemm::reduction_demand(GemmTask{}, m.rates(), 4).partials, Bytes{});
}

}  // namespace
}  // namespace plumbline::plan_gemm_test
