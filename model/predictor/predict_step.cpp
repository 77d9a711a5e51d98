// One step of a model: lower it, price each operator once, add up what repeats, and say where the time went.
#include <algorithm>
#include <cmath>

#include "arch/error.hpp"
#include "arch/fabric/cluster.hpp"
#include "arch/gpu/peaks.hpp"
#include "model/kernel_time.hpp"
#include "model/machine/parts.hpp"
#include "model/predictor/host_time.hpp"
#include "model/predictor/predict_internal.hpp"
#include "model/predictor/same_operators.hpp"
#include "model/predictor/step_band.hpp"
#include "model/predictor/step_power.hpp"
#include "model/schedule/exchanges.hpp"
#include "model/schedule/pipeline.hpp"
#include "model/schedule/side_by_side.hpp"
#include "model/stacks/common/collective_choice.hpp"
#include "model/stacks/common/plan_stream.hpp"
#include "ops/memory/memory.hpp"
#include "ops/mixer/attention.hpp"
#include "ops/resolve/ranks.hpp"
#include "ops/rewrite/rewrite.hpp"

namespace plumbline {
namespace {

/// An operator that only streams the result of its predecessor. GEMMs and attention read weights or cache, which the
/// rest of the step has evicted; gathers read a table.
bool reads_predecessor(const Op& op) {
  return std::holds_alternative<Rowwise>(op) || std::holds_alternative<Rope>(op) || std::holds_alternative<TopK>(op) ||
         std::holds_alternative<SoftmaxTopK>(op) || std::holds_alternative<CausalConv>(op) ||
         std::holds_alternative<MoePermute>(op) || std::holds_alternative<QuantizeDynamic>(op);
}

/// What passes through L2 between two uses of what a stream reads beside its predecessor's result: a norm's weights lie
/// a whole step apart, rope's tables and a residual stream a layer (a part of one: what is nearer is as good as warm).
Bytes distance_of_tables(const StepPrediction& out, std::size_t i) {
  const Op& op = out.graph.nodes[i].op;
  const Bytes weights = out.graph.memory.weights;
  const auto* row = std::get_if<Rowwise>(&op);
  if (row != nullptr && (row->kind == RowwiseKind::rmsnorm || row->kind == RowwiseKind::layernorm)) return weights;
  const Segment& segment = out.graph.segments[static_cast<std::size_t>(out.graph.nodes[i].segment)];
  return std::holds_alternative<Rope>(op) ? weights / static_cast<double>(segment.repeat) : Bytes{};
}

bool comes_from(const Graph& graph, std::size_t node, std::size_t other) {
  const auto& depends = graph.nodes[node].depends;
  return graph.nodes[node].stream == graph.nodes[other].stream &&
         std::find(depends.begin(), depends.end(), static_cast<int>(other)) != depends.end();
}

/// Whether the predecessor of a node is what has just written its input.
bool follows_its_input(const StepPrediction& out, std::size_t i, const Rates& m) {
  const Node& node = out.graph.nodes[i];
  if (i == 0 || !(node.launch || reads_predecessor(node.op))) return false;
  // the first launch of an update's loop reads another tensor than the one before, whose gradient is of the backward
  // pass
  const Segment& segment = out.graph.segments[static_cast<std::size_t>(node.segment)];
  if (node.pass == Pass::update && segment.layers && static_cast<int>(i) == segment.first) return false;
  if (out.graph.side_by_side && !comes_from(out.graph, i, i - 1))
    return false;  // another half of the batch came between
  return distance_of_tables(out, i) <= m.l2_capacity;
}

/// What L2 still holds of what a node reads, of the step's nodes the first `i` being priced.
///
/// Of a framework's launch that only streams, where a step trains: its predecessor's result, as a share of what it reads.
/// Results are kept there, so that what is written are new lines. Between a line's being written and being read half of what
/// both launches move passes through in the mean; L2 replaces lines wherever they are, so that of more than it holds a part is
/// left. (An addition of two operands of 4.2 MB takes 2.4 us with both in L2, 3.5 where a product has just written one, 4.1
/// with neither, and 3.4 to 3.8 in steps; data/measurements/h200/pytorch/in_steps.jsonl.gz and the launches of
/// ../pytorch_training.) One whose instructions are counted streams no less: the exact GELU of 6.3 and 8.4 million
/// elements takes 8.8 and 11.7 us in steps; all or nothing said 7.4 and 12.0.
///
/// Of others all or nothing. Without training memory is used again while L2 still holds it, and kernels with scalars of
/// their own have them beside this rule: when more than fits passes through, the first part of what was written is gone
/// again, and a kernel is as late as its last CTA. (Alone and warm an rmsnorm of one row takes 1.6 us, cold 2.1, in steps
/// of Llama-3.1-8B 2.2; own measurement on an H200, 2026-11-20.)
Held held_of_input(const StepPrediction& out, std::size_t i, bool trains, const Rates& m) {
  if (!follows_its_input(out, i, m)) return {};
  const Node& node = out.graph.nodes[i];
  // of an eager framework's layers what is not rewritten is a launch as it stands
  const bool layers = out.graph.segments[static_cast<std::size_t>(node.segment)].layers && node.pass == Pass::forward;
  const bool launch = node.launch || (out.graph.exposed_apart && layers && std::holds_alternative<Rowwise>(node.op));
  if (!(trains && launch && only_streams(node.op))) {
    return out.nodes[i - 1].op.dram_bytes() <= m.l2_capacity ? Held{Warmth::streams} : Held{};
  }
  const Work own = work(node.op), before = work(out.graph.nodes[i - 1].op);
  if (node.pass == Pass::update && before.bytes() > m.l2_capacity) return {};
  if (own.read <= Bytes{}) return {Warmth::part};
  const Bytes passes = 0.5 * (own.bytes() + before.bytes());
  const double left = passes > m.l2_capacity ? m.l2_capacity / passes : 1;
  const double share = left * std::min(1.0, before.write / own.read);
  return share > 0 ? Held{Warmth::part, share} : Held{};
}

double part(Seconds t, Seconds whole) { return whole > Seconds{} ? t / whole : 0.0; }

/// Splits an execution's time over the five words: gaps are launch, the rest what would get shorter were a resource
/// faster. (By the resource that takes longest alone, a launch whose memory and latency are nearly as long was all
/// latency: a decode step at 70 % of the memory's bandwidth gained 3 % by 10 % more of it and said 26 % memory.) Of a
/// collective what is hidden counts for nothing; what compute takes longer beside it is the network's.
void add_shares(const NodePrediction& n, const Rates& m, double executions, Seconds step, TimeShare& share) {
  const double count = executions * n.waited_for();
  share.network += part(count * n.tax, step);
  if (n.op.launch_count == 0) {  // ideal kernels
    (n.op.bound == Bound::memory ? share.memory : share.compute) += part(count * n.op.time, step);
    return;
  }
  // what a profiler shows as its kernels' is latency, not idle time between launches (model/kernel_time.hpp)
  const Seconds gaps = n.gap + n.op.launch_count * m.gap_graph, inside = std::min(gaps, gaps_inside(n.op));
  share.launch += part(count * (gaps - inside), step);
  share.latency += part(count * inside, step);
  for (int i = 0; i < n.op.launch_count; ++i) {
    const LaunchTime& t = n.op.launches[static_cast<std::size_t>(i)].time;
    for (std::size_t k = 0; k < kResourceCount; ++k) {
      const auto resource = static_cast<Resource>(k);
      const double spent = part(count * t.spent[resource], step);
      switch (resource) {
        case Resource::l2:
        case Resource::dram: share.memory += spent; break;
        case Resource::link: share.network += spent; break;
        case Resource::latency:
        case Resource::count_: share.latency += spent; break;
        default: share.compute += spent;
      }
    }
  }
}

/// Sums over the nodes.
void total(StepPrediction& out, const Machine& machine, const RunOptions& options, bool fused_as_stack) {
  const Rates& m = machine.rates();
  Seconds at_peak, again, busy;
  for (const NodePrediction& n : out.nodes) {
    const auto count = static_cast<double>(n.node->count);
    busy += count * n.on_path();
    const bool host = copies_to_or_from_host(n.node->op);
    if (host || sends_to_peers(n.node->op)) out.network_exposed += count * n.on_path();
    else out.overlap_tax += count * n.tax;
    out.network_hidden += count * n.hidden;
    if (host) {
      out.host_exposed += count * n.on_path();
      out.host_hidden += count * n.hidden;
    }
    out.flops += count * n.op.flops;
    out.dram_bytes += count * n.op.dram_bytes();
    const FlopRate peak = tensor_peak(m.gpu, n.op.math, m.gpu.boost_clock);
    if (!(peak > FlopRate{})) continue;
    const Seconds all = count * n.op.tensor / peak;
    at_peak += all;
    again += computed_again(*n.node) * all;
  }
  out.bubble = out.stages.waits * busy;
  out.latency = busy + out.bubble;
  set_band(out, machine, options, fused_as_stack);
  out.hfu = out.stages.mean_work * at_peak / out.latency;
  out.mfu = out.stages.mean_needed * (at_peak - again) / out.latency;
  out.mbu = out.dram_bytes / (out.latency * m.gpu.memory.bandwidth);
  out.tokens_per_s = out.graph.tokens / out.latency.in(units::s);
  // of the time that the rank is busy: what it waits for are other ranks that are bound as it is
  for (const NodePrediction& n : out.nodes) {
    add_shares(n, m, static_cast<double>(n.node->count), busy, out.share);
  }
}

/// GPUs of a node that share a port of the host copy through it at the same time.
void share_ports(Graph& graph, const Machine& machine) {
  if (!graph.copies_beside || graph.ranks == 1) return;
  const std::int64_t sharing = std::min(graph.ranks, machine.rates().fabric->host.gpus_a_port);
  for (Node& node : graph.nodes) {
    if (node.role != NodeRole::copied_forward && node.role != NodeRole::copied_backward) continue;
    if (auto* copy = std::get_if<Transfer>(&node.op)) copy->bytes *= sharing;
  }
}

/// SMs on which the stack's kernels exchange tokens, of those that run on the machine; 0: it has none, or a user has said
/// how NCCL's collectives go.
std::int64_t exchange_sms_of(const Machine& machine) {
  const Origin& origin = *machine.parts()->origin;
  const Stack& stack = origin.stack.stack;
  if (stack.exchange_sms == 0 || is_forced(stack.collective, stack.protocol)) return 0;
  const Rates& m = machine.rates();
  for (const StackedProvider& stacked : origin.stack.providers) {
    const std::span families(m.families);
    if (stacked.provider->exchanges_tokens(families.subspan(stacked.first_family), m)) return stack.exchange_sms;
  }
  return 0;
}

/// Of an update: the input embedding where the head has weights of its own (where it has not, its gradient reaches every
/// row), and the share of its rows that are no token's. Tokens are taken as drawn at random from the whole vocabulary, and
/// the same in every iteration: so are those of benchmarks. Training on text comes to fewer such rows, the longer it lasts.
void add_undrawn_rows(const Llm& llm, const Workload& w, Vocabulary& v) {
  if (w.phase != Phase::train || llm.tied_embeddings || llm.vocab == 0 || w.parallel.pipeline > 1) return;
  const double ranks = w.parallel.zero > 0 ? held_params(llm, w).divided_by() : 1;
  const double rows = static_cast<double>(llm.vocab);
  v.table = rows * static_cast<double>(llm.hidden) / (ranks * static_cast<double>(w.parallel.tensor));
  v.undrawn = std::exp(-static_cast<double>(w.batch) * static_cast<double>(w.prompt) / rows);
}

Vocabulary vocabulary_of(const Llm& llm, const Workload& workload) {
  Vocabulary v{llm.vocab, llm.tied_embeddings, llm.hidden};
  v.activation = llm.activation;
  add_undrawn_rows(llm, workload, v);
  if (llm.main().kinds.empty()) return v;
  for (const LayerSpec& l : llm.main().kinds) {
    if (l.ffn) v.stacked = std::max(v.stacked, static_cast<double>(l.ffn->experts));
  }
  const LayerSpec& layer = llm.main().kinds.front();
  v.drops = !layer.keeps_all;
  v.scores_drop = layer.drops_scores;
  v.inner_drop = layer.drops_inner && v.drops;
  v.rotary = layer.rotary;
  if (const auto* attention = layer.mixer.as<AttentionSpec>()) {
    v.heads = static_cast<double>(attention->q_heads);
    v.group = static_cast<double>(attention->q_heads) / static_cast<double>(attention->kv_heads);
  }
  return v;
}

/// Without a head of its own.
Llm tied(Llm llm) {
  llm.params -= llm.head_params;
  llm.active_params -= llm.head_params;
  llm.head_params = 0;
  llm.tied_embeddings = true;
  return llm;
}

}  // namespace

void predict_step(const Llm& llm, const Workload& workload, const Machine& machine, GemmCache& cache,
                  const RunOptions& options, StepPrediction& out) {
  const Stack& stack = machine.stack();
  const bool train = workload.phase == Phase::train, as_it_fuses = workload.fusion == stack.fusion;
  const Rewrites* training = train && as_it_fuses ? stack.training.get() : nullptr;
  if (training && training->is_tied(llm.model_type) && !llm.tied_embeddings) {
    return predict_step(tied(llm), workload, machine, cache, options, out);
  }
  if (train && stack.rewrites && !stack.training && as_it_fuses) {
    throw NotModelled("phase train: stack " + stack.name +
                      ": the launches of its backward pass are not on file; expected --stack megatron, or "
                      "--fusion typical");
  }
  if (train && workload.training.fp8 == Fp8Recipe::mx && machine.rates().path.kind != TensorPath::Kind::tcgen05) {
    throw NotModelled("fp8-recipe mx: the matrix units of " + machine.gpu().name +
                      " take no scales of 32 elements; expected tensor or block, or a GPU of Blackwell's kind");
  }
  const std::int64_t exchange_sms = workload.parallel.expert > 1 ? exchange_sms_of(machine) : 0;
  if (exchange_sms > 0 || stack.fused_attention || stack.prefill_at_once > 0 || stack.written_out_attention ||
      stack.rounds_routed_rows || stack.attention_rotates || (train && stack.training)) {
    Workload as_the_stack_does = workload;
    as_the_stack_does.exchange_sms = exchange_sms;
    as_the_stack_does.rounds_routed_rows = stack.rounds_routed_rows;
    as_the_stack_does.attention_rotates = stack.attention_rotates;
    as_the_stack_does.fused_attention = stack.fuses_attention_of(llm.model_type);
    as_the_stack_does.prefill_at_once = stack.prefill_at_once;
    as_the_stack_does.training.written_out = stack.written_out_attention;
    as_the_stack_does.training.score_bytes = stack.score_kept.in(units::B);
    if (training && stack.trains_eagerly()) train_eagerly(as_the_stack_does);
    lower(llm, as_the_stack_does, out.graph);
    const Workload rank = lowering::rank_workload(as_the_stack_does);
    if (training) rewrite(out.graph, *training, rank, llm.model_type, vocabulary_of(llm, workload));
  } else {
    lower(llm, workload, out.graph);
  }
  share_ports(out.graph, machine);
  if (!train && stack.rewrites && as_it_fuses) {
    rewrite(out.graph, *stack.rewrites, workload, llm.model_type, vocabulary_of(llm, workload));
  }
  const bool as_recorded = workload.fusion == stack.fusion && workload.overlap == Overlap::none;
  out.between_steps = between_steps(stack.host, workload);
  predict_graph(machine, cache, options, out, as_recorded, workload.phase);
}

void predict_graph(const Machine& machine, GemmCache& cache, const RunOptions& options, StepPrediction& out,
                   bool fused_as_stack, Phase phase) {
  const Rates& m = machine.rates();
  out.nodes.resize(out.graph.nodes.size());
  out.latency = out.low = out.high = Seconds{};
  out.share = TimeShare{};
  out.flops = Flops{};
  out.dram_bytes = Bytes{};
  out.clock = m.clock;
  out.energy.reset();
  out.power.reset();
  for (auto* power : {&out.power_low, &out.power_high, &out.waiting_power}) power->reset();
  out.power_limited = false;
  out.uncapped = Seconds{};
  for (auto* wait : {&out.network_exposed, &out.network_hidden, &out.host_exposed, &out.host_hidden}) *wait = Seconds{};
  out.overlap_tax = out.bubble = Seconds{};
  out.stage = 0;
  out.stages = {};
  out.fits = out.graph.memory.total() <= m.gpu.memory.usable_capacity();
  PredictOptions called;
  called.queued = options.runtime != Runtime::graph;
  SameOperators same(out);
  const bool trains = std::any_of(out.graph.nodes.begin(), out.graph.nodes.end(),
                                  [](const Node& node) { return node.pass == Pass::backward; });
  OpPrediction planned;  // has room for the most launches; nodes keep their own alone
  for (std::size_t i = 0; i < out.nodes.size(); ++i) {
    NodePrediction& n = out.nodes[i];
    n.node = &out.graph.nodes[i];
    const Held held = held_of_input(out, i, trains, m);
    n.held = held.how == Warmth::cold ? 0 : held.share;
    // layers of different kinds share operators: price each once
    n.first = same.first(i);
    if (n.first == i) predict_op(n.node->op, machine, cache, held, planned, called);
    n.op = n.first == i ? planned : out.nodes[n.first].op;
    n.tax = n.hidden = n.begins = Seconds{};
    n.beside = -1;
  }
  set_gaps(out, machine, options.runtime, out.between_steps);
  exchange_beside(out, m, Stages::all);
  SideBySide side_by_side(m);
  side_by_side(out);
  keep_slowest_stage(out, m.gpu, phase);
  if (out.graph.pipeline.stages > 1) exchange_beside(out, m, Stages::one);  // as at any other clock
  side_by_side.sends(out);
  if (m.power) settle(out, machine, options, side_by_side);
  for (NodePrediction& n : out.nodes) conclude(n.op, machine);
  total(out, machine, options, fused_as_stack);
  widen_by_host(out, machine);
  widen_by_cards(out, machine);
}

}  // namespace plumbline
