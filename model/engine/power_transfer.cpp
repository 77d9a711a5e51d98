// Energies of a card that has none of its own, from one that was measured. Derived, not measured: bands are widened.
#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <utility>

#include "model/engine/power.hpp"

namespace plumbline {
namespace {

/// Energy of the same logic at the same voltage, over TSMC 4N's. From the foundries' own statements of power at the
/// same speed: N5 takes 30 % less than N7, N7 60 % less than 16FF+ (12FFN a tenth below that), N6 as N7, N3 25 to 30 %
/// less than N5; Samsung 8N a tenth above N7 (our reading of 10LPP figures). Unknown chips: as 4N.
double process_energy(std::string_view compute_capability) {
  constexpr std::array<std::pair<std::string_view, double>, 9> kNodes{{{"7.0", 3.2},   // 12FFN: V100
                                                                       {"7.5", 3.2},   // 12FFN: T4
                                                                       {"8.0", 1.43},  // N7: A100
                                                                       {"8.6", 1.6},   // 8N: A10, A40
                                                                       {"8.7", 1.6},
                                                                       {"gfx90a", 1.43},  // N6: MI200
                                                                       {"gfx942", 1.0},   // N5: MI300
                                                                       {"gfx950", 0.75},  // N3P: MI355
                                                                       {"9.0", 1.0}}};
  for (const auto& [chip, energy] : kNodes) {
    if (chip == compute_capability) return energy;
  }
  return 1;
}

}  // namespace

double process_energy(const Gpu& gpu) { return process_energy(gpu.compute_capability); }

PowerScalars at_boost(const PowerScalars& power, double ratio) {
  const double slope = (1 - power.floor_voltage) / std::max(1e-6, 1 - power.knee);
  const double voltage = ratio > 1 ? 1 + slope * (ratio - 1) : std::sqrt(voltage_squared(power, ratio));
  const double v = voltage * voltage;
  PowerScalars p = power;
  p.knee = std::min(1.0, power.knee / ratio);
  p.floor_voltage = std::min(1.0, power.floor_voltage / voltage);
  for (std::size_t i = 0; i < kDTypeCount; ++i) p.tensor[static_cast<DType>(i)] *= v;
  p.fp32 *= v;
  p.sfu *= v;
  p.instruction *= v;
  p.smem *= v;
  p.l2 *= v;
  const double dram = power.memory_supply + (1 - power.memory_supply) * v;  // the memory's own supply stays
  p.dram_read *= dram;
  p.dram_write *= dram;
  p.memory_supply = power.memory_supply / dram;
  p.clocked *= ratio * v;
  return p;
}

PowerScalars scaled_to(const PowerScalars& power, const GpuNumbers& from, const GpuNumbers& to, double logic) {
  const double cap = to.tdp / from.tdp;
  PowerScalars p = at_boost(power, to.boost_clock / from.boost_clock);  // one voltage a frequency for both chips
  for (std::size_t i = 0; i < kDTypeCount; ++i) p.tensor[static_cast<DType>(i)] *= logic;
  p.fp32 *= logic;
  p.sfu *= logic;
  p.instruction *= logic;
  p.smem *= logic;
  // The way through L2 to DRAM and back is wires and interfaces: 118 pJ a DRAM byte on an A100, 122 on a Hopper, by the
  // same kernels (modeling notes, section 9), each at its own boost clock. As it is.
  p.l2 = power.l2;
  p.dram_read = power.dram_read;
  p.dram_write = power.dram_write;
  p.memory_supply = power.memory_supply;
  p.clocked = power.clocked * cap;
  p.leakage_per_K *= cap;
  p.kelvin_per_W /= cap;
  p.constant *= cap;
  if (to.idle_power > Watts{}) {
    const Watts rest = settled_power(p, kLowestClockShare, Watts{});
    p.constant = std::max(Watts{}, p.constant + to.idle_power - rest);
  }
  p.droop_from *= cap;
  p.droop_per_W /= cap;
  p.tensor_limit *= cap;
  constexpr double kWiden = 2.5;  // as for times: predictions across generations err two to three times as much
  for (PowerScalars::Band* band : {&p.held_down, &p.free, &p.brief}) {
    band->low = std::pow(band->low, kWiden);
    band->high = std::pow(band->high, kWiden);
  }
  return p;
}

}  // namespace plumbline
