// Plans of our own kernels by hand: which engine takes a shape, and what a plan asks of an SM.
#include "model/stacks/own/own_kernels.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "arch/gpu/gpu.hpp"
#include "model/machines.hpp"
#include "model/predict.hpp"
#include "model/stacks/common/plan_attention.hpp"
#include "ops/plan/text.hpp"
#include "tests/support/planners.hpp"
#include "tests/support/toy_machine.hpp"

namespace plumbline::own_plans_test {
namespace {

using namespace testing_support;

class OnHopper : public ::testing::Test {
 protected:
  static Calibration calibration() {
    Calibration c = toy_calibration();
    for (const char* name : kOwnFamilies) c.families[std::string("own.") + name] = c.families.at("library.gemm");
    return c;
  }
  Machine machine = toy_machine(toy_gpu(), calibration(), KernelSet::own);
};

/// TMA wants rows of K and N in whole 16 bytes; a bias, int8 and fp32 have no kernel of ours.
TEST_F(OnHopper, TheEngineOfAShape) {
  const auto engine = [&](std::int64_t n, std::int64_t k, const char* dtype, bool bias) {
    return own_gemm_engine(Gemm{64, n, k, 1, *parse_precision(dtype), bias}, machine.rates(),
                           families_of(machine, "own"));
  };
  EXPECT_EQ(engine(64, 64, "bf16", false), GemmEngine::wgmma);
  EXPECT_EQ(engine(64, 16, "fp8", false), GemmEngine::wgmma);
  EXPECT_EQ(engine(64, 60, "bf16", false), GemmEngine::mma_sync);
  EXPECT_EQ(engine(63, 64, "bf16", false), GemmEngine::mma_sync);
  EXPECT_EQ(engine(64, 60, "fp8", false), std::nullopt);
  EXPECT_EQ(engine(64, 64, "bf16", true), std::nullopt);
  EXPECT_EQ(engine(64, 64, "int8", false), std::nullopt);
  const Machine without = toy_machine(toy_gpu(), toy_calibration(), KernelSet::own);  // no scalars of ours on file
  EXPECT_EQ(own_gemm_engine(Gemm{64, 64, 64, 1, {}, false}, without.rates(), families_of(without, "own")),
            std::nullopt);
}

TEST_F(OnHopper, AttentionThatNoKernelOfOursRuns) {
  const AttentionPrefill prefill{1, 8, 8, 128, 128, 512, 512, true, 0, 0};
  EXPECT_NE(own_prefill_kernel(prefill, machine.rates(), families_of(machine, "own")), nullptr);
  AttentionPrefill other = prefill;
  other.window = 128;
  EXPECT_EQ(own_prefill_kernel(other, machine.rates(), families_of(machine, "own")), nullptr);
  other = prefill;
  other.append = 1;
  EXPECT_EQ(own_prefill_kernel(other, machine.rates(), families_of(machine, "own")), nullptr);
  other = prefill;
  other.qk_dim = 192;
  EXPECT_EQ(own_prefill_kernel(other, machine.rates(), families_of(machine, "own")), nullptr);
  AttentionDecode decode{1, 8, 8, 128, 128, 4096};
  decode.kv_dtype = DType::fp8;
  EXPECT_EQ(own_decode_kernel(decode, machine.rates(), families_of(machine, "own")), nullptr);
}

/// A plan that names mma.sync is priced as that where wgmma would have been taken; the stack own-portable takes nothing
/// else.
TEST_F(OnHopper, MmaSyncWhereItIsNamed) {
  const Gemm product{4096, 4096, 4096, 1, {}, false};
  const AttentionPrefill prefill{1, 8, 8, 128, 128, 512, 512, true, 0, 0};
  EXPECT_EQ(predict(product, machine).gemm_plan.engine, GemmEngine::wgmma);
  EXPECT_EQ(predict(prefill, machine).attention_plan.stages, 0);
  MachineOptions options;
  options.stack.name = "own-portable";
  options.clock = ClockMode::burst;
  const Machine portable = make_machine(toy_gpu(), calibration(), options);
  const OpPrediction p = predict(product, portable), a = predict(prefill, portable);
  EXPECT_EQ(p.gemm_plan.engine, GemmEngine::mma_sync);
  EXPECT_GT(a.attention_plan.stages, 0);
  EXPECT_GT(p.time, predict(product, machine).time);
  const OpPrediction named = predict(product, machine, PredictOptions{.gemm_plan = &p.gemm_plan});
  EXPECT_EQ(named.gemm_plan, p.gemm_plan);
  EXPECT_DOUBLE_EQ(named.time / p.time, 1);
  const OpPrediction attended = predict(prefill, machine, PredictOptions{.attention_plan = &a.attention_plan});
  EXPECT_DOUBLE_EQ(attended.time / a.time, 1);
}

/// A split part of mma.sync leaves as fp32, 32 bytes in 1.6 clocks: 128 x 128 take 1.6 x 2048 clocks, of 64 tokens half
/// of them, half as long again where rows of the parts are no whole sectors (N = 516). Ten CTAs have an SM each, and leave
/// behind all else; of five waves two on an SM wait for each other, while the next ones load. A step of 32 elements takes 64 bytes of each row, so that it has the family's share of
/// DRAM; one of 64 all of it. Four stages have copies 2.5 steps ahead, three stages of 64 1.75.
TEST_F(OnHopper, PartsOfMmaSyncByHand) {
  Calibration c = calibration();
  c.families["own.gemm_portable"]["half_lines_fraction"] = {0.5, "a round number"};
  const auto m = toy_machine(toy_gpu(), c, KernelSet::own);
  const auto demand = [&](std::int64_t tokens, std::int64_t n, const GemmPlan& plan) {
    return predict(Gemm{tokens, n, 6400, 1, {}, false}, m, PredictOptions{.gemm_plan = &plan}).launches[0].demand;
  };
  GemmPlan plan;
  plan.tile_m = plan.tile_n = 128;
  plan.tile_k = 32;
  plan.stages = 4;
  plan.splits = 2;
  plan.engine = GemmEngine::mma_sync;
  const Demand whole = demand(128, 6400, plan);
  EXPECT_DOUBLE_EQ(whole.serial_clk, 1.6 * 2 * 2048);
  EXPECT_DOUBLE_EQ(demand(128, 640, plan).once_clk, 1.6 * 2048);
  EXPECT_DOUBLE_EQ(demand(64, 640, plan).once_clk, 1.6 * 1024);
  EXPECT_DOUBLE_EQ(demand(128, 516, plan).once_clk, 1.6 * 3072);
  EXPECT_EQ(demand(128, 640, plan).serial_clk, 0);
  EXPECT_DOUBLE_EQ(whole.dram_share, 0.5);
  EXPECT_DOUBLE_EQ(whole.step_latency / m.rates().dram_latency, 1 / 2.5);
  plan.tile_n = 64;
  plan.tile_k = 64;
  plan.stages = 3;
  const Demand lines = demand(128, 6400, plan);
  EXPECT_DOUBLE_EQ(lines.dram_share, 1);
  EXPECT_DOUBLE_EQ(lines.step_latency / m.rates().dram_latency, 1 / 1.75);
}

/// CTAs of mma.sync begin and end together. Twenty on ten SMs ask for 16 KiB each before anything is multiplied, which an
/// L2 of 1 TB/s gives in 0.33 us; a result of 128 x 128 is laid into shared memory and read from it (32 KiB twice), once
/// it has been scaled and rounded, and that of the CTA beside it is behind it (once a CTA). 2000 SMs' parts of 64 KiB leave
/// at what L2 takes of all, half of what it gives.
TEST_F(OnHopper, WavesOfMmaSyncBeginAndEndTogether) {
  Calibration c = calibration();
  c.families["own.gemm_portable"]["exposed"] = {1, "a round number"};
  const auto m = toy_machine(toy_gpu(), c, KernelSet::own);
  GemmPlan plan;
  plan.tile_m = plan.tile_n = 128;
  plan.tile_k = 32;
  plan.stages = 4;
  plan.splits = 1;
  plan.engine = GemmEngine::mma_sync;
  const auto demand = [&plan](std::int64_t n, const Machine& on) {
    return predict(Gemm{128, n, 6400, 1, {}, false}, on, PredictOptions{.gemm_plan = &plan}).launches[0].demand;
  };
  const double port = m.rates().gpu.sm.smem_bytes_per_clk.in(units::B), lanes = m.rates().gpu.sm.fp32_flop_per_clk / 2;
  const double leaves = 32768 / m.rates().gpu.sm.l2_bytes_per_clk.in(units::B);
  const double staged = leaves + 2 * 32768 / port + 1.5 * 128 * 128 / lanes;
  EXPECT_DOUBLE_EQ(demand(1280, m).once_clk, staged);
  EXPECT_DOUBLE_EQ(demand(2560, m).once_clk, staged);
  EXPECT_DOUBLE_EQ(demand(3840, m).serial_clk, 2 * staged);
  Gpu slow = toy_gpu(), wide = toy_gpu();
  slow.l2.bandwidth = 1.0 * units::TB_per_s;
  EXPECT_DOUBLE_EQ(demand(2560, toy_machine(slow, calibration(), KernelSet::own)).start.in(units::us),
                   20 * 16384 / 1e6);
  wide.sm_count = 2000;
  plan.splits = 2;
  EXPECT_DOUBLE_EQ(demand(128000, toy_machine(wide, calibration(), KernelSet::own)).once_clk, 2 * 2000 * 65536 / 10e3);
}

/// Beside another CTA rows of a box that are not there take the SM's port, 3.9 clocks each, and nothing of DRAM's time.
TEST_F(OnHopper, RowsThatAreNotThereTakeThePort) {
  const auto m = toy_machine(toy_gpu(), calibration(), KernelSet::own);
  GemmPlan plan;
  plan.tile_m = 64;
  plan.tile_n = 32;
  plan.tile_k = 64;
  plan.stages = 8;
  plan.splits = 1;
  const auto demand = [&](std::int64_t rows) {
    return predict(Gemm{rows, 3200, 6400, 1, {}, false}, m, PredictOptions{.gemm_plan = &plan}).launches[0].demand;
  };
  ASSERT_GT(demand(64).plan.ctas_per_sm, 1);
  EXPECT_DOUBLE_EQ(demand(64).port_fill_clk, 0);
  EXPECT_DOUBLE_EQ(demand(3).port_fill_clk, 3.9 * 61);
  EXPECT_DOUBLE_EQ(demand(3).edge_fill_clk, 0);
}

/// Rows of an even number of elements come in pairs: 192 rows of 128 bytes are 192 instructions of a warp, 4 clocks to
/// write each and 4.4 to read those of rows that are there, of the last of 101 steps those of two elements.
TEST_F(OnHopper, PairsOfTheTileOf128By64ByHand) {
  const auto m = toy_machine(toy_gpu(), calibration(), KernelSet::own);
  const auto plan = parse_gemm_plan("tile=64x128x64 stages=3 splits=1 swapped mma");
  const auto demand = [&](std::int64_t rows, std::int64_t k) {
    return predict(Gemm{rows, 1280, k, 1, {}, false}, m, PredictOptions{.gemm_plan = &*plan}).launches[0].demand;
  };
  constexpr double kFilled = 6402.0 / (101 * 64);
  EXPECT_DOUBLE_EQ(demand(64, 6400).pieces_clk, 0);
  EXPECT_NEAR(demand(64, 6402).pieces_clk, 192 * (4 + 4.4 * kFilled), 1e-9);
  EXPECT_NEAR(demand(16, 6402).pieces_clk, 192 * 4 + (128 + 16) * 4.4 * kFilled, 1e-9);
}

/// Single elements: a turn brings 16 rows, eight of 128 and four of 64, of which a warp waits for its farthest line. The ten
/// tiles of the weights share X: one brings a line from memory, nine find it in L2. Of 101 steps 100 are whole, and rows that
/// are not there take no lookups: 60 of a warp's turn.
TEST_F(OnHopper, SingleElementsOfTheTileOf128By64ByHand) {
  const auto m = toy_machine(toy_gpu(), calibration(), KernelSet::own);
  const Rates& r = m.rates();
  const auto plan = parse_gemm_plan("tile=64x128x64 stages=3 splits=1 swapped mma");
  const auto demand = [&](std::int64_t rows) {
    return predict(Gemm{rows, 1280, 6401, 1, {}, false}, m, PredictOptions{.gemm_plan = &*plan}).launches[0].demand;
  };
  const Seconds far = r.gpu.l2.far_latency_ratio * r.l2_latency,
                memory = r.gpu.memory.latency + far - r.l2_mean_latency();
  EXPECT_NEAR(demand(64).step_latency / (4 * (0.1 * memory + 0.9 * far) + 8 * memory), 1, 1e-9);
  EXPECT_NEAR(demand(16).step_latency / (1 * (0.1 * memory + 0.9 * far) + 8 * memory), 1, 1e-9);
  EXPECT_NEAR(demand(64).dealt_clk - demand(16).dealt_clk, (100 + 8.0 / 64) * 3 * 60, 1e-6);
  EXPECT_GT(demand(64).dealt_clk, 100 * (12 * (2 * 45 + 60) + 3 * 60));
}

/// Beside another CTA each of twelve turns waits for half of what that one's four warps look up, 240 clocks, as often as it is at
/// it: 12 x 240 clocks of a step of some 12 x (500 to 1000) and the products.
TEST_F(OnHopper, SingleElementsWaitForTheLookupsOfAnotherCtaOfTheSm) {
  const auto m = toy_machine(toy_gpu(), calibration(), KernelSet::own);
  const auto sms = static_cast<std::int64_t>(m.rates().sm_count);
  const auto plan = parse_gemm_plan("tile=64x128x64 stages=3 splits=1 swapped mma");
  const auto clk_of_a_step = [&](std::int64_t tiles) {
    const Demand d =
        predict(Gemm{64, 128 * tiles, 6401, 1, {}, false}, m, PredictOptions{.gemm_plan = &*plan}).launches[0].demand;
    return d.dealt_clk / d.plan.steps;
  };
  const double waited = clk_of_a_step(2 * sms) - clk_of_a_step(sms);
  EXPECT_GT(waited, 12 * (240.0 / 1000) * 120);
  EXPECT_LT(waited, 12 * (240.0 / 500) * 120);
  EXPECT_NEAR((clk_of_a_step(3 * sms) - clk_of_a_step(sms)) / waited, 2, 0.02);
}

/// Of K = 81 two steps are taken, the second of 17 elements of a row: three of eight lanes, and what they ask for is mostly in
/// sectors that L1 has: 34 bytes in two, of which one may be new in a row of sixteen, in one of four of a warp in 4.2.
TEST_F(OnHopper, WhatIsLeftOfShortRowsOfSingleElementsIsInL1) {
  const auto m = toy_machine(toy_gpu(), calibration(), KernelSet::own);
  const auto plan = parse_gemm_plan("tile=64x64x64 stages=4 splits=1 mma");
  const auto trips = [&](std::int64_t k) {
    const Demand d =
        predict(Gemm{640, 640, k, 1, {}, false}, m, PredictOptions{.gemm_plan = &*plan}).launches[0].demand;
    return d.step_latency * d.plan.steps;
  };
  EXPECT_NEAR((trips(81) - trips(65)) / (trips(127) - trips(65)), 1 - std::pow(1 - 1.0 / 16, 4), 1e-9);
}

/// The reduction of six parts of 64 x 1022: 64 CTAs of 1024 elements, four loads together and two more, 240 instructions
/// of each of eight warps.
TEST_F(OnHopper, ReductionsOfMmaSyncByHand) {
  const auto m = toy_machine(toy_gpu(), calibration(), KernelSet::own);
  GemmPlan plan;
  plan.tile_m = plan.tile_n = plan.tile_k = 64;
  plan.stages = 4;
  plan.splits = 6;
  plan.engine = GemmEngine::mma_sync;
  const OpPrediction p = predict(Gemm{64, 1022, 6400, 1, {}, false}, m, PredictOptions{.gemm_plan = &plan});
  ASSERT_EQ(p.launch_count, 2);
  const Demand& d = p.launches[1].demand;
  EXPECT_EQ(d.plan.ctas, 64);
  EXPECT_DOUBLE_EQ(d.issue_clk, 8 * (72 + 28 * 6) / m.rates().gpu.sm.issue_per_clk);
  EXPECT_DOUBLE_EQ(d.step_latency / m.rates().l2_mean_latency(), 3);
}

/// fp16 has the kernels that bf16 has, but for gradients.
TEST_F(OnHopper, KernelsInFp16) {
  const auto families = families_of(machine, "own");
  Gemm product{64, 64, 64, 1, *parse_precision("fp16"), false};
  EXPECT_EQ(own_gemm_engine(product, machine.rates(), families), GemmEngine::wgmma);
  product.k = 60;
  EXPECT_EQ(own_gemm_engine(product, machine.rates(), families), GemmEngine::mma_sync);
  product.layout = WeightLayout::kn;
  EXPECT_EQ(own_gemm_engine(product, machine.rates(), families), std::nullopt);
  AttentionPrefill prefill{1, 8, 8, 128, 128, 512, 512, true, 0, 0};
  prefill.dtype = DType::fp16;
  EXPECT_EQ(own_prefill_kernel(prefill, machine.rates(), families), nullptr) << "the cache is bf16";
  prefill.kv_dtype = DType::fp16;
  EXPECT_NE(own_prefill_kernel(prefill, machine.rates(), families), nullptr);
  EXPECT_TRUE(runs_portable_prefill(prefill, machine.rates(), families));
  AttentionDecode decode{1, 8, 8, 128, 128, 4096};
  decode.dtype = decode.kv_dtype = DType::fp16;
  EXPECT_NE(own_decode_kernel(decode, machine.rates(), families), nullptr);
}

/// A copy is of a page's tokens, or of a tile's: with one key more than eight tiles all of the ninth comes.
TEST(OwnDecode, BringsWholeBoxesOfTokens) {
  MachineKey key{"h200_sxm"};
  key.options.stack = "own";
  const Machine h200 = machines().get(key);
  const auto read = [&h200](std::int64_t context, std::int64_t page) {
    return predict(AttentionDecode{128, 32, 8, 128, 128, context, page}, h200).dram_read.in(units::B);
  };
  const double keys = 128.0 * 8 * 2 * 128 * 2;  // bytes of a token of all sequences
  const double beside = read(512, 64) - 512 * keys;
  EXPECT_GT(beside, 0);
  EXPECT_NEAR(read(513, 64) - beside, 576 * keys, keys / 16);  // but for entries of the page table
  EXPECT_NEAR(read(513, 128) - beside, 576 * keys, keys / 16);
  EXPECT_NEAR(read(513, 16) - beside, 528 * keys, keys / 16);
}

/// One tile of 128 x 256 an SM, twice: the second tile's prologue and the first one's drain are hidden.
TEST_F(OnHopper, APersistentGridPaysItsEndsOnce) {
  Calibration c = calibration();
  c.families["own.gemm"]["per_cta_s"].value = 5e-6;
  const auto slow = toy_machine(toy_gpu(), c, KernelSet::own);
  const Gemm one{1280, 256, 6400, 1, {}, false}, two{2560, 256, 6400, 1, {}, false};
  for (const Gemm& shape : {one, two}) {
    EXPECT_NEAR((predict(shape, slow).time - predict(shape, machine).time).in(units::us), 5, 1e-6);
  }
}

/// One token more than a whole tile: of every two tiles one asks L2 for 127 rows outside, at one place for all CTAs. In
/// one wave the requests merge, and in whole tiles there are none.
TEST(OwnPlans, RowsOutsideQueueWhereTilesAreManyAndSomeAreEdges) {
  const auto m = make_machine(load_gpu("h200_sxm"), MachineOptions{"own"});
  const auto outside_clk = [&](std::int64_t tokens, std::int64_t columns, const std::string& clipped = "") {
    const Gemm shape{tokens, columns, 4096, 1, *parse_precision("bf16"), false};
    GemmCache cache;
    const auto plan = parse_gemm_plan("tile=128x128x64 stages=6 splits=1" + clipped + " wgmma");
    const auto choice = price_own_plan(task_of(shape, m), *plan, m.rates(), families_of(m, "own"), cache);
    return choice ? choice->main.outside_clk : -1;
  };
  EXPECT_DOUBLE_EQ(outside_clk(129, 16384), 127.0 / 2 / 10.5);
  EXPECT_DOUBLE_EQ(outside_clk(256, 16384), 0);
  EXPECT_DOUBLE_EQ(outside_clk(129, 4096), 0);
  EXPECT_DOUBLE_EQ(outside_clk(129, 16384, " clipped"), 0);
}

/// A plan says that last tiles are clipped where there are any, and the planner always clips them: it is never slower.
TEST(OwnPlans, LastTilesAskForTheirOwnRows) {
  const auto m = make_machine(load_gpu("h200_sxm"), MachineOptions{"own"});
  for (const std::int64_t tokens : {1, 16, 129, 257, 512, 4096}) {
    const Gemm shape{tokens, 16384, 4096, 1, {}, false};
    const OpPrediction p = predict(shape, m);
    const GemmPlan& plan = p.gemm_plan;
    EXPECT_EQ(plan.clipped, tokens % plan.tile_m != 0 || 16384 % plan.tile_n != 0) << tokens;
    if (!plan.clipped) continue;
    GemmPlan whole = plan;
    whole.clipped = false;
    const OpPrediction other = predict(shape, m, PredictOptions{.gemm_plan = &whole});
    EXPECT_EQ(other.gemm_plan, whole);
    EXPECT_LE(p.time, other.time) << tokens;
  }
}

/// An SM of 100 KB holds one ring of the tiles of which larger SMs hold two or three, and the product of few rows still
/// takes a narrow one.
TEST(OwnPlans, CardsOfSmallSharedMemoryHaveEveryTileOfMmaSync) {
  const auto m = make_machine(load_gpu("l40s"), MachineOptions{"own"});
  const OpPrediction few = predict(Gemm{16, 4096, 4096, 1, {}, false}, m);
  const OpPrediction many = predict(Gemm{4096, 4096, 4096, 1, {}, false}, m);
  EXPECT_EQ(few.gemm_plan.engine, GemmEngine::mma_sync);
  EXPECT_LT(few.gemm_plan.tile_m * few.gemm_plan.tile_n, many.gemm_plan.tile_m * many.gemm_plan.tile_n);
}

/// Rows of 16-bit elements are whole units of a tensor map from multiples of 8 on, in either type.
TEST(OwnPlans, ProductsInFp16TakeTheWgmmaKernelAsThoseInBf16Do) {
  const auto m = make_machine(load_gpu("h200_sxm"), MachineOptions{"own"});
  for (const char* type : {"bf16", "fp16"}) {
    const Gemm shape{72, 20000, 3688, 1, *parse_precision(type), false};
    EXPECT_EQ(predict(shape, m).gemm_plan.engine, GemmEngine::wgmma) << type;
  }
}

}  // namespace
}  // namespace plumbline::own_plans_test
