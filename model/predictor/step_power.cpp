#include "model/predictor/step_power.hpp"

#include <algorithm>
#include <cmath>

#include "model/predictor/host_time.hpp"
#include "model/predictor/power_clock.hpp"
#include "model/predictor/predict_internal.hpp"
#include "model/schedule/exchanges.hpp"

namespace plumbline {
namespace {

/// What a regulator still knows of a phase that ended fades within this time (an H200's: pauses of 6 ms to 1 s between
/// products at the cap, data/measurements/h200/pytorch/cap_pauses.csv). An A100's was not measured.
constexpr Seconds kLookBack = 37.0 * units::ms;

/// Of all ranks: each stage's for as long as the step takes, busy as its work says beside the slowest's, else waiting.
Joules energy_of_all(const StepPrediction& out, Joules busy, Seconds time, Watts waiting) {
  const Graph& graph = out.graph;
  const auto stages = static_cast<double>(graph.pipeline.stages);
  const double ranks_of_stage = static_cast<double>(graph.ranks) / stages;
  const double idle = stages * (1 + out.stages.waits) - out.stages.all_busy;  // in times of the slowest
  return ranks_of_stage * (out.stages.all_energy * busy + idle * time * waiting);
}

/// What the links of a step's GPUs take while other operators run: those that send have it in their own energy.
Joules links_between(const StepPrediction& out, const Rates& m) {
  Seconds apart;
  bool sends = false;
  for (const NodePrediction& n : out.nodes) {
    const auto count = static_cast<double>(n.node->count);
    const bool sending = sends_by_nvlink(n.node->op, m);
    sends = sends || sending;
    apart += count * (sending ? n.gap + n.tax - n.hidden : n.on_path());
  }
  return sends ? apart * m.power->links_awake : Joules{};
}

/// Energy, mean power and mean clock of the step as its operators are priced now. In the gaps only the clocks run.
void add_up_energy(StepPrediction& out, const Rates& m, double clock_share) {
  const Watts waiting = settled_power(*m.power, clock_share, Watts{});
  const double bubble = out.stages.waits;
  Joules energy, low, high;
  Seconds time;
  double cycles = 0;
  for (const NodePrediction& n : out.nodes) {
    const auto count = static_cast<double>(n.node->count);
    // what runs side by side draws what does not go with work but once
    const Seconds beside_work = n.gap + n.tax - n.hidden;
    energy += count * (*n.op.energy + waiting * beside_work);
    low += count * (*n.op.power_low * n.op.time + waiting * beside_work);
    high += count * (*n.op.power_high * n.op.time + waiting * beside_work);
    time += count * n.on_path();
    cycles += count * (n.op.clock * n.op.time + m.clock * clock_share * beside_work);
  }
  const Joules links = links_between(out, m);
  energy += links;
  low += links;
  high += links;
  const Joules idle = bubble * time * waiting;
  out.power = (energy + idle) / ((1 + bubble) * time);
  out.power_low = (low + idle) / ((1 + bubble) * time);
  const Watts most = (high + idle) / ((1 + bubble) * time);
  out.power_high = m.clock_mode == ClockMode::burst ? most : held_to_cap(most, *out.power, m);
  out.waiting_power = waiting;
  out.clock = cycles / time;
  out.energy = energy_of_all(out, energy, time, waiting);
}

/// The step as it is at a share of the boost clock, all of it.
void reprice(StepPrediction& out, const Machine& machine, const RunOptions& options, SideBySide& side_by_side,
             double share) {
  const Rates& m = machine.rates();
  for (NodePrediction& n : out.nodes) reprice(n.op, m, share);
  set_gaps(out, machine, options.runtime, out.between_steps);
  exchange_beside(out, m, Stages::one);
  side_by_side(out);
  side_by_side.sends(out);
}

/// Of a phase that lasts `time`, the share that counts in the mean which the regulator holds at the cap.
double known_share(Seconds time) {
  const double x = time / kLookBack;
  return x > 0 ? -std::expm1(-x) / x : 1;
}

/// Of a pipeline's waits, which lie at both ends of an iteration (arXiv 2104.04473, figure 4). What runs once behind the
/// passes counts whole: recorded iterations meet the cap in their mean, updates of up to some 100 ms among them.
double known_share_of_waits(double waits, Seconds passes) { return known_share(0.5 * waits * passes); }

/// What the step takes there, `known` of its waits counted. Times and gaps alone are left in it, where nothing runs side
/// by side: for the clocks that a search tries.
Seconds step_time_at(StepPrediction& out, const Machine& machine, const RunOptions& options, SideBySide& side_by_side,
                     double known, double share) {
  const Rates& m = machine.rates();
  if (out.graph.side_by_side || out.graph.pipeline.sends_beside) {
    reprice(out, machine, options, side_by_side, share);
  } else {
    for (std::size_t i = 0; i < out.nodes.size(); ++i) {
      NodePrediction& n = out.nodes[i];
      n.op.time = n.first < i ? out.nodes[n.first].op.time : repriced_time(n.op, m, share);
    }
    set_gaps(out, machine, options.runtime, out.between_steps);
    exchange_beside(out, m, Stages::one);
  }
  Seconds time;
  for (const NodePrediction& n : out.nodes) time += static_cast<double>(n.node->count) * n.on_path();
  return (1 + known * out.stages.waits) * time;
}

/// How far the largest of `n` draws from a normal distribution lies above its mean, in standard deviations: its quantile
/// (n - 3/8) / (n + 1/4) (Blom 1958), by Abramowitz and Stegun's 26.2.23.
double largest_of(std::int64_t n) {
  if (n <= 1) return 0;
  const double t = std::sqrt(-2 * std::log(0.625 / (static_cast<double>(n) + 0.25)));
  return t - (2.515517 + t * (0.802853 + t * 0.010328)) / (1 + t * (1.432788 + t * (0.189269 + t * 0.001308)));
}

}  // namespace

void settle(StepPrediction& out, const Machine& machine, const RunOptions& options, SideBySide& side_by_side) {
  const Rates& m = machine.rates();
  add_up_energy(out, m, 1);
  const Watts aim = m.power->regulator_aim * m.power_cap;
  if (m.clock_mode == ClockMode::burst && m.clock_limit == 1) return;
  RunEnergy run;
  Seconds at_boost;
  for (const NodePrediction& n : out.nodes) {
    const auto count = static_cast<double>(n.node->count);
    const RunEnergy once = run_energy(n.op);
    run.chip += count * once.chip;
    run.memory += count * once.memory;
    run.tensor_estimate += count * once.tensor_estimate;
    at_boost += count * n.on_path();
  }
  run.chip *= 1 + m.power->chip_spread * largest_of(out.graph.together);
  run.memory += links_between(out, m);
  const double known = known_share_of_waits(out.stages.waits, at_boost);
  const Seconds capped = (1 + known * out.stages.waits) * at_boost;
  out.uncapped = (1 + out.stages.waits) * at_boost;
  double share = 1;
  if (m.clock_mode == ClockMode::steady) {
    share = settled_clock_share(*m.power, aim, run, capped, [&](double tried) {
      return step_time_at(out, machine, options, side_by_side, known, tried);
    });
  }
  out.power_limited = share < m.clock_limit;
  share = std::min(share, m.clock_limit);
  if (share == 1) return;
  reprice(out, machine, options, side_by_side, share);
  add_up_energy(out, m, share);
  for (NodePrediction& n : out.nodes) conclude(n.op, machine);
}

}  // namespace plumbline
