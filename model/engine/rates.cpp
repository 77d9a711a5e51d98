#include "model/engine/rates.hpp"

#include <algorithm>
#include <cmath>

#include "arch/gpu/peaks.hpp"

namespace plumbline {
namespace {

/// Scalars that are no fractions (CarryOver). A donor that has no descriptor (a calibration of one's own) changes
/// nothing.
void carry_over(Rates& m, const RateScalars::Donor& donor) {
  const double cycles = donor.gpu.boost_clock / m.clock;
  const bool counts_trips = m.path.multicast && donor.gpu.sm.async_copy != AsyncCopy::tma;
  for (FamilyScalars& family : m.families) {
    if (counts_trips)
      family.fixed = std::max(Seconds{}, family.fixed - family.carry.cold_trips * donor.gpu.memory.latency);
    family.skipped_cycles *= donor.skipped.ratio;
    if (family.carry.skips_as_rated) family.skipped_cycles = std::max(family.skipped_cycles, donor.skipped.rated);
    if (family.carry.fixed_in_cycles) family.fixed *= cycles;
    if (family.carry.chains_in_cycles) {
      for (Seconds* chain : {&family.step, &family.per_cta, &family.counter}) *chain *= cycles;
      for (Bandwidth* by_one : {&family.channel, &family.element}) *by_one /= cycles;
    }
    if (family.carry.in_flight_with_memory) family.sm_in_flight *= donor.outstanding;
    if (!family.carry.chain_with_memory) continue;
    family.step_clk /= donor.outstanding;
    family.issue_step_clk /= donor.outstanding;
    family.in_flight *= donor.outstanding;
  }
}

std::optional<PowerScalars> power_of(const GpuNumbers& gpu, const RateScalars& s) {
  if (!s.power) return std::nullopt;
  if (s.donor) {
    PowerScalars p = scaled_to(*s.power, s.donor->gpu, gpu, s.donor->process_energy);
    p.skipped_cycles *= s.donor->skipped.ratio;
    return p;
  }
  const PowerScalars& p = *s.power;
  if (p.boost > Hertz{} && p.boost != gpu.boost_clock) return at_boost(p, gpu.boost_clock / p.boost);
  return p;
}

}  // namespace

double Rates::sustained_fraction(Seconds launch, double burst, double steady) const {
  if (clock_mode == ClockMode::steady || regulator_lag <= Seconds{}) return burst;
  // mean over a burst of ten launches of an exponential approach to the steady share
  const double x = kBurstLaunches * launch / regulator_lag;
  // (1 - e^-x) / x, by its series where that is exact to 1e-9: most launches are short
  const double mean = x < 1e-2 ? 1.0 - x * (1.0 / 2 - x * (1.0 / 6 - x / 24)) : (1.0 - std::exp(-x)) / x;
  return steady + (burst - steady) * mean;
}

double outstanding_ratio(const GpuNumbers& gpu, const GpuNumbers& donor, bool same_generation) {
  if (same_generation) return 1;
  const auto needed = [](const GpuNumbers& g) {
    return g.memory.data_bandwidth() * g.memory.latency / static_cast<double>(g.sm_count);
  };
  return std::max(1.0, needed(gpu) / needed(donor));
}

SkippedCycles skipped_as_rated(double gpu, double donor, bool same_generation) {
  if (same_generation) return {};
  const double here = std::max(0.0, 1 - gpu), there = std::max(0.0, 1 - donor);
  if (there > 0) return {here / there, 0};
  return {1, here};
}

Rates make_rates(const GpuNumbers& gpu, const RateScalars& s) {
  Rates m = s.base;
  m.gpu = gpu;
  m.clock = gpu.boost_clock;
  m.sm_count = static_cast<double>(gpu.sm_count);
  m.power = power_of(gpu, s);
  m.power_cap = s.power_cap.value_or(gpu.tdp);
  if (s.sm_clock) m.clock_limit = std::min(1.0, *s.sm_clock / gpu.boost_clock);
  // what the memory itself was measured to reach goes before what another card's does; writes keep their ratio to reads
  const bool measured = s.donor && gpu.memory.read_fraction > 0;
  const double memory = measured ? gpu.memory.read_fraction / s.dram_read : 1;
  m.dram_read = memory * s.dram_read * gpu.memory.data_bandwidth();
  m.dram_write = std::min(1.0, memory * s.dram_write) * gpu.memory.data_bandwidth();
  m.dram_latency = s.dram_latency * gpu.memory.latency;
  m.l2_latency = gpu.l2.latency;
  m.l2 = s.l2_bandwidth * l2_peak(gpu, m.clock);
  m.l2_per_sm = gpu.sm.l2_bytes_per_clk * m.clock;
  m.l2_capacity = s.l2_usable * gpu.l2.size;
  m.l2_kept = m.l2_capacity / static_cast<double>(std::max<std::int64_t>(1, gpu.l2.partitions));
  m.pcie = s.pcie * gpu.links.pcie_per_direction;
  if (s.donor) carry_over(m, *s.donor);
  return m;
}

}  // namespace plumbline
