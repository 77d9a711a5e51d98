#include "validate/diff/recording_diff.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "arch/error.hpp"
#include "model/machines.hpp"
#include "model/stacks/stack.hpp"
#include "ops/table/text.hpp"
#include "validate/compare/pricing.hpp"
#include "validate/record/study.hpp"

namespace plumbline {
namespace {

std::string key_of_case(const Measurement& c) { return std::string(key_of(c.kernels)) + " " + case_key(c.what); }

/// "own gemm bf16, cold burst".
std::string group_of_case(const Measurement& c) {
  return std::string(key_of(c.kernels)) + " " + std::string(op_name(c.what.op)) + " " +
         std::string(dtype_text(c.what.op)) + ", " + std::string(name(c.what.cache)) + " " +
         std::string(text_of(c.what.clock));
}

bool is_asked(const Measurement& c, const std::vector<std::string>& ops) {
  if (!c.fault.empty()) return false;
  return ops.empty() || std::find(ops.begin(), ops.end(), op_name(c.what.op)) != ops.end();
}

/// The limiters of rows of one set of kernels, as predicted; "" of those that have no prediction.
void put_limiters(const std::vector<const Measurement*>& rows, KernelSet kernels, const std::string& gpu,
                  std::map<std::string, RecordedCost>& costs) {
  std::vector<Measurement> measured;
  for (const Measurement* row : rows) {
    if (row->kernels == kernels) measured.push_back(*row);
  }
  if (measured.empty() || gpu.empty()) return;
  PricingOptions options;
  options.gpu = gpu;
  options.stack = usual_stack(kernels);
  const Priced priced = price(measured, options);
  for (std::size_t i = 0; i < measured.size(); ++i) {
    if (priced.rows[i].modelled()) costs[key_of_case(measured[i])].limiter = priced.rows[i].limiter;
  }
}

std::map<std::string, RecordedCost> costs_of(const Recording& recording, const std::vector<const Measurement*>& rows) {
  std::map<std::string, RecordedCost> costs;
  for (const Measurement* row : rows) costs[key_of_case(*row)] = {row->time, row->energy, ""};
  for (const KernelSet kernels : {KernelSet::own, KernelSet::library}) {
    put_limiters(rows, kernels, recording.session.gpu, costs);
  }
  return costs;
}

std::vector<const Measurement*> asked_rows(const Recording& recording, const std::vector<std::string>& ops) {
  std::vector<const Measurement*> rows;
  for (const Measurement& c : recording.cases) {
    if (is_asked(c, ops)) rows.push_back(&c);
  }
  return rows;
}

/// Limiters of a step's operators on the card of its recording; none where the step has no prediction.
std::map<std::string, std::string> step_limiters(const StepMeasurement& step, const std::string& gpu) {
  std::map<std::string, std::string> limiters;
  if (gpu.empty()) return limiters;
  MachineKey key{gpu};
  key.options.stack = usual_stack(KernelSet::own);
  key.options.clock = step.what.clock;
  try {
    const StepPrediction priced = predict(step_llm(step.what), step.what.workload, machines().get(key), RunOptions{});
    for (const NodePrediction& node : priced.nodes) limiters[node.node->name] = name(node.op.limiter);
  } catch (const Error&) {  // times are compared all the same
  }
  return limiters;
}

std::map<std::string, RecordedCost> operator_costs(const StepMeasurement& step, const std::string& gpu) {
  std::map<std::string, RecordedCost> costs;
  if (step.ops.empty()) return costs;
  const std::map<std::string, std::string> limiters = step_limiters(step, gpu);
  for (const MeasuredStepOp& op : step.ops) {
    const auto limiter = limiters.find(op.name);
    costs[op.name] = {static_cast<double>(op.count) * op.time, std::nullopt,
                      limiter == limiters.end() ? "" : limiter->second};
  }
  return costs;
}

/// The step, and its operators where both recordings traced them.
void add_step(const StepMeasurement& before, const StepMeasurement& after, RecordingDifference& out) {
  const std::string group = step_text(before.what);
  out.pairs.push_back({group, "", before.what.place, {before.time, before.energy, ""}, {after.time, after.energy, ""}});
  const auto first = operator_costs(before, out.before.gpu), second = operator_costs(after, out.after.gpu);
  for (const MeasuredStepOp& op : before.ops) {
    const auto other = second.find(op.name);
    if (other == second.end()) continue;
    out.pairs.push_back({group, op.name, before.what.place, first.at(op.name), other->second});
  }
}

}  // namespace

std::optional<double> RecordedPair::energy_ratio() const {
  if (!before.energy || !after.energy) return std::nullopt;
  return *after.energy / *before.energy;
}

bool RecordedPair::other_limiter() const {
  return !before.limiter.empty() && !after.limiter.empty() && before.limiter != after.limiter;
}

RecordingDifference difference_of(const Recording& before, const Recording& after,
                                  const std::vector<std::string>& ops) {
  RecordingDifference out;
  out.before = before.session;
  out.after = after.session;
  const std::vector<const Measurement*> first = asked_rows(before, ops), second = asked_rows(after, ops);
  const auto costs = costs_of(before, first), others = costs_of(after, second);
  for (const Measurement* row : first) {
    const std::string key = key_of_case(*row);
    const auto other = others.find(key);
    if (other == others.end()) {
      ++out.only_before;
      continue;
    }
    out.pairs.push_back({group_of_case(*row), row->what.shape, row->what.place, costs.at(key), other->second});
  }
  out.only_after = static_cast<long>(others.size()) - static_cast<long>(out.pairs.size());
  return out;
}

RecordingDifference difference_of(const StepRecording& before, const StepRecording& after) {
  RecordingDifference out;
  out.before = before.session;
  out.after = after.session;
  std::map<std::string, const StepMeasurement*> others;
  for (const StepMeasurement& step : after.steps) {
    if (step.fault.empty()) others[step_text(step.what)] = &step;
  }
  long both = 0;
  for (const StepMeasurement& step : before.steps) {
    if (!step.fault.empty()) continue;
    const auto other = others.find(step_text(step.what));
    if (other == others.end()) {
      ++out.only_before;
      continue;
    }
    ++both;
    add_step(step, *other->second, out);
  }
  out.only_after = static_cast<long>(others.size()) - both;
  return out;
}

std::vector<GroupDifference> groups_of(const RecordingDifference& difference) {
  constexpr double kMoved = 0.01;
  const bool of_steps = std::any_of(difference.pairs.begin(), difference.pairs.end(),
                                    [](const RecordedPair& each) { return each.whole_step(); });
  std::map<std::string, GroupDifference> groups;
  for (const RecordedPair& pair : difference.pairs) {
    GroupDifference& g = groups[pair.group];
    g.group = pair.group;
    if (pair.other_limiter()) ++g.other_limiters;
    if (of_steps && !pair.whole_step()) continue;
    ++g.count;
    if (pair.time_ratio() < 1 - kMoved) ++g.quicker;
    if (pair.time_ratio() > 1 + kMoved) ++g.slower;
    g.before += pair.before.time;
    g.after += pair.after.time;
    if (!pair.energy_ratio()) continue;
    g.energy_before = g.energy_before.value_or(Joules{}) + *pair.before.energy;
    g.energy_after = g.energy_after.value_or(Joules{}) + *pair.after.energy;
  }
  std::vector<GroupDifference> sorted;
  for (const auto& [name, group] : groups) sorted.push_back(group);
  const auto change = [](const GroupDifference& g) { return std::abs((g.before - g.after).in(units::s)); };
  std::stable_sort(sorted.begin(), sorted.end(), [&](const auto& a, const auto& b) { return change(a) > change(b); });
  return sorted;
}

}  // namespace plumbline
