#include "model/predictor/host_phases.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <variant>

#include "model/predictor/host_time.hpp"
#include "model/stacks/stack.hpp"

namespace plumbline {
namespace {

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

/// Of the model's layers, their gradient or what replicas exchange for them.
bool is_layers(const Graph& graph, const Segment& segment) {
  return segment.layers || (segment.forward >= 0 && graph.segments[static_cast<std::size_t>(segment.forward)].layers);
}

/// Layers, executions of all micro-batches: with experts, of the backward pass, whose forward pass is computed again; what the
/// forward pass and that go through in Python, in layers: attention over an encoder is as much as one of them.
struct Layers {
  double experts = 0, backward = 0, again = 0, walked = 0, walked_again = 0;

  explicit Layers(const Graph& graph) {
    bool behind = false;  // the forward pass, where exchanges of layers between replicas are the gradient of nothing
    for (const Segment& segment : graph.segments) {
      behind = behind || segment.forward >= 0;
      if (!is_layers(graph, segment) || (behind && segment.forward < 0)) continue;
      const auto first = graph.nodes.begin() + segment.first, end = first + segment.size;
      const auto any = [&](auto is) { return std::any_of(first, end, is); };
      const auto repeat = static_cast<double>(segment.repeat);
      const auto of = static_cast<std::size_t>(std::max(0, segment.forward));
      const double walks = segment.crosses || (segment.forward >= 0 && graph.segments[of].crosses) ? 2 : 1;
      if (behind) backward += repeat;
      if (!behind) walked += walks * repeat;
      if (!behind && any([](const Node& n) { return std::holds_alternative<GroupedGemm>(n.op); })) experts += repeat;
      if (!any([](const Node& n) { return n.again; })) continue;
      again += repeat;
      walked_again += walks * repeat;
    }
  }
};

/// What the host of an iteration takes beside its calls, in launches of the narrow model.
void add_time_beside_calls(HostAndGpu& step, const Graph& graph, const TrainingHost& own) {
  const EagerParameters& eager = graph.eager;
  const Layers layers(graph);
  const Seconds launch = own.narrow_launch;
  const auto passes = static_cast<double>(graph.pipeline.micro_batches);
  step.host[kForwardFront] += passes * own.forward_begin * launch;
  step.host[kForwardLayers] += (layers.walked * own.forward_layer + layers.experts * own.experts_layer) * launch;
  step.host[kForwardLayers] += layers.again * own.kept_layer * launch;
  step.host[kBackwardLayers] += (layers.backward * own.backward_layer + layers.again * own.again_layer) * launch;
  step.host[kBackwardLayers] += layers.walked_again * own.forward_layer * launch;
  const auto tensors = static_cast<double>(eager.tensors), units = static_cast<double>(eager.sharded_units);
  const double walks = std::max(eager.walks, 1), lists = std::max(eager.lists, eager.walks);
  if (units == 0) {
    if (eager.replicas) step.host[kBackwardLayers] += tensors * own.summed_tensor * launch;
    step.update += tensors * (walks * own.walked_tensor + lists * own.listed_tensor) * launch;
    return;
  }
  const double gathered = eager.flat ? own.gathered_flat : own.gathered_unit;
  const double again_of_unit = eager.flat ? own.gathered_again_flat : own.gathered_again_unit;
  const double summed = eager.flat ? own.summed_flat : own.summed_unit;
  step.host[kForwardFront] += passes * gathered * launch;
  step.host[kForwardLayers] += passes * (units - 1) * gathered * launch;
  step.host[kBackwardLayers] += units * ((eager.gathers_again ? passes * again_of_unit : 0) + summed) * launch;
  const double walked = eager.flat ? own.walked_tensor : own.walked_shard;
  const double listed = eager.flat ? own.listed_tensor : own.listed_shard;
  step.update += tensors * (walks * walked + lists * listed) * launch;
  step.update += static_cast<double>(eager.shared_matrices) * own.shared_matrix * launch;
}

/// The last sums of gradients that no pass hides.
bool is_last_sum(const NodePrediction& n) {
  const auto* c = std::get_if<Collective>(&n.node->op);
  const bool exposed = n.node->role == NodeRole::plain || n.node->role == NodeRole::beside_copies;
  return c != nullptr && c->kind != CollectiveKind::all_gather && exposed;
}

/// A bucket's sum of gradients that a hook of the backward pass asks for.
bool is_sum_of_bucket(const Node& node) {
  const auto* c = std::get_if<Collective>(&node.op);
  return c != nullptr && c->kind == CollectiveKind::all_reduce && node.pass == Pass::backward;
}

/// Where a model's layers begin, and its backward pass, among a graph's segments.
struct Places {
  int layers = 0, backward = 0;

  explicit Places(const Graph& graph) {
    const auto first = [&](auto is) {
      return static_cast<int>(std::find_if(graph.segments.begin(), graph.segments.end(), is) - graph.segments.begin());
    };
    layers = first([](const Segment& s) { return s.layers; });
    backward = first([](const Segment& s) { return s.forward >= 0; });
  }

  /// Exchanges of replicas and the copies around them, which hooks launch: behind the backward pass, the gradient of nothing.
  bool between_replicas(const Graph& graph, const Node& node) const {
    return node.segment > backward && graph.segments[static_cast<std::size_t>(node.segment)].forward < 0;
  }

  HostPart part(const Graph& graph, const Node& node) const {
    const Segment& segment = graph.segments[static_cast<std::size_t>(node.segment)];
    const bool forward = node.pass == Pass::forward;
    if (is_layers(graph, segment)) return forward ? kForwardLayers : kBackwardLayers;
    if (between_replicas(graph, node)) return forward ? kForwardFront : segment.once ? kBackwardFront : kBackwardEnd;
    const bool front = (forward ? node.segment : segment.forward) < layers;
    if (forward) return front ? kForwardFront : kForwardEnd;
    return front ? kBackwardFront : kBackwardEnd;
  }
};

/// What a call takes, and a launch more that a library makes in it.
struct CallTimes {
  Seconds call, further;
};

/// Of a stack whose file says nothing of an iteration's phases a call of the forward pass, which goes through Python's
/// modules, takes 1.2 times what one of the backward pass does, of which there are twice as many (median of 35 iterations
/// whose phases were timed on the host, `issue_us` of data/measurements/h200/pytorch_training's third and two.third).
constexpr double kForwardCall = 1.125, kBackwardCall = 0.9375;

CallTimes call_times(const HostTime& own, const Node& node, bool trains) {
  const bool forward = node.pass == Pass::forward || node.again;
  const TrainingHost& training = own.training;
  if (trains && training.narrow_launch > Seconds{}) {
    const double call = forward ? training.forward_call : training.backward_call;
    return {call * training.narrow_launch, training.further_launch * training.narrow_launch};
  }
  const Seconds mean = trains && own.each_training_launch > Seconds{} ? own.each_training_launch : own.each_launch;
  const Seconds further = own.each_further_launch > Seconds{} ? own.each_further_launch : mean;
  return {(!trains ? 1.0 : node.pass == Pass::forward ? kForwardCall : kBackwardCall) * mean, further};
}

/// Of an update's loop over tensors, whose host issues each launch: a call goes past autograd, as one of inference does, and
/// takes as many launches of the narrow model as that.
Seconds time_in_loop(const HostTime& own, const NodePrediction& n) {
  const bool both = own.training.narrow_launch > Seconds{} && own.narrow_launch > Seconds{};
  const double slower = both ? own.training.narrow_launch / own.narrow_launch : 1;
  const double calls = host_calls(n), further = n.op.launch_count - calls;
  return slower * (n.node->calls * calls * own.each_launch + further * own.each_further_launch);
}

/// Whether the host waits for the GPU anywhere in a segment of an update.
bool waits_in(const StepPrediction& step, int segment) {
  const Segment& s = step.graph.segments[static_cast<std::size_t>(segment)];
  const auto first = step.graph.nodes.begin() + s.first;
  return s.layers && std::any_of(first, first + s.size, [](const Node& node) { return node.waits; });
}

/// Adds a launch of a loop to it, where it is the first one with the loop.
void add_to_loop(HostAndGpu& out, const StepPrediction& step, const NodePrediction& n, Seconds host, Seconds gpu) {
  const Segment& segment = step.graph.segments[static_cast<std::size_t>(n.node->segment)];
  const auto repeat = static_cast<double>(segment.repeat);
  if (n.node == &step.graph.nodes[static_cast<std::size_t>(segment.first)]) out.loops.push_back({{}, repeat});
  // a launch that runs several times a turn stands for them at once
  const double times = static_cast<double>(n.node->count) / repeat;
  out.loops.back().calls.push_back({times * host, times * gpu, n.node->waits});
}

/// The mean of the largest of `count` numbers of the normal distribution: 0.56 of two, 1.42 of eight.
double mean_of_largest(std::int64_t count) {
  constexpr int kSteps = 48;
  constexpr double kEnd = 6;
  double sum = 0;
  for (int i = 0; i < kSteps; ++i) {
    const double x = (i + 0.5) * kEnd / kSteps, below = 0.5 * std::erfc(-x / std::sqrt(2.0));
    const auto power = static_cast<double>(count);
    sum += 1 - std::pow(below, power) - std::pow(1 - below, power);
  }
  return sum * kEnd / kSteps;
}

/// Ranks wait for one another in each exchange, so that an iteration goes as its slowest host does. (Two processes' narrow
/// launches on one machine, taken beside 28 iterations on two machines: the slower one is 1.084 and 1.086 of the mean, and
/// normal ones that far apart have 1.085; `host_us` of two.third in data/measurements/h200/pytorch_training and h100.) A
/// host that was measured is the slowest one's.
double slowest_of_ranks(const StepPrediction& step, const HostTime& own) {
  if (step.graph.ranks == 1 || !own.measured.empty()) return 1;
  return 1 + own.training_hosts.apart * mean_of_largest(step.graph.ranks);
}

}  // namespace

void HostAndGpu::scale(double times_host, double times_gpu) {
  for (Seconds& time : host) time = times_host * time;
  for (Seconds& time : gpu) time = times_gpu * time;
  update = times_host * update;
  behind = times_gpu * behind;
  slower_host *= times_host;
  slower_gpu *= times_gpu;
}

Seconds HostAndGpu::waits_in_loops() const {
  Seconds sum;
  for (const WaitingLoop& loop : loops) sum += loop.time(slower_host, slower_gpu) - slower_gpu * loop.gpu();
  return sum;
}

Seconds sum_of_parts(const std::array<Seconds, kParts>& parts) {
  return std::accumulate(parts.begin(), parts.end(), Seconds{});
}

Seconds runtime_gap(const OpPrediction& op, const Rates& m, Runtime runtime) {
  if (runtime == Runtime::graph) return op.launch_count * m.kernel_change;
  return op.launch_count * (m.kernel_change + m.gap_stream - m.gap_graph);
}

bool trains(const StepPrediction& step) {
  return std::any_of(step.nodes.begin(), step.nodes.end(),
                     [](const NodePrediction& n) { return n.node->pass != Pass::forward; });
}

bool travels_beside(const Graph& graph, const Node& node) {
  return graph.exposed_apart && (node.role == NodeRole::beside_forward || node.role == NodeRole::beside_backward);
}

int host_calls(const NodePrediction& n) {
  if (n.node->in_call) return 0;
  return is_one_call(n.node->op) ? std::min(n.op.launch_count, 1) : n.op.launch_count;
}

HostAndGpu host_and_gpu(const StepPrediction& step, const Machine& machine) {
  const HostTime& own = machine.stack().host;
  HostAndGpu out;
  out.trains = trains(step);
  const Places places(step.graph);
  for (const NodePrediction& n : step.nodes) {
    const auto count = static_cast<double>(n.node->count);
    const Seconds time = count * (n.op.time + runtime_gap(n.op, machine.rates(), Runtime::eager));
    if (n.node->pass == Pass::update) {
      out.updates += count;
      if (waits_in(step, n.node->segment)) {
        add_to_loop(out, step, n, time_in_loop(own, n), (1 / count) * time);
        continue;
      }
      out.behind += time;
      if (step.graph.segments[static_cast<std::size_t>(n.node->segment)].layers)
        out.update += count * time_in_loop(own, n);
      continue;
    }
    if (!travels_beside(step.graph, *n.node)) out.operators += count;
    const HostPart part = places.part(step.graph, *n.node);
    if (!(step.graph.exposed_apart && places.between_replicas(step.graph, *n.node))) {
      const double calls = host_calls(n);
      const CallTimes each = call_times(own, *n.node, out.trains);
      out.host[part] += count * (calls * each.call + (n.op.launch_count - calls) * each.further);
    } else if (is_sum_of_bucket(*n.node)) {  // by autograd's thread
      out.host[kBackwardLayers] += count * own.training.summed_bucket * own.training.narrow_launch;
    }
    if (step.graph.exposed_apart && is_last_sum(n)) out.behind += time;
    else if (!travels_beside(step.graph, *n.node)) out.gpu[part] += time;
  }
  if (!out.trains) {
    out.host[kForwardLayers] += time_of_layers(step.graph, own);
    return out;
  }
  add_time_beside_calls(out, step.graph, own.training);
  out.scale(slowest_of_ranks(step, own), 1);
  return out;
}

}  // namespace plumbline
