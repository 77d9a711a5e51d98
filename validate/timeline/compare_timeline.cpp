#include "validate/timeline/compare_timeline.hpp"

#include <algorithm>
#include <map>

#include "arch/error.hpp"
#include "model/report/report.hpp"
#include "model/stacks/stack.hpp"
#include "ops/table/text.hpp"
#include "validate/record/known_gpu.hpp"
#include "validate/record/step.hpp"

namespace plumbline {
namespace {

/// The card that is asked for, else the file's own.
std::string gpu_of(const Timeline& timeline, const ModelPricing& pricing) {
  if (!pricing.gpu.empty()) return pricing.gpu;
  const std::string known = timeline.card.name.empty() ? "" : descriptor_of(timeline.card);
  if (!known.empty()) return known;
  throw BadInput(timeline.file + ": expected --gpu NAME: " +
                 (timeline.card.name.empty() ? "the file does not say which card it is of"
                                             : "no descriptor is known for '" + timeline.card.name + "'"));
}

std::vector<TimelineRow> rows_of(const StepPrediction& step, const std::vector<ExpectedLaunch>& expected,
                                 const Alignment& alignment, const std::vector<TimelineKernel>& measured) {
  std::vector<TimelineRow> all(step.nodes.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Node& node = *step.nodes[i].node;
    all[i] = {static_cast<int>(i),
              node.name,
              std::string(op_name(node.op)),
              std::string(dtype_text(node.op)),
              shape_text(node.op),
              0,
              0,
              {},
              {},
              {},
              {}};
  }
  for (const ExpectedLaunch& each : expected) all[static_cast<std::size_t>(each.node)].expected += alignment.steps;
  std::map<std::pair<int, int>, bool> seen;  // executions, by step and place
  for (std::size_t i = 0; i < measured.size(); ++i) {
    const Alignment::Match& match = alignment.of[i];
    if (match.expected < 0) continue;
    const int node = expected[static_cast<std::size_t>(match.expected)].node;
    TimelineRow& row = all[static_cast<std::size_t>(node)];
    row.measured += measured[i].duration;
    if (measured[i].dram) row.measured_dram = row.measured_dram.value_or(Bytes{}) + *measured[i].dram;
    if (!seen.emplace(std::pair(match.step, match.expected), true).second) continue;
    const OpPrediction& op = step.nodes[static_cast<std::size_t>(node)].op;
    ++row.executions;
    row.predicted += kernel_time(op);
    row.predicted_dram += op.dram_bytes();
  }
  std::erase_if(all, [](const TimelineRow& row) { return row.expected == 0; });
  return all;
}

std::vector<LeftOver> left_over_of(const Alignment& alignment, const std::vector<TimelineKernel>& measured) {
  std::map<std::pair<std::string, std::string>, LeftOver> all;
  for (std::size_t i = 0; i < measured.size(); ++i) {
    if (alignment.of[i].expected >= 0) continue;
    LeftOver& each = all[{measured[i].kernel, measured[i].call}];
    each.kernel = measured[i].kernel;
    each.call = measured[i].call;
    ++each.count;
    each.time += measured[i].duration;
  }
  std::vector<LeftOver> out;
  for (auto& [key, each] : all) out.push_back(std::move(each));
  std::stable_sort(out.begin(), out.end(), [](const LeftOver& a, const LeftOver& b) { return a.time > b.time; });
  return out;
}

}  // namespace

Seconds TimelineReport::matched() const {
  Seconds sum;
  for (const TimelineRow& row : rows) sum += row.measured;
  return sum;
}

Seconds TimelineReport::predicted_matched() const {
  Seconds sum;
  for (const TimelineRow& row : rows) sum += row.predicted;
  return sum;
}

double TimelineReport::unmatched_share() const {
  Seconds sum;
  for (const LeftOver& each : left_over) sum += each.time;
  return sum / timeline.busy();
}

TimelineReport compare_timeline(Timeline timeline, const ModelRow& asked, const ModelPricing& pricing) {
  if (asked.phase != "prefill" && asked.phase != "decode") {
    throw BadInput("--phase: expected prefill or decode for a profiler's timeline, found '" + asked.phase + "'");
  }
  ModelRow row = asked;
  row.clock = pricing.clock.value_or(asked.clock);
  MachineKey key;
  key.gpu = gpu_of(timeline, pricing);
  key.calibration_file = pricing.calibration_file;
  key.overrides = pricing.overrides;
  key.options.stack = pricing.stack;
  key.options.clock = row.clock;
  const Machine machine = machines().get(key);
  const Llm llm = first_layers(row.model, row.layers);
  const Workload workload = settled_workload(row, llm, machine);
  const RunOptions run{row.runtime.value_or(machine.stack().runtime)};
  TimelineReport out{std::move(timeline),
                     {},
                     {},
                     row,
                     machine.gpu().name,
                     key.options.stack.name,
                     row.clock,
                     llm,
                     workload,
                     run,
                     machine,
                     {},
                     {},
                     {}};
  Predictor predictor;
  predictor.predict(out.llm, out.workload, out.machine, run, out.step);
  out.expected = expected_launches(out.step);
  out.alignment = align(out.expected, out.timeline.kernels);
  out.rows = rows_of(out.step, out.expected, out.alignment, out.timeline.kernels);
  out.left_over = left_over_of(out.alignment, out.timeline.kernels);
  return out;
}

std::vector<TimelineRow> by_operator(const TimelineReport& report) {
  std::vector<TimelineRow> out;
  for (const TimelineRow& row : report.rows) {
    const std::string name = row.name.substr(0, row.name.find('.'));
    if (out.empty() || out.back().name != name) {
      out.push_back(row);
      out.back().name = name;
      continue;
    }
    TimelineRow& all = out.back();
    // the shape of what most of its time goes to
    if (row.predicted > all.predicted) {
      all.op = row.op;
      all.dtype = row.dtype;
      all.shape = row.shape;
    }
    all.executions += row.executions;
    all.expected += row.expected;
    all.measured += row.measured;
    all.predicted += row.predicted;
    all.predicted_dram += row.predicted_dram;
    if (row.measured_dram) all.measured_dram = all.measured_dram.value_or(Bytes{}) + *row.measured_dram;
  }
  return out;
}

}  // namespace plumbline
