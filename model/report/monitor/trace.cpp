// A step as a Chrome trace (chrome://tracing, ui.perfetto.dev): the step, its layers and their operators as slices that
// nest, board power as a counter. Of a pipeline these are the slowest stage's, and each stage has a process with its
// micro-batches.
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "model/report/json_parts.hpp"
#include "model/report/monitor/trace_parts.hpp"
#include "model/report/power_trace.hpp"
#include "model/report/report.hpp"
#include "model/words.hpp"
#include "ops/table/text.hpp"

namespace plumbline {

Json slice(std::string name, std::string_view category, Seconds start, Seconds end, int stream, int process) {
  const double from = std::round(start.in(units::ns)), to = std::round(end.in(units::ns));
  return {{"name", std::move(name)},  {"cat", category}, {"ph", "X"},    {"ts", from / 1e3},
          {"dur", (to - from) / 1e3}, {"pid", process},  {"tid", stream}};
}

Json name_of_row(const char* what, int process, int stream, const std::string& text) {
  return {{"name", what}, {"ph", "M"}, {"pid", process}, {"tid", stream}, {"args", {{"name", text}}}};
}

namespace {

double edge(Seconds at) { return std::round(at.in(units::ns)) / 1e3; }

/// Executions of a node in one repetition of its segment.
double times(const NodePrediction& n, const Segment& segment) {
  return static_cast<double>(n.node->count) / static_cast<double>(segment.repeat);
}

Json operator_slice(const NodePrediction& n, double executions, Seconds start) {
  Json event = slice(n.node->name, name(n.op.bound), start, start + executions * (n.op.time + n.tax), n.node->stream);
  event["args"] = {{"op", op_name(n.node->op)},
                   {"dtype", dtype_text(n.node->op)},
                   {"shape", shape_text(n.node->op)},
                   {"executions", executions},
                   {"bound", name(n.op.bound)},
                   {"limiter", name(n.op.limiter)},
                   {"limiter_share", n.op.limiter_share},
                   {"flops", executions * n.op.flops.in(units::FLOP)},
                   {"dram_bytes", executions * n.op.dram_bytes().in(units::B)},
                   {"power_W", n.op.power ? Json(n.op.power->in(units::W)) : Json(nullptr)},
                   {"provider", n.op.provider},
                   {"provenance", name(n.op.provenance)}};
  return event;
}

/// The operators of one repetition, from `start` on; where they end.
Seconds add_operators(const StepPrediction& step, const Segment& segment, Seconds start, Json& events) {
  const Seconds begin = start;
  for (int i = segment.first; i < segment.first + segment.size; ++i) {
    const NodePrediction& n = step.nodes[static_cast<std::size_t>(i)];
    const double executions = times(n, segment);
    if (step.graph.side_by_side) {
      events.push_back(operator_slice(n, executions, begin + n.begins));
    } else {
      events.push_back(operator_slice(n, executions, start));
    }
    start += executions * n.on_path();
  }
  return start;
}

/// Of the layers, where streams run side by side and operators of one begin before those of the last have ended.
constexpr int kLayerTrack = 2;
bool overlaps(const StepPrediction& step) { return step.network_hidden > Seconds{}; }

/// "moe_layer 3 of 58", in whose slice its operators lie.
void add_segment(const StepPrediction& step, const Segment& segment, Seconds& now, Json& events) {
  for (std::int64_t r = 0; r < segment.repeat; ++r) {
    std::string title = segment.name;
    if (segment.repeat > 1) title += " " + std::to_string(r + 1) + " of " + std::to_string(segment.repeat);
    const std::size_t place = events.size();
    events.push_back(nullptr);  // slices that hold others come first
    const Seconds end = add_operators(step, segment, now, events);
    events[place] = slice(std::move(title), "layer", now, end, overlaps(step) ? kLayerTrack : 0);
    now = end;
  }
}

/// When a stage begins with each micro-batch: once it is through with the one before, and the stage before with this one.
/// In decode the next token follows: each begins as much later than the one before as all of them share the step.
void add_stage(const StepReport& r, std::size_t stage, std::vector<Seconds>& ready, Json& events) {
  const StepPrediction& step = r.step;
  const StageTime& takes = step.stages.each[stage];
  const int process = static_cast<int>(stage) + 1;
  const std::string title =
      "stage " + std::to_string(stage) + (static_cast<std::int64_t>(stage) == step.stage ? ", the slowest" : "");
  events.push_back(name_of_row("process_name", process, 0, title));
  const auto parts = static_cast<double>(ready.size());
  Seconds free;
  for (std::size_t m = 0; m < ready.size(); ++m) {
    if (stage == 0 && r.workload.phase == Phase::decode) ready[m] = static_cast<double>(m) / parts * step.latency;
    const Seconds start = std::max(ready[m], free);
    free = start + takes.time;
    ready[m] = free + takes.sends;
    events.push_back(slice("micro-batch " + std::to_string(m + 1), "stage", start, free, 0, process));
    if (takes.sends > Seconds{}) {
      events.push_back(
          slice("micro-batch " + std::to_string(m + 1) + " handed on", "send", free, ready[m], 1, process));
    }
  }
}

void add_stages(const StepReport& r, Json& events) {
  if (r.workload.phase == Phase::train) return add_training_stages(r, events);
  std::vector<Seconds> ready(static_cast<std::size_t>(r.step.graph.pipeline.micro_batches));
  for (std::size_t stage = 0; stage < r.step.stages.each.size(); ++stage) add_stage(r, stage, ready, events);
}

Json counter(Seconds at, Watts power) {
  return {{"name", "board power"}, {"ph", "C"}, {"ts", edge(at)}, {"pid", 0}, {"args", {{"W", power.in(units::W)}}}};
}

/// What the counter shows holds until its next value, so that its integral is the step's energy.
void add_power(const StepPrediction& step, Json& events) {
  Seconds end;
  for (const PowerSegment& segment : board_power(power_trace(step))) {
    for (std::int64_t r = 0; r < segment.repeat; ++r) {
      const Seconds later = static_cast<double>(r) * segment.period;
      for (const PowerSlice& one : segment.slices) {
        events.push_back(counter(one.start + later, one.power));
        end = one.start + later + one.duration;
      }
    }
  }
  if (!step.waiting_power) return;
  events.push_back(counter(end, *step.waiting_power));
  if (step.bubble > Seconds{}) events.push_back(counter(step.latency, *step.waiting_power));
}

void add_names(const StepReport& r, Json& events) {
  const auto named = [&](const char* what, int stream, const std::string& text) {
    events.push_back(name_of_row(what, 0, stream, text));
  };
  named("process_name", 0, r.machine.gpu().title);
  std::set<int> streams{0};
  for (const NodePrediction& n : r.step.nodes) streams.insert(n.node->stream);
  for (const int stream : streams) {
    const std::string what = stream == 0 ? "compute" : stream == 1 ? "communication" : "stream";
    named("thread_name", stream, what + " (stream " + std::to_string(stream) + ")");
  }
  if (overlaps(r.step)) named("thread_name", kLayerTrack, "layers");
}

Json step_slice(const StepReport& r) {
  const StepPrediction& s = r.step;
  const std::string phase(word_of(kPhaseWords, r.workload.phase));
  const int track = overlaps(s) ? kLayerTrack : 0;
  Json event = slice(r.llm.name + ", " + phase + " step", "step", Seconds{}, s.latency, track);
  event["args"] = {{"batch", r.workload.batch},
                   {r.workload.phase == Phase::decode ? "context" : "prompt", length(r.workload)},
                   {"fits", s.fits},
                   {"tokens_per_s", s.tokens_per_s},
                   {"flops", s.flops.in(units::FLOP)},
                   {"dram_bytes", s.dram_bytes.in(units::B)},
                   {"power_W", s.power ? Json(s.power->in(units::W)) : Json(nullptr)},
                   {"energy_J", s.energy ? Json(s.energy->in(units::J)) : Json(nullptr)}};
  return event;
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
  add_names(r, events);
  events.push_back(step_slice(r));
  Seconds now;
  for (const Segment& segment : r.step.graph.segments) add_segment(r.step, segment, now, events);
  if (r.step.bubble > Seconds{}) {
    events.push_back(slice("waits for other stages", "wait", now, r.step.latency, overlaps(r.step) ? kLayerTrack : 0));
  }
  add_stages(r, events);
  add_power(r.step, events);
  return out.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace plumbline
