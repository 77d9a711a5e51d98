#include "model/report/power_trace.hpp"

#include <utility>

namespace plumbline {
namespace {

void add(PowerSegment& to, const NodePrediction& node, bool gap, Seconds duration, Watts power) {
  if (duration <= Seconds{}) return;
  to.slices.push_back({&node, gap, to.start + to.period, duration, power});
  to.period += duration;
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
    for (int i = segment.first; i < segment.first + segment.size; ++i) {
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
