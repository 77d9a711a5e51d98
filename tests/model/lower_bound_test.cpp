// The lower bound of a price, by hand on the toy GPU: 10 SMs at 1 GHz, DRAM 1 TB/s after 500 ns, L2 10 TB/s. (That it is
// never above the price of any demand is a law of timing_test.cpp.)
#include <gtest/gtest.h>

#include <cmath>

#include "model/engine/timing.hpp"
#include "tests/support/toy_machine.hpp"

namespace plumbline::lower_bound_test {
namespace {

using namespace testing_support;

class ToyBound : public ::testing::Test {
 protected:
  ToyBound() { family_.overlap = 20; }

  static Demand ctas(std::int64_t count, double steps) {
    Demand d;
    d.plan.ctas = count;
    d.plan.steps = d.plan.longest = steps;
    return d;
  }
  double bound(const Demand& d) const { return lower_bound(d, machine_.rates(), family_).in(units::us); }
  double price_of(const Demand& d) const { return price(d, machine_.rates(), family_).total.in(units::us); }
  /// The bound is that many microseconds, and the price too.
  void expect_tight(const Demand& d, double us) const {
    EXPECT_NEAR(bound(d), us, 1e-9 * us);
    EXPECT_NEAR(price_of(d), us, 1e-6 * us);
  }

  Machine machine_ = toy_machine();
  FamilyScalars family_;
};

/// Three waves of 8 steps x 1000 clk, each with a prologue of 500 clk and 1 us a CTA; 2 us fixed, 3 us of dependent
/// latencies, 25 kB over PCIe.
TEST_F(ToyBound, WhatOverlapsWithNothingAdds) {
  family_.fixed = 2.0 * units::us;
  family_.per_cta = 1.0 * units::us;
  Demand d = ctas(25, 8);
  d.tensor_clk = 1000;
  d.once_clk = 500;
  d.exposed_clk = 100;
  d.serial_latency = 3.0 * units::us;
  d.link = 25e3 * units::B;
  expect_tight(d, 2 + 3 + 1 + 3 * (8 * (1 + 0.1) + 0.5 + 1));
  d.plan.persistent = true;  // ends are seen once
  expect_tight(d, 2 + 3 + 1 + 3 * 8 * (1 + 0.1) + 0.5 + 1);
}

/// 40 CTAs of which two share an SM: two waves of 20.
TEST_F(ToyBound, CoResidentCtasShareTheUnit) {
  Demand d = ctas(40, 8);
  d.plan.ctas_per_sm = 2;
  d.tensor_clk = 1000;
  expect_tight(d, 4 * 8);
  d = ctas(40, 8);
  d.plan.ctas_per_sm = 2;
  d.step_latency = 1.0 * units::us;  // which co-resident CTAs hide from each other
  expect_tight(d, 2 * 8);
}

/// 20 CTAs of 4 steps in the mean, the longest of 12, on 10 slots: at least 20 x 4 / 10 = 8 steps, and at least 12.
TEST_F(ToyBound, OfUnequalCtasIsTheLongest) {
  Demand d = ctas(20, 4);
  d.plan.longest = 12;
  d.fp32_clk = 1000;
  EXPECT_NEAR(bound(d), 12, 1e-9);
  d.plan.steps = 11;
  EXPECT_NEAR(bound(d), 22, 1e-9);
  EXPECT_LE(bound(d), price_of(d));
}

TEST_F(ToyBound, WithoutWavesTheBusiestSmCounts) {
  Demand d = ctas(25, 8);
  d.no_waves = true;
  d.issue_clk = 1000;
  d.once_clk = 500;
  expect_tight(d, 3 * 8);
}

/// 10 CTAs ask for 100 kB in each of 100 steps: 100 MB at 10 TB/s. Five of them take half of it through five ports of
/// 1 TB/s. Lookups of half the bytes, 9 MB of results: 59 MB at nine tenths of 10 TB/s.
TEST_F(ToyBound, OfL2ByWhatLimitsIt) {
  Demand d = ctas(10, 100);
  d.l2 = 100e3 * units::B;
  expect_tight(d, 10);
  d.l2_limit = L2Limit::ports;
  expect_tight(d, 10);
  d.plan.ctas = 5;
  expect_tight(d, 10);
  d.plan.ctas = 10;
  d.l2_limit = L2Limit::lookups;
  d.lookups = 50e3 * units::B;
  d.l2_written = 9e6 * units::B;
  expect_tight(d, 59 / (10 * 0.9));
}

/// Two partitions: a distinct line is looked up once and a half, at one and a half times the rate.
TEST_F(ToyBound, OfLookupsInADividedL2) {
  Gpu gpu = toy_gpu();
  gpu.l2.partitions = 2;
  machine_ = toy_machine(gpu);
  Demand d = ctas(10, 100);
  d.l2_limit = L2Limit::lookups;
  d.l2 = 100e3 * units::B;
  d.lookups = 50e3 * units::B;
  d.l2_distinct = 40e6 * units::B;
  d.l2_written = 9e6 * units::B;
  expect_tight(d, (50 + 0.5 * 40 + 1.5 * 9) / (10 * 0.9 * 1.5));
}

/// 1 MB at 1 TB/s; with 1 kB in flight from each of 10 CTAs 20 GB/s. Three waves draw as little each.
TEST_F(ToyBound, OfDramByLittlesLaw) {
  Demand d = ctas(10, 1);
  d.dram_read = 0.6e6 * units::B;
  d.dram_write = 0.4e6 * units::B;
  expect_tight(d, 1);
  d.in_flight = 1e3 * units::B;
  expect_tight(d, 50);
  d.plan.ctas = 25;
  expect_tight(d, 60);
  d.edge_fill_clk = 1000;
  expect_tight(d, 63);
}

/// Between the engine's p-norm of two equal terms, 2^(1/2), and a chord below it: 1 + (0.693 - 0.002) / 2. Above p = 16
/// it is the largest term.
TEST_F(ToyBound, TakesTheSecondTermByAChord) {
  Demand d = ctas(10, 100);
  d.fp32_clk = d.sfu_clk = 1000;
  EXPECT_NEAR(bound(d), 100, 1e-9);
  d.overlap = 2;
  EXPECT_NEAR(bound(d), 100 * (1 + 0.691 / 2), 1e-6);
  EXPECT_NEAR(price_of(d), 100 * std::sqrt(2.0), 1e-4);
}

/// SMs skip a fifth of their cycles where tensor units work: of 800 MHz, and elsewhere not.
TEST_F(ToyBound, TensorWorkSkipsCycles) {
  family_.skipped_cycles = 0.2;
  family_.efficiency = 0.5;
  Demand d = ctas(10, 8);
  d.tensor_clk = 1000;
  expect_tight(d, 8 / 0.5 / 0.8);
  d.tensor_clk = 0;
  d.fp32_clk = 1000;
  expect_tight(d, 8);
}

TEST_F(ToyBound, OfManyLaunchesIsThatOfEach) {
  const LowerBound of_family(machine_.rates(), family_);
  for (const std::int64_t count : {1, 10, 33}) {
    Demand d = ctas(count, 7);
    d.tensor_clk = 300;
    EXPECT_EQ(of_family(d), lower_bound(d, machine_.rates(), family_));
  }
}

}  // namespace
}  // namespace plumbline::lower_bound_test
