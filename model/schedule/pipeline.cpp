#include "model/schedule/pipeline.hpp"

#include <algorithm>
#include <utility>

#include "arch/gpu/peaks.hpp"
#include "model/schedule/dual_pipe.hpp"
#include "model/schedule/training.hpp"

namespace plumbline {
namespace {

struct StageSum : StageTime {
  Joules energy;
  Seconds forward;         ///< of `time`
  Seconds weights;         ///< of `time`: gradients of weights
  Seconds beside;          ///< what `time` is shorter by, as exchanges of one pass travel while another computes
  Seconds beside_forward;  ///< ... of `forward`
  Seconds once;            ///< beside `time`: once an iteration
  Joules once_energy;
  Seconds work, once_work;      ///< on tensor cores at their peaks: of `time` and of `once`
  Seconds needed, once_needed;  ///< ... without what is computed again
};

/// On tensor cores, at their peaks at the boost clock.
void add_work(StageSum& sum, const NodePrediction& n, double count, bool once, const GpuNumbers& gpu) {
  const FlopRate peak = tensor_peak(gpu, n.op.math, gpu.boost_clock);
  if (!(n.op.tensor > Flops{}) || !(peak > FlopRate{})) return;
  const Seconds work = count * n.op.tensor / peak;
  (once ? sum.once_work : sum.work) += work;
  (once ? sum.once_needed : sum.needed) += (1 - computed_again(*n.node)) * work;
}

/// What is handed on, and what is done once an iteration.
void add_turns(StageTurns& turns, const NodePrediction& n, Seconds time, bool once) {
  if (!once) {
    if (hands_over(n.node->op)) (n.node->pass == Pass::forward ? turns.forward_sends : turns.backward_sends) += time;
    return;
  }
  const auto* collective = std::get_if<Collective>(&n.node->op);
  if (collective == nullptr) turns.update += time;
  else (collective->kind == CollectiveKind::all_gather ? turns.gathers : turns.sums) += time;
}

void set_passes(StageTurns& turns, const StagePasses& passes) {
  turns.forward = passes.forward;
  turns.backward = passes.backward;
  turns.weights = passes.weights;
}

/// Of one micro-batch.
StageSum sum_of(const StepPrediction& step, const GpuNumbers& gpu, std::int64_t stage) {
  const PipelineStages& pipeline = step.graph.pipeline;
  StageSum sum;
  for (const NodePrediction& n : step.nodes) {
    const auto segment = static_cast<std::size_t>(n.node->segment);
    const std::int64_t count = pipeline.repeat(stage, segment, step.graph.segments.size());
    add_turns(sum.turns, n, static_cast<double>(count) * n.on_path(), step.graph.segments[segment].once);
    add_work(sum, n, static_cast<double>(count), step.graph.segments[segment].once, gpu);
    if (step.graph.segments[segment].once) {
      sum.once += static_cast<double>(count) * n.on_path();
      if (n.op.energy) sum.once_energy += static_cast<double>(count) * *n.op.energy;
      continue;
    }
    if (holds_two_stages(pipeline.schedule)) {
      const Seconds shorter = static_cast<double>(count) * (n.hidden - n.tax);
      sum.beside += shorter;
      if (n.node->pass == Pass::forward) sum.beside_forward += shorter;
    }
    if (n.node->pass == Pass::forward) sum.forward += static_cast<double>(count) * n.on_path();
    if (n.node->of_weights) sum.weights += static_cast<double>(count) * n.on_path();
    const bool beside = pipeline.sends_beside && hands_over(n.node->op);
    (beside ? sum.sends : sum.time) += static_cast<double>(count) * n.on_path();
    if (n.op.energy) sum.energy += static_cast<double>(count) * *n.op.energy;
  }
  return sum;
}

/// Stages that run the same segments as often as the one before take what that one takes.
std::vector<StageSum> sums_of_stages(const StepPrediction& step, const GpuNumbers& gpu) {
  const PipelineStages& pipeline = step.graph.pipeline;
  const auto segments = static_cast<std::ptrdiff_t>(step.graph.segments.size());
  std::vector<StageSum> sums;
  sums.reserve(static_cast<std::size_t>(pipeline.stages));
  for (std::int64_t s = 0; s < pipeline.stages; ++s) {
    const auto own = pipeline.repeats.begin() + s * segments;
    const bool as_before = s > 0 && std::equal(own, own + segments, own - segments);
    sums.push_back(as_before ? StageSum(sums.back()) : sum_of(step, gpu, s));
  }
  return sums;
}

/// Drops the segments that the stage does not run, and counts the others' repeats.
void keep(StepPrediction& step, std::int64_t stage) {
  Graph& graph = step.graph;
  const PipelineStages& pipeline = graph.pipeline;
  const std::size_t segments = graph.segments.size();
  std::vector<std::size_t> place(graph.nodes.size(), graph.nodes.size());
  std::size_t kept_nodes = 0, kept_segments = 0;
  for (std::size_t g = 0; g < segments; ++g) {
    Segment segment = graph.segments[g];
    const std::int64_t repeat = pipeline.repeat(stage, g, segments);
    if (repeat == 0) continue;
    const auto first = static_cast<std::size_t>(segment.first);
    segment.first = static_cast<int>(kept_nodes);
    segment.repeat = segment.once ? repeat : repeat * pipeline.turns();
    for (std::size_t i = first; i < first + static_cast<std::size_t>(segment.size); ++i) {
      place[i] = kept_nodes;
      if (kept_nodes != i) {
        graph.nodes[kept_nodes] = std::move(graph.nodes[i]);
        step.nodes[kept_nodes] = std::move(step.nodes[i]);
      }
      Node& node = graph.nodes[kept_nodes];
      node.segment = static_cast<int>(kept_segments);
      node.count = segment.repeat;
      ++kept_nodes;
    }
    graph.segments[kept_segments++] = segment;
  }
  graph.nodes.resize(kept_nodes);
  graph.segments.resize(kept_segments);
  step.nodes.resize(kept_nodes);
  // what ran an operator first may have gone with another stage
  std::vector<std::size_t> first_kept(place.size(), place.size());
  for (std::size_t i = 0; i < kept_nodes; ++i) {
    NodePrediction& n = step.nodes[i];
    n.node = &graph.nodes[i];
    std::size_t& first = first_kept[n.first];
    if (first == place.size()) first = i;
    n.first = first;
    if (n.beside >= 0) {
      const std::size_t moved = place[static_cast<std::size_t>(n.beside)];
      n.beside = moved < place.size() ? static_cast<int>(moved) : -1;
    }
    for (int& other : graph.nodes[i].depends) {
      if (other < 0) continue;
      const std::size_t moved = place[static_cast<std::size_t>(other)];
      other = moved < place.size() ? static_cast<int>(moved) : -1;
    }
  }
}

}  // namespace

bool hands_over(const Op& op) {
  const auto* transfer = std::get_if<Transfer>(&op);
  return transfer != nullptr && transfer->kind == TransferKind::send_recv;
}

namespace {

/// DualPipe, of passes as they would be alone; what two together gain they gain in `together` of all. Each rank's are written to
/// its turns.
Seconds dual_time(std::vector<StageSum>& ranks, const PipelineStages& pipeline) {
  const bool v = pipeline.schedule == PipelineSchedule::dual_pipe_v;
  const double together = v ? passes_together_in_v(pipeline.stages, pipeline.micro_batches)
                            : passes_together(pipeline.stages, pipeline.micro_batches);
  std::vector<DualPasses> passes;
  for (StageSum& s : ranks) {  // of two stages: each pass is a half
    const Seconds forward = 0.5 * (s.forward + s.beside_forward), whole = 0.5 * (s.time + s.beside);
    passes.push_back({forward, whole - forward, 0.5 * s.weights, whole - 0.5 / together * s.beside});
    const DualPasses& each = passes.back();
    set_passes(s.turns, {each.forward, each.backward, each.weights});
    s.turns.both = each.both;
    s.turns.forward_sends = 0.5 * s.turns.forward_sends;
    s.turns.backward_sends = 0.5 * s.turns.backward_sends;
  }
  return v ? dual_pipe_v_time(passes, pipeline.micro_batches) : dual_pipe_time(passes, pipeline.micro_batches);
}

/// What a stage has to do in the mean over them / what the slowest has.
void compare_work(StepPrediction& step, const std::vector<StageSum>& stages) {
  const auto parts = static_cast<double>(step.graph.pipeline.turns()), number = static_cast<double>(stages.size());
  Seconds work, needed;
  for (const StageSum& s : stages) {
    work += parts * s.work + s.once_work;
    needed += parts * s.needed + s.once_needed;
  }
  const StageSum& slowest = stages[static_cast<std::size_t>(step.stage)];
  const Seconds its_work = parts * slowest.work + slowest.once_work;
  const Seconds its_needed = parts * slowest.needed + slowest.once_needed;
  if (its_work > Seconds{}) step.stages.mean_work = work / number / its_work;
  if (its_needed > Seconds{}) step.stages.mean_needed = needed / number / its_needed;
}

/// Of training: what each stage is busy for, and the whole.
void keep_slowest_of_training(StepPrediction& step, std::vector<StageSum>& stages) {
  const PipelineStages& pipeline = step.graph.pipeline;
  const auto parts = static_cast<double>(pipeline.turns());
  std::vector<StagePasses> passes;
  Seconds once, most, all;
  Joules energy, of_slowest;
  for (std::size_t i = 0; i < stages.size(); ++i) {
    StageSum& s = stages[i];
    passes.push_back({s.forward, s.time - s.forward, s.weights});
    set_passes(s.turns, passes.back());
    once = std::max(once, s.once);
    const Seconds busy = parts * s.time + s.once;
    const Joules drawn = parts * s.energy + s.once_energy;
    all += busy;
    energy += drawn;
    if (busy <= most) continue;
    most = busy;
    of_slowest = drawn;
    step.stage = static_cast<std::int64_t>(i);
  }
  const Seconds laid_out = holds_two_stages(pipeline.schedule)
                               ? dual_time(stages, pipeline)
                               : pipeline_time(passes, {pipeline.schedule, pipeline.micro_batches, pipeline.chunks});
  const Seconds latency = laid_out + once;
  step.stages.waits = std::max(0.0, latency / most - 1);
  step.stages.all_busy = all / most;
  step.stages.all_energy = of_slowest > Joules{} ? energy / of_slowest : step.stages.all_busy;
  compare_work(step, stages);
  step.stages.each.insert(step.stages.each.end(), stages.begin(), stages.end());
}

}  // namespace

void keep_slowest_stage(StepPrediction& step, const GpuNumbers& gpu, Phase phase) {
  const PipelineStages& pipeline = step.graph.pipeline;
  step.stages.each.clear();
  if (pipeline.stages == 1) return;
  std::vector<StageSum> sums = sums_of_stages(step, gpu);
  if (phase == Phase::train) {
    keep_slowest_of_training(step, sums);
    return keep(step, step.stage);
  }
  StageSum all, slowest;
  for (std::int64_t s = 0; s < pipeline.stages; ++s) {
    const StageSum& stage = sums[static_cast<std::size_t>(s)];
    all.time += stage.time;
    all.sends += stage.sends;
    all.energy += stage.energy;
    step.stages.each.push_back(stage);
    if (stage.time <= slowest.time) continue;
    slowest = stage;
    step.stage = s;
  }
  const auto parts = static_cast<double>(pipeline.micro_batches);
  const Seconds busy = parts * slowest.time + slowest.sends, way = all.time + all.sends;
  const Seconds latency = phase == Phase::decode ? std::max(busy, way) : way + (parts - 1) * slowest.time;
  step.stages.waits = latency / busy - 1;
  step.stages.all_busy = all.time / slowest.time;
  step.stages.all_energy = slowest.energy > Joules{} ? all.energy / slowest.energy : step.stages.all_busy;
  keep(step, step.stage);
}

}  // namespace plumbline
