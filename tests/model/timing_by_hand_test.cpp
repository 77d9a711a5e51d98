// The timing engine on the toy machine: cases that can be worked out by hand.
#include <gtest/gtest.h>

#include "model/engine/timing.hpp"
#include "tests/support/planners.hpp"
#include "tests/support/toy_machine.hpp"

namespace plumbline::timing_by_hand_test {
namespace {

using namespace testing_support;

// --- by hand: 10 SMs, 1 GHz, DRAM 1 TB/s after 500 ns, L2 10 TB/s, perfect overlap, 1 us fixed -----------------------

class ToyTiming : public ::testing::Test {
 protected:
  Machine machine = toy_machine();
  LaunchTime timed(const Demand& d) const { return price(d, machine.rates(), scalars_of(machine, "library.gemm")); }
  double us(const Demand& d) const { return timed(d).total.in(units::us); }

  /// `ctas` CTAs, one an SM, 8 steps of 1000 tensor clocks.
  static Demand tensor_ctas(std::int64_t ctas) {
    Demand d;
    d.plan.ctas = ctas;
    d.plan.steps = d.plan.longest = 8;
    d.tensor_clk = 1000;
    return d;
  }
};

TEST_F(ToyTiming, AnEmptyKernelTakesItsFixedTime) {
  Demand d;
  d.plan.ctas = 1;
  EXPECT_DOUBLE_EQ(us(d), 1);
  EXPECT_EQ(timed(d).limiter, Resource::latency);
}

/// 8 steps x 1000 clk x 1 ns = 8 us a wave, and 1 us fixed.
TEST_F(ToyTiming, WavesOfTensorWork) {
  EXPECT_DOUBLE_EQ(us(tensor_ctas(1)), 1 + 8);    // one SM as busy as ten
  EXPECT_DOUBLE_EQ(us(tensor_ctas(10)), 1 + 8);   // exactly one wave
  EXPECT_DOUBLE_EQ(us(tensor_ctas(11)), 1 + 16);  // an eleventh CTA costs a second wave
  EXPECT_DOUBLE_EQ(us(tensor_ctas(20)), 1 + 16);
  EXPECT_DOUBLE_EQ(us(tensor_ctas(21)), 1 + 24);
  EXPECT_EQ(timed(tensor_ctas(20)).limiter, Resource::tensor);
  EXPECT_DOUBLE_EQ(timed(tensor_ctas(20)).waves, 2);
  EXPECT_DOUBLE_EQ(timed(tensor_ctas(20)).tail.in(units::us), 8);
}

/// Two CTAs that share an SM take turns on its tensor unit: 20 of them in one wave take 2 x 8 us.
TEST_F(ToyTiming, CoResidentCtasShareTheUnit) {
  Demand d = tensor_ctas(20);
  d.plan.ctas_per_sm = 2;
  EXPECT_DOUBLE_EQ(us(d), 1 + 16);
  d.plan.ctas = 21;  // the last CTA has its SM to itself
  EXPECT_DOUBLE_EQ(us(d), 1 + 16 + 8);
  // but latencies overlap: 8 steps x 1 us whether one or two CTAs wait
  d = tensor_ctas(20);
  d.tensor_clk = 0;
  d.step_latency = 1.0 * units::us;
  EXPECT_DOUBLE_EQ(us(d), 1 + 16);
  d.plan.ctas_per_sm = 2;
  EXPECT_DOUBLE_EQ(us(d), 1 + 8);
}

/// 100 MB at 1 TB/s = 100 us.
TEST_F(ToyTiming, PureDram) {
  Demand d;
  d.plan.ctas = 10;
  d.dram_read = 60.0 * units::MB;
  d.dram_write = 40.0 * units::MB;
  EXPECT_DOUBLE_EQ(us(d), 1 + 100);
  EXPECT_EQ(timed(d).limiter, Resource::dram);
  d.plan.ctas = 25;  // three waves: memory does not stand still between them
  EXPECT_NEAR(us(d), 1 + 100, 1e-9);
  EXPECT_NEAR(timed(d).tail.in(units::us), 100.0 / 3, 1e-9);
}

/// Little's law: 10 CTAs x 5 kB in flight / 500 ns = 100 GB/s, a tenth of the DRAM: 100 MB take 1000 us.
TEST_F(ToyTiming, LittlesLaw) {
  Demand d;
  d.plan.ctas = 10;
  d.dram_read = 100.0 * units::MB;
  d.in_flight = 5.0 * units::kB;
  EXPECT_NEAR(us(d), 1 + 1000, 1e-9);
  d.in_flight = 25.0 * units::kB;  // 500 GB/s
  EXPECT_NEAR(us(d), 1 + 200, 1e-9);
  d.in_flight = 50.0 * units::kB;  // exactly enough
  EXPECT_NEAR(us(d), 1 + 100, 1e-9);
  d.in_flight = 500.0 * units::kB;  // more does not help
  EXPECT_NEAR(us(d), 1 + 100, 1e-9);
}

/// L2 gives 10 TB/s to all, an SM takes 1000 B a clock = 1 TB/s. 10 CTAs x 8 steps x 1 MB = 80 MB: 8 us; one CTA alone
/// moves its 8 MB at its SM's 1 TB/s: also 8 us.
TEST_F(ToyTiming, L2) {
  Demand d = tensor_ctas(10);
  d.tensor_clk = 0;
  d.l2 = 1.0 * units::MB;
  EXPECT_NEAR(us(d), 1 + 8, 1e-9);
  d.plan.ctas = 1;
  EXPECT_NEAR(us(d), 1 + 8, 1e-9);
}

/// What is exposed adds to the largest term: 8 us of tensor work, 8 x 100 clk exposed, 500 clk once, 2 us a CTA.
TEST_F(ToyTiming, ExposedTimesAdd) {
  Demand d = tensor_ctas(10);
  d.exposed_clk = 100;
  d.once_clk = 500;
  d.serial_latency = 3.0 * units::us;
  FamilyScalars family = scalars_of(machine, "library.gemm");
  family.per_cta = 2.0 * units::us;
  EXPECT_DOUBLE_EQ(price(d, machine.rates(), family).total.in(units::us), 1 + 8 + 0.8 + 0.5 + 2 + 3);
}

/// p = 1: nothing overlaps, 8 + 6 us. p = 2: sqrt(64 + 36) = 10 us.
TEST_F(ToyTiming, OverlapIsThePNorm) {
  Demand d = tensor_ctas(10);
  d.smem_clk = 750;
  FamilyScalars family = scalars_of(machine, "library.gemm");
  EXPECT_NEAR(price(d, machine.rates(), family).total.in(units::us), 1 + 8, 1e-6);
  family.overlap = 1;
  EXPECT_NEAR(price(d, machine.rates(), family).total.in(units::us), 1 + 14, 2e-6);
  family.overlap = 2;
  EXPECT_NEAR(price(d, machine.rates(), family).total.in(units::us), 1 + 10, 2e-6);
}

/// 12 CTAs of 5 steps on average, the longest 8, of 1 us each on 10 slots: the mean load is 6, the longest rules: 8 us.
/// 40 CTAs: the mean load is 20 steps: 20 us.
TEST_F(ToyTiming, UnequalCtasAreListScheduled) {
  Demand d = tensor_ctas(12);
  d.plan.steps = 5;
  EXPECT_DOUBLE_EQ(us(d), 1 + 8);
  d.plan.ctas = 40;
  EXPECT_DOUBLE_EQ(us(d), 1 + 20);
}

/// 1 GB over PCIe at 25 GB/s = 40 ms, beside nothing.
TEST_F(ToyTiming, Link) {
  Demand d;
  d.plan.ctas = 1;
  d.link = 1.0 * units::GB;
  EXPECT_DOUBLE_EQ(us(d), 1 + 40000);
  EXPECT_EQ(timed(d).limiter, Resource::link);
}

/// Reads at 0.8 and writes at 0.5 of 1 TB/s: 40 MB / 0.8 + 40 MB / 0.5 = 130 us; an even mix loses 10 %: 143 us.
TEST_F(ToyTiming, ReadsWritesAndTheirMix) {
  Calibration c = toy_calibration();
  c.machine["dram_read_fraction"].value = 0.8;
  c.machine["dram_write_fraction"].value = 0.5;
  c.machine["dram_mix_loss_fraction"].value = 0.1;
  const auto m = toy_machine(toy_gpu(), c);
  EXPECT_NEAR(dram_time(40.0 * units::MB, 40.0 * units::MB, m.rates()).in(units::us), 143, 1e-9);
  EXPECT_NEAR(dram_time(40.0 * units::MB, Bytes{}, m.rates()).in(units::us), 50, 1e-9);
  EXPECT_NEAR(dram_time(Bytes{}, 40.0 * units::MB, m.rates()).in(units::us), 80, 1e-9);
  EXPECT_EQ(dram_time(Bytes{}, Bytes{}, m.rates()), Seconds{});
}

}  // namespace
}  // namespace plumbline::timing_by_hand_test
