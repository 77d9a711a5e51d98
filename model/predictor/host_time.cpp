#include "model/predictor/host_time.hpp"

#include <algorithm>

#include "model/stacks/stack.hpp"

namespace plumbline {
namespace {

/// What a step adds to one execution beyond the graph gaps that op.time holds: every launch follows another kernel, and
/// outside graphs the host's gap is longer.
Seconds runtime_gap(const OpPrediction& op, const Rates& m, Runtime runtime) {
  if (runtime == Runtime::graph) return op.launch_count * m.kernel_change;
  return op.launch_count * (m.kernel_change + m.gap_stream - m.gap_graph);
}

/// What the host takes for layers, beside their launches.
Seconds time_of_layers(const Graph& graph, const HostTime& own) {
  Seconds time;
  for (const Segment& segment : graph.segments) {
    if (!segment.layers) continue;
    const auto first = graph.nodes.begin() + segment.first;
    const bool experts = std::any_of(first, first + segment.size,
                                     [](const Node& node) { return std::holds_alternative<GroupedGemm>(node.op); });
    time += static_cast<double>(segment.repeat) * (own.each_layer + (experts ? own.each_experts_layer : Seconds{}));
  }
  return time;
}

/// An eager framework cannot issue faster than the host: GPU time or launches x host cost, whichever is longer. In
/// training of forward and backward passes together: an update's few calls are issued while the GPU still works on what
/// was before it, and its launches each take longer than the call's share.
void wait_for_host(StepPrediction& out, const Rates& m, const HostTime& own) {
  out.waits_for_host = out.host_measured = false;
  double operators = 0, launches = 0;
  Seconds gpu_time;
  bool trains = false;
  for (const NodePrediction& n : out.nodes) {
    if (n.node->pass != Pass::forward) trains = true;
    if (n.node->pass == Pass::update) continue;
    const auto count = static_cast<double>(n.node->count);
    operators += count;
    launches += count * n.op.launch_count;
    gpu_time += count * (n.op.time + n.gap);
  }
  const Seconds each = trains && own.each_training_launch > Seconds{} ? own.each_training_launch : own.each_launch;
  const bool known = each > Seconds{};
  Seconds host = known ? launches * each : operators * m.host_per_operator;
  if (known && !trains) host += time_of_layers(out.graph, own);
  if (host <= gpu_time) return;
  out.waits_for_host = known;
  out.host_measured = known && !trains && !own.measured.empty();
  const Seconds wait = (host - gpu_time) / operators;
  for (NodePrediction& n : out.nodes) {
    if (n.node->pass != Pass::update) n.gap += wait;
  }
}

}  // namespace

Seconds between_steps(const HostTime& host, const Workload& workload) {
  const Seconds prompt = workload.phase == Phase::prefill ? host.each_prompt : Seconds{};
  return host.each_step + prompt + static_cast<double>(workload.batch) * host.each_sequence;
}

void set_gaps(StepPrediction& step, const Machine& machine, Runtime runtime, Seconds between) {
  const Rates& m = machine.rates();
  for (NodePrediction& n : step.nodes) n.gap = runtime_gap(n.op, m, runtime);
  if (runtime == Runtime::eager) wait_for_host(step, m, machine.stack().host);
  if (between > Seconds{} && !step.nodes.empty()) {
    step.nodes.front().gap += between / static_cast<double>(step.nodes.front().node->count);
  }
}

}  // namespace plumbline
