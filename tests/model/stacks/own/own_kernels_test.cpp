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

}  // namespace
}  // namespace plumbline::own_kernels_test
