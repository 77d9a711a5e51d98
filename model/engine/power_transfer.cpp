// Energies of a card that has none of its own, from one that was measured. Derived, not measured: bands are widened.
#include <algorithm>
#include <cmath>

#include "model/engine/power.hpp"

namespace plumbline {

PowerScalars at_boost(const PowerScalars& power, double ratio) {
  const double slope = (1 - power.floor_voltage) / std::max(1e-6, 1 - power.knee);
  const double voltage = ratio > 1 ? 1 + slope * (ratio - 1) : std::sqrt(voltage_squared(power, ratio));
  const double v = voltage * voltage;
  PowerScalars p = power;
  p.knee = std::min(1.0, power.knee / ratio);
  p.floor_voltage = std::min(1.0, power.floor_voltage / voltage);
  for (std::size_t i = 0; i < kDTypeCount; ++i) p.tensor[static_cast<DType>(i)] *= v;
  p.fp32 *= v;
  p.lane_product *= v;
  p.sfu *= v;
  p.instruction *= v;
  p.smem *= v;
  p.l2 *= v;
  const double dram = power.memory_supply + (1 - power.memory_supply) * v;  // the memory's own supply stays
  p.dram_read *= dram;
  p.dram_write *= dram;
  p.memory_supply = power.memory_supply / dram;
  p.clocked *= ratio * v;
  p.polling *= ratio * v;
  return p;
}

namespace {

/// A chip under another cap, or with other memory: what it takes standing is its own.
bool same_chip(const GpuNumbers& a, const GpuNumbers& b, double logic) {
  return a.sm_count == b.sm_count && a.boost_clock == b.boost_clock && logic == 1;
}

}  // namespace

PowerScalars scaled_to(const PowerScalars& power, const GpuNumbers& from, const GpuNumbers& to, double logic) {
  const double cap = same_chip(from, to, logic) ? 1 : to.tdp / from.tdp;
  PowerScalars p = at_boost(power, to.boost_clock / from.boost_clock);  // one voltage a frequency for both chips
  for (std::size_t i = 0; i < kDTypeCount; ++i) p.tensor[static_cast<DType>(i)] *= logic;
  p.fp32 *= logic;
  p.lane_product *= logic;
  p.sfu *= logic;
  p.instruction *= logic;
  p.smem *= logic;
  p.polling *= logic * static_cast<double>(to.sm_count) / static_cast<double>(from.sm_count);
  // The way through L2 to DRAM and back is wires and interfaces: 118 pJ a DRAM byte on an A100, 122 on a Hopper, by the
  // same kernels (docs/sources.md: power), each at its own boost clock. As it is.
  p.l2 = power.l2;
  p.dram_read = power.dram_read;
  p.dram_write = power.dram_write;
  p.link = power.link;  // wires too
  p.links_awake = power.links_awake * cap;
  p.memory_supply = power.memory_supply;
  p.clocked = power.clocked * cap;
  p.leakage_per_K *= cap;
  p.kelvin_per_W /= cap;
  p.constant *= cap;
  if (to.idle_power > Watts{}) {
    const Watts rest = settled_power(p, kLowestClockShare, Watts{});
    p.constant = std::max(Watts{}, p.constant + to.idle_power - rest);
  }
  p.skipped_more_from *= cap;
  p.skipped_per_W /= cap;
  p.tensor_limit *= cap;
  constexpr double kWiden = 2.5;  // as for times: predictions across generations err two to three times as much
  for (PowerScalars::Band* band : {&p.held_down, &p.free, &p.brief}) {
    band->low = std::pow(band->low, kWiden);
    band->high = std::pow(band->high, kWiden);
  }
  return p;
}

}  // namespace plumbline
