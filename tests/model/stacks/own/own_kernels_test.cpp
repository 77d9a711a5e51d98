// Plans of our own kernels: what is priced can be launched, and the laws of predictions hold for them too.
#include "model/stacks/own/own_kernels.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>

#include "arch/gpu/gpu.hpp"
#include "model/engine/rates.hpp"
#include "model/machines.hpp"
#include "model/predict.hpp"
#include "model/stacks/common/plan_attention.hpp"
#include "ops/facts/work.hpp"
#include "ops/plan/text.hpp"
#include "tests/support/random_gpu.hpp"

#include "tests/support/planners.hpp"

namespace plumbline::own_kernels_test {
namespace {

using namespace testing_support;

constexpr double kCut = 1 + 2e-4;

/// A card that our kernels run on.
Gpu random_own_gpu() {
  Gpu gpu = random_gpu();
  const Feeding feedings[] = {kAmpere, kHopper, kHopper, kSmallBlackwell};
  feedings[whole_between(0, std::size(feedings) - 1)].apply(gpu);
  gpu.sm.smem = static_cast<double>(whole_between(160, 256)) * units::KiB;
  return gpu;
}

Machine own_machine(const Gpu& gpu, const Calibration& calibration) {
  return toy_machine(gpu, calibration, KernelSet::own);
}

/// An operator that has a kernel of ours on most cards, sizes from one to thousands.
Op random_own_op() {
  const auto dim = [](int most_bits) {
    return *rc::gen::resize(rc::kNominalSize, rc::gen::exec([=] { return random_dim(most_bits); }));
  };
  const std::int64_t width = *rc::gen::element<std::int64_t>(64, 128, 256);
  const std::int64_t kv_heads = whole_between(1, 16), group = whole_between(1, 16);
  switch (whole_between(0, 4)) {
    case 0: return Gemm{dim(13), dim(14), dim(14), 1, {}, false};
    case 1: return Gemm{dim(13), 8 * dim(11), 8 * dim(11), whole_between(1, 3), {}, false};
    case 2: return Gemm{dim(13), 16 * dim(10), 16 * dim(10), 1, *parse_precision("fp8"), false};
    case 3: {
      const std::int64_t queries = dim(12);
      return AttentionPrefill{whole_between(1, 4), kv_heads * group, kv_heads, width, width, queries,
                              queries + dim(12),   coin(),           0,        0};
    }
    default: return AttentionDecode{dim(7), kv_heads * group, kv_heads, width, width, dim(15), coin() ? 16 : 0};
  }
}

void for_random_own_ops(const Machine& machine, const std::function<void(const Op&, const OpPrediction&)>& law) {
  for (int i = 0; i < 30;) {
    const Op op = random_own_op();
    const auto p = try_predict(op, machine);
    if (!p) continue;
    ++i;
    RC_LOG() << describe(op) << ": " << p->time.in(units::us) << " us\n";
    law(op, *p);
  }
}

RC_GTEST_PROP(OwnKernels, EveryGemmPlanIsInTheMenu, ()) {
  const auto m = own_machine(random_own_gpu(), with_own_families(random_calibration()));
  for_random_own_ops(m, [&](const Op& op, const OpPrediction& p) {
    const auto* shape = std::get_if<Gemm>(&op);
    if (shape == nullptr) return;
    const auto engine = own_gemm_engine(*shape, m.rates(), families_of(m, "own"));
    RC_ASSERT((p.provider == "own") == engine.has_value());
    if (!engine) return;
    const GemmPlan& plan = p.gemm_plan;
    RC_ASSERT(plan.engine == *engine);
    const auto menu = own_gemm_menu(*engine, shape->precision.math);
    const auto compiled = std::find_if(menu.begin(), menu.end(), [&](const GemmVariant& v) {
      const auto rows = plan.swapped ? plan.tile_n : plan.tile_m, cols = plan.swapped ? plan.tile_m : plan.tile_n;
      const auto bytes = static_cast<double>(plan.tile_k) * bits(shape->precision.input) / 8;
      return v.rows == rows && v.cols == cols && static_cast<double>(v.step_bytes) == bytes &&
             v.stages == plan.stages && v.cluster == plan.cluster_m * plan.cluster_n &&
             v.ctas_per_sm >= p.launches[0].demand.plan.ctas_per_sm;
    });
    RC_ASSERT(compiled != menu.end());
    const auto splits = own_gemm_splits();
    RC_ASSERT(plan.splits == 0 || std::find(splits.begin(), splits.end(), plan.splits) != splits.end());
    RC_ASSERT(plan.splits * plan.tile_k < shape->k + plan.tile_k);  // no split without a step
    const double slots = m.rates().sm_count * static_cast<double>(p.launches[0].demand.plan.ctas_per_sm);
    if (plan.splits == 0) RC_ASSERT(static_cast<double>(p.launches[0].demand.plan.ctas) <= slots);
    RC_ASSERT(p.launch_count == (*engine == GemmEngine::mma_sync && plan.splits > 1 ? 2 : 1));
    GemmCache cache;
    const auto again = price_own_plan(task_of(*shape, m), plan, m.rates(), families_of(m, "own"), cache);
    RC_ASSERT(again.has_value());
    RC_ASSERT(std::abs((again->total + m.rates().gap_graph) / p.time - 1) < 1e-9);
  });
}

RC_GTEST_PROP(OwnKernels, EveryAttentionPlanIsCompiled, ()) {
  const auto m = own_machine(random_own_gpu(), with_own_families(random_calibration()));
  for_random_own_ops(m, [&](const Op& op, const OpPrediction& p) {
    const AttentionPlan& plan = p.attention_plan;
    if (const auto* shape = std::get_if<AttentionPrefill>(&op)) {
      const PrefillVariant* v = own_prefill_kernel(*shape, m.rates(), families_of(m, "own"));
      const bool portable = v == nullptr && runs_portable_prefill(*shape, m.rates(), families_of(m, "own"));
      RC_ASSERT((v != nullptr || portable) == (p.provider == "own"));
      RC_ASSERT((plan.stages > 0) == portable);
      if (v != nullptr) RC_ASSERT(plan.q_tile == v->q_tile && plan.kv_tile == v->kv_tile);
      if (portable) {
        const auto menu = own_portable_prefill_menu();
        RC_ASSERT(std::any_of(menu.begin(), menu.end(), [&](const PortablePrefillVariant& t) {
          return t.head_dim == shape->qk_dim && t.q_tile == plan.q_tile && t.kv_tile == plan.kv_tile &&
                 t.stages == plan.stages;
        }));
        const OpPrediction again = predict(op, m, PredictOptions{.attention_plan = &plan});
        RC_ASSERT(std::abs(again.time / p.time - 1) < 1e-9);
      }
    } else if (const auto* decode = std::get_if<AttentionDecode>(&op)) {
      const DecodeVariant* v = own_decode_kernel(*decode, m.rates(), families_of(m, "own"));
      RC_ASSERT((v == nullptr) == (p.provider != "own"));
      if (v == nullptr) return;
      RC_ASSERT(plan.kv_tile == v->kv_tile && plan.packed_heads == decode->q_heads / decode->kv_heads);
      RC_ASSERT(plan.splits >= 1 && plan.splits <= std::max<std::int64_t>(1, decode->context / v->kv_tile + 1));
      RC_ASSERT(p.launch_count == (plan.splits > 1 ? 2 : 1));
      RC_ASSERT(p.launches[0].demand.plan.ctas == decode->batch * decode->kv_heads * plan.splits);
    }
  });
}

RC_GTEST_PROP(OwnKernels, NeverBelowTheRoofline, ()) {
  const Gpu gpu = random_own_gpu();
  const auto m = own_machine(gpu, with_own_families(random_calibration()));
  for_random_own_ops(m, [&](const Op& op, const OpPrediction& p) {
    const Work w = work(op);
    Seconds launches;
    for (int i = 0; i < p.launch_count; ++i) launches += p.launches[static_cast<std::size_t>(i)].time.total;
    RC_ASSERT(launches * (1 + 1e-9) >= roofline(op, gpu));
    RC_ASSERT(p.dram_read * (1 + 1e-9) >= w.read && p.dram_write * (1 + 1e-9) >= w.write);
    RC_ASSERT(std::isfinite(p.time.in(units::s)) && p.low <= p.time && p.time <= p.high);
    const OpPrediction warm = predict(op, m, PredictOptions{.warm = true});
    RC_ASSERT(warm.time <= p.time * kCut);
  });
}

RC_GTEST_PROP(OwnKernels, ABetterMachineIsNeverSlower, ()) {
  Gpu gpu = random_own_gpu();
  Calibration calibration = without_regulator(with_own_families(random_calibration()));
  const auto before = own_machine(gpu, calibration);
  const double k = between(1, 4);
  switch (whole_between(0, 6)) {
    case 0: gpu.memory.bandwidth *= k; break;
    case 1: gpu.memory.latency /= k; break;
    case 2: gpu.boost_clock *= k; break;
    case 3: gpu.sm.smem_bytes_per_clk *= k; break;
    case 4:
      gpu.l2.bandwidth *= k;
      gpu.sm.l2_bytes_per_clk *= k;
      break;
    case 5:
      for (std::size_t i = 0; i < kDTypeCount; ++i) gpu.sm.tensor_flop_per_clk[static_cast<DType>(i)] *= k;
      break;
    default: {
      auto& family =
          calibration.families.at(std::string("own.") + kOwnFamilies[whole_between(0, std::size(kOwnFamilies) - 1)]);
      family["fixed_s"].value /= k;
      family["per_cta_s"].value /= k;
      family["step_s"].value /= k;
      family["exposed"].value /= k;
      family["overlap"].value *= k;
    }
  }
  const auto after = own_machine(gpu, calibration);
  for_random_own_ops(before, [&](const Op& op, const OpPrediction& p) {
    const Seconds then = predict(op, after).time;
    RC_LOG() << p.time.in(units::us) << " us -> " << then.in(units::us) << " us\n";
    RC_ASSERT(then <= p.time * kCut);
  });
}

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

/// A split part of mma.sync leaves as fp32, 32 bytes in 1.9 clocks: 128 x 128 take 1.9 x 2048 clocks, of 64 tokens half of them, half as long
/// again where rows of the parts are no whole sectors (N = 516). Ten CTAs have an SM each; two on an SM wait for each other. A step of 32 elements takes 64 bytes of each row, so that it
/// has the family's share of DRAM; one of 64 all of it. Four stages have copies 2.5 steps ahead, three stages of 64 1.75.
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
  EXPECT_DOUBLE_EQ(whole.serial_clk, 1.9 * 2 * 2048);
  EXPECT_DOUBLE_EQ(demand(128, 640, plan).serial_clk, 1.9 * 2048);
  EXPECT_DOUBLE_EQ(demand(64, 640, plan).serial_clk, 1.9 * 1024);
  EXPECT_DOUBLE_EQ(demand(128, 516, plan).serial_clk, 1.9 * 3072);
  EXPECT_DOUBLE_EQ(whole.dram_share, 0.5);
  EXPECT_DOUBLE_EQ(whole.step_latency / m.rates().dram_latency, 1 / 2.5);
  plan.tile_n = 64;
  plan.tile_k = 64;
  plan.stages = 3;
  const Demand lines = demand(128, 6400, plan);
  EXPECT_DOUBLE_EQ(lines.dram_share, 1);
  EXPECT_DOUBLE_EQ(lines.step_latency / m.rates().dram_latency, 1 / 1.75);
}

/// CTAs of mma.sync begin and end together. Twenty on ten SMs ask for 16 KiB each before anything is multiplied, which an L2
/// of 1 TB/s gives in 0.33 us; a result of 128 x 128 is laid into shared memory and read from it (32 KiB twice), once it has been scaled and
/// rounded, and that of the CTA beside it is behind it. 2000 SMs' parts of 64 KiB leave at what
/// L2 takes of all, a third of what it gives.
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
  EXPECT_DOUBLE_EQ(demand(1280, m).serial_clk, staged);
  EXPECT_DOUBLE_EQ(demand(2560, m).serial_clk, 2 * staged);
  Gpu slow = toy_gpu(), wide = toy_gpu();
  slow.l2.bandwidth = 1.0 * units::TB_per_s;
  EXPECT_DOUBLE_EQ(demand(2560, toy_machine(slow, calibration(), KernelSet::own)).start.in(units::us),
                   20 * 16384 / 1e6);
  wide.sm_count = 2000;
  plan.splits = 2;
  EXPECT_DOUBLE_EQ(demand(128000, toy_machine(wide, calibration(), KernelSet::own)).serial_clk,
                   3 * 2000 * 65536 / 10e3);
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

/// Rows of an even number of elements come in pairs: 192 rows of 128 bytes are 192 instructions of a warp, 7.6 clocks each.
TEST_F(OnHopper, PairsOfTheTileOf128By64ByHand) {
  const auto m = toy_machine(toy_gpu(), calibration(), KernelSet::own);
  const auto plan = parse_gemm_plan("tile=64x128x64 stages=3 splits=1 swapped mma");
  const auto demand = [&](std::int64_t k) {
    return predict(Gemm{64, 1280, k, 1, {}, false}, m, PredictOptions{.gemm_plan = &*plan}).launches[0].demand;
  };
  EXPECT_DOUBLE_EQ(demand(6400).pieces_clk, 0);
  EXPECT_NEAR(demand(6402).pieces_clk, 192 * 7.6, 1e-9);
}

/// The reduction of six parts of 64 x 1022: 64 CTAs of 1024 elements, four loads together and two more, 240 instructions of each of
/// eight warps.
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

/// One token more than a whole tile: of every two tiles one asks L2 for 127 rows outside, at one place for all CTAs. In one wave
/// the requests merge, and in whole tiles there are none.
TEST(OwnKernels, RowsOutsideQueueWhereTilesAreManyAndSomeAreEdges) {
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
TEST(OwnKernels, LastTilesAskForTheirOwnRows) {
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

/// An SM of 100 KB holds one ring of the tiles of which larger SMs hold two or three, and the product of few rows still takes a
/// narrow one.
TEST(OwnKernels, CardsOfSmallSharedMemoryHaveEveryTileOfMmaSync) {
  const auto m = make_machine(load_gpu("l40s"), MachineOptions{"own"});
  const OpPrediction few = predict(Gemm{16, 4096, 4096, 1, {}, false}, m);
  const OpPrediction many = predict(Gemm{4096, 4096, 4096, 1, {}, false}, m);
  EXPECT_EQ(few.gemm_plan.engine, GemmEngine::mma_sync);
  EXPECT_LT(few.gemm_plan.tile_m * few.gemm_plan.tile_n, many.gemm_plan.tile_m * many.gemm_plan.tile_n);
}

/// Rows of 16-bit elements are whole units of a tensor map from multiples of 8 on, in either type.
TEST(OwnKernels, ProductsInFp16TakeTheWgmmaKernelAsThoseInBf16Do) {
  const auto m = make_machine(load_gpu("h200_sxm"), MachineOptions{"own"});
  for (const char* type : {"bf16", "fp16"}) {
    const Gemm shape{72, 20000, 3688, 1, *parse_precision(type), false};
    EXPECT_EQ(predict(shape, m).gemm_plan.engine, GemmEngine::wgmma) << type;
  }
}

}  // namespace
}  // namespace plumbline::own_kernels_test
