// The laws of any prediction, over random operators on random machines.
//
// A law is tested on forty operators for each random machine. Where rates are varied, the machine's power regulator is
// off (burst and sustained shares equal) unless the test is about the regulator.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <functional>
#include <string>

#include "ops/facts/work.hpp"
#include "tests/support/random_gpu.hpp"

namespace plumbline::laws_test {
namespace {

using namespace testing_support;

constexpr int kOpsPerMachine = 40;
constexpr double kRounding = 1 + 1e-9;
/// The engine's p-norm leaves out terms that add less than 1e-4 (timing.cpp).
constexpr double kCut = 1 + 2e-4;

/// Runs `law(op, prediction)` for a few operators that `machine` can price.
void for_random_ops(const Machine& machine, const std::function<void(const Op&, const OpPrediction&)>& law) {
  for (int i = 0; i < kOpsPerMachine; ++i) {
    const Op op = random_op_on(machine);
    RC_LOG() << describe(op) << "\n";
    law(op, predict(op, machine));
  }
}

RC_GTEST_PROP(Laws, TimeIsFinitePositiveAndInsideItsBand, ()) {
  const auto m = random_machine();
  for_random_ops(m, [](const Op&, const OpPrediction& p) {
    RC_ASSERT(std::isfinite(p.time.in(units::s)) && p.time > Seconds{});
    RC_ASSERT(p.low > Seconds{} && p.low <= p.time && p.time <= p.high && std::isfinite(p.high.in(units::s)));
    RC_ASSERT(p.limiter_share > 0 && p.limiter_share <= 1);
    RC_ASSERT(p.launch_count > 0);
    Seconds sum;
    for (int i = 0; i < p.launch_count; ++i) {
      sum += p.launches[static_cast<std::size_t>(i)].time.total;
    }
    RC_ASSERT(sum < p.time);  // gaps beside the launches
  });
}

RC_GTEST_PROP(Laws, NeverBelowTheRoofline, ()) {
  const Gpu gpu = random_gpu();
  const Calibration calibration = random_calibration();
  const auto m = toy_machine(gpu, calibration);
  const auto ideal = toy_machine(gpu, calibration, KernelSet::ideal);
  for_random_ops(m, [&](const Op& op, const OpPrediction& p) {
    RC_ASSERT(p.time * kRounding >= roofline(op, gpu));
    RC_ASSERT(p.time * kRounding >= predict(op, ideal).time);
    // without fixed costs and gaps, too: physics alone is not below it
    Seconds launches;
    for (int i = 0; i < p.launch_count; ++i) launches += p.launches[static_cast<std::size_t>(i)].time.total;
    RC_ASSERT(launches * kRounding >= roofline(op, gpu));
  });
}

/// A calibration that costs as little as one can: what is left is the plan's own physics.
Calibration lightest() {
  Calibration c = random_calibration();
  for (const char* name : {"dram_read_fraction", "dram_write_fraction", "tensor_burst_fraction",
                           "tensor_steady_fraction", "l2_bandwidth_fraction", "pcie_fraction"}) {
    c.machine[name].value = 1;
  }
  c.machine["dram_mix_loss_fraction"].value = 0;
  for (auto& [name, scalars] : c.families) {
    scalars["efficiency_fraction"].value = scalars["dram_share_fraction"].value = 1;
    for (const char* cost :
         {"fixed_s", "per_cta_s", "step_s", "step_clk", "start_clk", "merge_clk", "exposed", "in_flight_B"}) {
      scalars[cost].value = 0;
    }
  }
  return c;
}

RC_GTEST_PROP(Laws, NeverBelowTheRooflineEvenWithoutOverheads, ()) {
  const Gpu gpu = random_gpu();
  const auto m = toy_machine(gpu, lightest());
  for_random_ops(m, [&](const Op& op, const OpPrediction& p) {
    Seconds launches;
    for (int i = 0; i < p.launch_count; ++i) launches += p.launches[static_cast<std::size_t>(i)].time.total;
    RC_ASSERT(launches * kRounding >= roofline(op, gpu));
  });
}

RC_GTEST_PROP(Laws, MovesAtLeastTheCompulsoryBytes, ()) {
  const auto m = random_machine();
  for_random_ops(m, [](const Op& op, const OpPrediction& p) {
    const Work w = work(op);
    RC_LOG() << p.dram_read.in(units::B) << " of " << w.read.in(units::B) << " read, " << p.dram_write.in(units::B)
             << " of " << w.write.in(units::B) << " written\n";
    RC_ASSERT(p.dram_read * kRounding >= w.read);
    RC_ASSERT(p.dram_write * kRounding >= w.write);
    RC_ASSERT(std::isfinite(p.dram_bytes().in(units::B)));
    RC_ASSERT(p.flops == w.flops());
  });
}

/// Of kernels that are cut as is cheapest. Libraries' rules go by more than time, so that a better machine may be given
/// another cut that is some percent slower: those are counted (tests/laws), not forbidden.
OpPrediction cut_by_time(const Op& op, const Machine& machine) {
  return predict(op, machine, PredictOptions{.cut_by_time = true});
}

/// Asserts that `changed` is not slower than `before` on random operators.
void assert_never_slower(const Machine& before, const Machine& changed) {
  for_random_ops(before, [&](const Op& op, const OpPrediction&) {
    const Seconds slower = cut_by_time(op, before).time, after = cut_by_time(op, changed).time;
    RC_LOG() << slower.in(units::us) << " us -> " << after.in(units::us) << " us\n";
    RC_ASSERT(after <= slower * kCut);
  });
}

/// A better machine is never slower: `improve` makes one descriptor or calibration number better by a random factor.
void assert_improvement(const std::function<void(Gpu&, Calibration&, double)>& improve) {
  Gpu gpu = random_gpu();
  Calibration calibration = without_regulator(random_calibration());
  const auto before = toy_machine(gpu, calibration);
  improve(gpu, calibration, between(1, 4));
  assert_never_slower(before, toy_machine(gpu, calibration));
}

RC_GTEST_PROP(MoreIsNeverSlower, DramBandwidth, ()) {
  assert_improvement([](Gpu& gpu, Calibration&, double k) { gpu.memory.bandwidth *= k; });
}

RC_GTEST_PROP(MoreIsNeverSlower, L2Bandwidth, ()) {
  assert_improvement([](Gpu& gpu, Calibration&, double k) {
    gpu.l2.bandwidth *= k;
    gpu.sm.l2_bytes_per_clk *= k;
  });
}

RC_GTEST_PROP(MoreIsNeverSlower, L2Size, ()) {
  assert_improvement([](Gpu& gpu, Calibration&, double k) { gpu.l2.size *= k; });
}

RC_GTEST_PROP(MoreIsNeverSlower, SharedMemoryBandwidth, ()) {
  assert_improvement([](Gpu& gpu, Calibration&, double k) { gpu.sm.smem_bytes_per_clk *= k; });
}

RC_GTEST_PROP(MoreIsNeverSlower, TensorRate, ()) {
  assert_improvement([](Gpu& gpu, Calibration&, double k) {
    for (std::size_t i = 0; i < kDTypeCount; ++i) gpu.sm.tensor_flop_per_clk[static_cast<DType>(i)] *= k;
  });
}

RC_GTEST_PROP(MoreIsNeverSlower, Fp32Rate, ()) {
  assert_improvement([](Gpu& gpu, Calibration&, double k) {
    gpu.sm.fp32_flop_per_clk *= k;
    gpu.sm.fp64_flop_per_clk *= k;
  });
}

RC_GTEST_PROP(MoreIsNeverSlower, SfuAndIssueRates, ()) {
  assert_improvement([](Gpu& gpu, Calibration&, double k) {
    gpu.sm.sfu_op_per_clk *= k;
    gpu.sm.issue_per_clk *= k;
  });
}

RC_GTEST_PROP(MoreIsNeverSlower, SmClock, ()) {
  assert_improvement([](Gpu& gpu, Calibration&, double k) { gpu.boost_clock *= k; });
}

/// With the regulator on, a faster memory makes dense work a larger part of a launch; what that costs in clock must not
/// eat up the gain.
RC_GTEST_PROP(MoreIsNeverSlower, DramBandwidthUnderTheRegulator, ()) {
  Gpu gpu = random_gpu();
  const Calibration calibration = random_calibration();
  const auto before = toy_machine(gpu, calibration);
  gpu.memory.bandwidth *= between(1, 4);
  assert_never_slower(before, toy_machine(gpu, calibration));
}

RC_GTEST_PROP(MoreIsNeverSlower, TensorRateUnderTheRegulator, ()) {
  Gpu gpu = random_gpu();
  const Calibration calibration = random_calibration();
  const auto before = toy_machine(gpu, calibration);
  const double k = between(1, 4);
  for (std::size_t i = 0; i < kDTypeCount; ++i) gpu.sm.tensor_flop_per_clk[static_cast<DType>(i)] *= k;
  assert_never_slower(before, toy_machine(gpu, calibration));
}

/// The same walked in steps of 2 %, with dense operators long enough for the regulator to act: wherever it begins
/// to act there must be no jump.
RC_GTEST_PROP(MoreIsNeverSlower, NowhereOnTheWayToAFasterMemory, ()) {
  Gpu gpu = random_gpu();
  const Calibration calibration = random_calibration();
  const std::int64_t tokens = whole_between(1, 1024), width = 1024 * whole_between(4, 16);
  const Op op = coin() ? Op(Gemm{tokens, width, width, 4, {}, false})
                       : Op(AttentionPrefill{4, 32, 8, 128, 128, tokens, 8192, true, 0, 0});
  Seconds slower = cut_by_time(op, toy_machine(gpu, calibration)).time;
#ifdef PLUMBLINE_SANITIZED
  constexpr double kStep = 1.2;  // the same code at 22 points instead of 198
#else
  constexpr double kStep = 1.02;
#endif
  for (gpu.memory.bandwidth = 0.2 * units::TB_per_s; gpu.memory.bandwidth < 10.0 * units::TB_per_s;
       gpu.memory.bandwidth *= kStep) {
    gpu.l2.bandwidth = std::max(gpu.l2.bandwidth, gpu.memory.bandwidth);
    const OpPrediction p = cut_by_time(op, toy_machine(gpu, calibration));
    if (gpu.memory.bandwidth > 0.2 * units::TB_per_s) {
      RC_LOG() << describe(op) << " at " << gpu.memory.bandwidth.in(units::TB_per_s)
               << " TB/s: " << slower.in(units::us) << " us -> " << p.time.in(units::us) << " us, tensor "
               << p.launches[0].time.by_resource[Resource::tensor] / p.launches[0].time.total << " of the launch\n";
      RC_ASSERT(p.time <= slower * kCut);
    }
    slower = p.time;
  }
}

RC_GTEST_PROP(MoreIsNeverSlower, PcieBandwidth, ()) {
  assert_improvement([](Gpu& gpu, Calibration&, double k) { gpu.links.pcie_per_direction *= k; });
}

RC_GTEST_PROP(MoreIsNeverSlower, ShorterDramLatency, ()) {
  assert_improvement([](Gpu& gpu, Calibration&, double k) { gpu.memory.latency /= k; });
}

RC_GTEST_PROP(MoreIsNeverSlower, ShorterL2Latency, ()) {
  assert_improvement([](Gpu& gpu, Calibration&, double k) { gpu.l2.latency /= k; });
}

/// Every scalar of the calibration, one at a time, moved to its better side.
RC_GTEST_PROP(MoreIsNeverSlower, AnyBetterCalibrationScalar, ()) {
  const Gpu gpu = random_gpu();
  Calibration calibration = without_regulator(random_calibration());
  const auto before = toy_machine(gpu, calibration);
  const std::string family = std::string("library.") + kFamilies[whole_between(0, 9)];
  const double k = between(0, 1);
  auto& f = calibration.families.at(family);
  switch (whole_between(0, 14)) {
    case 0: f["fixed_s"].value *= k; break;
    case 1: f["per_cta_s"].value *= k; break;
    case 2: f["step_s"].value *= k; break;
    case 3: f["exposed"].value *= k; break;
    case 4: f["overlap"].value /= std::max(k, 0.1); break;
    case 5: f["efficiency_fraction"].value += (1 - f["efficiency_fraction"].value) * k; break;
    case 6: f["in_flight_B"].value *= 1 + k; break;
    case 7: calibration.machine["gap_graph_s"].value *= k; break;
    case 8: f["dram_share_fraction"].value += (1 - f["dram_share_fraction"].value) * k; break;
    case 9: calibration.machine["dram_mix_loss_fraction"].value *= k; break;
    case 11: f["step_clk"].value *= k; break;
    case 12: f["start_clk"].value *= k; break;
    case 13: f["merge_clk"].value *= k; break;
    case 10: {
      auto& fraction = calibration.machine[coin() ? "dram_read_fraction" : "dram_write_fraction"].value;
      fraction += (1 - fraction) * k;
      break;
    }
    default: {
      auto& share = calibration.machine["tensor_burst_fraction"].value;
      share += (1 - share) * k;
      calibration.machine["tensor_steady_fraction"].value = share;
    }
  }
  assert_never_slower(before, toy_machine(gpu, calibration));
}

/// All rates times k, all times over k. Sizes stay.
void speed_up(Gpu& gpu, Calibration& calibration, double k) {
  gpu.base_clock *= k;
  gpu.boost_clock *= k;
  gpu.memory.bandwidth *= k;
  gpu.memory.latency /= k;
  gpu.l2.bandwidth *= k;
  gpu.l2.latency /= k;
  gpu.links.nvlink_per_direction *= k;
  gpu.links.pcie_per_direction *= k;
  const auto shorten = [k](std::map<std::string, Scalar>& scalars) {
    for (auto& [name, scalar] : scalars) {
      if (name.size() > 2 && name.substr(name.size() - 2) == "_s") scalar.value /= k;
    }
  };
  shorten(calibration.machine);
  for (auto& [name, scalars] : calibration.families) shorten(scalars);
}

bool close(Seconds a, Seconds b) { return std::abs((a - b).in(units::s)) <= 1e-9 * std::max(a, b).in(units::s); }

RC_GTEST_PROP(Laws, AllRatesTwiceAndAllLatenciesHalfIsHalfTheTime, ()) {
  Gpu gpu = random_gpu();
  Calibration calibration = random_calibration();
  const auto before = toy_machine(gpu, calibration);
  const double k = coin() ? 2 : between(0.3, 3);
  speed_up(gpu, calibration, k);
  const auto after = toy_machine(gpu, calibration);
  for_random_ops(before, [&](const Op& op, const OpPrediction& p) {
    const OpPrediction q = predict(op, after);
    RC_LOG() << k << " x: " << p.time.in(units::us) << " us -> " << q.time.in(units::us) << " us\n";
    RC_ASSERT(close(q.time * k, p.time));
    RC_ASSERT(close(roofline(op, after.gpu()) * k, roofline(op, before.gpu())));
  });
}

/// Long dense work sinks the clock: burst pricing lies between what the burst share and what the steady share give.
RC_GTEST_PROP(Laws, TheRegulatorOnlySlowsAndNeverBelowSteady, ()) {
  const Gpu gpu = random_gpu();
  const Calibration calibration = random_calibration();
  const auto burst = toy_machine(gpu, without_regulator(calibration));
  const auto real = toy_machine(gpu, calibration);
  MachineOptions steady{"trt-llm", ClockMode::steady, std::nullopt};
  const auto sunk = make_machine(gpu, calibration, steady);
  for_random_ops(real, [&](const Op& op, const OpPrediction& p) {
    RC_ASSERT(p.time * kCut >= predict(op, burst).time);
    // the plan is chosen at the burst share, so it may be second best at the steady one, but not first
    RC_ASSERT(real.rates().tensor_fraction >= sunk.rates().tensor_fraction);
    if (p.launch_count == 1 && p.gemm_plan.tile_m == 0) RC_ASSERT(p.time <= predict(op, sunk).time * kCut);
  });
}

/// What L2 holds from one run of an operator to the next, where lines may have a copy in each of its partitions: of a
/// library's GEMM what was measured, of others what is left if all have.
Bytes held_from_run_to_run(const Op& op, const Rates& m) {
  return std::holds_alternative<Gemm>(op) ? m.l2_held() : m.l2_kept;
}

/// Operands that L2 holds cost no DRAM traffic and no time more; those that it cannot hold change nothing.
RC_GTEST_PROP(Laws, WarmIsNeverSlower, ()) {
  const auto m = random_machine();
  for_random_ops(m, [&](const Op& op, const OpPrediction& cold) {
    const OpPrediction warm = predict(op, m, PredictOptions{.warm = true});
    RC_LOG() << cold.time.in(units::us) << " us cold, " << warm.time.in(units::us) << " us warm\n";
    RC_ASSERT(warm.time <= cold.time * kCut);
    RC_ASSERT(warm.gemm_plan.tile_m == cold.gemm_plan.tile_m && warm.gemm_plan.splits == cold.gemm_plan.splits);
    // partial sums that L2 does not hold are written to DRAM and read back, however warm the operands are
    const bool spills = warm.dram_write > m.rates().l2_capacity && warm.dram_read == warm.dram_write;
    if (std::holds_alternative<AttentionDecode>(op)) {  // of a library: as much as L2 still holds
      RC_ASSERT(warm.dram_bytes() <= cold.dram_bytes());
      const bool all = m.rates().still_held(2.0 * (cold.dram_bytes() + work(op).bytes())) >= 1;
      RC_ASSERT(!all || spills || warm.dram_bytes() == Bytes{});
    } else if (std::holds_alternative<Gemm>(op)) {
      if (work(op).bytes() <= held_from_run_to_run(op, m.rates())) {
        RC_ASSERT(spills || warm.dram_bytes() == Bytes{});
      } else {
        RC_ASSERT(warm.time == cold.time);
      }
    }
  });
}

/// A prediction is a function of the operator and the machine: nothing kept between calls may leak into it.
RC_GTEST_PROP(Laws, TheSameQuestionHasTheSameAnswer, ()) {
  const Gpu gpu = random_gpu();
  const Calibration calibration = random_calibration();
  const auto m = toy_machine(gpu, calibration), other = random_machine(), twin = toy_machine(gpu, calibration);
  OpPrediction reused;
  Predictor predictor;
  for_random_ops(m, [&](const Op& op, const OpPrediction& p) {
    (void)try_predict(op, other);
    predictor.predict(op, twin, reused);
    RC_ASSERT(reused.time == p.time && reused.low == p.low && reused.high == p.high);
    RC_ASSERT(reused.dram_read == p.dram_read && reused.dram_write == p.dram_write);
    RC_ASSERT(reused.launch_count == p.launch_count && reused.limiter == p.limiter && reused.bound == p.bound);
  });
}

/// The own kernels have no scalars on file here: they are priced as the library's and say so.
/// ... cut by our planner where the library has a rule.
RC_GTEST_PROP(Laws, UnmeasuredOwnKernelsArePricedAsTheLibrary, ()) {
  const Gpu gpu = random_gpu();
  const Calibration calibration = random_calibration();
  const auto library = toy_machine(gpu, calibration), own = toy_machine(gpu, calibration, KernelSet::own);
  for_random_ops(library, [&](const Op& op, const OpPrediction& p) {
    if (const auto* prefill = std::get_if<AttentionPrefill>(&op); prefill && prefill->append < 0) return;
    const OpPrediction q = predict(op, own);
    const OpPrediction by_time = predict(op, library, PredictOptions{.cut_by_time = true});
    if (by_time.provider == "trtllm_products") return;  // kernels for a few rows, which stand in for none of ours
    RC_ASSERT(q.time == by_time.time);
    RC_ASSERT(q.time <= p.time * kCut || std::holds_alternative<AttentionDecode>(op) ||
              std::holds_alternative<MlaDecode>(op));  // not every count of parts is tried
    RC_ASSERT(q.provider != "own");
  });
}

}  // namespace
}  // namespace plumbline::laws_test
