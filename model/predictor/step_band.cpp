#include "model/predictor/step_band.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "model/bands/bands.hpp"
#include "model/bands/step_bands.hpp"
#include "model/machine/parts.hpp"
#include "model/predictor/host_time.hpp"
#include "model/predictor/power_clock.hpp"
#include "model/predictor/predict_internal.hpp"

namespace plumbline {
namespace {

constexpr long kEnoughSteps = 10;  ///< of one stack and kind, for their residuals to be a band by themselves

/// Of a host whose times another stack lent: they are as far off as steps that wait for a host nobody measured, and as
/// stacks' hosts are apart, which are independent. A step that waits may be as fast as its GPU alone, `busy` at best; one
/// that does not may have to.
void widen_by_borrowed_host(StepPrediction& out, const HostTime& host, const Band* waiting, Seconds busy) {
  const double other = std::log(host.within);
  const double low = std::hypot(waiting != nullptr ? std::min(waiting->low, 0.0) : 0, other);
  const double high = std::hypot(waiting != nullptr ? std::max(waiting->high, 0.0) : 0, other);
  out.high = std::max(out.high, std::exp(high) * std::min(out.host_ratio, 1.0) * out.latency);
  if (out.waits_for_host) out.low = std::clamp(std::exp(-low) * out.latency, busy, out.latency);
}

/// The bands of the operators, each once for all nodes that run it; whether there is any.
bool add_operators(StepBandSum& sum, const StepPrediction& out) {
  std::vector<Seconds> times(out.nodes.size());  // of all nodes that run an operator, at the first of them
  for (const NodePrediction& n : out.nodes) {
    times[n.first] += static_cast<double>(n.node->count) * n.waited_for() * (out.nodes[n.first].op.time + n.tax);
  }
  bool any = false;
  for (std::size_t i = 0; i < out.nodes.size(); ++i) {
    const OpPrediction& op = out.nodes[i].op;
    if (out.nodes[i].first != i || op.band == nullptr) continue;
    sum.add(op.band_class, times[i], op.band_range.low, op.band_range.middle, op.band_range.high);
    any = true;
  }
  return any;
}

/// The operators' floors: no step is faster, whatever their residuals were.
Seconds floor_of(const StepPrediction& out) {
  Seconds floor;
  for (const NodePrediction& n : out.nodes) {
    if (n.hidden > Seconds{}) continue;
    floor += static_cast<double>(n.node->count) * std::min(n.op.time, n.op.roofline);
  }
  return floor;
}

/// Of a framework that launches its operators by themselves enough steps of the very kind, on a card that was measured, say
/// more than what the operators' bands add up to: its operators are those of the same recordings.
void hold_to_whole_steps(StepPrediction& out, const Machine& machine, const StepBands& steps) {
  const Band* whole = out.whole_steps.band;
  if (whole == nullptr) return;
  const Seconds low = std::exp(whole->low) * out.latency, high = std::exp(whole->high) * out.latency;
  const bool enough = whole->rows >= kEnoughSteps && machine.provenance() == Provenance::measured;
  const bool alone = out.whole_steps.recorded && enough && steps.stands_apart(machine.stack().name);
  out.low = alone ? low : std::min(out.low, low);
  out.high = alone ? high : std::max(out.high, high);
}

/// Of a step that trains and is launched one by one [low, high] is the GPU's. What it does to the step and what hosts that are
/// quicker or slower do to it are independent: where the GPU takes longest, the host's does next to nothing, and the other way
/// round.
void widen_by_hosts(StepPrediction& out, const Machine& machine, const HostSpread& hosts) {
  const auto side = [&](Seconds of_gpu, double times_host) {
    const double gpu = std::log(latency_with(out, machine, 1, of_gpu / out.latency) / out.latency);
    const double host = std::log(latency_with(out, machine, times_host, 1) / out.latency);
    return std::hypot(gpu, host);
  };
  const double low = side(std::min(out.low, out.latency), hosts.quick);
  const double high = side(std::max(out.high, out.latency), hosts.slow);
  out.low = std::exp(-low) * out.latency;
  out.high = std::exp(high) * out.latency;
}

}  // namespace

void set_band(StepPrediction& out, const Machine& machine, const RunOptions& options, bool fused_as_stack) {
  StepBandSum sum;
  out.whole_steps = {};
  if (!add_operators(sum, out)) {
    out.low = out.high = out.latency;
    return;
  }
  const BandCorrelation& correlation = machine.bands().correlation(machine.kernels());
  const Seconds low = sum.low(out.latency, correlation);
  out.low = low;
  out.high = sum.high(out.latency, correlation);
  const auto& steps = machine.parts()->origin->steps;
  const Stack& stack = machine.stack();
  const bool as_recorded = stack.recorded && options.runtime == stack.runtime && fused_as_stack;
  const HostSpread hosts = spread_of_hosts(out, machine);
  const bool by_hosts = hosts.slow > 0;
  if (steps) {
    out.whole_steps = steps->find(stack.name, by_hosts ? step_kind(out.graph) : step_kind(out), as_recorded);
    // Nobody recorded such steps beside their host: the stack's other steps that wait stand in for them.
    if (out.whole_steps.band == nullptr && out.waits_for_host && !by_hosts) {
      out.whole_steps = steps->find(stack.name, kWaitingSteps, as_recorded);
    }
    hold_to_whole_steps(out, machine, *steps);
  }
  if (by_hosts) widen_by_hosts(out, machine, hosts);
  if (out.host_ratio > 0 && !stack.host.borrowed_from.empty()) {
    const Band* waiting = steps ? steps->find(stack.name, kWaitingSteps, as_recorded).band : nullptr;
    const Seconds waits = out.waits_for_host ? (1 - 1 / out.host_ratio) * out.latency : Seconds{};
    widen_by_borrowed_host(out, stack.host, waiting, std::min(low - waits, out.latency));
  }
  out.low = std::max(out.low, floor_of(out));
}

/// Boards draw further apart below the cap, by what their memory takes, than they settle in clock at it, where it is
/// mostly tensor units that are held down: each has a spread of its own.
void widen_by_cards(StepPrediction& out, const Machine& machine) {
  if (out.graph.ranks == 1 || !out.power) return;
  const auto& power = machine.calibration().power;
  const auto of_power = power.find("band_card"), of_clock = power.find("band_card_clock");
  if (of_power == power.end()) return;
  const auto half = [](double ratio, double share) { return std::hypot(std::log(ratio), share); };
  const double share = of_power->second.value, clock = of_clock == power.end() ? share : of_clock->second.value;
  const double above = half(*out.power_high / *out.power, share), below = half(*out.power_low / *out.power, share);
  out.power_high = held_to_cap(std::exp(above) * *out.power, *out.power, machine.rates());
  out.power_low = std::exp(-below) * *out.power;
  if (!out.power_limited) return;
  out.low = std::exp(-half(out.low / out.latency, clock)) * out.latency;
  out.high = std::exp(half(out.high / out.latency, clock)) * out.latency;
}

void widen_by_host(StepPrediction& out, const Machine& machine) {
  if (!out.waits_for_host || !out.power) return;
  const Watts still = *out.waiting_power, mean = *out.power;
  const auto apart = [&](Watts own, Seconds time) {
    const Watts over_it = still + (mean - still) * (out.latency / time);
    return std::hypot(std::log(own / mean), std::log(over_it / mean));
  };
  out.power_high = held_to_cap(std::exp(apart(*out.power_high, out.low)) * mean, mean, machine.rates());
  out.power_low = std::exp(-apart(*out.power_low, out.high)) * mean;
}

}  // namespace plumbline
