#include "model/predictor/step_phases.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace plumbline {
namespace {

constexpr Seconds kBriefPhase = 2.0 * units::ms;

RunEnergy& operator+=(RunEnergy& sum, const RunEnergy& other) {
  sum.chip += other.chip;
  sum.memory += other.memory;
  sum.tensor_estimate += other.tensor_estimate;
  return sum;
}

}  // namespace

StepPhases::StepPhases(const StepPrediction& step, const Rates& m, const std::vector<RunEnergy>& energies)
    : m_(m), aim_(m.power->regulator_aim * m.power_cap), turns_(std::max<std::int64_t>(1, step.graph.pipeline.turns())) {
  const Segment* before = nullptr;
  Pass pass_before = Pass::forward;
  Seconds passes;
  for (const Segment& segment : step.graph.segments) {
    if (segment.size == 0) continue;
    const auto first = static_cast<std::size_t>(segment.first);
    const Pass pass = step.graph.nodes[first].pass;
    const bool repeats = !segment.once && pass != Pass::update;
    if (before == nullptr || pass != pass_before || segment.layers != before->layers ||
        repeats != phases_.back().repeats) {
      phases_.push_back({{}, {}, repeats});
    }
    before = &segment;
    pass_before = pass;
    Phase& phase = phases_.back();
    for (std::size_t i = first; i < first + static_cast<std::size_t>(segment.size); ++i) {
      const auto count = static_cast<double>(step.nodes[i].node->count);
      const Seconds time = count * step.nodes[i].on_path();
      of_.push_back(phases_.size() - 1);
      phase.run += {count * energies[i].chip, count * energies[i].memory, count * energies[i].tensor_estimate};
      phase.time += time;
      if (repeats) passes += time;
    }
  }
  wait_ = 0.5 * step.stages.waits * (passes > Seconds{} ? passes : phases_.back().time);
  merge_brief();
}

void StepPhases::merge_brief() {
  std::vector<std::size_t> goes_to(phases_.size());
  std::vector<Phase> kept;
  for (std::size_t p = 0; p < phases_.size(); ++p) {
    const Phase& phase = phases_[p];
    const double times = phase.repeats ? static_cast<double>(turns_) : 1;
    const bool joins = !kept.empty() && (phase.time < times * kBriefPhase || kept.back().time < kBriefPhase);
    if (joins) {
      kept.back().run += phase.run;
      kept.back().time += phase.time;
      kept.back().repeats = kept.back().repeats || phase.repeats;
    } else {
      kept.push_back(phase);
    }
    goes_to[p] = kept.size() - 1;
  }
  for (std::size_t& phase : of_) phase = goes_to[phase];
  phases_ = std::move(kept);
}

bool StepPhases::regulated() const {
  if (m_.power->regulator.lag <= Seconds{} || (phases_.size() < 2 && wait_ < kBriefPhase)) return false;
  return std::any_of(phases_.begin(), phases_.end(), [this](const Phase& phase) {
    return binding_power(*m_.power, aim_, phase.run, 1, phase.time) > aim_;
  });
}

RegulatedPhase StepPhases::regulated(const Phase& phase, Seconds lower_time, double lower) const {
  const double times = phase.repeats ? static_cast<double>(turns_) : 1;
  return {1 / times * phase.time, 1 / times * lower_time, binding_power(*m_.power, aim_, phase.run, 1, phase.time),
          binding_power(*m_.power, aim_, phase.run, lower, lower_time), phase.repeats};
}

std::vector<double> StepPhases::clocks(const StepPrediction& step, double lower) {
  std::vector<Seconds> times(phases_.size());
  for (std::size_t i = 0; i < step.nodes.size(); ++i) {
    times[of_[i]] += static_cast<double>(step.nodes[i].node->count) * step.nodes[i].on_path();
  }
  std::vector<RegulatedPhase> all;
  const RegulatedPhase wait{wait_, wait_, settled_power(*m_.power, 1, Watts{}),
                            settled_power(*m_.power, lower, Watts{})};
  const bool waits = wait_ > Seconds{};
  std::vector<std::size_t> place(phases_.size());
  for (std::size_t p = 0; p < phases_.size(); ++p) {
    // a pipeline fills in front of its passes and drains behind them
    if (waits && phases_[p].repeats && (p == 0 || !phases_[p - 1].repeats)) all.push_back(wait);
    place[p] = all.size();
    all.push_back(regulated(phases_[p], times[p], lower));
    if (waits && phases_[p].repeats && (p + 1 == phases_.size() || !phases_[p + 1].repeats)) all.push_back(wait);
  }
  std::vector<double> shares;
  clocks_of_phases(all, m_.power->regulator, {aim_, m_.clock_limit, lower, turns_}, lower, shares);
  if (std::getenv("PHDBG")) for (std::size_t p = 0; p < all.size(); ++p) std::fprintf(stderr, "phase %zu rep %d t %.3f/%.3f ms P %.1f/%.1f share %.4f lower %.4f turns %ld\n", p, all[p].repeats, all[p].time.in(units::ms), all[p].time_lower.in(units::ms), all[p].power.in(units::W), all[p].power_lower.in(units::W), shares[p], lower, turns_);
  std::vector<double> of_nodes(step.nodes.size());
  for (std::size_t i = 0; i < of_nodes.size(); ++i) of_nodes[i] = shares[place[of_[i]]];
  return of_nodes;
}

}  // namespace plumbline
