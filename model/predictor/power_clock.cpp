// Operators at a clock: times, power and energy; the clock that the cap leaves.
#include <algorithm>
#include <cmath>
#include <span>

#include "model/engine/run_at_clock.hpp"
#include "model/engine/timing.hpp"
#include "model/predictor/power_clock.hpp"

namespace plumbline {
namespace {

std::span<const LaunchPrediction> launches_of(const OpPrediction& op) {
  return {op.launches.data(), static_cast<std::size_t>(op.launch_count)};
}

}  // namespace

EnergyBand energy_band(Joules energy, Watts power, Watts power_low, Watts power_high, Seconds time, Seconds low,
                       Seconds high) {
  const double below = std::hypot(std::log(power / power_low), std::log(time / low));
  const double above = std::hypot(std::log(power_high / power), std::log(high / time));
  return {energy * std::exp(-below), energy * std::exp(above)};
}

void set_energies(OpPrediction& op, const Rates& m) {
  const RunEnergy run = energy_of_run(launches_of(op), op.tensor, op.math, op.dram_read, op.dram_write, m);
  op.chip_energy = run.chip;
  op.memory_energy = run.memory;
  op.tensor_estimate = run.tensor_estimate;
}

void add_link_energy(OpPrediction& op, const Rates& m) {
  Bytes sent, staged;
  for (int i = 0; i < op.launch_count; ++i) {
    sent += op.launches[static_cast<std::size_t>(i)].demand.link;
    staged += op.launches[static_cast<std::size_t>(i)].demand.staged;
  }
  op.memory_energy += sent * m.power->link + op.time * m.power->links_awake;
  // A library's own buffers are rings (4 MiB a channel of NCCL's, 24 channels), so that what passes through them is written to
  // memory and read from there where it is more than L2 holds. Not known: how much of a short exchange is.
  if (staged > m.l2_kept) op.memory_energy += staged * (m.power->dram_read + m.power->dram_write);
}

namespace {

/// Power, its band and the energy of an op whose time is known.
void set_power(OpPrediction& op, const Rates& m, double share) {
  op.power = run_power(*m.power, share, run_energy(op), op.time);
  op.energy = *op.power * op.time;
  const PowerScalars::Band& band = power_band(*m.power, *op.power, m.power->regulator_aim * m.power_cap, op.time);
  op.power_low = band.low * *op.power;
  op.power_high = band.high * *op.power;
}

/// `left`: share of the SM cycles that is left where tensor units work.
void price_launches(OpPrediction& op, const Rates& m, double share, double left) {
  op.time = Seconds{};
  double cycles = 0;
  for (int i = 0; i < op.launch_count; ++i) {
    LaunchPrediction& l = op.launches[static_cast<std::size_t>(i)];
    const Speeds speeds = speeds_at(l, *m.power, share, left);
    if (l.demand.tensor_clk > 0 || l.clock != m.clock * speeds.sm) {
      l.clock = m.clock * speeds.sm;
      l.speeds = speeds;
      l.time = price(l.demand, m, *l.family, speeds);
    }
    op.time += l.time.total + m.gap_graph;
    cycles += l.time.total * l.clock + m.gap_graph * (m.clock * share);
  }
  op.clock = cycles / op.time;
  set_power(op, m, share);
}

}  // namespace

void add_polling_energy(OpPrediction& op, const Rates& m) {
  Joules taken;
  for (const LaunchPrediction& l : launches_of(op)) {
    taken += polled(l.demand, l.time.total, static_cast<double>(m.gpu.sm_count), m.clock) * m.power->polling;
  }
  if (taken <= Joules{}) return;
  op.chip_energy += taken;
  set_power(op, m, 1);
}

void reprice(OpPrediction& op, const Rates& m, double share) {
  const double usual = 1 - m.power->skipped_cycles;
  price_launches(op, m, share, usual);
  const double left = cycles_left_of(launches_of(op), run_energy(op), m, share, op.time);
  if (left < usual) price_launches(op, m, share, left);
}

Seconds repriced_time(const OpPrediction& op, const Rates& m, double share) {
  return time_at(launches_of(op), run_energy(op), m, share);
}

RunEnergy run_energy(const OpPrediction& op) { return {op.chip_energy, op.memory_energy, op.tensor_estimate}; }

void settle(OpPrediction& op, const Rates& m) {
  const PowerScalars& p = *m.power;
  op.uncapped = op.time;
  const double left = settled_clock_share(p, p.regulator_aim * m.power_cap, run_energy(op), op.time,
                                          [&](double tried) { return repriced_time(op, m, tried); });
  op.power_limited = left < m.clock_limit;
  const double share = std::min(left, m.clock_limit);
  if (share != 1) reprice(op, m, share);
  op.power_high = held_to_cap(*op.power_high, *op.power, m);
}

Watts held_to_cap(Watts high, Watts power, const Rates& m) {
  const PowerScalars& p = *m.power;
  return std::max(power, std::min(high, p.held_down.high * p.regulator_aim * m.power_cap));
}

}  // namespace plumbline
