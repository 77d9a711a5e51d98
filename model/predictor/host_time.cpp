#include "model/predictor/host_time.hpp"

#include <algorithm>
#include <variant>

#include "arch/error.hpp"
#include "model/stacks/stack.hpp"

namespace plumbline {
namespace {

/// What a step adds to one execution beyond the graph gaps that op.time holds: every launch follows another kernel, and
/// outside graphs the host's gap is longer.
Seconds runtime_gap(const OpPrediction& op, const Rates& m, Runtime runtime) {
  if (runtime == Runtime::graph) return op.launch_count * m.kernel_change;
  return op.launch_count * (m.kernel_change + m.gap_stream - m.gap_graph);
}

/// Libraries that split a product or a walk over a cache launch what adds the parts up in the same call.
bool is_one_call(const Op& op) {
  return std::holds_alternative<Gemm>(op) || std::holds_alternative<AttentionDecode>(op) ||
         std::holds_alternative<MlaDecode>(op);
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

[[noreturn]] void refuse_launches(const Stack& stack) {
  throw BadInput("--runtime eager: the file of stack " + stack.name +
                 " does not say what its host takes for a launch: expected \"host\": {\"each_launch\": ...} or "
                 "{\"borrowed_from\": \"hf-sdpa\", ...} in it, or --runtime stream");
}

/// An eager framework cannot issue faster than the host: GPU time or launches x host cost, whichever is longer. In
/// training of forward and backward passes together: an update's few calls are issued while the GPU still works on what
/// was before it, and its launches each take longer than the call's share.
void wait_for_host(StepPrediction& out, const Stack& stack) {
  const HostTime& own = stack.host;
  double operators = 0, calls = 0, launches = 0;
  Seconds gpu_time;
  bool trains = false;
  for (const NodePrediction& n : out.nodes) {
    if (n.node->pass != Pass::forward) trains = true;
    if (n.node->pass == Pass::update) continue;
    const auto count = static_cast<double>(n.node->count);
    operators += count;
    calls += count * host_calls(n);
    launches += count * n.op.launch_count;
    gpu_time += count * (n.op.time + n.gap);
  }
  const Seconds each = trains && own.each_training_launch > Seconds{} ? own.each_training_launch : own.each_launch;
  if (!(each > Seconds{})) refuse_launches(stack);
  const Seconds further = own.each_further_launch > Seconds{} ? own.each_further_launch : each;
  Seconds host = calls * each + (launches - calls) * further;
  if (!trains) host += time_of_layers(out.graph, own);
  out.host_ratio = host / gpu_time;
  if (host <= gpu_time) return;
  out.waits_for_host = true;
  out.host_measured = !trains && !own.measured.empty();
  const Seconds wait = (host - gpu_time) / operators;
  for (NodePrediction& n : out.nodes) {
    if (n.node->pass != Pass::update) n.gap += wait;
  }
}

/// Behind a hand-over that the framework synchronizes for, the GPU has nothing to do while the host issues the next pass's
/// first kernels, however launches reach it.
void wait_behind_hand_overs(StepPrediction& step, const HostTime& host) {
  const Seconds wait = host.calls_each_hand_over * host.each_launch;
  if (!(wait > Seconds{})) return;
  const auto hands_over = [](const Node& node) {
    const auto* sent = std::get_if<Transfer>(&node.op);
    return sent != nullptr && sent->kind == TransferKind::send_recv;
  };
  const bool trains = std::any_of(step.nodes.begin(), step.nodes.end(),
                                  [](const NodePrediction& n) { return n.node->pass != Pass::forward; });
  for (NodePrediction& n : step.nodes) {
    if (trains && hands_over(*n.node)) n.gap += wait;
  }
}

}  // namespace

int host_calls(const NodePrediction& n) {
  if (n.node->in_call) return 0;
  return is_one_call(n.node->op) ? std::min(n.op.launch_count, 1) : n.op.launch_count;
}

Seconds between_steps(const HostTime& host, const Workload& workload) {
  const Seconds prompt = workload.phase == Phase::prefill ? host.each_prompt : Seconds{};
  return host.each_step + prompt + static_cast<double>(workload.batch) * host.each_sequence;
}

void set_gaps(StepPrediction& step, const Machine& machine, Runtime runtime, Seconds between) {
  const Rates& m = machine.rates();
  for (NodePrediction& n : step.nodes) n.gap = runtime_gap(n.op, m, runtime);
  step.waits_for_host = step.host_measured = false;
  step.host_ratio = 0;
  const bool launches = machine.kernels() != KernelSet::ideal;  // the floor has none
  if (runtime == Runtime::eager && launches) wait_for_host(step, machine.stack());
  if (launches) wait_behind_hand_overs(step, machine.stack().host);
  if (between > Seconds{} && !step.nodes.empty()) {
    step.nodes.front().gap += between / static_cast<double>(step.nodes.front().node->count);
  }
}

}  // namespace plumbline
