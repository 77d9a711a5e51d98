// A lower bound of price(), for plan searches: the same terms without powers, logarithms and exponentials.
#include <algorithm>
#include <cmath>

#include "model/engine/body.hpp"
#include "model/engine/timing.hpp"

namespace plumbline {

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

/// As the engine's slices_or_port().
Seconds LowerBound::l2(const Demand& d, const engine::Filling& f, double sm_clock) const {
  const double port_steps = f.port_turns * f.steps;
  if (d.l2_limit == L2Limit::ports) return port_steps * d.l2 * per_port_ / sm_clock;
  if (d.l2_limit == L2Limit::lines) return std::max(f.all_steps * d.l2 * per_l2_, port_steps * d.l2 * per_port_);
  const Bytes lines = twice_ * d.l2_distinct + (1 + twice_) * d.l2_written;
  return std::max((f.all_steps * d.lookups + lines) * per_l2_,
                  (port_steps * d.lookups + f.port_turns / f.ctas * lines) * per_port_) /
         (kLookupShare * (1 + twice_));
}

Seconds LowerBound::dram(const Demand& d, const engine::Filling& f) const {
  const Bytes all = d.dram_read + d.dram_write;
  if (all <= Bytes{}) return Seconds{};
  const double r = d.dram_read / all;
  const Seconds moved = (d.dram_read * per_read_ + d.dram_write * per_write_) *
                            (1.0 + 2.0 * std::min(1.0 - r, 2.0 * r) * m.dram_mix_loss) +
                        d.held * per_l2_;
  if (d.in_flight <= Bytes{}) return moved;
  return std::max(moved, f.waves * (all * m.dram_latency / (f.ctas * d.in_flight)));
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
  const engine::Filling f = engine::filling_of(d, m);
  const double work = f.on_sm * f.steps, standing_clk = d.loads_stop ? d.serial_clk : 0;
  const double tensor_clk = d.tensor_clk / share;
  PerResource<Seconds> t;
  t[Resource::tensor] =
      std::max(work * tensor_clk, f.waves * (f.steps * tensor_clk + (d.tensor_clk > 0 ? d.serial_clk : 0))) * clk;
  t[Resource::fp32] = work * d.fp32_clk * clk;
  t[Resource::sfu] = work * d.sfu_clk * clk;
  t[Resource::issue] = work * d.issue_clk * clk;
  t[Resource::smem] =
      std::max(work * d.smem_clk, f.waves * (f.steps * d.smem_clk + (d.smem_clk > 0 ? standing_clk : 0))) * clk;
  t[Resource::latency] = std::max(f.waves * f.steps * std::max(d.step_latency, d.chain_clk * clk_),
                                  work * engine::outstanding<PlainNumbers>(d, m, family)) +
                         f.waves * standing_clk * clk + d.start + (f.waves - 1) * d.next_tile_wait;
  const Seconds fill = work * d.edge_fill_clk * clk;
  t[Resource::l2] = l2(d, f, sm_clock) + fill + work * d.port_fill_clk * clk;
  t[Resource::dram] = dram(d, f) + fill;
  const Seconds exposed = (work * d.exposed_clk + f.ends_on_sm * d.once_clk) * clk + f.ends * family.per_cta;
  const Seconds once =
      family.fixed + d.serial_latency + (d.link > Bytes{} ? d.link / engine::link_rate(d, m) : Seconds{});
  constexpr double kRounding = 1e-12;
  return (once + norm(t, d.overlap > 0 ? d.overlap : family.overlap) + exposed) * (1 - kRounding);
}

Seconds lower_bound(const Demand& d, const Rates& m, const FamilyScalars& family) { return LowerBound(m, family)(d); }

}  // namespace plumbline
