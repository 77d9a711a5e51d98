#include "model/predictor/step_power.hpp"

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include "model/predictor/host_time.hpp"
#include "model/predictor/power_clock.hpp"
#include "model/predictor/predict_internal.hpp"
#include "model/predictor/step_phases.hpp"
#include "model/schedule/exchanges.hpp"

namespace plumbline {
namespace {

/// Shares of the boost clock at which phases are priced beside it: where the step as a whole meets the cap, or here where it
/// does so at the boost clock, and that much lower again.
constexpr double kLowerShare = 0.85;

/// Of all ranks: each stage's for as long as the step takes, busy as its work says beside the slowest's, else waiting.
Joules energy_of_all(const StepPrediction& out, Joules busy, Seconds time, Watts waiting) {
  const Graph& graph = out.graph;
  const auto stages = static_cast<double>(graph.pipeline.stages);
  const double ranks_of_stage = static_cast<double>(graph.ranks) / stages;
  const double idle = stages * (1 + out.stages.waits) - out.stages.all_busy;  // in times of the slowest
  return ranks_of_stage * (out.stages.all_energy * busy + idle * time * waiting);
}

bool sends_beside_work(const StepPrediction& out, const Rates& m) {
  return std::any_of(out.nodes.begin(), out.nodes.end(),
                     [&](const NodePrediction& n) { return sends_by_nvlink(n.node->op, m); });
}

/// What the links of a step's GPUs take beside one execution that is no exchange: those that send have it in their own
/// energy.
Joules links_beside(const NodePrediction& n, const Rates& m) {
  return (sends_by_nvlink(n.node->op, m) ? n.gap + n.tax - n.hidden : n.on_path()) * m.power->links_awake;
}

/// Energy, mean power and mean clock of the step as its operators are priced now; `shares`: of the boost clock, of each
/// node. In the gaps only the clocks run; a pipeline's waits are at the mean clock.
void add_up_energy(StepPrediction& out, const Rates& m, std::span<const double> shares) {
  const bool sends = sends_beside_work(out, m);
  const double bubble = out.stages.waits;
  Joules energy, low, high, links;
  Seconds time, shared;
  double cycles = 0;
  Watts waiting;
  double share = 0;
  for (std::size_t i = 0; i < out.nodes.size(); ++i) {
    const NodePrediction& n = out.nodes[i];
    if (shares[i] != share) waiting = settled_power(*m.power, share = shares[i], Watts{});
    const auto count = static_cast<double>(n.node->count);
    // what runs side by side draws what does not go with work but once
    const Seconds beside_work = n.gap + n.tax - n.hidden;
    energy += count * (*n.op.energy + waiting * beside_work);
    low += count * (*n.op.power_low * n.op.time + waiting * beside_work);
    high += count * (*n.op.power_high * n.op.time + waiting * beside_work);
    if (sends) links += count * links_beside(n, m);
    shared += share * (count * n.on_path());
    time += count * n.on_path();
    cycles += count * (n.op.clock * n.op.time + m.clock * share * beside_work);
  }
  energy += links;
  low += links;
  high += links;
  waiting = settled_power(*m.power, shared / time, Watts{});
  const Joules idle = bubble * time * waiting;
  out.power = (energy + idle) / ((1 + bubble) * time);
  out.power_low = (low + idle) / ((1 + bubble) * time);
  const Watts most = (high + idle) / ((1 + bubble) * time);
  out.power_high = m.clock_mode == ClockMode::burst ? most : held_to_cap(most, *out.power, m);
  out.waiting_power = waiting;
  out.clock = cycles / time;
  out.energy = energy_of_all(out, energy, time, waiting);
}

/// The step with each node at its share of the boost clock.
void reprice(StepPrediction& out, const Machine& machine, const RunOptions& options, SideBySide& side_by_side,
             std::span<const double> shares) {
  const Rates& m = machine.rates();
  for (std::size_t i = 0; i < out.nodes.size(); ++i) {
    NodePrediction& n = out.nodes[i];
    if (!out.graph.side_by_side && n.first < i && shares[i] == shares[n.first]) {
      n.op = out.nodes[n.first].op;
    } else {
      reprice(n.op, m, shares[i]);
    }
  }
  set_gaps(out, machine, options.runtime, out.between_steps);
  exchange_beside(out, m, Stages::one);
  side_by_side(out);
  side_by_side.sends(out);
}
/// How far the largest of `n` draws from a normal distribution lies above its mean, in standard deviations: its quantile
/// (n - 3/8) / (n + 1/4) (Blom 1958), by Abramowitz and Stegun's 26.2.23.
double largest_of(std::int64_t n) {
  if (n <= 1) return 0;
  const double t = std::sqrt(-2 * std::log(0.625 / (static_cast<double>(n) + 0.25)));
  return t - (2.515517 + t * (0.802853 + t * 0.010328)) / (1 + t * (1.432788 + t * (0.189269 + t * 0.001308)));
}

/// Of one execution of each node, what counts for the clock; `spread`: what the chip of the card that takes most takes.
std::vector<RunEnergy> energies_of_nodes(const StepPrediction& out, const Rates& m, double spread) {
  std::vector<RunEnergy> all;
  all.reserve(out.nodes.size());
  const bool sends = sends_beside_work(out, m);
  for (const NodePrediction& n : out.nodes) {
    RunEnergy once = run_energy(n.op);
    once.chip *= spread;
    if (sends) once.memory += links_beside(n, m);
    all.push_back(once);
  }
  return all;
}

/// What the step takes at a share of the boost clock, a pipeline's waits with it. Times and gaps alone are left in it,
/// where nothing runs side by side: for the clocks that a search tries.
Seconds step_time_at(StepPrediction& out, const Machine& machine, const RunOptions& options, SideBySide& side_by_side,
                     double share) {
  const Rates& m = machine.rates();
  if (out.graph.side_by_side || out.graph.pipeline.sends_beside) {
    reprice(out, machine, options, side_by_side, std::vector<double>(out.nodes.size(), share));
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
  return (1 + out.stages.waits) * time;
}

}  // namespace

void settle(StepPrediction& out, const Machine& machine, const RunOptions& options, SideBySide& side_by_side) {
  const Rates& m = machine.rates();
  std::vector<double> shares(out.nodes.size(), 1);
  add_up_energy(out, m, shares);
  if (m.clock_mode == ClockMode::burst && m.clock_limit == 1) return;
  RunEnergy run;
  Seconds at_boost;
  const std::vector<RunEnergy> energies =
      energies_of_nodes(out, m, 1 + m.power->chip_spread * largest_of(out.graph.together));
  for (std::size_t i = 0; i < out.nodes.size(); ++i) {
    const auto count = static_cast<double>(out.nodes[i].node->count);
    run.chip += count * energies[i].chip;
    run.memory += count * energies[i].memory;
    run.tensor_estimate += count * energies[i].tensor_estimate;
    at_boost += count * out.nodes[i].on_path();
  }
  out.uncapped = (1 + out.stages.waits) * at_boost;
  shares.assign(shares.size(), m.clock_limit);
  if (m.clock_mode == ClockMode::steady) {
    const Watts aim = m.power->regulator_aim * m.power_cap;
    double told = 0;  // of which share the step's times are
    const auto time_at = [&](double tried) {
      told = tried;
      return step_time_at(out, machine, options, side_by_side, tried);
    };
    StepPhases phases(out, m, energies);
    const double share = settled_clock_share(*m.power, aim, run, out.uncapped, time_at);
    if (phases.regulated()) {
      const double first = share < 1 ? share : kLowerShare;
      for (const double lower : {first, kLowerShare * first}) {
        if (told != lower) time_at(lower);
        phases.tell(out, lower);
      }
      shares = phases.clocks(share);
      out.power_limited = true;
    } else {
      out.power_limited = share < m.clock_limit;
      shares.assign(shares.size(), std::min(share, m.clock_limit));
    }
  }
  if (std::all_of(shares.begin(), shares.end(), [](double s) { return s == 1; })) return;
  reprice(out, machine, options, side_by_side, shares);
  add_up_energy(out, m, shares);
}

}  // namespace plumbline
