#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "model/report/report.hpp"
#include "validate/timeline/compare_timeline.hpp"

namespace plumbline {
namespace {

using OrderedJson = nlohmann::ordered_json;
/// The measured side's process; predict-model's trace has 0 and, of pipelines, the stages from 1 on.
constexpr int kMeasured = 1000;

/// Whole nanoseconds, as slices that share an edge must share it to the digit to nest.
double nanoseconds(Seconds at) { return std::round(at.in(units::ns)); }

OrderedJson slice(const std::string& title, const char* category, double from, double to, std::int64_t track) {
  return {{"name", title},    {"cat", category}, {"ph", "X"}, {"ts", from / 1e3}, {"dur", (to - from) / 1e3},
          {"pid", kMeasured}, {"tid", track}};
}

OrderedJson named(const char* what, std::int64_t track, const std::string& text) {
  return {{"name", what}, {"ph", "M"}, {"pid", kMeasured}, {"tid", track}, {"args", {{"name", text}}}};
}

/// Launches of a stream, none of which begins before the one before has ended: clocks of profilers overlap by a few ns.
struct Span {
  std::size_t kernel;
  double from, to;
};

std::map<std::int64_t, std::vector<Span>> streams_of(const Timeline& timeline) {
  std::map<std::int64_t, std::vector<Span>> out;
  for (std::size_t i = 0; i < timeline.kernels.size(); ++i) {
    const TimelineKernel& kernel = timeline.kernels[i];
    std::vector<Span>& stream = out[kernel.stream];
    const double from = nanoseconds(kernel.start), to = nanoseconds(kernel.start + kernel.duration);
    if (!stream.empty() && stream.back().to > from) stream.back().to = std::max(stream.back().from, from);
    stream.push_back({i, from, to});
  }
  return out;
}

OrderedJson launch_slice(const TimelineReport& r, const Span& span, std::int64_t track) {
  const TimelineKernel& kernel = r.timeline.kernels[span.kernel];
  OrderedJson event = slice(kernel.kernel, kernel.copy ? "copy" : "kernel", span.from, span.to, track);
  event["args"] = {{"call", kernel.call}, {"ctas", kernel.ctas}, {"threads", kernel.threads}};
  return event;
}

/// The operator that launches side by side are of, around them.
OrderedJson operator_slice(const TimelineReport& r, int expected, double from, double to, std::int64_t track) {
  const NodePrediction& n = r.step.nodes[static_cast<std::size_t>(r.expected[static_cast<std::size_t>(expected)].node)];
  OrderedJson event = slice(n.node->name, "operator", from, to, track);
  event["args"] = {{"op", op_name(n.node->op)},
                   {"measured_us", (to - from) / 1e3},
                   {"predicted_us", kernel_time(n.op).in(units::us)},
                   {"limiter", name(n.op.limiter)}};
  return event;
}

void add_stream(const TimelineReport& r, std::int64_t track, const std::vector<Span>& stream, OrderedJson& events) {
  events.push_back(named("thread_name", track, "stream " + std::to_string(track)));
  for (std::size_t i = 0; i < stream.size();) {
    const Alignment::Match match = r.alignment.of[stream[i].kernel];
    std::size_t end = i + 1;
    while (match.expected >= 0 && end < stream.size()) {
      const Alignment::Match& next = r.alignment.of[stream[end].kernel];
      if (next.expected != match.expected || next.step != match.step) break;
      ++end;
    }
    if (match.expected >= 0) {
      events.push_back(operator_slice(r, match.expected, stream[i].from, stream[end - 1].to, track));
    }
    for (; i < end; ++i) events.push_back(launch_slice(r, stream[i], track));
  }
}

}  // namespace

std::string both_traces(const TimelineReport& r) {
  const Given given{};
  const StepReport predicted{r.llm, r.workload, r.machine, r.clock, r.run, r.step, {}, {}, {}, given, 0};
  OrderedJson out = OrderedJson::parse(step_trace(predicted));
  out["otherData"]["measured"] = r.timeline.file;
  OrderedJson& events = out["traceEvents"];
  for (OrderedJson& event : events) {
    if (event["name"] == "process_name" && event["pid"] == 0) {
      event["args"]["name"] = "predicted: " + event["args"]["name"].get<std::string>();
    }
  }
  const std::string card = r.timeline.card.name.empty() ? "" : r.timeline.card.name + ", ";
  events.push_back(named("process_name", 0, "measured: " + card + r.timeline.file));
  for (const auto& [track, stream] : streams_of(r.timeline)) add_stream(r, track, stream, events);
  return out.dump(-1, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
}

}  // namespace plumbline
