#include "model/study/costs.hpp"

#include <algorithm>
#include <cmath>

#include "arch/error.hpp"
#include "model/bands/bands.hpp"
#include "model/machine/parts.hpp"
#include "model/study/columns.hpp"
#include "model/study/points.hpp"
#include "ops/table/text.hpp"

namespace plumbline {
namespace {

void add_cost(std::vector<OperatorCost>& costs, OperatorCost cost) {
  const auto known = std::find_if(costs.begin(), costs.end(), [&](const OperatorCost& each) {
    return each.name == cost.name && each.phase == cost.phase;
  });
  if (known == costs.end()) {
    costs.push_back(std::move(cost));
    return;
  }
  known->time_s += cost.time_s;
  known->energy_J += cost.energy_J;
}

OperatorCost cost_of(const NodePrediction& n) {
  const auto count = static_cast<double>(n.node->count);
  OperatorCost cost;
  cost.name = n.node->name;
  cost.limiter = name(n.op.limiter);
  cost.time_s = count * n.on_path().in(units::s);
  if (n.op.energy) cost.energy_J = count * n.op.energy->in(units::J);
  return cost;
}

/// What limits an operator of a whole answer: in its prefill, or in its last decode step.
std::string limiter_in(const StepPrediction& step, const std::string& operator_name) {
  const auto node = std::find_if(step.nodes.begin(), step.nodes.end(),
                                 [&](const NodePrediction& n) { return n.node->name == operator_name; });
  return node == step.nodes.end() ? "" : std::string(name(node->op.limiter));
}

/// Adds what an operator's band on a changed machine has beyond the card's own.
void add_extra(const OpPrediction& op, Seconds time, const Origin& origin, double distance, StepBandSum& sum) {
  if (op.band == nullptr) return;
  const Band& own = origin.bands(Provenance::measured).find(op.band_kernels, op.band_class, op.time, op.bound);
  const Band& near = origin.bands(Provenance::same_generation).find(op.band_kernels, op.band_class, op.time, op.bound);
  sum.add(op.band_class, time, distance * std::min(0.0, near.low - own.low), 0,
          distance * std::max(0.0, near.high - own.high));
}

}  // namespace

std::vector<OperatorCost> costs_of(const Asker& a) {
  std::vector<OperatorCost> costs;
  if (a.of_op()) {
    OperatorCost cost;
    cost.name = op_name(a.shape());
    cost.limiter = name(a.op().limiter);
    cost.time_s = a.op().time.in(units::s);
    if (a.op().energy) cost.energy_J = a.op().energy->in(units::J);
    costs.push_back(std::move(cost));
  } else if (a.whole() != nullptr) {
    for (const OperatorSum& each : a.whole()->ops) {
      OperatorCost cost;
      cost.phase = each.phase == Phase::prefill ? "prefill" : "decode";
      cost.name = each.name;
      cost.limiter = limiter_in(each.phase == Phase::prefill ? a.whole()->prefill : a.whole()->last, each.name);
      cost.time_s = each.time.in(units::s);
      if (each.energy) cost.energy_J = each.energy->in(units::J);
      add_cost(costs, std::move(cost));
    }
  } else {
    for (const NodePrediction& n : a.step().nodes) add_cost(costs, cost_of(n));
  }
  return costs;
}

const OperatorCost& longest_of(const std::vector<OperatorCost>& costs) {
  return *std::max_element(costs.begin(), costs.end(),
                           [](const OperatorCost& x, const OperatorCost& y) { return x.time_s < y.time_s; });
}

double number_of_figure(const Asker& answer, const std::string& column) {
  const StudyFigure figure = figure_column(answer.of_op(), column, "figure").get(answer);
  const auto* number = std::get_if<double>(&figure);
  return number != nullptr ? *number : 0;
}

std::string word_of_figure(const Asker& answer, const std::string& column) {
  const StudyFigure figure = figure_column(answer.of_op(), column, "figure").get(answer);
  const auto* word = std::get_if<std::string>(&figure);
  return word != nullptr ? *word : "";
}

Inquiry single_question(const Study& study) {
  if (!study.axes.empty()) {
    throw BadInput(place_of_setting(study.axes.front().names.front()) + ": expected one value, found a list");
  }
  Inquiry question = base_question(study);  // asking it says which names are not known
  require_all(question);
  return question;
}

RatioWidths ratio_widths(const Asker& after, const GpuNumbers& before, double factor) {
  GpuNumbers moved = before;  // as far as by that number, whichever it is
  moved.memory.bandwidth *= factor;
  const double distance =
      std::max(distance_between(before, after.machine().numbers()), distance_between(before, moved));
  const MachineParts& parts = *after.machine().parts();
  const KernelSet kernels = after.machine().kernels();
  if (distance == 0 || kernels == KernelSet::ideal) return {};
  StepBandSum sum;
  Seconds latency;
  if (after.of_op()) {
    latency = after.op().time;
    add_extra(after.op(), latency, *parts.origin, distance, sum);
  } else {
    const StepPrediction& step = after.step();
    latency = step.latency;
    std::vector<Seconds> times(step.nodes.size());
    for (const NodePrediction& n : step.nodes) times[n.first] += static_cast<double>(n.node->count) * n.on_path();
    for (std::size_t i = 0; i < step.nodes.size(); ++i) {
      if (step.nodes[i].first == i) add_extra(step.nodes[i].op, times[i], *parts.origin, distance, sum);
    }
  }
  BandCorrelation correlation = parts.origin->bands(Provenance::measured).correlation(kernels);
  correlation.card = 0;  // the same card's
  return {std::log(sum.low(latency, correlation) / latency), std::log(sum.high(latency, correlation) / latency)};
}

}  // namespace plumbline
