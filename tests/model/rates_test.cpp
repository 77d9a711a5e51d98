// What a machine does a second, on the toy GPU: shares of the descriptor's numbers, and scalars of another card.
#include "model/engine/rates.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "model/predict.hpp"
#include "tests/support/toy_gpu.hpp"

namespace plumbline::rates_test {
namespace {

/// Scalars that lose nothing.
RateScalars round_scalars() { return {}; }

TEST(Rates, AreSharesOfTheDescriptorsNumbers) {
  RateScalars s = round_scalars();
  s.dram_read = 0.9;
  s.dram_write = 0.8;
  s.dram_latency = 1.5;
  s.l2_bandwidth = 0.7;
  s.l2_usable = 0.5;
  s.pcie = 0.6;
  const Rates m = make_rates(toy_gpu(), s);
  EXPECT_EQ(m.gpu, static_cast<const GpuNumbers&>(toy_gpu()));
  EXPECT_DOUBLE_EQ(m.clock.in(units::GHz), 1);
  EXPECT_DOUBLE_EQ(m.sm_count, 10);
  EXPECT_DOUBLE_EQ(m.dram_read.in(units::TB_per_s), 0.9);
  EXPECT_DOUBLE_EQ(m.dram_write.in(units::TB_per_s), 0.8);
  EXPECT_DOUBLE_EQ(m.dram_latency.in(units::ns), 750);
  EXPECT_DOUBLE_EQ(m.l2_latency.in(units::ns), 200);
  EXPECT_DOUBLE_EQ(m.l2.in(units::TB_per_s), 7);
  EXPECT_DOUBLE_EQ(m.l2_per_sm.in(units::TB_per_s), 1);
  EXPECT_DOUBLE_EQ(m.l2_capacity.in(units::MiB), 16);
  EXPECT_DOUBLE_EQ(m.pcie.in(units::GB_per_s), 15);
  EXPECT_DOUBLE_EQ(m.power_cap.in(units::W), 100);
  s.power_cap = 70.0 * units::W;
  EXPECT_DOUBLE_EQ(make_rates(toy_gpu(), s).power_cap.in(units::W), 70);
}

/// Two partitions may both keep a line, and the far one answers after 1.5 times the near one's time.
TEST(Rates, OfADividedL2) {
  Gpu gpu = toy_gpu();
  gpu.l2.partitions = 2;
  gpu.l2.far_latency_ratio = 1.5;
  gpu.l2.reuse_fraction = 0.75;
  const Rates m = make_rates(gpu, round_scalars());
  EXPECT_DOUBLE_EQ(m.l2_capacity.in(units::MiB), 32);
  EXPECT_DOUBLE_EQ(m.l2_kept.in(units::MiB), 16);
  EXPECT_DOUBLE_EQ(m.l2_held().in(units::MiB), 24);
  EXPECT_DOUBLE_EQ(m.l2_mean_latency().in(units::ns), 250);
  const Rates whole = make_rates(toy_gpu(), round_scalars());
  EXPECT_DOUBLE_EQ(whole.l2_kept.in(units::MiB), 32);
}

// --- scalars of another card -----------------------------------------------------------------------------------------

/// Taken over from the toy GPU: 1 us of fixed time (1000 cycles at 1 GHz), 40 kB outstanding an SM.
RateScalars taken_over(double outstanding = 1) {
  RateScalars s;
  s.donor = RateScalars::Donor{toy_gpu(), 1, outstanding};
  for (FamilyScalars& family : s.base.families) {
    family.fixed = 1.0 * units::us;
    family.sm_in_flight = 40e3 * units::B;
  }
  s.base.families[1].carry.fixed_in_cycles = true;
  s.base.families[2].carry.in_flight_with_memory = true;
  s.base.families[3].carry.chain_with_memory = true;
  s.base.families[3].step_clk = 1200;
  s.base.families[3].in_flight = 10e3 * units::B;
  return s;
}

/// 1000 cycles are 0.5 us at 2 GHz; a family without the rule keeps its microsecond.
TEST(CarryOver, FixedTimeInCyclesGoesWithTheClock) {
  Gpu fast = toy_gpu();
  fast.boost_clock = 2.0 * units::GHz;
  const Rates m = make_rates(fast, taken_over());
  EXPECT_DOUBLE_EQ(m.families[0].fixed.in(units::us), 1);
  EXPECT_DOUBLE_EQ(m.families[1].fixed.in(units::us), 0.5);
  EXPECT_DOUBLE_EQ(m.families[2].fixed.in(units::us), 1);
}

/// A hop of 400 cycles and a CTA that moves 20 B a cycle, at 2 GHz; without the rule as they are.
TEST(CarryOver, ChainsInCyclesGoWithTheClock) {
  Gpu fast = toy_gpu();
  fast.boost_clock = 2.0 * units::GHz;
  RateScalars s = taken_over();
  for (FamilyScalars& family : s.base.families) {
    family.step = family.per_cta = family.counter = 400.0 * units::ns;
    family.channel = family.element = 20.0 * units::GB_per_s;
  }
  s.base.families[1].carry.chains_in_cycles = true;
  const Rates m = make_rates(fast, s);
  EXPECT_DOUBLE_EQ(m.families[0].step.in(units::ns), 400);
  EXPECT_DOUBLE_EQ(m.families[0].channel.in(units::GB_per_s), 20);
  for (const Seconds chain : {m.families[1].step, m.families[1].per_cta, m.families[1].counter})
    EXPECT_DOUBLE_EQ(chain.in(units::ns), 200);
  EXPECT_DOUBLE_EQ(m.families[1].channel.in(units::GB_per_s), 40);
  EXPECT_DOUBLE_EQ(m.families[1].element.in(units::GB_per_s), 40);
}

/// Hopper's sheet states tensor peaks at 1830 of 1980 MHz, and its SMs skip 9 % of their cycles: a sheet that states half as much
/// less than the boost clock has half of that, one that states the boost clock none.
TEST(CarryOver, SkippedCyclesGoByTheRatingOfTheDataSheet) {
  const double hopper = 1830.0 / 1980;
  RateScalars s = taken_over();
  for (FamilyScalars& family : s.base.families) family.skipped_cycles = 0.09;
  s.donor->skipped = skipped_as_rated(1, hopper, false);
  EXPECT_DOUBLE_EQ(make_rates(toy_gpu(), s).families[0].skipped_cycles, 0);
  s.donor->skipped = skipped_as_rated(1 - 0.5 * (1 - hopper), hopper, false);
  EXPECT_NEAR(make_rates(toy_gpu(), s).families[0].skipped_cycles, 0.045, 1e-12);
  s.donor->skipped = skipped_as_rated(1, hopper, true);
  EXPECT_DOUBLE_EQ(make_rates(toy_gpu(), s).families[0].skipped_cycles, 0.09) << "the same SM";
}

/// From a card that skips none: as rated, of the families that say so.
TEST(CarryOver, CardsThatSkipCyclesDoSoWhereTheirDonorDoesNot) {
  RateScalars s = taken_over();
  s.base.families[1].carry.skips_as_rated = true;
  s.donor->skipped = skipped_as_rated(0.9, 1, false);
  const Rates m = make_rates(toy_gpu(), s);
  EXPECT_DOUBLE_EQ(m.families[0].skipped_cycles, 0);
  EXPECT_DOUBLE_EQ(m.families[1].skipped_cycles, 1 - 0.9);
}

/// The toy's memory needs 1 TB/s x 500 ns / 10 SMs = 50 kB an SM in flight; 3 TB/s after 400 ns from 8 SMs 150 kB: an SM
/// of another generation is taken to keep three times as much outstanding.
TEST(CarryOver, BytesInFlightGoWithTheMemoryOfAnotherGeneration) {
  Gpu other = toy_gpu();
  other.sm_count = 8;
  other.memory.bandwidth = 3.0 * units::TB_per_s;
  other.memory.latency = 400.0 * units::ns;
  const Rates m = make_rates(other, taken_over(outstanding_ratio(other, toy_gpu(), false)));
  EXPECT_DOUBLE_EQ(m.families[0].sm_in_flight.in(units::B), 40e3);
  EXPECT_DOUBLE_EQ(m.families[1].sm_in_flight.in(units::B), 40e3);
  EXPECT_DOUBLE_EQ(m.families[2].sm_in_flight.in(units::B), 120e3);
  EXPECT_DOUBLE_EQ(m.families[3].step_clk, 400);  // as deep as three times the bytes a second ask for
  EXPECT_DOUBLE_EQ(m.families[3].in_flight.in(units::B), 30e3);
  EXPECT_DOUBLE_EQ(outstanding_ratio(other, toy_gpu(), true), 1);
}

/// More SMs in a study are more of the same SM: each keeps outstanding what it did.
TEST(CarryOver, BytesInFlightAreOfTheCardAsItIsBuilt) {
  MachineOptions options{"trt-llm"};
  const Machine b200 = make_machine(load_gpu("b200_sxm"), options);
  GpuNumbers more = b200.numbers();
  more.sm_count *= 2;
  const std::size_t gemm = 0;
  ASSERT_GT(b200.rates().families[gemm].sm_in_flight, Bytes{});
  EXPECT_EQ(b200.with(more).rates().families[gemm].sm_in_flight, b200.rates().families[gemm].sm_in_flight);
}

/// What somebody measured of a card's memory goes before what another card's reaches; writes keep their ratio to reads, and
/// check bits in line are not data.
TEST(CarryOver, TheMemorysOwnFractionGoesBeforeAnothers) {
  RateScalars s = taken_over();
  s.dram_read = 0.8;
  s.dram_write = 0.84;
  Gpu gpu = toy_gpu();
  const double nominal = gpu.memory.bandwidth.in(units::B_per_s);
  EXPECT_DOUBLE_EQ(make_rates(gpu, s).dram_read.in(units::B_per_s), 0.8 * nominal);
  gpu.memory.read_fraction = 0.9;
  EXPECT_DOUBLE_EQ(make_rates(gpu, s).dram_read.in(units::B_per_s), 0.9 * nominal);
  EXPECT_DOUBLE_EQ(make_rates(gpu, s).dram_write.in(units::B_per_s), 0.945 * nominal);
  gpu.memory.ecc_share = 0.0625;
  EXPECT_DOUBLE_EQ(make_rates(gpu, s).dram_read.in(units::B_per_s), 0.9 * 0.9375 * nominal);
  s.donor.reset();  // a calibration of its own has measured all of it
  EXPECT_DOUBLE_EQ(make_rates(gpu, s).dram_read.in(units::B_per_s), 0.8 * 0.9375 * nominal);
}

/// A slower memory takes nothing away from what the SM can do.
TEST(CarryOver, BytesInFlightDoNotShrink) {
  Gpu slow = toy_gpu();
  slow.memory.bandwidth = 0.5 * units::TB_per_s;
  EXPECT_DOUBLE_EQ(outstanding_ratio(slow, toy_gpu(), false), 1);
}

TEST(CarryOver, IsOfInheritedScalarsAlone) {
  Gpu fast = toy_gpu();
  fast.boost_clock = 2.0 * units::GHz;
  fast.memory.bandwidth = 3.0 * units::TB_per_s;
  RateScalars own = taken_over();
  own.donor.reset();
  const Rates m = make_rates(fast, own);
  EXPECT_DOUBLE_EQ(m.families[1].fixed.in(units::us), 1);
  EXPECT_DOUBLE_EQ(m.families[2].sm_in_flight.in(units::B), 40e3);
}

// --- the clock of dense work -----------------------------------------------------------------------------------------

/// Ten launches of a tenth of the lag: (1 - 1/e) of the way from the steady to the burst share is left in the mean.
TEST(SustainedFraction, IsTheMeanOfAnExponentialApproach) {
  Rates m = make_rates(toy_gpu(), round_scalars());
  m.regulator_lag = 100.0 * units::ms;
  EXPECT_NEAR(m.sustained_fraction(10.0 * units::ms, 0.9, 0.5), 0.5 + 0.4 * (1 - std::exp(-1.0)), 1e-12);
  EXPECT_DOUBLE_EQ(m.sustained_fraction(Seconds{}, 0.9, 0.5), 0.9);
  // where the series takes over, at x = 0.01, it meets the closed form
  const double below = m.sustained_fraction(99.9999 * units::us, 0.9, 0.5);
  const double above = m.sustained_fraction(100.0001 * units::us, 0.9, 0.5);
  EXPECT_NEAR(below / above, 1, 1e-6);
  EXPECT_GT(below, above);
  FamilyScalars family;
  family.tensor_burst = 0.8;
  family.tensor_steady = 0.4;
  EXPECT_NEAR(m.sustained_fraction(1e6 * units::s, family), 0.4, 1e-6);
  m.clock_mode = ClockMode::steady;  // has no burst to sink from
  EXPECT_DOUBLE_EQ(m.sustained_fraction(1.0 * units::s, 0.9, 0.5), 0.9);
}

}  // namespace
}  // namespace plumbline::rates_test
