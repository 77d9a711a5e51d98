#include "model/engine/run_at_clock.hpp"

#include <algorithm>
#include <cmath>

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

/// Cycles that are left where the donor of the energies skips none (an A100) and the card's data sheet says that it does: what its
/// family has of them is in no count of the power's.
double rated_left(const LaunchPrediction& l, const PowerScalars& power) {
  return power.skipped_cycles > 0 ? 1 : 1 - l.family->skipped_cycles;
}

}  // namespace

/// L2's clock does not fall with the SMs': of recorded training iterations at the cap of an H200 passes that memory limits, beside
/// L2, are no slower at 1500 MHz than the time without the cap says (docs/calibration/power.md). What L2 gives tensor work was found
/// with the SMs' clock, with which recorded steps of our own kernels are nearer. How far L2 follows a clock that is locked was not
/// measured.
Speeds speeds_at(const LaunchPrediction& l, const PowerScalars& power, double share, double left) {
  if (l.demand.tensor_clk > 0) return {tensor_rate(l, power), share * left * rated_left(l, power), share};
  return {1, share, 1};
}

RunEnergy energy_of_run(std::span<const LaunchPrediction> launches, Flops useful, DType math, Bytes read, Bytes written,
                        const Rates& m) {
  RunEnergy run;
  for (const LaunchPrediction& l : launches) {
    const Demand& d = l.demand;
    Activity a = activity(d, useful, math, m.gpu.sm);
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

namespace {

/// `left`: share of the SM cycles where tensor units work.
Seconds time_with(std::span<const LaunchPrediction> launches, const Rates& m, double share, double left) {
  Seconds time;
  for (const LaunchPrediction& l : launches) {
    time += price_total(l.demand, m, *l.family, speeds_at(l, *m.power, share, left)) + m.gap_graph;
  }
  return time;
}

/// -d ln t / d ln left between two points: 1 where all of the time is cycles that are skipped.
double slope_between(Seconds time, Seconds other, double left, double other_left) {
  const double run = std::log(other_left / left);
  return run != 0 ? std::clamp(std::log(time / other) / run, 0.0, 1.0) : 1;
}

}  // namespace

double cycles_left_of(std::span<const LaunchPrediction> launches, const RunEnergy& energy, const Rates& m, double share,
                      Seconds at_usual) {
  const PowerScalars& p = *m.power;
  const double usual = 1 - p.skipped_cycles;
  const bool tensor =
      std::any_of(launches.begin(), launches.end(), [](const auto& l) { return l.demand.tensor_clk > 0; });
  if (!tensor || p.skipped_per_W <= 0) return usual;
  const Watts full = run_power(p, share, energy, at_usual);
  if (full <= p.skipped_more_from) return usual;
  const Watts standing = settled_power(p, share, Watts{});
  constexpr int kBySlope = 6, kMostGuesses = 24;
  constexpr double kNear = 1e-5;
  double left = cycles_left(p, full, standing);  // as if all of the time went with them
  double before = usual, low = 0.5 * usual, high = usual;
  Seconds time_before = at_usual;
  for (int i = 0; i < kMostGuesses; ++i) {
    const Seconds time = time_with(launches, m, share, left);
    const Watts power = run_power(p, share, energy, time);
    const double beyond = (power - p.skipped_more_from).in(units::W);
    const double leaves = std::clamp(usual - p.skipped_per_W * beyond, 0.5 * usual, usual);  // what that power leaves
    if (std::abs(leaves - left) <= kNear) break;
    (leaves < left ? high : low) = left;
    const double slope = slope_between(time, time_before, left, before);
    const double steepness = 1 + p.skipped_per_W * (power - standing).in(units::W)*slope / left;
    before = left;
    time_before = time;
    left += (leaves - left) / steepness;
    if (i >= kBySlope || left <= low || left >= high) left = 0.5 * (low + high);
  }
  return left;
}

Seconds time_at(std::span<const LaunchPrediction> launches, const RunEnergy& energy, const Rates& m, double share) {
  const double usual = 1 - m.power->skipped_cycles;
  const Seconds time = time_with(launches, m, share, usual);
  const double left = cycles_left_of(launches, energy, m, share, time);
  return left < usual ? time_with(launches, m, share, left) : time;
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
