#include "model/schedule/exchanges.hpp"

#include <algorithm>

#include "model/engine/timing.hpp"
#include "model/schedule/dual_pipe.hpp"
#include "model/schedule/side_by_side.hpp"
#include "ops/graph/exchange.hpp"

namespace plumbline {
namespace {

/// Executions of a segment for one micro-batch, or, of one that runs once, an iteration.
double repeats(const Graph& graph, std::size_t segment, Stages stages) {
  const PipelineStages& pipeline = graph.pipeline;
  const Segment& s = graph.segments[segment];
  if (stages == Stages::all && pipeline.stages > 1) {
    return static_cast<double>(pipeline.repeat(0, segment, graph.segments.size()));
  }
  return static_cast<double>(s.repeat) / (s.once ? 1.0 : static_cast<double>(pipeline.turns()));
}

bool exchanges(const Op& op) {
  return std::holds_alternative<Collective>(op) || std::holds_alternative<Transfer>(op) ||
         std::holds_alternative<ExpertExchange>(op);
}

bool between_replicas(const Node& node) {
  return node.role == NodeRole::beside_forward || node.role == NodeRole::beside_backward;
}

/// What is left of a pass of one micro-batch for exchanges to travel beside.
struct Passes {
  Seconds forward, backward;
  double units = 1;  ///< layers, and what is outside of them

  Seconds& beside(NodeRole role) {
    return role == NodeRole::beside_forward || role == NodeRole::copied_forward ? forward : backward;
  }
};

Passes passes_of(const StepPrediction& step, Stages stages) {
  Passes passes;
  for (std::size_t g = 0; g < step.graph.segments.size(); ++g) {
    const Segment& segment = step.graph.segments[g];
    if (segment.layers && segment.forward < 0) passes.units += repeats(step.graph, g, stages);
  }
  for (const NodePrediction& n : step.nodes) {
    const auto segment = static_cast<std::size_t>(n.node->segment);
    if (n.node->pass == Pass::update || between_replicas(*n.node) || exchanges(n.node->op)) continue;
    const Seconds time = repeats(step.graph, segment, stages) * (n.op.time + n.gap);
    (n.node->pass == Pass::forward ? passes.forward : passes.backward) += time;
  }
  return passes;
}

/// Of what computes, the share that is missing while an exchange travels: its SMs from what multiplies, its bytes from what
/// streams.
double share_taken(const OpPrediction& op, const Rates& m) {
  const double sms = sms_held(op, m) / m.sm_count;
  return std::min(1.0, sms + memory_held(op, m));
}

void hide(NodePrediction& n, Seconds hidden, double held_share) {
  n.hidden = std::min(hidden, n.op.time + n.gap);
  n.tax = held_share * n.hidden;
}

/// Executions in a micro-batch of what the replicas of another stage than the first exchange.
double repeats_elsewhere(const Graph& graph, std::size_t segment) {
  std::int64_t most = 0;
  for (std::int64_t stage = 0; stage < graph.pipeline.stages; ++stage) {
    most = std::max(most, graph.pipeline.repeat(stage, segment, graph.segments.size()));
  }
  return static_cast<double>(most);
}

/// Exchanges of each micro-batch, then those of an iteration, which find the last backward and the first forward pass. Stages
/// that are not the first find a pass as long as its.
void replicas(StepPrediction& step, const Rates& m, Stages stages) {
  const Passes whole = passes_of(step, stages);
  const double exposed = step.graph.exposed_apart ? 0 : 1 / whole.units;
  for (const bool once : {false, true}) {
    Passes left = whole;
    for (NodePrediction& n : step.nodes) {
      const Segment& segment = step.graph.segments[static_cast<std::size_t>(n.node->segment)];
      if (segment.once != once || !between_replicas(*n.node)) continue;
      Seconds& room = left.beside(n.node->role);
      const auto number = static_cast<std::size_t>(n.node->segment);
      const double times = repeats(step.graph, number, stages);
      const Seconds travels = (1 - exposed) * (n.op.time + n.gap);
      if (times == 0 && !once) {
        const Seconds all = Passes(whole).beside(n.node->role);
        hide(n, std::min(travels, all / repeats_elsewhere(step.graph, number)), share_taken(n.op, m));
        continue;
      }
      hide(n, std::min(travels, room / times), share_taken(n.op, m));
      room -= times * n.hidden;
    }
  }
}

/// The sum of a last bucket travels beside the copies back of those before it, which the framework makes in the buckets' order
/// behind the backward pass (Reducer::finalize_backward()): 137 to 139 of 146 copies of 1.5 ms begin while one of 2.1 ms does,
/// which takes 1.7 where nothing is copied (llama-3.2-1b on two H200, steps.two of data/measurements/h200/pytorch_training).
void last_sum(StepPrediction& step, const Rates& m) {
  Seconds copied;
  for (const NodePrediction& n : step.nodes) {
    if (n.node->role == NodeRole::copied_back) copied += static_cast<double>(n.node->count) * n.op.time;
  }
  for (NodePrediction& n : step.nodes) {
    if (n.node->role == NodeRole::beside_copies) hide(n, std::min(copied, n.op.time), share_taken(n.op, m));
  }
}

/// Copies to and from the host, by engines that take no SMs: a layer's beside the next one's pass, and those of an iteration
/// a layer at a time.
void copies(StepPrediction& step, Stages stages) {
  const Passes whole = passes_of(step, stages);
  for (const bool once : {false, true}) {
    Passes left = whole;
    for (NodePrediction& n : step.nodes) {
      const NodeRole role = n.node->role;
      if (role != NodeRole::copied_forward && role != NodeRole::copied_backward) continue;
      const auto segment = static_cast<std::size_t>(n.node->segment);
      if (step.graph.segments[segment].once != once) continue;
      Seconds& room = left.beside(role);
      const double times = repeats(step.graph, segment, stages);
      const Seconds travels = (1 - 1 / whole.units) * (n.op.time + n.gap);
      hide(n, std::max(Seconds{}, std::min(travels, room / times)), 0);
      room -= times * n.hidden;
    }
  }
}

/// Of two passes that run together, in `together` of all: what `travels` in one goes while the other computes, as much as that
/// takes.
template <class Travels>
void beside_other_pass(StepPrediction& step, const Rates& m, Stages stages, double together, const Travels& travels) {
  const Passes computes = passes_of(step, stages);
  Passes sent;
  for (const NodePrediction& n : step.nodes) {
    if (!travels(*n.node)) continue;
    const double times = repeats(step.graph, static_cast<std::size_t>(n.node->segment), stages);
    (n.node->pass == Pass::forward ? sent.forward : sent.backward) += times * (n.op.time + n.gap);
  }
  const auto share = [](Seconds room, Seconds sending) { return sending > room ? room / sending : 1.0; };
  const double forward = together * share(computes.backward, sent.forward);
  const double backward = together * share(computes.forward, sent.backward);
  for (NodePrediction& n : step.nodes) {
    if (!travels(*n.node)) continue;
    const double part = n.node->pass == Pass::forward ? forward : backward;
    hide(n, part * (n.op.time + n.gap), sms_held(n.op, m) / m.sm_count);
  }
}

/// DualPipe: tokens of experts, what tensor ranks add up, what is handed on.
void passes_of_two(StepPrediction& step, const Rates& m, Stages stages) {
  const PipelineStages& pipeline = step.graph.pipeline;
  const bool v = pipeline.schedule == PipelineSchedule::dual_pipe_v;
  const double together = v ? passes_together_in_v(pipeline.stages, pipeline.micro_batches)
                            : passes_together(pipeline.stages, pipeline.micro_batches);
  beside_other_pass(step, m, stages, together, [](const Node& node) {
    return node.pass != Pass::update && !between_replicas(node) && exchanges(node.op);
  });
}

/// Tokens of experts alone (Graph::experts_beside). With one forward pass ahead more than without it 2 (p - i - 1) + (v - 1) p + 1
/// of the m v passes of stage i of p with v chunks are alone at either end: v p in the mean of the stages.
void experts(StepPrediction& step, const Rates& m, Stages stages) {
  const PipelineStages& pipeline = step.graph.pipeline;
  const double alone = static_cast<double>(pipeline.stages) / static_cast<double>(pipeline.micro_batches);
  beside_other_pass(step, m, stages, std::max(0.0, 1 - alone), [](const Node& node) {
    const auto* collective = std::get_if<Collective>(&node.op);
    const bool all_to_all = collective != nullptr && collective->kind == CollectiveKind::all_to_all;
    return node.pass != Pass::update && (all_to_all || std::holds_alternative<ExpertExchange>(node.op));
  });
}

/// What goes in parts has a pass of its own that nothing runs beside: parts that came from all ranks are added up at the end
/// (_pipelined_produce_and_all2all and the sum behind it in torch/distributed/_symmetric_memory; reduce_bf16 in Transformer
/// Engine's ring exchange); of what is gathered each rank first puts its own part where the others read it.
Seconds pass_in_parts(const Collective& exchange, const Rates& m) {
  const Bytes all = static_cast<double>(exchange.bytes) * units::B;
  const Bytes part = all / static_cast<double>(exchange.gpus);
  return exchange.kind == CollectiveKind::all_gather ? dram_time(part, part, m) : dram_time(all, part, m);
}

/// Gathers beside the product behind them, sums beside the one before. A framework's own launches of an exchange stand for
/// one that goes as a whole.
void tensor_ranks(StepPrediction& step, const Rates& m) {
  for (std::size_t i = 0; i < step.nodes.size(); ++i) {
    NodePrediction& n = step.nodes[i];
    if (n.node->launch || !is_tensor_exchange(*n.node)) continue;
    const std::size_t other = stands_before_its_product(*n.node) ? i + 1 : i - 1;
    if (other >= step.nodes.size() || step.nodes[other].node->segment != n.node->segment) continue;
    if (!std::holds_alternative<Gemm>(step.nodes[other].node->op)) continue;
    const double parts = static_cast<double>(std::get<Collective>(n.node->op).gpus);
    hide(n, (parts - 1) / parts * step.nodes[other].op.time, 0);
    n.tax += pass_in_parts(std::get<Collective>(n.node->op), m);
  }
}

}  // namespace

void exchange_beside(StepPrediction& step, const Rates& m, Stages stages) {
  const bool two = holds_two_stages(step.graph.pipeline.schedule) && step.graph.pipeline.stages > 1;
  if (two) passes_of_two(step, m, stages);
  if (step.graph.tensor_beside && !two) tensor_ranks(step, m);
  if (step.graph.experts_beside && !two) experts(step, m, stages);
  if (step.graph.replicas_beside) {
    replicas(step, m, stages);
    last_sum(step, m);
  }
  if (step.graph.copies_beside) copies(step, stages);
}

}  // namespace plumbline
