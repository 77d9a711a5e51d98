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

/// Where streams run side by side: what is hidden is drawn while others work, spread over all of their time.
void add_side_by_side(PowerSegment& one, const StepPrediction& step) {
  const Segment& segment = *one.segment;
  const Watts waiting = *step.waiting_power;
  const auto times = [&](const NodePrediction& n) {
    return static_cast<double>(n.node->count) / static_cast<double>(segment.repeat);
  };
  Joules hidden;
  Seconds working;
  const auto first = step.nodes.begin() + segment.first, last = first + segment.size;
  for (auto n = first; n != last; ++n) {
    const Seconds whole = n->op.time + n->gap + n->tax;
    if (n->node->stream == 0) working += times(*n) * (n->op.time + n->tax);
    else hidden += times(*n) * (n->hidden / whole) * of_work(*n, waiting);
  }
  const Watts beside = working > Seconds{} ? hidden / working : Watts{};
  for (auto n = first; n != last; ++n) {
    if (n->node->stream == 0) {
      const Seconds longer = n->op.time + n->tax;
      add(one, *n, false, times(*n) * longer, waiting + of_work(*n, waiting) / longer + beside);
      add(one, *n, true, times(*n) * n->gap, waiting);
      continue;
    }
    const Seconds whole = n->op.time + n->gap + n->tax;
    add(one, *n, false, times(*n) * n->on_path(), waiting + of_work(*n, waiting) / whole);
  }
}

}  // namespace

std::vector<PowerSegment> power_trace(const StepPrediction& step) {
  std::vector<PowerSegment> out;
  if (!step.power || !step.waiting_power) return out;
  Seconds now;
  for (const Segment& segment : step.graph.segments) {
    PowerSegment one;
    one.segment = &segment;
    one.repeat = segment.repeat;
    one.start = now;
    if (step.graph.side_by_side) add_side_by_side(one, step);
    for (int i = segment.first; i < segment.first + segment.size && !step.graph.side_by_side; ++i) {
      const NodePrediction& node = step.nodes[static_cast<std::size_t>(i)];
      const double times = static_cast<double>(node.node->count) / static_cast<double>(segment.repeat);
      add(one, node, false, times * node.op.time, *node.op.power);
      add(one, node, true, times * node.gap, *step.waiting_power);
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
