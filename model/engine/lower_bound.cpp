// A lower bound of price(), for plan searches: the waves of a launch summed up at once, without powers and logarithms.
//
// Each wave takes pnorm(terms) + exposed. The sum of p-norms is at least the p-norm of the sums (Minkowski's
// inequality), and each resource's sum over the waves is at least what is written here: the busiest SM's CTAs, one after
// the other; what all CTAs ask of L2 and DRAM, at the best rate that any wave sees.
#include <algorithm>
#include <cmath>

#include "model/engine/timing.hpp"
#include "model/engine/wave.hpp"

namespace plumbline {
namespace {

/// The waves of a launch, added up.
struct Waves {
  double ctas = 0;       ///< that run in all; slots where CTAs are unequal
  double steps = 0;      ///< of one CTA; of the longest slot
  double number = 1;     ///< of waves
  double on_sm = 0;      ///< CTAs on the busiest SM, summed over the waves
  double ends = 0;       ///< ... of those whose prologue and epilogue are seen
  double end_waves = 0;  ///< how often the latency of a CTA is seen
};

Waves waves_of(const Demand& d, const Rates& m) {
  const double ctas = static_cast<double>(d.plan.ctas);
  const double capacity = m.sm_count * static_cast<double>(d.plan.ctas_per_sm);
  if (d.plan.longest > d.plan.steps) {
    const double slots = std::min(ctas, capacity), resident = std::ceil(slots / m.sm_count);
    const double steps = std::max(ctas * d.plan.steps / slots, d.plan.longest);
    return {slots, steps, 1, resident, ctas / slots * resident, ctas / slots};
  }
  if (d.no_waves) return {ctas, d.plan.steps, 1, std::ceil(ctas / m.sm_count), 0, 0};
  const double full = std::floor(ctas / capacity), rest = ctas - full * capacity;
  const double last = std::ceil((rest > 0 ? rest : capacity) / m.sm_count);
  const double number = rest > 0 ? full + 1 : full;
  const double on_sm = (number - 1) * static_cast<double>(d.plan.ctas_per_sm) + last;
  if (d.plan.persistent) return {ctas, d.plan.steps, number, on_sm, last, 1};
  return {ctas, d.plan.steps, number, on_sm, on_sm, number};
}

}  // namespace

LowerBound::LowerBound(const Rates& rates, const FamilyScalars& scalars) : m(rates), family(scalars) {
  const auto partitions = static_cast<double>(std::max<std::int64_t>(1, m.gpu.l2.partitions));
  twice_ = 1 - 1 / partitions;
  clk_ = 1.0 / m.clock;
  tensor_clk_ = 1.0 / (m.clock * (1 - family.skipped_cycles));
  if (m.clock_mode == ClockMode::burst && m.regulator_lag > Seconds{} && family.tensor_steady < family.tensor_burst)
    sinks_per_clk_ = Rates::kBurstLaunches / (family.tensor_burst * family.efficiency * (m.clock * m.regulator_lag));
  per_l2_ = 1.0 / m.l2;
  per_port_ = 1.0 / m.l2_per_sm;
  per_read_ = 1.0 / (m.dram_read * family.dram_share);
  per_write_ = 1.0 / (m.dram_write * family.dram_share);
}

/// An upper bound of the share of the tensor rate that price() gives: the mean of an exponential approach is below its
/// series cut behind a positive term, and below 1 / x.
double LowerBound::tensor_share_at_most(const Demand& d) const {
  if (sinks_per_clk_ <= 0) return std::max(family.tensor_burst, family.tensor_steady) * family.efficiency;
  const double on_sm = std::ceil(static_cast<double>(d.plan.ctas) / m.sm_count) * d.plan.steps * d.tensor_clk;
  const double x = on_sm * sinks_per_clk_, series = 1 - x * (1.0 / 2 - x / 6);
  const double mean = x < 1 ? series : std::min(series, 1 / x);
  return (family.tensor_steady + (family.tensor_burst - family.tensor_steady) * mean) * family.efficiency;
}

Seconds LowerBound::l2(const Demand& d, double asked, double sms, double sm_clock) const {
  if (d.l2_limit == L2Limit::ports) return asked * d.l2 * per_port_ / (sms * sm_clock);
  const auto each = std::max(per_l2_, per_port_ / sms);
  if (d.l2_limit == L2Limit::lines) return asked * d.l2 * each;
  return (asked * d.lookups + twice_ * d.l2_distinct + (1 + twice_) * d.l2_written) * each /
         (kLookupShare * (1 + twice_));
}

Seconds LowerBound::dram(const Demand& d, double waves) const {
  const Bytes all = d.dram_read + d.dram_write;
  if (all <= Bytes{}) return Seconds{};
  const double r = d.dram_read / all;
  const Seconds moved = (d.dram_read * per_read_ + d.dram_write * per_write_) *
                        (1.0 + 2.0 * std::min(1.0 - r, 2.0 * r) * m.dram_mix_loss);
  if (d.in_flight <= Bytes{}) return moved;
  return std::max(moved, waves * (all * m.dram_latency / (static_cast<double>(d.plan.ctas) * d.in_flight)));
}

/// Below pnorm(): ratios to the largest are at most 1, so their p-th powers are at least those of the next power of two,
/// and (1 + s)^(1/p) is above its chord from 0 to 1, whose slope is at least ln 2 / p. pnorm() itself leaves out what
/// adds less than 1e-4 a term.
Seconds LowerBound::norm(const PerResource<Seconds>& times, double p) {
  Seconds largest;
  for (const Seconds t : times) largest = std::max(largest, t);
  if (largest <= Seconds{} || p > 16) return largest;
  const int squarings = p <= 1 ? 0 : p <= 2 ? 1 : p <= 4 ? 2 : p <= 8 ? 3 : 4;
  double sum = -1;  // without the largest itself
  const auto per_largest = 1.0 / largest;
  for (const Seconds t : times) {
    double power = t * per_largest;
    for (int i = 0; i < squarings; ++i) power *= power;
    sum += power;
  }
  constexpr double kLn2 = 0.693, kLeftOut = 1e-3;
  const double above = (kLn2 * std::clamp(sum, 0.0, 1.0) - 2 * kLeftOut) / p;  // (1 + a / p) (1 - b / p), from below
  return above > 0 ? largest * (1 + above) : largest;
}

Seconds LowerBound::operator()(const Demand& d) const {
  const double share = d.tensor_clk > 0 ? tensor_share_at_most(d) : 1;
  const double sm_clock = d.tensor_clk > 0 ? 1 - family.skipped_cycles : 1;
  const Seconds clk = d.tensor_clk > 0 ? tensor_clk_ : clk_;
  const Waves w = waves_of(d, m);
  const double work = w.on_sm * w.steps, standing_clk = d.loads_stop ? d.serial_clk : 0;
  const double tensor_clk = d.tensor_clk / share;
  PerResource<Seconds> t;
  t[Resource::tensor] =
      std::max(work * tensor_clk, w.number * (w.steps * tensor_clk + (d.tensor_clk > 0 ? d.serial_clk : 0))) * clk;
  t[Resource::fp32] = work * d.fp32_clk * clk;
  t[Resource::sfu] = work * d.sfu_clk * clk;
  t[Resource::issue] = work * d.issue_clk * clk;
  t[Resource::smem] =
      std::max(work * d.smem_clk, w.number * (w.steps * d.smem_clk + (d.smem_clk > 0 ? standing_clk : 0))) * clk;
  t[Resource::latency] =
      std::max(w.number * w.steps * d.step_latency, work * engine::outstanding<PlainNumbers>(d, m, family)) +
      w.number * standing_clk * clk + d.start;
  const Seconds fill = work * d.edge_fill_clk * clk;
  t[Resource::l2] = l2(d, w.ctas * w.steps, std::min(w.ctas, m.sm_count), sm_clock) + fill;
  t[Resource::dram] = dram(d, w.number) + fill;
  const Seconds exposed = (work * d.exposed_clk + w.ends * d.once_clk) * clk + w.end_waves * family.per_cta;
  const Seconds once = family.fixed + d.serial_latency + (d.link > Bytes{} ? d.link / m.pcie : Seconds{});
  constexpr double kRounding = 1e-12;
  return (once + norm(t, d.overlap > 0 ? d.overlap : family.overlap) + exposed) * (1 - kRounding);
}

Seconds lower_bound(const Demand& d, const Rates& m, const FamilyScalars& family) { return LowerBound(m, family)(d); }

}  // namespace plumbline
