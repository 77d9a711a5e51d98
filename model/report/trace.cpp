// A step as a Chrome trace (chrome://tracing, ui.perfetto.dev): operators on a track, board power as a counter.
#include <nlohmann/json.hpp>
#include <string>

#include "model/report/power_trace.hpp"
#include "model/report/report.hpp"
#include "model/words.hpp"
#include "ops/table/text.hpp"

namespace plumbline {
namespace {

using Json = nlohmann::ordered_json;

Json operator_event(const NodePrediction& n, Seconds start, Seconds duration) {
  Json event{{"name", n.node->name},      {"cat", name(n.op.bound)},       {"ph", "X"},
             {"ts", start.in(units::us)}, {"dur", duration.in(units::us)}, {"pid", 0},
             {"tid", n.node->stream}};
  event["args"] = {{"op", op_name(n.node->op)}, {"dtype", dtype_text(n.node->op)}, {"shape", shape_text(n.node->op)}};
  return event;
}

Json counter(Seconds at, double watts) {
  return {{"name", "power W"}, {"ph", "C"}, {"ts", at.in(units::us)}, {"pid", 0}, {"args", {{"W", watts}}}};
}

/// Without energies: times alone, in the order of the trace.
void add_times(const StepPrediction& step, Json& events) {
  Seconds now;
  for (const Segment& segment : step.graph.segments) {
    for (std::int64_t r = 0; r < segment.repeat; ++r) {
      for (int i = segment.first; i < segment.first + segment.size; ++i) {
        const NodePrediction& n = step.nodes[static_cast<std::size_t>(i)];
        const double times = static_cast<double>(n.node->count) / static_cast<double>(segment.repeat);
        events.push_back(operator_event(n, now, times * n.op.time));
        now += times * (n.op.time + n.gap);
      }
    }
  }
}

void add_power(const StepPrediction& step, Json& events) {
  Seconds end;
  for (const PowerSegment& segment : power_trace(step)) {
    for (std::int64_t r = 0; r < segment.repeat; ++r) {
      const Seconds later = static_cast<double>(r) * segment.period;
      for (const PowerSlice& slice : segment.slices) {
        if (!slice.gap) events.push_back(operator_event(*slice.node, slice.start + later, slice.duration));
        events.push_back(counter(slice.start + later, slice.power.in(units::W)));
        end = slice.start + later + slice.duration;
      }
    }
  }
  events.push_back(counter(end, 0));
}

}  // namespace

std::string step_trace(const StepReport& r) {
  Json out;
  out["displayTimeUnit"] = "ms";
  out["otherData"] = {{"schema", "plumbline.trace.v1"},
                      {"model", r.llm.name},
                      {"gpu", r.machine.gpu().name},
                      {"phase", word_of(kPhaseWords, r.workload.phase)},
                      {"clock", word_of(kClockWords, r.clock)}};
  Json& events = out["traceEvents"] = Json::array();
  events.push_back({{"name", "process_name"}, {"ph", "M"}, {"pid", 0}, {"args", {{"name", r.machine.gpu().title}}}});
  if (r.step.power) add_power(r.step, events);
  else add_times(r.step, events);
  return out.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace plumbline
