#include "model/predictor/step_phases.hpp"

#include <algorithm>

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
    : m_(m),
      aim_(m.power->regulator_aim * m.power_cap),
      turns_(std::max<std::int64_t>(1, step.graph.pipeline.turns())) {
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
      phases_.push_back({{}, {}, repeats, {}});
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
  if (m_.power->regulator_pace <= 0 || (phases_.size() < 2 && wait_ < kBriefPhase)) return false;
  return std::any_of(phases_.begin(), phases_.end(), [this](const Phase& phase) {
    return binding_power(*m_.power, aim_, phase.run, 1, phase.time) > aim_;
  });
}

void StepPhases::tell(const StepPrediction& step, double share) {
  told_[tellings_] = share;
  for (std::size_t i = 0; i < step.nodes.size(); ++i) {
    const NodePrediction& n = step.nodes[i];
    phases_[of_[i]].lower[tellings_] += static_cast<double>(n.node->count) * n.on_path();
  }
  ++tellings_;
}

std::vector<double> StepPhases::clocks(double start) const {
  const std::array shares{1.0, told_[0], told_[1]};
  RegulatedPhase wait{{wait_, wait_, wait_}, {}, false};
  for (std::size_t i = 0; i < 3; ++i) wait.power[i] = settled_power(*m_.power, shares[i], Watts{});
  const bool waits = wait_ > Seconds{};
  std::vector<RegulatedPhase> all;
  std::vector<std::size_t> place(phases_.size());
  for (std::size_t p = 0; p < phases_.size(); ++p) {
    const Phase& phase = phases_[p];
    const double once = 1 / (phase.repeats ? static_cast<double>(turns_) : 1);
    // a pipeline fills in front of its passes and drains behind them
    if (waits && phase.repeats && (p == 0 || !phases_[p - 1].repeats)) all.push_back(wait);
    place[p] = all.size();
    RegulatedPhase& regulated = all.emplace_back();
    regulated.repeats = phase.repeats;
    for (std::size_t i = 0; i < 3; ++i) {
      const Seconds time = i == 0 ? phase.time : phase.lower[i - 1];
      regulated.time[i] = once * time;
      regulated.power[i] = binding_power(*m_.power, aim_, phase.run, shares[i], time);
    }
    if (waits && phase.repeats && (p + 1 == phases_.size() || !phases_[p + 1].repeats)) all.push_back(wait);
  }
  std::vector<double> means;
  clocks_of_phases(all, {m_.power->regulator_pace, aim_, m_.clock_limit, shares, turns_}, start, means);
  std::vector<double> of_nodes(of_.size());
  for (std::size_t i = 0; i < of_nodes.size(); ++i) of_nodes[i] = means[place[of_[i]]];
  return of_nodes;
}

}  // namespace plumbline
