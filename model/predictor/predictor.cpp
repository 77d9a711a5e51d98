// What a Predictor remembers: a planner's cache for each of the last few machines.
#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include "model/machine/parts.hpp"
#include "model/predictor/power_clock.hpp"
#include "model/predictor/predict_internal.hpp"
#include "ops/table/text.hpp"

namespace plumbline {

/// A place holds the machine that its answers are of, so that the same pointer is the same machine, and another machine
/// with the same numbers finds them too.
struct Predictor::Memory {
  struct Place {
    std::shared_ptr<const MachineParts> machine;
    GemmCache cache;
    std::uint64_t last = 0;  // question
  };
  static constexpr std::size_t kPlaces = 8;
  std::vector<Place> places;
  std::uint64_t questions = 0;

  GemmCache& of(const Machine& machine) {
    ++questions;
    const std::shared_ptr<const MachineParts>& parts = machine.parts();
    for (Place& place : places) {
      if (place.machine == parts) return used(place);
    }
    for (Place& place : places) {
      if (place.machine->rates == parts->rates) return used(place);
    }
    if (places.size() < kPlaces) {
      places.push_back({parts, {}, questions});
      return places.back().cache;
    }
    Place& oldest =
        *std::min_element(places.begin(), places.end(), [](const Place& a, const Place& b) { return a.last < b.last; });
    oldest.machine = parts;
    oldest.cache.clear();
    return used(oldest);
  }

 private:
  GemmCache& used(Place& place) const {
    place.last = questions;
    return place.cache;
  }
};

Predictor::Predictor() : memory_(std::make_unique<Memory>()) {}
Predictor::~Predictor() = default;
Predictor::Predictor(Predictor&&) noexcept = default;
Predictor& Predictor::operator=(Predictor&&) noexcept = default;

void Predictor::predict(const Op& op, const Machine& machine, OpPrediction& out, const PredictOptions& options) {
  check(op);
  const Warmth warmth = options.warm ? Warmth::everything : Warmth::cold;
  const Rates& m = machine.rates();
  predict_op(op, machine, memory_->of(machine), {warmth}, out, options, true);
  if (m.power && m.clock_mode == ClockMode::steady) settle(out, m);
  else if (m.power && m.clock_limit != 1) reprice(out, m, m.clock_limit);
  conclude(out, machine);
}

OpPrediction Predictor::predict(const Op& op, const Machine& machine, const PredictOptions& options) {
  OpPrediction out;
  predict(op, machine, out, options);
  return out;
}

namespace {

/// A model of a type that nobody knows was read on a guess. Of the families that were read so before they had readers, the
/// real modules had 0.35 (weights that a step runs through several times) to 1.71 times the parameters of the guess
/// (tests/ops/hf_families.json), and a step takes as long as its weights.
void widen_for_guess(StepPrediction& out) {
  constexpr double kLeast = 0.35, kMost = 1.71;
  out.low = kLeast * out.low;
  out.high = kMost * out.high;
}

}  // namespace

void Predictor::predict(const Llm& llm, const Workload& workload, const Machine& machine, const RunOptions& options,
                        StepPrediction& out) {
  const Machine steps = machine.for_steps();
  predict_step(llm, workload, steps, memory_->of(steps), options, out);
  if (llm.guessed) widen_for_guess(out);
}

StepPrediction Predictor::predict(const Llm& llm, const Workload& workload, const Machine& machine,
                                  const RunOptions& options) {
  StepPrediction out;
  predict(llm, workload, machine, options, out);
  return out;
}

StepPrediction Predictor::predict(const Graph& graph, const Machine& machine, const RunOptions& options) {
  check(graph);
  StepPrediction out;
  out.graph = graph;
  const Machine steps = machine.for_steps();
  predict_graph(steps, memory_->of(steps), options, out);
  return out;
}

OpPrediction predict(const Op& op, const Machine& machine, const PredictOptions& options) {
  return Predictor().predict(op, machine, options);
}

StepPrediction predict(const Llm& llm, const Workload& workload, const Machine& machine, const RunOptions& options) {
  return Predictor().predict(llm, workload, machine, options);
}

StepPrediction predict(const Graph& graph, const Machine& machine, const RunOptions& options) {
  return Predictor().predict(graph, machine, options);
}

}  // namespace plumbline
