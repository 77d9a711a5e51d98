#include "model/engine/run_at_clock.hpp"

#include <algorithm>

#include "model/engine/timing.hpp"

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

Speeds speeds_at(const LaunchPrediction& l, const PowerScalars& power, double share, double left) {
  if (l.demand.tensor_clk > 0) return {tensor_rate(l, power), share * left, share};
  return {1, share, share};
}

RunEnergy energy_of_run(std::span<const LaunchPrediction> launches, Flops useful, DType math, Bytes read, Bytes written,
                        const Rates& m) {
  RunEnergy run;
  for (const LaunchPrediction& l : launches) {
    const Demand& d = l.demand;
    Activity a = activity(d, d.tensor_clk > 0 ? useful : Flops{}, math, m.gpu.sm);
    a.dram_read = a.dram_write = Bytes{};
    run.chip += energy_of(a, math, *m.power, m.data).chip;
    run.tensor_estimate += estimated_tensor_energy(a, math, *m.power);
  }
  Activity moved;  // of the whole execution: a copy engine's bytes are in no launch's time
  moved.dram_read = read;
  moved.dram_write = written;
  const LaunchEnergy of_bytes = energy_of(moved, math, *m.power, m.data);
  run.chip += of_bytes.chip;
  run.memory = of_bytes.memory;
  return run;
}

Seconds time_at(std::span<const LaunchPrediction> launches, const RunEnergy& energy, const Rates& m, double share) {
  const PowerScalars& p = *m.power;
  bool tensor = false;
  const auto total = [&](double left) {
    Seconds time;
    for (const LaunchPrediction& l : launches) {
      tensor = tensor || l.demand.tensor_clk > 0;
      time += price_total(l.demand, m, *l.family, speeds_at(l, p, share, left)) + m.gap_graph;
    }
    return time;
  };
  const Seconds time = total(1 - p.skipped_cycles);
  if (!tensor) return time;
  const Watts power = run_power(p, share, energy, time);
  return power <= p.skipped_more_from ? time : total(cycles_left(p, power, settled_power(p, share, Watts{})));
}

double clock_share_of(std::span<const LaunchPrediction> launches, const RunEnergy& energy, const Rates& m,
                      Seconds at_boost) {
  if (m.clock_mode == ClockMode::burst) return m.clock_limit;
  const PowerScalars& p = *m.power;
  return std::min(m.clock_limit,
                  settled_clock_share(p, p.regulator_aim * m.power_cap, energy, at_boost,
                                      [&](double tried) { return time_at(launches, energy, m, tried); }));
}

}  // namespace plumbline
