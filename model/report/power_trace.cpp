#include "model/report/power_trace.hpp"

#include <utility>

namespace plumbline {
namespace {

void add(PowerSegment& to, const NodePrediction& node, bool gap, Seconds duration, Watts power) {
  if (duration <= Seconds{}) return;
  to.slices.push_back({&node, gap, to.start + to.period, duration, power});
  to.period += duration;
}

/// Energy of one execution beside what the board takes without work.
Joules of_work(const NodePrediction& n, Watts waiting) { return *n.op.energy - waiting * n.op.time; }

double executions_of(const NodePrediction& n, const Segment& segment) {
  return static_cast<double>(n.node->count) / static_cast<double>(segment.repeat);
}

/// What is drawn for hidden work, spread over all the time in which others work.
Watts of_hidden(const StepPrediction& step) {
  Joules hidden;
  Seconds working;
  for (const NodePrediction& n : step.nodes) {
    const auto count = static_cast<double>(n.node->count);
    if (n.node->stream == 0) working += count * (n.op.time + n.tax);
    else hidden += count * (1 - n.waited_for()) * of_work(n, *step.waiting_power);
  }
  return working > Seconds{} ? hidden / working : Watts{};
}

/// Where something runs beside others.
void add_beside(PowerSegment& one, const StepPrediction& step, Watts hidden) {
  const Segment& segment = *one.segment;
  const Watts waiting = *step.waiting_power;
  const auto first = step.nodes.begin() + segment.first;
  for (auto n = first; n != first + segment.size; ++n) {
    const double executions = executions_of(*n, segment);
    if (n->node->stream == 0) {
      const Seconds longer = n->op.time + n->tax;
      add(one, *n, false, executions * longer, waiting + of_work(*n, waiting) / longer + hidden);
      add(one, *n, true, executions * n->gap, waiting);
      continue;
    }
    const Seconds whole = n->op.time + n->gap + n->tax;
    add(one, *n, false, executions * n->on_path(), waiting + of_work(*n, waiting) / whole);
  }
}

}  // namespace

std::vector<PowerSegment> power_trace(const StepPrediction& step) {
  std::vector<PowerSegment> out;
  if (!step.power || !step.waiting_power) return out;
  const bool overlaps = step.network_hidden > Seconds{};
  const Watts hidden = overlaps ? of_hidden(step) : Watts{};
  Seconds now;
  for (const Segment& segment : step.graph.segments) {
    PowerSegment one;
    one.segment = &segment;
    one.repeat = segment.repeat;
    one.start = now;
    if (overlaps) add_beside(one, step, hidden);
    for (int i = segment.first; i < segment.first + segment.size && !overlaps; ++i) {
      const NodePrediction& node = step.nodes[static_cast<std::size_t>(i)];
      const double executions = executions_of(node, segment);
      add(one, node, false, executions * node.op.time, *node.op.power);
      add(one, node, true, executions * node.gap, *step.waiting_power);
    }
    now += static_cast<double>(segment.repeat) * one.period;
    out.push_back(std::move(one));
  }
  return out;
}

std::vector<PowerSegment> board_power(std::vector<PowerSegment> trace) {
  for (PowerSegment& segment : trace) {
    std::vector<PowerSlice> kept;
    for (const PowerSlice& slice : segment.slices) {
      if (!slice.gap || slice.duration >= kShortestWait || kept.empty()) {
        kept.push_back(slice);
        continue;
      }
      PowerSlice& before = kept.back();
      const Seconds both = before.duration + slice.duration;
      before.power = (before.duration * before.power + slice.duration * slice.power) / both;
      before.duration = both;
    }
    segment.slices = std::move(kept);
  }
  return trace;
}

}  // namespace plumbline
