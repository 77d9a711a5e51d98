#include "model/predictor/host_time.hpp"

#include <algorithm>
#include <cmath>
#include <variant>
#include <vector>

#include "arch/error.hpp"
#include "model/predictor/host_phases.hpp"
#include "model/stacks/stack.hpp"

namespace plumbline {
namespace {

[[noreturn]] void refuse_launches(const Stack& stack) {
  throw BadInput("--runtime eager: the file of stack " + stack.name +
                 " does not say what its host takes for a launch: expected \"host\": {\"each_launch\": ...} or "
                 "{\"borrowed_from\": \"hf-sdpa\", ...} in it, or --runtime stream");
}

/// When host and GPU are done with what is in front of an update.
struct Done {
  Seconds host, gpu;
};

/// The host issues each part in order and the GPU begins none earlier: of all ways on which the host goes up to a part and
/// the GPU from there, the longest. Where the host waits behind the front, which it issues while the GPU is at the update
/// before, both go on from there together.
Done done_with_passes(const HostAndGpu& step, bool waits_in_front) {
  if (!step.trains) return {sum_of_parts(step.host), std::max(sum_of_parts(step.host), sum_of_parts(step.gpu))};
  const std::size_t first = waits_in_front ? kForwardLayers : kForwardFront;
  Seconds met, host, left;
  if (waits_in_front) met = std::max(step.host[kForwardFront], step.gpu[kForwardFront]);
  for (std::size_t part = first; part < kParts; ++part) left += step.gpu[part];
  Seconds longest = left;
  for (std::size_t part = first; part < kParts; ++part) {
    host += step.host[part];
    left -= step.gpu[part];
    longest = std::max(longest, host + left);
  }
  return {met + host, met + longest};
}

/// What the GPU waits for: in front of an update, where it is done with all of that before the host has issued it; for
/// an update's lists of tensors, where the host has not gone through those; and in loops in which the host waits for
/// it. An update's few calls are issued while the GPU still works on what is before it.
struct Waits {
  Seconds passes, at_end;
};

Waits waits_of(const HostAndGpu& step, bool waits_in_front) {
  const Done done = done_with_passes(step, waits_in_front);
  const Seconds late = done.host + step.update - (done.gpu + step.behind);
  const Seconds at_end = std::max(Seconds{}, late) + step.waits_in_loops();
  const Seconds gpu = sum_of_parts(step.gpu), passes = done.gpu - gpu;
  constexpr double kRounding = 1e-9;  // of sums in another order
  return {passes > kRounding * gpu ? passes : Seconds{}, step.updates > 0 ? at_end : Seconds{}};
}

/// An eager framework cannot issue faster than the host: GPU time or launches x host cost, whichever is longer; in training
/// as the passes follow one another.
void wait_for_host(StepPrediction& out, const Machine& machine) {
  const HostTime& own = machine.stack().host;
  const HostAndGpu step = host_and_gpu(out, machine);
  const bool phases = step.trains && (own.training.narrow_launch > Seconds{} || own.each_training_launch > Seconds{});
  if (!phases && !(own.each_launch > Seconds{})) refuse_launches(machine.stack());
  const Seconds gpu = sum_of_parts(step.gpu);
  const Waits waits = waits_of(step, out.graph.eager.waits_in_front);
  out.host_ratio = (waits.passes > Seconds{} ? gpu + waits.passes : sum_of_parts(step.host)) / gpu;
  if (!(waits.passes > Seconds{}) && !(waits.at_end > Seconds{})) return;
  out.waits_for_host = true;
  out.host_measured = !step.trains && !own.measured.empty();
  const Seconds wait = waits.passes / step.operators;
  const Seconds wait_at_end = step.updates > 0 ? waits.at_end / step.updates : Seconds{};
  for (NodePrediction& n : out.nodes) {
    if (n.node->pass == Pass::update) n.gap += wait_at_end;
    else if (!travels_beside(out.graph, *n.node)) n.gap += wait;  // what runs beside others would hide it
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
  if (!trains(step)) return;
  for (NodePrediction& n : step.nodes) {
    if (hands_over(*n.node)) n.gap += wait;
  }
}

}  // namespace

Seconds between_steps(const HostTime& host, const Workload& workload) {
  const Seconds prompt = workload.phase == Phase::prefill ? host.each_prompt : Seconds{};
  return host.each_step + prompt + static_cast<double>(workload.batch) * host.each_sequence;
}

HostSpread spread_of_hosts(const StepPrediction& step, const Machine& machine) {
  constexpr double kOneSide = 1.645;  // 5 and 95 % of a normal distribution
  const HostTime& own = machine.stack().host;
  if (step.host_ratio == 0 || own.training_hosts.slow == 0 || !trains(step)) return {};
  // a machine's own host still changes, as ranks beside one another do
  const double apart = std::exp(kOneSide * own.training_hosts.apart);
  return own.measured.empty() ? HostSpread{own.training_hosts.quick, own.training_hosts.slow}
                              : HostSpread{1 / apart, apart};
}

Seconds latency_with(const StepPrediction& step, const Machine& machine, double times_host, double times_gpu) {
  HostAndGpu parts = host_and_gpu(step, machine);
  const bool front = step.graph.eager.waits_in_front;
  const auto wait = [&] {
    const Waits waits = waits_of(parts, front);
    return waits.passes + waits.at_end;
  };
  const Seconds busy = step.latency - wait();
  parts.scale(times_host, times_gpu);
  return times_gpu * busy + wait();
}

void set_gaps(StepPrediction& step, const Machine& machine, Runtime runtime, Seconds between) {
  const Rates& m = machine.rates();
  for (NodePrediction& n : step.nodes) n.gap = runtime_gap(n.op, m, runtime);
  step.waits_for_host = step.host_measured = false;
  step.host_ratio = 0;
  const bool launches = machine.kernels() != KernelSet::ideal;  // the floor has none
  if (runtime == Runtime::eager && launches) wait_for_host(step, machine);
  if (launches) wait_behind_hand_overs(step, machine.stack().host);
  if (between > Seconds{} && !step.nodes.empty()) {
    step.nodes.front().gap += between / static_cast<double>(step.nodes.front().node->count);
  }
}

}  // namespace plumbline
