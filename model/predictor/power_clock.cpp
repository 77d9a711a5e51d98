// Operators at a clock: times, power and energy; the clock that the cap leaves.
#include <algorithm>
#include <cmath>

#include "model/engine/timing.hpp"
#include "model/predictor/power_clock.hpp"

namespace plumbline {
namespace {

/// What SMs skip of their cycles in dense bursts on random data (own measurement on an H200, 2026-11-20: 1562 to 1613
/// of 1980 MHz).
constexpr double kSkippedInBursts = 0.2;

/// Share of the tensor rate at the SM clock. The library kernels' fitted shares were measured with the skipped cycles in them.
double tensor_rate(const LaunchPrediction& l, const PowerScalars& power) {
  const FamilyScalars& family = *l.family;
  if (family.skipped_cycles > 0) return family.efficiency;
  const double fitted = family.fitted_in_bursts ? family.tensor_burst * family.efficiency : l.family_share;
  return std::min(1.0, fitted / (power.skipped_cycles > 0 ? 1 - kSkippedInBursts : 1));
}

}  // namespace

EnergyBand energy_band(Joules energy, Watts power, Watts power_low, Watts power_high, Seconds time, Seconds low,
                       Seconds high) {
  const double below = std::hypot(std::log(power / power_low), std::log(time / low));
  const double above = std::hypot(std::log(power_high / power), std::log(high / time));
  return {energy * std::exp(-below), energy * std::exp(above)};
}

void set_energies(OpPrediction& op, const Rates& m) {
  Flops useful = op.tensor;
  op.chip_energy = op.tensor_estimate = Joules{};
  for (int i = 0; i < op.launch_count; ++i) {
    const Demand& d = op.launches[static_cast<std::size_t>(i)].demand;
    Activity a = activity(d, d.tensor_clk > 0 ? useful : Flops{}, op.math, m.gpu.sm);
    a.dram_read = a.dram_write = Bytes{};
    op.chip_energy += energy_of(a, op.math, *m.power, m.data).chip;
    op.tensor_estimate += estimated_tensor_energy(a, op.math, *m.power);
  }
  Activity moved;  // of the whole op: a copy engine's bytes are in no launch's time
  moved.dram_read = op.dram_read;
  moved.dram_write = op.dram_write;
  const LaunchEnergy of_bytes = energy_of(moved, op.math, *m.power, m.data);
  op.chip_energy += of_bytes.chip;
  op.memory_energy = of_bytes.memory;
}

void add_link_energy(OpPrediction& op, const Rates& m) {
  Bytes sent;
  for (int i = 0; i < op.launch_count; ++i) sent += op.launches[static_cast<std::size_t>(i)].demand.link;
  op.memory_energy += sent * m.power->link + op.time * m.power->links_awake;
}

namespace {

bool uses_tensor_units(const OpPrediction& op) {
  for (int i = 0; i < op.launch_count; ++i) {
    if (op.launches[static_cast<std::size_t>(i)].demand.tensor_clk > 0) return true;
  }
  return false;
}

/// `left`: share of the SM cycles that is left where tensor units work.
void price_launches(OpPrediction& op, const Rates& m, double share, double left) {
  op.time = Seconds{};
  double cycles = 0;
  for (int i = 0; i < op.launch_count; ++i) {
    LaunchPrediction& l = op.launches[static_cast<std::size_t>(i)];
    const bool tensor = l.demand.tensor_clk > 0;
    const double sm = tensor ? share * left : share;
    if (tensor || l.clock != m.clock * sm) {
      l.clock = m.clock * sm;
      l.speeds = Speeds{tensor ? tensor_rate(l, *m.power) : 1, sm, share};
      l.time = price(l.demand, m, *l.family, l.speeds);
    }
    op.time += l.time.total + m.gap_graph;
    cycles += l.time.total * l.clock + m.gap_graph * (m.clock * share);
  }
  op.clock = cycles / op.time;
  op.power = run_power(*m.power, share, run_energy(op), op.time);
  op.energy = *op.power * op.time;
  const PowerScalars::Band& band = power_band(*m.power, *op.power, m.power->regulator_aim * m.power_cap, op.time);
  op.power_low = band.low * *op.power;
  op.power_high = band.high * *op.power;
}

}  // namespace

void reprice(OpPrediction& op, const Rates& m, double share) {
  const PowerScalars& p = *m.power;
  price_launches(op, m, share, 1 - p.skipped_cycles);
  if (*op.power <= p.skipped_more_from || !uses_tensor_units(op)) return;
  price_launches(op, m, share, cycles_left(p, *op.power, settled_power(p, share, Watts{})));
}

RunEnergy run_energy(const OpPrediction& op) { return {op.chip_energy, op.memory_energy, op.tensor_estimate}; }

void settle(OpPrediction& op, const Rates& m) {
  const PowerScalars& p = *m.power;
  double last = 1;
  op.uncapped = op.time;
  const double left = settled_clock_share(p, p.regulator_aim * m.power_cap, run_energy(op), op.time, [&](double tried) {
    reprice(op, m, last = tried);
    return op.time;
  });
  op.power_limited = left < m.clock_limit;
  const double share = std::min(left, m.clock_limit);
  if (share != last) reprice(op, m, share);
  op.power_high = held_to_cap(*op.power_high, *op.power, m);
}

Watts held_to_cap(Watts high, Watts power, const Rates& m) {
  const PowerScalars& p = *m.power;
  return std::max(power, std::min(high, p.held_down.high * p.regulator_aim * m.power_cap));
}

}  // namespace plumbline
