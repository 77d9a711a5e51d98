// The timing engine: laws over random demands (cases by hand: timing_by_hand_test.cpp).
#include "model/engine/timing.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include "tests/support/planners.hpp"
#include "tests/support/random_gpu.hpp"

namespace plumbline::timing_test {
namespace {

using namespace testing_support;

/// pnorm() leaves out terms that add less than 1e-4 each and takes its powers in single precision, so that a law about
/// its result holds to a few of those.
constexpr double kCut = 1 + 1e-3;

// --- laws ------------------------------------------------------------------------------------------------------------

/// A demand with every field set; a fifth of them zero. DRAM bytes are per CTA times CTAs, as of one more tile each.
Demand random_demand() {
  const auto maybe = [](double low, double high) { return whole_between(0, 4) == 0 ? 0.0 : between(low, high); };
  Demand d;
  d.plan.ctas = *rc::gen::resize(rc::kNominalSize, rc::gen::exec([] { return random_dim(14); }));
  d.plan.ctas_per_sm = whole_between(1, 8);
  d.plan.steps = d.plan.longest = static_cast<double>(whole_between(1, 200));
  d.tensor_clk = maybe(0, 4000);
  d.fp32_clk = maybe(0, 2000);
  d.sfu_clk = maybe(0, 2000);
  d.issue_clk = maybe(0, 2000);
  d.smem_clk = maybe(0, 2000);
  d.l2 = maybe(0, 1e5) * units::B;
  d.step_latency = maybe(0, 2000) * units::ns;
  d.chain_clk = maybe(0, 4000);
  d.dram_share = 1 / between(1, 3);
  d.exposed_clk = maybe(0, 500);
  d.once_clk = maybe(0, 5000);
  d.dram_read = static_cast<double>(d.plan.ctas) * maybe(0, 1e6) * units::B;
  d.dram_write = static_cast<double>(d.plan.ctas) * maybe(0, 1e6) * units::B;
  d.in_flight = maybe(1e3, 1e5) * units::B;
  d.link = whole_between(0, 4) == 0 ? maybe(0, 1e9) * units::B : Bytes{};
  d.serial_latency = maybe(0, 5000) * units::ns;
  return d;
}

/// The same with CTAs of unequal length: `longest` up to the sum of all.
Demand random_unequal_demand() {
  Demand d = random_demand();
  d.plan.longest = d.plan.steps * between(1.001, 3);
  return d;
}

FamilyScalars random_family() {
  FamilyScalars f;
  f.fixed = between(0, 10) * units::us;
  f.overlap = between(1, 16);
  f.efficiency = between(0.3, 1);
  f.exposed = between(0, 1);
  f.per_cta = between(0, 6) * units::us;
  f.step = between(0, 2) * units::us;
  return f;
}

RC_GTEST_PROP(TimingLaws, TotalIsAtLeastEveryResourceAlone, ()) {
  const auto m = random_machine();
  for (int i = 0; i < 50; ++i) {
    const Demand d = coin() ? random_demand() : random_unequal_demand();
    const LaunchTime t = price(d, m.rates(), random_family());
    RC_ASSERT(std::isfinite(t.total.in(units::s)) && t.total > Seconds{});
    for (const Seconds own : t.by_resource) {
      RC_ASSERT(own >= Seconds{});
      RC_ASSERT(own <= t.total * (1 + 1e-12));
    }
    for (const Seconds own : t.by_resource) RC_ASSERT(own <= t.by_resource[t.limiter]);
    RC_ASSERT(t.fixed + t.body <= t.total * (1 + 1e-12));
    RC_ASSERT(t.tail <= t.body);
  }
}

RC_GTEST_PROP(TimingLaws, TheQuickTotalIsTheTotal, ()) {
  const auto m = random_machine();
  for (int i = 0; i < 50; ++i) {
    const Demand d = coin() ? random_demand() : random_unequal_demand();
    const FamilyScalars family = random_family();
    const Seconds total = price(d, m.rates(), family).total;
    const Seconds quick = price_total(d, m.rates(), family, 1e30 * units::s);
    RC_ASSERT(std::abs(quick / total - 1) < 1e-12);
    // when it gives up it has a reason, and what it returns is a lower bound
    const Seconds limit = total * between(0, 2);
    const Seconds early = price_total(d, m.rates(), family, limit);
    RC_ASSERT(early <= total * (1 + 1e-12));
    RC_ASSERT(early >= std::min(total, limit) * (1 - 1e-12));
  }
}

/// Every fact that a planner may state, in any combination.
Demand demand_of_any_facts() {
  Demand d = coin() ? random_demand() : random_unequal_demand();
  const auto maybe = [](double low, double high) { return coin() ? 0.0 : between(low, high); };
  d.plan.persistent = coin();
  d.plan.shortest_first = coin();
  d.no_waves = whole_between(0, 4) == 0;
  d.loads_stop = coin();
  d.dealt_once = coin();
  d.l2_limit = static_cast<L2Limit>(whole_between(0, 2));
  d.lookups = between(0.5, 1.3) * d.l2;
  d.l2_distinct = maybe(0, 1e8) * units::B;
  d.l2_written = maybe(0, 1e8) * units::B;
  d.edge_fill_clk = maybe(0, 500);
  d.port_fill_clk = maybe(0, 500);
  d.serial_clk = maybe(0, 5000);
  d.start = maybe(0, 3000) * units::ns;
  d.next_tile_wait = maybe(0, 3000) * units::ns;
  d.overlap = maybe(1, 16);
  if (coin()) d.in_flight = Bytes{};
  return d;
}

/// What searches for a clock ask for is what the answer has, to the last bit.
RC_GTEST_PROP(TimingLaws, TheTotalAtSomeSpeedsIsThePricesOwn, ()) {
  const auto m = random_machine();
  for (int i = 0; i < 50; ++i) {
    const Demand d = demand_of_any_facts();
    const FamilyScalars family = random_family();
    const Speeds speeds{between(0.5, 1), between(0.2, 1), between(0.2, 1)};
    RC_ASSERT(price_total(d, m.rates(), family, speeds) == price(d, m.rates(), family, speeds).total);
  }
}

/// What searches prune by is never above what they would have found: 20,000 launches (200 of each of RapidCheck's
/// 100 cases) on 400 machines, others in each run.
RC_GTEST_PROP(TimingLaws, TheLowerBoundIsNeverAboveThePrice, ()) {
  for (int i = 0; i < 4; ++i) {
    Gpu gpu = random_gpu();
    gpu.l2.partitions = whole_between(1, 8);
    const auto m = toy_machine(gpu, random_calibration());
    for (int k = 0; k < 50; ++k) {
      const Demand d = demand_of_any_facts();
      FamilyScalars family = random_family();
      family.dram_share = between(0.6, 1);
      family.skipped_cycles = coin() ? 0 : between(0, 0.2);
      family.tensor_burst = between(0.5, 1);
      family.tensor_steady = family.tensor_burst * between(0.6, 1);
      family.sm_in_flight = coin() ? Bytes{} : between(1e4, 1e5) * units::B;
      if (whole_between(0, 9) == 0) family.overlap = std::numeric_limits<double>::infinity();
      const Seconds price_of_all = price(d, m.rates(), family).total, bound = lower_bound(d, m.rates(), family);
      RC_ASSERT(bound <= price_of_all);
      RC_ASSERT(bound >= family.fixed);
    }
  }
}

/// Toy GPU: 10 SMs, DRAM of 1 TB/s. Of 11 CTAs that read 110 MB between them the last runs alone: of its 10 us for 10 MB
/// nothing is to be seen at 1 us a step, but at 3 us a step its 8 steps take 24 us, whatever DRAM could give.
TEST(LastWave, PullsNoMoreThanItsCtasHaveOutstanding) {
  const auto m = toy_machine();
  FamilyScalars family;
  family.overlap = 20;
  const auto us_of = [&](std::int64_t ctas, double step_us, bool dealt_once = true) {
    Demand d;
    d.plan.ctas = ctas;
    d.plan.steps = d.plan.longest = 8;
    d.step_latency = step_us * units::us;
    d.dram_read = 110e6 * units::B;
    d.dealt_once = dealt_once;
    const Seconds bound = lower_bound(d, m.rates(), family), price_of_it = price(d, m.rates(), family).total;
    EXPECT_LE(bound, price_of_it);
    return price_of_it.in(units::us);
  };
  EXPECT_NEAR(us_of(11, 1), 110, 1e-3);
  EXPECT_NEAR(us_of(11, 3), 100 + 24, 1e-3);
  EXPECT_NEAR(us_of(20, 3), 110, 1e-3) << "two whole waves";
  EXPECT_NEAR(us_of(10, 3), 110, 1e-3) << "one";
  EXPECT_NEAR(us_of(11, 3, false), 110, 1e-3) << "CTAs that take work as they go have no last wave";
}

/// Where one wave has one term, the bound is the price: it is no idle promise.
TEST(LowerBound, IsThePriceOfOneTerm) {
  const auto m = toy_machine();
  FamilyScalars family;
  Demand d;
  d.plan.ctas = 10;
  d.plan.steps = d.plan.longest = 100;
  d.tensor_clk = 1000;
  EXPECT_NEAR(lower_bound(d, m.rates(), family) / price(d, m.rates(), family).total, 1, 1e-9);
  d.plan.ctas = 25;  // three waves
  EXPECT_NEAR(lower_bound(d, m.rates(), family) / price(d, m.rates(), family).total, 1, 1e-9);
}

struct Growth {
  const char* what;
  std::function<void(Demand&, double)> grow;
};

/// More work of the same plan, one field at a time.
std::vector<Growth> growths() {
  return {
      {"tensor", [](Demand& d, double k) { d.tensor_clk += 1000 * (k - 1); }},
      {"fp32", [](Demand& d, double k) { d.fp32_clk += 1000 * (k - 1); }},
      {"sfu", [](Demand& d, double k) { d.sfu_clk += 1000 * (k - 1); }},
      {"issue", [](Demand& d, double k) { d.issue_clk += 1000 * (k - 1); }},
      {"smem", [](Demand& d, double k) { d.smem_clk += 1000 * (k - 1); }},
      {"l2", [](Demand& d, double k) { d.l2 *= k; }},
      {"step latency", [](Demand& d, double k) { d.step_latency *= k; }},
      {"a step's chain", [](Demand& d, double k) { d.chain_clk *= k; }},
      {"less of DRAM's rate", [](Demand& d, double k) { d.dram_share /= k; }},
      {"exposed", [](Demand& d, double k) { d.exposed_clk *= k; }},
      {"once", [](Demand& d, double k) { d.once_clk *= k; }},
      {"link", [](Demand& d, double k) { d.link *= k; }},
      {"chain", [](Demand& d, double k) { d.serial_latency *= k; }},
      {"both ways of DRAM",
       [](Demand& d, double k) {
         d.dram_read *= k;
         d.dram_write *= k;
       }},
      {"less in flight", [](Demand& d, double k) { d.in_flight /= k; }},
      {"steps",
       [](Demand& d, double k) {
         d.plan.steps *= k;
         d.plan.longest *= k;
       }},
      {"CTAs",
       [](Demand& d, double k) {
         const double before = static_cast<double>(d.plan.ctas);
         d.plan.ctas = static_cast<std::int64_t>(std::ceil(before * k));
         d.dram_read *= static_cast<double>(d.plan.ctas) / before;
         d.dram_write *= static_cast<double>(d.plan.ctas) / before;
       }},
  };
}

void assert_more_work_is_never_faster(const Machine& m, const Demand& d, const FamilyScalars& family) {
  const Seconds before = price(d, m.rates(), family).total;
  for (const Growth& growth : growths()) {
    Demand more = d;
    growth.grow(more, coin() ? between(1, 1.05) : between(1, 4));
    const Seconds after = price(more, m.rates(), family).total;
    RC_LOG() << "more " << growth.what << ": " << before.in(units::us) << " us -> " << after.in(units::us) << " us, "
             << d.plan.ctas << " CTAs of " << d.plan.steps << " steps (longest " << d.plan.longest << "), "
             << d.plan.ctas_per_sm << " an SM of " << m.rates().sm_count << "\n";
    RC_ASSERT(after * kCut >= before);
  }
}

RC_GTEST_PROP(TimingLaws, MoreWorkOfEqualCtasIsNeverFaster, ()) {
  const auto m = random_machine();
  for (int i = 0; i < 20; ++i) assert_more_work_is_never_faster(m, random_demand(), random_family());
}

RC_GTEST_PROP(TimingLaws, MoreWorkOfUnequalCtasIsNeverFaster, ()) {
  const auto m = random_machine();
  for (int i = 0; i < 20; ++i) assert_more_work_is_never_faster(m, random_unequal_demand(), random_family());
}

/// The same launch on a card that has more of the same SMs: waves fall, uneven ones cost nothing beside even ones, and L2
/// and DRAM are what they were. (But for work that is dealt out once: what uneven filling loses goes with the SMs.)
RC_GTEST_PROP(TimingLaws, MoreSmsOfTheSameLaunchAreNeverSlower, ()) {
  Gpu gpu = random_gpu();
  const Calibration calibration = random_calibration();
  const auto before = toy_machine(gpu, calibration);
  gpu.sm_count += whole_between(1, 2 * gpu.sm_count);
  const auto after = toy_machine(gpu, calibration);
  for (int i = 0; i < 50; ++i) {
    Demand d = demand_of_any_facts();
    d.dealt_once = false;
    d.plan.longest = std::min(d.plan.longest, 2 * d.plan.steps);  // lengths that spread evenly begin at nothing
    const FamilyScalars family = random_family();
    const Seconds fewer = price(d, before.rates(), family).total, more = price(d, after.rates(), family).total;
    RC_LOG() << fewer.in(units::us) << " us -> " << more.in(units::us) << " us, " << d.plan.ctas << " CTAs of "
             << d.plan.steps << " steps (longest " << d.plan.longest << "), " << d.plan.ctas_per_sm << " an SM of "
             << before.rates().sm_count << " -> " << after.rates().sm_count << " persistent " << d.plan.persistent
             << " no waves " << d.no_waves << " shortest first " << d.plan.shortest_first << "\n";
    RC_ASSERT(more <= fewer * (1 + 2e-4));
  }
}

/// CTAs grown by up to a part each, evenly spread, are more work than all alike. Only for a unit of the SM alone:
/// unequal CTAs fill slots, and equal CTAs waves, of which each pays its prologue, its step chains and its bytes in
/// flight whole, so that in a launch bound by latency the step to unequal CTAs can save up to its last wave.
RC_GTEST_PROP(TimingLaws, GrowingSomeCtasIsNeverFaster, ()) {
  const auto m = random_machine();
  for (int i = 0; i < 20; ++i) {
    Demand d;
    d.plan = random_demand().plan;
    (coin() ? d.tensor_clk : d.smem_clk) = between(1, 4000);
    FamilyScalars family = random_family();
    family.per_cta = Seconds{};
    Demand longer = d;
    const double part = coin() ? between(1e-6, 0.01) : between(0.01, 2);
    longer.plan.longest *= 1 + part;
    longer.plan.steps *= 1 + part / 2;
    const Seconds before = price(d, m.rates(), family).total, after = price(longer, m.rates(), family).total;
    RC_LOG() << before.in(units::us) << " us -> " << after.in(units::us) << " us, " << d.plan.ctas << " CTAs of "
             << d.plan.steps << " steps, " << d.plan.ctas_per_sm << " an SM of " << m.rates().sm_count << "\n";
    RC_ASSERT(after * kCut >= before);
  }
}

RC_GTEST_PROP(TimingLaws, DramTimeIsBetweenReadsAloneAndTheWorstMix, ()) {
  const auto m = random_machine();
  const Bytes read = between(0, 1e9) * units::B, write = between(1, 1e9) * units::B;
  const Seconds alone = read / m.rates().dram_read + write / m.rates().dram_write,
                t = dram_time(read, write, m.rates());
  RC_ASSERT(t * (1 + 1e-12) >= alone && t <= alone * (1 + 4.0 / 3 * m.rates().dram_mix_loss) * (1 + 1e-12));
  RC_ASSERT(t * (1 + 1e-12) >= (read + write) / m.gpu().memory.bandwidth);
  const Bytes both = (read + write) / 2;
  const Seconds even = both / m.rates().dram_read + both / m.rates().dram_write;
  RC_ASSERT(std::abs(dram_time(both, both, m.rates()) / (even * (1 + m.rates().dram_mix_loss)) - 1) < 1e-12);
}

/// Two reads a write turn the bus round two thirds as often as an even mix.
RC_GTEST_PROP(TimingLaws, TurnsOfTheBusGoWithTheWrites, ()) {
  const auto m = random_machine();
  const Bytes write = between(1, 1e9) * units::B, read = 2.0 * write;
  const Seconds alone = read / m.rates().dram_read + write / m.rates().dram_write;
  RC_ASSERT(std::abs(dram_time(read, write, m.rates()) / (alone * (1 + 2.0 / 3 * m.rates().dram_mix_loss)) - 1) <
            1e-12);
}

/// CTAs that flow pay for a wave and a half what they do, not for two.
RC_GTEST_PROP(TimingLaws, FlowingCtasKnowNoWaves, ()) {
  const auto m = random_machine();
  Demand d;
  d.plan.ctas_per_sm = 4;
  d.plan.ctas = static_cast<std::int64_t>(m.rates().sm_count) * 6;
  d.dram_read = between(1e6, 1e9) * units::B;
  FamilyScalars family = random_family();
  family.per_cta = Seconds{};
  d.no_waves = true;
  const Seconds expected = family.fixed + dram_time(d.dram_read, Bytes{}, m.rates()) / family.dram_share;
  RC_ASSERT(std::abs(price(d, m.rates(), family).total / expected - 1) < 1e-9);
  d.issue_clk = 100;
  d.overlap = 1;
  // the p-norm leaves out terms below 1e-4 of the largest, and is taken in single precision
  RC_ASSERT(std::abs(price(d, m.rates(), family).total / (expected + 600 / m.rates().clock) - 1) < 1.1e-4);
}

RC_GTEST_PROP(PNorm, IsThePNormFromTheLargestTermToTheSum, ()) {
  PerResource<Seconds> times;
  const double p = between(1, 16);
  Seconds largest, sum;
  double powers = 0;
  for (std::size_t i = 0; i < kResourceCount; ++i) {
    const auto r = static_cast<Resource>(i);
    times[r] = coin() ? Seconds{} : std::exp(between(-20, 0)) * units::s;
    largest = std::max(largest, times[r]);
    sum += times[r];
    powers += std::pow(times[r].in(units::s), p);
  }
  const Seconds norm = pnorm(times, p);
  RC_ASSERT(norm >= largest);
  RC_ASSERT(norm <= sum * (1 + 1e-6));
  RC_ASSERT(std::abs(norm.in(units::s)-std::pow(powers, 1 / p)) <= 1e-3 * norm.in(units::s));
}

}  // namespace
}  // namespace plumbline::timing_test
