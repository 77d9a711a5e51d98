// Power, energy and clock: by hand on the toy GPU, and the laws on random machines.
#include "model/engine/power.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>

#include "model/machines.hpp"
#include "model/report/power_trace.hpp"
#include "ops/llm/llm.hpp"
#include "tests/support/random_gpu.hpp"

namespace plumbline::power_test {
namespace {

using namespace testing_support;

void set(Calibration& c, const char* name, double value) { c.power[name] = Scalar{value, "a round number"}; }

/// 20 W, 10 W of clocks; 2 pJ a FLOP, 20 pJ a DRAM byte; the voltage falls from 1 at boost to 0.5 at half of it.
Calibration powered(Calibration c = toy_calibration()) {
  for (const char* name : {"fp32_J_per_FLOP", "sfu_J", "instruction_J", "smem_J_per_B", "l2_J_per_B"}) set(c, name, 0);
  set(c, "constant_W", 20);
  set(c, "clocked_W", 10);
  set(c, "tensor_bf16_J_per_FLOP", 2e-12);
  set(c, "dram_read_J_per_B", 20e-12);
  set(c, "dram_write_J_per_B", 20e-12);
  set(c, "knee_fraction", 0.5);
  set(c, "floor_voltage_fraction", 0.5);
  set(c, "tensor_toggle_zeros", 0.5);
  set(c, "move_toggle_zeros", 0.75);
  return c;
}

Machine machine_with(ClockMode clock, double cap_W, const Calibration& c = powered(), const Gpu& gpu = toy_gpu(),
                     DataPattern data = DataPattern::normal) {
  if (clock == ClockMode::burst) return make_machine(gpu, c, MachineOptions{"trt-llm", clock, {}, data});
  return make_machine(gpu, c, MachineOptions{"trt-llm", clock, cap_W * units::W, data});
}

const Op kCopy = Transfer{TransferKind::d2d, 1'000'000'000};
const Op kCube = Gemm{8192, 8192, 8192, 1, {}, false};

TEST(Power, ACopyTakesWhatItsBytesTake) {
  const OpPrediction p = predict(kCopy, machine_with(ClockMode::steady, 100));
  // 2 GB x 20 pJ, and 30 W for as long as it lasts
  EXPECT_NEAR(p.energy->in(units::J), 0.04 + 30 * p.time.in(units::s), 1e-9);
  EXPECT_NEAR(p.power->in(units::W), 30 + 0.04 / p.time.in(units::s), 1e-6);
  EXPECT_DOUBLE_EQ(p.clock.in(units::GHz), 1);
  const OpPrediction zeros =
      predict(kCopy, machine_with(ClockMode::steady, 100, powered(), toy_gpu(), DataPattern::zeros));
  EXPECT_NEAR(zeros.energy->in(units::J), 0.03 + 30 * zeros.time.in(units::s), 1e-9);
}

/// A step of 1000 CTAs of 10 clocks on lanes of the toy GPU; 2 pJ for each FLOP of a product of normal data, half of it for
/// ternary data, half way from zeros here, none for zeros. What is no product takes none of it.
TEST(Power, ProductsOnLanesTakeWhatTheirDataChange) {
  Calibration c = powered();
  set(c, "lane_product_J_per_FLOP", 2e-12);
  set(c, "tensor_toggle_ternary", 0.75);
  const PowerScalars p = *read_power_scalars(c);
  StreamingMultiprocessor sm = toy_gpu().sm;
  sm.tensor_flop_per_clk[DType::fp32] = 0;
  Demand d;
  d.plan.ctas = 1000;
  d.plan.steps = 1;
  d.fp32_clk = 10;
  const double flops = 10'000 * sm.fp32_flop_per_clk;
  const auto joules = [&](Flops product, DataPattern data) {
    return energy_of(activity(d, product, DType::fp32, sm), DType::fp32, p, data).chip.in(units::J);
  };
  EXPECT_NEAR(joules(flops * units::FLOP, DataPattern::normal), 2e-12 * flops, 1e-18);
  EXPECT_NEAR(joules(flops * units::FLOP, DataPattern::ternary), 1e-12 * flops, 1e-18);
  EXPECT_EQ(joules(flops * units::FLOP, DataPattern::zeros), 0);
  EXPECT_EQ(joules(Flops{}, DataPattern::normal), 0);
}

TEST(Power, HalfsTakeWhatTheirBitsTakeToMove) {
  const PowerScalars p = *read_power_scalars(powered());
  Activity work;
  work.dram_read = 1e9 * units::B;
  const auto joules = [&](DType math, DataPattern data) { return energy_of(work, math, p, data).memory.in(units::J); };
  EXPECT_NEAR(joules(DType::bf16, DataPattern::normal), 0.02, 1e-12);
  // a quarter of it goes with the bits that differ: 6.86 in place of 5.63
  EXPECT_NEAR(joules(DType::fp16, DataPattern::normal), 0.02 * (0.75 + 0.25 * 6.86 / 5.63), 1e-12);
  EXPECT_NEAR(joules(DType::fp16, DataPattern::zeros), 0.015, 1e-12);
}

TEST(Power, DenseWorkSinksToTheClockThatTheCapLeaves) {
  const OpPrediction burst = predict(kCube, machine_with(ClockMode::burst, 35));
  const OpPrediction steady = predict(kCube, machine_with(ClockMode::steady, 35));
  // 2 x 8192^3 FLOP in 10 TFLOP/s: 20 W beside the standing 30, so the cap of 35 W acts
  EXPECT_NEAR(burst.power->in(units::W), 50, 1.5);
  EXPECT_DOUBLE_EQ(burst.clock.in(units::GHz), 1);
  EXPECT_LE(steady.power->in(units::W), 35);
  EXPECT_GT(steady.power->in(units::W), 34.9);
  EXPECT_GT(steady.time, burst.time);
  // all but 20 W goes with f v(f), v = f^2 above half the clock: 15 W of about 30 are left at f = 0.5^(1/3)
  EXPECT_NEAR(steady.clock.in(units::GHz), std::cbrt(15 / (burst.power->in(units::W)-20)), 0.01);
}

TEST(Power, BelowTheKneeTheVoltageIsFlat) {
  const PowerScalars p = *read_power_scalars(powered());
  EXPECT_DOUBLE_EQ(voltage_squared(p, 1), 1);
  EXPECT_DOUBLE_EQ(voltage_squared(p, 0.75), 0.75 * 0.75);
  EXPECT_DOUBLE_EQ(voltage_squared(p, 0.5), 0.25);
  EXPECT_DOUBLE_EQ(voltage_squared(p, 0.3), 0.25);
}

TEST(Power, TensorWorkSkipsCycles) {
  Calibration c = powered();
  set(c, "droop_ratio", 0.1);
  const OpPrediction usual = predict(kCube, machine_with(ClockMode::burst, 100, c));
  EXPECT_NEAR(usual.clock.in(units::GHz), 0.9, 1e-3);
  EXPECT_DOUBLE_EQ(predict(kCopy, machine_with(ClockMode::burst, 100, c)).clock.in(units::GHz), 1);
  // beyond 40 W a hundredth of the cycles for each watt more: the load line meets the power at what is left
  set(c, "droop_ratio_per_W", 0.01);
  set(c, "droop_from_W", 40);
  const OpPrediction more = predict(kCube, machine_with(ClockMode::burst, 100, c));
  EXPECT_LT(more.clock, usual.clock);
  EXPECT_NEAR(more.clock.in(units::GHz), 0.9 - 0.01 * (more.power->in(units::W)-40), 2e-3);
}

/// 20 W of tensor work at boost, counted as 20 W whatever the data holds; with a limit of 10 W, f v(f) = f^3 = 1/2.
TEST(Power, TensorWorkIsLimitedAsCountedWhateverTheData) {
  Calibration c = powered();
  set(c, "tensor_limit_W", 10);
  for (const DataPattern data : {DataPattern::normal, DataPattern::zeros}) {
    const OpPrediction p = predict(kCube, machine_with(ClockMode::steady, 1000, c, toy_gpu(), data));
    EXPECT_NEAR(p.clock.in(units::GHz), std::cbrt(0.5), 0.01);
    EXPECT_LT(p.power->in(units::W), 45);
  }
  EXPECT_DOUBLE_EQ(predict(kCopy, machine_with(ClockMode::steady, 1000, c)).clock.in(units::GHz), 1);
  EXPECT_DOUBLE_EQ(predict(kCube, machine_with(ClockMode::burst, 1000, c)).clock.in(units::GHz), 1);
}

TEST(Power, BandsAreOfTheRegulatorOfFreeRunsAndOfBriefOnes) {
  Calibration c = powered();
  set(c, "band_held_down_low", std::log(0.98));
  set(c, "band_held_down_high", std::log(1.02));
  set(c, "band_free_low", std::log(0.9));
  set(c, "band_free_high", std::log(1.2));
  const OpPrediction held = predict(kCube, machine_with(ClockMode::steady, 35, c));
  EXPECT_NEAR(*held.power_low / *held.power, 0.98, 1e-9);
  EXPECT_NEAR(*held.power_high / *held.power, 1.02, 1e-9);
  const OpPrediction free = predict(kCopy, machine_with(ClockMode::steady, 1000, c));
  EXPECT_NEAR(*free.power_low / *free.power, 0.9, 1e-9);
  EXPECT_NEAR(*free.power_high / *free.power, 1.2, 1e-9);
  // energy: ln 1.2 and ln 1.1 in quadrature
  const EnergyBand band = energy_band(100.0 * units::J, 10.0 * units::W, 9.0 * units::W, 12.0 * units::W,
                                      10.0 * units::s, 10.0 * units::s, 11.0 * units::s);
  EXPECT_NEAR(band.high.in(units::J), 100 * std::exp(std::hypot(std::log(1.2), std::log(1.1))), 1e-9);
  EXPECT_NEAR(band.low.in(units::J), 90, 1e-9);
}

/// A chip whose boost clock is set to 0.8 takes at a share of it what it took at 0.8 of that share.
TEST(Power, ANewBoostClockKeepsVoltageOverFrequency) {
  Calibration c = powered();
  set(c, "boost_clock_Hz", toy_gpu().boost_clock.in(units::Hz));
  set(c, "memory_supply_fraction", 0.25);
  const PowerScalars p = *read_power_scalars(c), slow_chip = at_boost(p, 0.8);
  for (const double share : {0.3, 0.7, 1.0}) {
    const double v = voltage_squared(p, 0.8 * share), w = voltage_squared(slow_chip, share);
    EXPECT_NEAR(slow_chip.tensor[DType::bf16] * w / (p.tensor[DType::bf16] * v), 1, 1e-9);
    EXPECT_NEAR(slow_chip.memory_supply * slow_chip.dram_read / (p.memory_supply * p.dram_read), 1, 1e-9);
    EXPECT_NEAR(slow_chip.clocked * share * w / (p.clocked * 0.8 * share * v), 1, 1e-9);
  }
  Gpu slow = toy_gpu();
  slow.boost_clock = 0.8 * slow.boost_clock;
  const auto machine = make_machine(slow, c, MachineOptions{"trt-llm", ClockMode::burst, {}, {}});
  EXPECT_NEAR(machine.rates().power->tensor[DType::bf16] / p.tensor[DType::bf16], 0.64, 1e-9);
}

/// The same chip at a lower boost clock: the energies of the lower voltage. Another process: more of it.
TEST(Power, EnergiesOfOtherCardsGoByVoltageAndProcess) {
  const PowerScalars p = *read_power_scalars(powered());  // the voltage goes with f above half the clock
  Gpu from = toy_gpu(), to = toy_gpu();
  to.boost_clock = 0.75 * from.boost_clock;
  to.idle_power = 15.0 * units::W;
  PowerScalars scaled = scaled_to(p, from, to, 1);
  EXPECT_NEAR(scaled.tensor[DType::bf16] / p.tensor[DType::bf16], 0.75 * 0.75, 1e-9);
  EXPECT_NEAR(scaled.dram_read / p.dram_read, 1, 1e-9);
  EXPECT_NEAR(settled_power(scaled, kLowestClockShare, Watts{}).in(units::W), 15, 1e-9);
  EXPECT_NEAR(scaled_to(p, from, to, 1.43).tensor[DType::bf16] / p.tensor[DType::bf16], 1.43 * 0.75 * 0.75, 1e-9);
  EXPECT_LT(scaled.free.low, p.free.low);
  EXPECT_GT(scaled.free.high, p.free.high);
}

/// A board of twice the cap has twice the chip: it skips cycles from twice the power on, half as many a watt.
TEST(Power, WhatBelongsToTheWholeBoardGoesByTheCap) {
  PowerScalars p = *read_power_scalars(powered());
  p.skipped_more_from = 40.0 * units::W;
  p.skipped_per_W = 0.002;
  p.tensor_limit = 60.0 * units::W;
  Gpu from = toy_gpu(), to = toy_gpu();
  to.tdp = 2.0 * from.tdp;
  to.sm_count = 2 * from.sm_count;
  const PowerScalars scaled = scaled_to(p, from, to, 1);
  EXPECT_NEAR(scaled.skipped_more_from.in(units::W), 80, 1e-9);
  EXPECT_NEAR(scaled.skipped_per_W, 0.001, 1e-12);
  EXPECT_NEAR(scaled.tensor_limit.in(units::W), 120, 1e-9);
}

/// The same chip under another cap stands and waits at the same power; on another process it is another chip.
TEST(Power, TheSameChipUnderAnotherCapTakesWhatItTakes) {
  const PowerScalars p = *read_power_scalars(powered());
  Gpu from = toy_gpu(), to = toy_gpu();
  to.tdp = 0.5 * from.tdp;
  const PowerScalars scaled = scaled_to(p, from, to, 1);
  EXPECT_EQ(scaled.clocked, p.clocked);
  EXPECT_EQ(scaled.skipped_more_from, p.skipped_more_from);
  EXPECT_NEAR(scaled_to(p, from, to, 1.43).clocked / p.clocked, 0.5, 1e-9);
}

TEST(Power, LeakageFollowsTheTemperature) {
  Calibration c = powered();
  set(c, "leakage_W_per_K", 0.5);
  set(c, "reference_C", 50);
  set(c, "cool_C", 30);
  set(c, "thermal_K_per_W", 1);
  const PowerScalars p = *read_power_scalars(c);
  // P = 30 + 30 + 0.5 (30 + P - 50): 100 W
  EXPECT_NEAR(settled_power(p, 1, 30.0 * units::W).in(units::W), 100, 1e-9);
}

TEST(Power, WarpsPollWhileTheTensorUnitsOfTheirSMsRest) {
  Demand d;
  d.plan.ctas = 33;
  d.plan.steps = 10;
  d.tensor_clk = 100;
  const auto us = [&](double time_us) { return polled(d, time_us * units::us, 132, 1.0 * units::GHz).in(units::us); };
  EXPECT_EQ(us(10), 0) << "such warps do not poll";
  d.polls = true;
  // a quarter of the SMs for 10 us, less 33 x 10 x 100 clocks on 132 SMs: 0.25 us
  EXPECT_NEAR(us(10), 2.25, 1e-9);
  EXPECT_EQ(us(0.5), 0);
  PowerScalars p = *read_power_scalars(powered());
  p.polling = 40.0 * units::W;
  Activity work;
  work.polling = 2.25 * units::us;
  EXPECT_NEAR(energy_of(work, DType::bf16, p, DataPattern::zeros).chip.in(units::J), 90e-6, 1e-12);
}

/// Whatever the energies, more of any work never takes less.
RC_GTEST_PROP(PowerLaws, MoreWorkTakesMoreEnergy, ()) {
  PowerScalars p = *read_power_scalars(powered());
  p.smem = between(0, 5) * 1e-12 * (units::J / units::B);
  p.l2 = between(0, 50) * 1e-12 * (units::J / units::B);
  p.polling = between(0, 60) * units::W;
  Activity some;
  some.tensor = between(0, 1e12) * units::FLOP;
  some.smem = between(0, 1e10) * units::B;
  some.l2 = between(0, 1e10) * units::B;
  some.dram_read = between(0, 1e9) * units::B;
  some.dram_write = between(0, 1e9) * units::B;
  some.polling = between(0, 1e-3) * units::s;
  Activity more = some;
  more.tensor *= between(1, 2);
  more.smem *= between(1, 2);
  more.l2 *= between(1, 2);
  more.dram_read *= between(1, 2);
  more.dram_write *= between(1, 2);
  more.polling *= between(1, 2);
  const LaunchEnergy less = energy_of(some, DType::bf16, p, DataPattern::normal),
                     all = energy_of(more, DType::bf16, p, DataPattern::normal);
  RC_ASSERT(all.chip >= less.chip && all.memory >= less.memory);
}

TEST(Power, NothingIsSaidOfACardWithoutEnergies) {
  const auto m = make_machine(toy_gpu(), toy_calibration(), MachineOptions{"trt-llm", ClockMode::steady, {}, {}});
  EXPECT_FALSE(predict(kCube, m).power.has_value());
  MachineOptions zeros{"trt-llm", ClockMode::steady, {}, DataPattern::zeros};
  EXPECT_THROW(make_machine(toy_gpu(), toy_calibration(), zeros), NotModelled);
}

TEST(Power, ACapBelowTheIdleChipIsRefused) { EXPECT_THROW(machine_with(ClockMode::steady, 15), BadInput); }

/// Scalars within about three times of what cards take.
Calibration random_power() {
  Calibration c = powered(random_calibration());
  // the share of a regulator that acts within a burst of library kernels is another law's
  c.machine["regulator_lag_s"].value = 0;
  set(c, "constant_W", between(10, 30));
  set(c, "clocked_W", between(1, 15));
  set(c, "tensor_bf16_J_per_FLOP", between(0.1, 20) * 1e-12);
  set(c, "fp32_J_per_FLOP", between(0, 30) * 1e-12);
  set(c, "l2_J_per_B", between(0, 50) * 1e-12);
  set(c, "knee_fraction", between(0.3, 0.9));
  set(c, "floor_voltage_fraction", between(0.5, 1));
  set(c, "droop_ratio", between(0, 0.1));
  set(c, "droop_ratio_per_W", between(0, 0.002));
  set(c, "droop_from_W", between(50, 500));
  set(c, "leakage_W_per_K", between(0, 0.3));
  set(c, "cool_C", between(20, 50));
  set(c, "thermal_K_per_W", between(0, 0.1));
  return c;
}

/// What the chip takes at its lowest clock even so: DRAM in full flow is not slowed by it.
constexpr double kAnyWork_W = 400;

RC_GTEST_PROP(PowerLaws, BetweenIdleAndTheCapAndEnergyIsTheirProductWithTime, ()) {
  const Gpu gpu = random_gpu();
  const Calibration c = random_power();
  const double cap = kAnyWork_W + between(0, 400);
  const auto m = machine_with(ClockMode::steady, cap, c, gpu);
  const auto burst = machine_with(ClockMode::burst, cap, c, gpu);
  for (int i = 0; i < 20; ++i) {
    const Op op = random_op_on(m);
    const OpPrediction p = predict(op, m), fast = predict(op, burst);
    RC_ASSERT(p.power && p.energy);
    RC_ASSERT(*p.power <= m.rates().power_cap * (1 + 1e-6) ||
              p.clock <= gpu.boost_clock * kLowestClockShare * (1 + 1e-9));
    RC_ASSERT(*p.power > settled_power(*m.rates().power, kLowestClockShare, Watts{}));
    RC_ASSERT(*p.power_low <= *p.power && *p.power <= *p.power_high);
    RC_ASSERT(std::abs(*p.energy / (*p.power * p.time) - 1) < 1e-12);
    RC_ASSERT(p.clock <= gpu.boost_clock * (1 + 1e-12) && p.clock > Hertz{});
    // (beyond the load line's start, the lower voltage of a steady run can leave more cycles)
    RC_ASSERT(p.time * (1 + 1e-3) >= fast.time || *fast.power > m.rates().power->skipped_more_from);
    RC_ASSERT(p.low <= p.time && p.time <= p.high);
  }
}

/// The first guess is that of 22 halvings between the lowest and the boost clock, as if all of the time were cycles: how
/// it is found does not show.
RC_GTEST_PROP(ClockSearches, GuessWhereHalvingsEnd, ()) {
  const PowerScalars p = *read_power_scalars(random_power());
  const RunEnergy run{between(0.01, 1) * units::J, between(0, 0.5) * units::J, between(0, 0.5) * units::J};
  const Seconds time = between(1, 5) * units::ms;
  const Watts cap = between(0.2, 0.99) * run_power(p, 1, run, time);
  double low = kLowestClockShare, high = 1;
  for (int i = 0; i < 22; ++i) {
    const double middle = 0.5 * (low + high);
    const Seconds there = std::exp(std::log(time.in(units::s)) - std::log(middle)) * units::s;
    (binding_power(p, cap, run, middle, there) > 0.9998 * cap ? high : low) = middle;
  }
  RC_ASSERT(ClockSearch(p, cap, run, time).guess() == low);
}

/// Beyond the load line's start the SMs skip what the power that is drawn makes them skip, with what that does to the time.
RC_GTEST_PROP(PowerLaws, CyclesAreSkippedForThePowerThatIsDrawn, ()) {
  const auto m = machine_with(ClockMode::burst, 800, random_power(), random_gpu());
  const PowerScalars& p = *m.rates().power;
  const double usual = 1 - p.skipped_cycles;
  for (int i = 0; i < 20; ++i) {
    Gemm s;
    s.m = random_dim(13);
    s.n = 64 * random_dim(7);
    s.k = 64 * random_dim(7);
    const OpPrediction op = predict(s, m);
    const double beyond = std::max(0.0, (*op.power - p.skipped_more_from).in(units::W));
    const double left = std::clamp(usual - p.skipped_per_W * beyond, 0.5 * usual, usual);
    const LaunchPrediction& launch = op.launches[0];
    // energies that skip none leave the family's own, which the card's sheet says
    const double rated = p.skipped_cycles > 0 ? 1 : 1 - launch.family->skipped_cycles;
    RC_LOG() << launch.speeds.sm << " for " << left << " at " << op.power->in(units::W) << " W\n";
    RC_ASSERT(std::abs(launch.speeds.sm - rated * left) < 2e-5);
  }
}

RC_GTEST_PROP(PowerLaws, AHigherCapNeverSlows, ()) {
  const Gpu gpu = random_gpu();
  Calibration c = random_power();
  set(c, "droop_ratio_per_W", 0);  // with a load line, more power can mean fewer cycles
  const double cap = between(60, 400);
  const auto low = machine_with(ClockMode::steady, cap, c, gpu);
  const auto high = machine_with(ClockMode::steady, 1.5 * cap, c, gpu);
  for (int i = 0; i < 20; ++i) {
    const Op op = random_op_on(low);
    const OpPrediction more = predict(op, high), less = predict(op, low);
    RC_ASSERT(more.time <= less.time * (1 + 2e-3));
    RC_ASSERT(more.clock >= less.clock * (1 - 2e-3));
    RC_ASSERT(*more.power >= *less.power * (1 - 1e-2));
  }
}

/// Where the clock is held down, the search ends at the cap, not somewhere below it.
RC_GTEST_PROP(PowerLaws, AHeldDownClockIsWhereTheCapIsMet, ()) {
  const Gpu gpu = random_gpu();
  Calibration c = random_power();
  set(c, "droop_ratio_per_W", 0);
  const auto m = machine_with(ClockMode::steady, between(60, 400), c, gpu);
  for (int i = 0; i < 20; ++i) {
    const OpPrediction p = predict(random_op_on(m), m);
    if (p.clock > 0.85 * gpu.boost_clock || p.clock < 0.2 * gpu.boost_clock) continue;
    if (*p.power < 0.95 * m.rates().power_cap) {
      RC_FAIL(std::to_string(p.clock / gpu.boost_clock) + " of the clock at " +
              std::to_string(*p.power / m.rates().power_cap) + " of the cap");
    }
  }
}

TEST(PowerOfAStep, SumsItsOperatorsAndMeetsTheCapInTheMean) {
  const Llm llm = load_llm("llama-3.2-1b");
  Workload w;
  w.phase = Phase::prefill;
  w.prompt = 2048;
  for (const Runtime runtime : {Runtime::graph, Runtime::stream, Runtime::eager}) {
    const auto m = machine_with(ClockMode::steady, 40);
    const StepPrediction step = predict(llm, w, m, RunOptions{runtime});
    ASSERT_TRUE(step.power && step.energy);
    EXPECT_LE(step.power->in(units::W), 40);
    EXPECT_NEAR(*step.energy / (*step.power * step.latency), 1, 1e-12);
    Joules sum;
    Seconds gaps;
    for (const NodePrediction& n : step.nodes) {
      sum += static_cast<double>(n.node->count) * *n.op.energy;
      gaps += static_cast<double>(n.node->count) * n.gap;
    }
    EXPECT_LE(sum.in(units::J), step.energy->in(units::J) * (1 + 1e-12));
    EXPECT_LE(*step.power_low, *step.power);
    EXPECT_LE(*step.power, *step.power_high);
    Joules traced;
    Seconds now;
    for (const PowerSegment& segment : power_trace(step)) {
      EXPECT_NEAR(segment.start.in(units::s), now.in(units::s), 1e-9);
      for (const PowerSlice& slice : segment.slices) {
        traced += static_cast<double>(segment.repeat) * slice.duration * slice.power;
      }
      now += static_cast<double>(segment.repeat) * segment.period;
    }
    EXPECT_NEAR(traced / *step.energy, 1, 1e-9);
    EXPECT_NEAR(now / step.latency, 1, 1e-9);
    if (gaps <= Seconds{}) {
      EXPECT_NEAR(sum / *step.energy, 1, 1e-12);
    }
  }
}

/// A regulator forgets a wait that lasts far longer than it looks back: the passes meet the cap by themselves, and the mean
/// with the bubble lies below it.
TEST(PowerOfAStep, LongWaitsOfAPipelineLeaveThePassesNothing) {
  Workload w;
  w.phase = Phase::train;
  w.batch = 16;
  w.prompt = 8192;
  w.parallel.pipeline = 8;
  w.training.micro_batch = 1;
  const Machine m = machines().get({"h200_sxm", MachineOptions{"megatron", ClockMode::steady}});
  const StepPrediction step = predict(load_llm("llama-3.1-70b"), w, m, RunOptions{});
  ASSERT_TRUE(step.power && step.power_limited);
  const Watts aim = m.rates().power->regulator_aim * m.rates().power_cap;
  ASSERT_GT(step.stages.waits, 0.2);
  ASSERT_GT(step.bubble, 1.0 * units::s);
  const Watts passes = (1 + step.stages.waits) * *step.power - step.stages.waits * *step.waiting_power;
  EXPECT_LE(*step.power, 0.9 * aim);
  EXPECT_LE(passes, 1.01 * aim);
  EXPECT_GE(passes, 0.95 * aim);  // the hottest card of eight sets the clock
}

}  // namespace
}  // namespace plumbline::power_test
