// What GEMM planners share, by hand on the toy GPU: costs of a tile, launches, tasks, and what is kept between questions.
#include <gtest/gtest.h>

#include <array>
#include <stdexcept>
#include <string>

#include "arch/error.hpp"
#include "model/stacks/common/gemm_cache.hpp"
#include "model/stacks/common/gemm_tiles.hpp"
#include "model/stacks/common/make_gemm_task.hpp"
#include "model/stacks/common/warm.hpp"
#include "tests/support/planners.hpp"
#include "tests/support/refusal.hpp"
#include "tests/support/toy_machine.hpp"

namespace plumbline::gemm_parts_test {
namespace {

using namespace testing_support;

GemmTask task_of(double m, double n, double k) {
  GemmTask t;
  t.m = m;
  t.n = n;
  t.k = k;
  t.tensor_flop_per_clk = 1000;
  return t;
}

// --- tiles -----------------------------------------------------------------------------------------------------------

class ToyTiles : public ::testing::Test {
 protected:
  gemm::Context context(const GemmTask& task) const {
    return {task, machine_.rates(), family_, family_, machine_.rates().path, {}};
  }
  gemm::Context by_mma_sync(const GemmTask& task) const {
    return {task, machine_.rates(), family_, family_, TensorPath{}, {}};
  }
  Machine machine_ = toy_machine();
  FamilyScalars family_;
};

/// 128 x 64 in steps of 64: 16 KiB of rows and 8 KiB of columns. wgmma reads the rows once and the columns for each 64
/// of them: 16 + 2 x 8 KiB, and 24 KiB are filled: 56 KiB at 128 bytes a clock.
TEST_F(ToyTiles, CostOfAStep) {
  family_.exposed = 0.5;
  const GemmTask task = task_of(256, 128, 640);
  const gemm::TileCosts e = gemm::tile_costs(context(task), {128, 64}, 64, false);
  EXPECT_DOUBLE_EQ(e.tensor_clk, 2.0 * 128 * 64 * 64 / 1000);
  EXPECT_DOUBLE_EQ(e.smem_clk, 56 * 1024 / 128);
  EXPECT_DOUBLE_EQ(e.once_clk, 0.5 * 128 * 64 * 2 / 1000);
  EXPECT_DOUBLE_EQ(e.fp32_clk, 0);
  EXPECT_DOUBLE_EQ(e.row_side(), 16384);
  EXPECT_DOUBLE_EQ(e.col_side(), 8192);
  const gemm::TileCosts swapped = gemm::tile_costs(context(task), {128, 64}, 64, true);
  EXPECT_DOUBLE_EQ(swapped.tile_m, 64);
  EXPECT_DOUBLE_EQ(swapped.tile_n, 128);
  EXPECT_DOUBLE_EQ(swapped.row_side(), 16384) << "the weights fill the rows";
  EXPECT_DOUBLE_EQ(swapped.smem_clk, e.smem_clk);
}

/// Weights of 4 bits come narrow and are unpacked on ordinary lanes, 128 a clock, to the activations' width.
TEST_F(ToyTiles, NarrowWeightsAreUnpacked) {
  GemmTask task = task_of(256, 128, 640);
  task.weight_bytes = 0.5;
  task.dequant_per_weight = 1;
  const gemm::TileCosts e = gemm::tile_costs(context(task), {128, 64}, 64, false);
  EXPECT_DOUBLE_EQ(e.stage_bytes, 16384 + 64 * 64 * 0.5);
  EXPECT_DOUBLE_EQ(e.fp32_clk, 64.0 * 64 / 128);
  EXPECT_DOUBLE_EQ(e.smem_clk, 56 * 1024 / 128);
}

/// By mma.sync they stay packed in shared memory: 16 KiB of rows and 2 KiB of columns, written once, the columns read for
/// each 64 of 128 rows. A warp's instruction unpacks for 32 lanes: 64 x 64 weights of 1.875 instructions are 240, 4 a clock.
TEST_F(ToyTiles, WeightsForMmaSyncAreUnpackedInRegisters) {
  GemmTask task = task_of(256, 128, 640);
  task.weight_bytes = 0.5;
  task.dequant_per_weight = 1;
  task.slots_per_weight = 1.875;
  const gemm::TileCosts e = gemm::tile_costs(by_mma_sync(task), {128, 64}, 64, false);
  EXPECT_DOUBLE_EQ(e.smem_clk, (16 + 16 + 2 + 2 * 2) * 1024.0 / 128);
  EXPECT_DOUBLE_EQ(e.issue_clk, 240.0 / 4);
  EXPECT_DOUBLE_EQ(e.fp32_clk, 0);
  const gemm::TileCosts low = gemm::tile_costs(by_mma_sync(task), {64, 64}, 64, false);
  EXPECT_DOUBLE_EQ(low.issue_clk, e.issue_clk) << "each tile of rows unpacks its weights again";
}

/// Two tiles of ten steps, of 32 KiB each; DRAM carries operands, bias and result once.
TEST_F(ToyTiles, LaunchOfTwoTiles) {
  GemmTask task = task_of(256, 128, 640);
  task.bias_bytes = 256;
  const gemm::Context c = context(task);
  const gemm::TileCosts e = gemm::tile_costs(c, {128, 128}, 64, false);
  const gemm::TileLayout layout(c, e);
  const Demand d = gemm::launch_demand(c, layout, gemm::tiled(layout, 1), gemm::Traffic::counted);
  EXPECT_EQ(d.plan.ctas, 2);
  EXPECT_EQ(d.plan.steps, 10);
  EXPECT_EQ(d.plan.threads, 384);
  EXPECT_DOUBLE_EQ(d.l2.in(units::B), 32768);
  EXPECT_DOUBLE_EQ(d.in_flight.in(units::B), 2 * 32768);
  EXPECT_DOUBLE_EQ(d.dram_read.in(units::B), (256 + 128) * 640 * 2 + 256);
  EXPECT_DOUBLE_EQ(d.dram_write.in(units::B), 256 * 128 * 2);
  const Demand again = gemm::launch_demand(c, layout, gemm::tiled(layout, 1), gemm::Traffic::counted, 0.25);
  EXPECT_DOUBLE_EQ(again.dram_read.in(units::B), (256 + 128) * 640 * 2 * 1.25 + 256);
  const Demand half = gemm::launch_demand(c, layout, gemm::tiled(layout, 2), gemm::Traffic::counted);
  EXPECT_EQ(half.plan.ctas, 4);
  EXPECT_EQ(half.plan.steps, 5);
  EXPECT_EQ(half.dram_write, Bytes{}) << "the second launch writes the result";
  EXPECT_EQ(gemm::plan_of(layout, gemm::tiled(layout, 2)).splits, 2);
}

/// 10 x 10 tiles, ten at a time in rows of about three, so that B is swept four times: 1 + 4 operands of 1280 x 640 x 2
/// bytes. 2.5 MiB hold all of B beside three rows of A's tiles: each once.
TEST_F(ToyTiles, SweepsOfWhatL2DoesNotHold) {
  const GemmTask task = task_of(1280, 1280, 640);
  const auto panels = [&](double mib, gemm::Traffic traffic) {
    Gpu gpu = toy_gpu();
    gpu.l2.size = mib * units::MiB;
    machine_ = toy_machine(gpu);
    const gemm::Context c = context(task);
    const gemm::TileCosts e = gemm::tile_costs(c, {128, 128}, 64, false);
    const gemm::TileLayout layout(c, e);
    return gemm::launch_demand(c, layout, gemm::tiled(layout, 1), traffic).dram_read.in(units::B) / (1280 * 640 * 2);
  };
  EXPECT_DOUBLE_EQ(panels(1, gemm::Traffic::counted), 5);
  EXPECT_DOUBLE_EQ(panels(1, gemm::Traffic::compulsory), 2);
  EXPECT_DOUBLE_EQ(panels(2.5, gemm::Traffic::counted), 2);
}

/// Five tiles on ten SMs: four parts fill the slots twice. Six steps of K are two for each of three parts.
TEST_F(ToyTiles, SplitsWorthALook) {
  const GemmTask task = task_of(640, 128, 640);
  const gemm::TileCosts costs = gemm::tile_costs(context(task), {128, 128}, 64, false);
  gemm::TileLayout layout(context(task), costs);
  EXPECT_EQ(layout.tiles, 5);
  EXPECT_TRUE(gemm::worth_splitting(layout, machine_.rates(), 4));
  EXPECT_FALSE(gemm::worth_splitting(layout, machine_.rates(), 5));
  layout.k_steps = 6;
  EXPECT_TRUE(gemm::worth_splitting(layout, machine_.rates(), 3));
  EXPECT_FALSE(gemm::worth_splitting(layout, machine_.rates(), 4));
  EXPECT_FALSE(gemm::tiled(layout, 1).second_launch);
}

TEST_F(ToyTiles, ThatFitAndThatAreTooWide) {
  gemm::TileCosts e;
  e.resident = 2;
  e.stages = 3;
  e.stage_bytes = 100;
  EXPECT_TRUE(gemm::fits(e, 600));
  EXPECT_FALSE(gemm::fits(e, 599));
  EXPECT_TRUE(gemm::oversized(128, 64));
  EXPECT_FALSE(gemm::oversized(128, 65));
  EXPECT_FALSE(gemm::oversized(64, 1)) << "there is no narrower one";
}

/// 2 x 64 x 32 results from four parts: four CTAs of 1024 elements, 4 bytes a part written and read; they stay in L2.
TEST_F(ToyTiles, TheSumOfParts) {
  GemmTask task = task_of(64, 32, 640);
  task.batch = 2;
  const Demand d = gemm::reduction_demand(task, machine_.rates(), 4);
  EXPECT_EQ(d.plan.ctas, 4);
  EXPECT_DOUBLE_EQ(d.l2.in(units::B), 2 * 1024 * 4 * 4);
  EXPECT_EQ(d.dram_read, Bytes{});
  EXPECT_DOUBLE_EQ(d.dram_write.in(units::B), 4096 * 2);
  EXPECT_DOUBLE_EQ(d.step_latency.in(units::ns), 200);
  const Demand few = gemm::reduction_demand(task_of(8, 8, 640), machine_.rates(), 4);
  EXPECT_EQ(few.plan.ctas, 1);
  EXPECT_DOUBLE_EQ(few.l2.in(units::B), 2 * 64 * 4 * 4);
}

// --- tasks -----------------------------------------------------------------------------------------------------------

/// A question about nothing in particular, with room for its answer.
struct Asked {
  explicit Asked(const Machine& machine) : machine_(machine) {}
  Machine machine_;
  Op op = Gemm{1, 1, 1, 1, {}, false};
  Work work{};
  std::string gpu = "toy";
  GemmCache cache;
  Question question{.op = op, .work = work, .rates = machine_.rates(), .gpu = gpu, .cache = cache};
  std::array<LaunchPrediction, Answer::kMostLaunches> launches;
  Answer answer{launches};
};

TEST(GemmTaskPaths, TensorUnitsFirstAndOrdinaryLanesForPlainFormats) {
  Gpu gpu = toy_gpu();
  gpu.sm.tensor_flop_per_clk[DType::fp64] = 0;
  gpu.sm.tensor_flop_per_clk[DType::fp4] = 0;
  gpu.sm.fp64_flop_per_clk = 7;
  const Asked asked(toy_machine(gpu));
  const Rates& m = asked.machine_.rates();
  EXPECT_EQ(matrix_flop_per_clk(DType::bf16, m), 1000);
  EXPECT_EQ(matrix_flop_per_clk(DType::fp32, m), 256);
  EXPECT_EQ(matrix_flop_per_clk(DType::fp64, m), 7);
  EXPECT_EQ(matrix_flop_per_clk(DType::fp4, m), 0);
  EXPECT_EQ(matrix_flop_per_clk(DType::fp64, toy_machine().rates()), 100);
  Precision four;
  four.math = DType::fp4;
  EXPECT_EQ(refusal([&] { require_matrix_path(four, asked.question); }).rfind("toy has no fp4 path", 0), 0U);
  EXPECT_EQ(refusal([&] { require_matrix_path({}, asked.question); }), "(accepted)");
}

/// On Hopper's tensor units mma.sync has 2723 of wgmma's 4096 FLOP a clock; on those of its own generation all of them.
TEST(GemmTaskPaths, MmaSyncIsTheOlderWay) {
  Gpu ampere = toy_gpu();
  ampere.sm.matrix_unit = MatrixUnit::mma_sync;
  const auto rate = [](const Gpu& gpu, DType math) {
    GemmTask t = task_of(1, 1, 1);
    t.math = math;
    run_by_mma_sync(t, toy_machine(gpu).rates());
    return t.tensor_flop_per_clk;
  };
  EXPECT_DOUBLE_EQ(rate(toy_gpu(), DType::bf16), 1000 * 2723.0 / 4096);
  EXPECT_DOUBLE_EQ(rate(toy_gpu(), DType::fp32), 1000) << "on ordinary lanes";
  EXPECT_DOUBLE_EQ(rate(ampere, DType::bf16), 1000);
}

// --- what is kept ----------------------------------------------------------------------------------------------------

int searches = 0;
bool refuses = false;

GemmChoice counted_planner(const GemmTask& t, const Rates&, std::span<const FamilyScalars>, GemmCache&) {
  ++searches;
  if (refuses) throw BadInput("no plan");
  GemmChoice choice;
  choice.plan.tile_m = static_cast<std::int64_t>(t.m);
  return choice;
}

TEST(RememberedGemm, IsSearchedOnceATask) {
  Asked asked(toy_machine());
  searches = 0;
  const auto tile = [&](double m, double k) {
    return remembered(task_of(m, 128, k), asked.question, counted_planner).plan.tile_m;
  };
  EXPECT_EQ(tile(64, 640), 64);
  EXPECT_EQ(tile(64, 640), 64);
  EXPECT_EQ(searches, 1);
  EXPECT_EQ(tile(65, 640), 65);
  EXPECT_EQ(tile(64, 704), 64);
  EXPECT_EQ(searches, 3);
  for (int m = 1; m <= 2000; ++m) EXPECT_EQ(tile(m, 640), m) << "more than it has places for";
  asked.cache.clear();
  searches = 0;
  EXPECT_EQ(tile(2000, 640), 2000);
  EXPECT_EQ(searches, 1);
}

TEST(RememberedGemm, ARefusalIsNoAnswer) {
  Asked asked(toy_machine());
  const GemmTask task = task_of(64, 128, 640);
  refuses = true;
  EXPECT_THROW((void)remembered(task, asked.question, counted_planner), BadInput);
  refuses = false;
  EXPECT_EQ(remembered(task, asked.question, counted_planner).plan.tile_m, 64);
}

class Menus : public ::testing::Test {
 protected:
  /// How often a menu for that task had to be made, so far.
  int made_after(const GemmTask& task) {
    cache_.state().menu(task, [this](std::vector<gemm::TileCosts>& tiles) {
      ++made_;
      tiles.resize(1);
    });
    return made_;
  }
  static GemmTask of_rate(double flop_per_clk) {
    GemmTask t = task_of(64, 64, 64);
    t.tensor_flop_per_clk = flop_per_clk;
    return t;
  }
  GemmCache cache_;
  int made_ = 0;
};

TEST_F(Menus, ServeAllSizesOfOneKindAndPrecision) {
  EXPECT_EQ(made_after(task_of(64, 64, 64)), 1);
  EXPECT_EQ(made_after(task_of(128, 256, 512)), 1);
  EXPECT_EQ(made_after(task_of(64, 64, 63)), 2) << "rows that are no whole 16 bytes";
  void (*const changes[])(GemmTask&) = {
      [](GemmTask& t) { t.kind = GemmKind::grouped; },  [](GemmTask& t) { t.input_bytes = 1; },
      [](GemmTask& t) { t.weight_bytes = 1; },          [](GemmTask& t) { t.output_bytes = 4; },
      [](GemmTask& t) { t.tensor_flop_per_clk = 500; }, [](GemmTask& t) { t.dequant_per_weight = 1; },
      [](GemmTask& t) { t.slots_per_weight = 1; }};
  int made = 2;
  for (const auto& change : changes) {
    GemmTask t = task_of(64, 64, 64);
    change(t);
    EXPECT_EQ(made_after(t), ++made);
  }
  GemmTask sparse = task_of(64, 64, 64), engine = sparse;
  sparse.weight_kept = 0.5625;
  engine.engine = GemmEngine::wgmma;
  EXPECT_EQ(made_after(sparse), made + 1);
  EXPECT_EQ(made_after(engine), made + 2);
}

/// The last eight are kept, where they are; the oldest goes first.
TEST_F(Menus, KeepTheLastFew) {
  const auto* first = &cache_.state().menu(of_rate(1), [](auto& tiles) { tiles.resize(1); });
  for (int i = 2; i <= 8; ++i) made_after(of_rate(i));
  EXPECT_EQ(made_, 7);
  EXPECT_EQ(&cache_.state().menu(of_rate(1), [](auto&) { FAIL(); }), first);
  EXPECT_EQ(made_after(of_rate(9)), 8);  // in the place of the first
  EXPECT_EQ(made_after(of_rate(2)), 8);
  EXPECT_EQ(made_after(of_rate(1)), 9);  // in that of the second
  EXPECT_EQ(made_after(of_rate(9)), 9);
  EXPECT_EQ(made_after(of_rate(2)), 10);
  cache_.clear();
  EXPECT_EQ(made_after(of_rate(9)), 11);
}

/// 17 MB of operands in an L2 of 32 MiB in eight partitions, which finds 24 MB again: both launches of a split product
/// do, the one that adds up the parts too.
TEST(SplitGemm, LeavesNothingOfItInDram) {
  Gpu gpu = toy_gpu();
  gpu.l2.partitions = 8;
  gpu.l2.reuse_fraction = 0.71;
  const Machine machine = toy_machine(gpu);
  const OpPrediction warm = predict(Gemm{128, 128, 32768, 1, {}, false}, machine, {.warm = true});
  ASSERT_EQ(warm.launch_count, 2);
  EXPECT_EQ(warm.dram_bytes(), Bytes{});
  const OpPrediction larger = predict(Gemm{128, 128, 65536, 1, {}, false}, machine, {.warm = true});
  ASSERT_EQ(larger.launch_count, 2);
  EXPECT_GT(larger.dram_write, Bytes{});
}

// --- operands in L2 --------------------------------------------------------------------------------------------------

/// A cold launch of a GEMM that asks by lookups: 1 MB of lines, chained loads, 400 ns until its first step.
Demand cold_demand() {
  Demand d;
  d.dram_read = 0.9e6 * units::B;
  d.dram_write = 0.1e6 * units::B;
  d.in_flight = 1e3 * units::B;
  d.step_latency = 500.0 * units::ns;
  d.start = 400.0 * units::ns;
  d.serial_latency = 2.0 * units::us;
  d.l2_limit = L2Limit::lookups;
  d.l2_distinct = 1e6 * units::B;
  return d;
}

class WarmLaunch : public ::testing::Test {
 protected:
  Demand found(const Demand& cold, Warmth warmth = Warmth::everything, double latency = 1) {
    asked_.question.warmth = warmth;
    Answer answer(asked_.launches);
    launch_as_found(answer, asked_.question, "gemm", cold, family_, latency);
    EXPECT_EQ(answer.count(), 1);
    EXPECT_EQ(asked_.launches[0].family, &family_);
    return asked_.launches[0].demand;
  }
  Asked asked_{toy_machine()};
  FamilyScalars family_;
};

/// DRAM gives a tenth of what L2 does, and each of two chained loads comes 300 ns sooner.
TEST_F(WarmLaunch, FindsItsOperandsInL2) {
  const Demand d = found(cold_demand(), Warmth::everything, 0.4);
  EXPECT_EQ(d.dram_read + d.dram_write + d.in_flight, Bytes{});
  EXPECT_DOUBLE_EQ(d.step_latency.in(units::ns), 200);
  EXPECT_DOUBLE_EQ(d.start.in(units::ns), 40);
  EXPECT_DOUBLE_EQ(d.serial_latency.in(units::ns), 1400);
  Demand lines = cold_demand();
  lines.l2_limit = L2Limit::lines;
  EXPECT_DOUBLE_EQ(found(lines).serial_latency.in(units::us), 2) << "no tensor maps";
}

/// The chain of a step that has its operands is the family's; but a step is not longer than it was.
TEST_F(WarmLaunch, KeepsTheChainOfAStep) {
  family_.step = 300.0 * units::ns;
  EXPECT_DOUBLE_EQ(found(cold_demand(), Warmth::everything, 0.4).step_latency.in(units::ns), 300);
  family_.step = 900.0 * units::ns;
  EXPECT_DOUBLE_EQ(found(cold_demand(), Warmth::everything, 0.4).step_latency.in(units::ns), 500);
}

TEST_F(WarmLaunch, IsColdWhereOnlyStreamsAreWarm) {
  EXPECT_EQ(found(cold_demand(), Warmth::streams).dram_read, cold_demand().dram_read);
  EXPECT_EQ(found(cold_demand(), Warmth::cold).step_latency, cold_demand().step_latency);
}

/// Results may have a copy in both partitions of L2: they count twice against 32 MiB.
TEST_F(WarmLaunch, IsColdWhereL2DoesNotHoldIt) {
  Demand d = cold_demand();
  d.l2_distinct = 30.0 * units::MiB;
  d.l2_written = 1.0 * units::MiB;
  EXPECT_EQ(found(d).dram_read, Bytes{});
  d.l2_written = 1.1 * units::MiB;
  EXPECT_EQ(found(d).dram_read, d.dram_read);
  d.l2_distinct = d.l2_written = Bytes{};  // not said: the operator's own bytes count
  asked_.work.read = 33.0 * units::MiB;
  EXPECT_EQ(found(d).dram_read, d.dram_read);
  asked_.work.read = 31.0 * units::MiB;
  EXPECT_EQ(found(d).dram_read, Bytes{});
}

/// gpt-oss's experts are 2880 wide: 1440 bytes of 4-bit values a row, 90 times 16. Their scales, an eighth of a bit to a
/// quarter a value, lie elsewhere.
TEST(WholeUnits, ScalesAreInNoRow) {
  GemmTask t;
  t.n = 5760;
  for (const DType weight : {DType::mxfp4, DType::nvfp4, DType::bf16}) {
    t.weight_bytes = bytes_of(weight);
    t.k = 2880;
    EXPECT_TRUE(gemm::whole_units(t)) << name(weight);
    t.k = 2884;
    EXPECT_FALSE(gemm::whole_units(t)) << name(weight);
  }
  const Machine h100 = make_machine(load_gpu("h100_sxm"), MachineOptions{"trt-llm"});
  const auto time_of_width = [&](std::int64_t k) {
    GroupedGemm s;
    s.experts = 128;
    s.topk = 4;
    s.tokens = 64;
    s.n = 5760;
    s.k = k;
    s.precision = *parse_precision("mxfp4");
    return predict(s, h100).time;
  };
  EXPECT_LE(time_of_width(2880), time_of_width(3072)) << "1.8 times as long with rows taken for ragged";
}

}  // namespace
}  // namespace plumbline::gemm_parts_test
