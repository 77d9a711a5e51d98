#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "model/report/monitor/trace_parts.hpp"
#include "model/schedule/dual_pipe.hpp"
#include "model/schedule/training.hpp"

namespace plumbline {
namespace {

constexpr int kPasses = 0, kExchanges = 1;

std::vector<PipelineTurn> turns_of(const PipelineStages& pipeline, const std::vector<StageTime>& stages) {
  std::vector<StagePasses> passes;
  std::vector<DualPasses> dual;
  for (const StageTime& stage : stages) {
    const StageTurns& t = stage.turns;
    passes.push_back({t.forward, t.backward, t.weights});
    dual.push_back({t.forward, t.backward, t.weights, t.both});
  }
  switch (pipeline.schedule) {
    case PipelineSchedule::dual_pipe: return dual_pipe_turns(dual, pipeline.micro_batches);
    case PipelineSchedule::dual_pipe_v: return dual_pipe_v_turns(dual, pipeline.micro_batches);
    default: return laid_out_turns(passes, {pipeline.schedule, pipeline.micro_batches, pipeline.chunks});
  }
}

Seconds once_of(const StageTime& stage) { return stage.turns.sums + stage.turns.update + stage.turns.gathers; }

std::string kind_of(TurnKind kind) {
  switch (kind) {
    case TurnKind::forward: return "forward";
    case TurnKind::weights: return "gradients of weights";
    case TurnKind::inputs: return "gradients of inputs";
    case TurnKind::both: return "forward and backward";
    default: return "backward";
  }
}

class Drawing {
 public:
  Drawing(const StepReport& r, Json& events)
      : pipeline_(r.step.graph.pipeline),
        stages_(r.step.stages.each),
        slowest_(r.step.stage),
        turns_(turns_of(pipeline_, stages_)),
        events_(events) {
    Seconds once;
    for (const PipelineTurn& turn : turns_) passed_ = std::max(passed_, turn.end);
    for (const StageTime& stage : stages_) once = std::max(once, once_of(stage));
    stretched_ = r.step.latency / (passed_ + once);
  }

  void draw() {
    for (std::size_t s = 0; s < stages_.size(); ++s) name_stage(static_cast<std::int64_t>(s));
    for (const PipelineTurn& turn : turns_) add_turn(turn);
    for (std::size_t s = 0; s < stages_.size(); ++s) add_once(stages_[s].turns, process(static_cast<std::int64_t>(s)));
  }

 private:
  static int process(std::int64_t stage) { return static_cast<int>(stage) + 1; }

  void name_stage(std::int64_t stage) {
    const int p = process(stage);
    events_.push_back(name_of_row("process_name", p, 0,
                                  "stage " + std::to_string(stage) + (stage == slowest_ ? ", the slowest" : "")));
    events_.push_back(name_of_row("thread_name", p, kPasses, "passes"));
    events_.push_back(name_of_row("thread_name", p, kExchanges, "exchanges with other ranks"));
  }

  void add(std::string name, std::string_view category, Seconds start, Seconds end, int row, int process) {
    if (end <= start) return;
    events_.push_back(slice(std::move(name), category, stretched_ * start, stretched_ * end, row, process));
  }

  std::string title(const PipelineTurn& turn) const {
    std::string text = "micro-batch " + std::to_string(turn.micro_batch + 1);
    if (turn.backward >= 0) text += " forward, " + std::to_string(turn.backward + 1) + " backward";
    else text += ", " + kind_of(turn.kind);
    if (holds_two_stages(pipeline_.schedule)) text += turn.chunk == 0 ? ", its first stage" : ", its second stage";
    else if (pipeline_.chunks > 1) text += ", chunk " + std::to_string(turn.chunk + 1);
    return text;
  }

  /// What a turn ends with.
  Seconds handed_on(const PipelineTurn& turn) const {
    const StageTurns& takes = stages_[static_cast<std::size_t>(turn.stage)].turns;
    const bool forward = turn.kind == TurnKind::forward;
    if (holds_two_stages(pipeline_.schedule) || turn.kind == TurnKind::weights) return {};
    return (forward ? takes.forward_sends : takes.backward_sends) / static_cast<double>(pipeline_.chunks);
  }

  void add_turn(const PipelineTurn& turn) {
    const int p = process(turn.stage);
    const Seconds worked = turn.end - handed_on(turn);
    add(title(turn), kind_of(turn.kind), turn.start, worked, kPasses, p);
    add("micro-batch " + std::to_string(turn.micro_batch + 1) + " handed on", "send", worked, turn.end, kExchanges, p);
  }

  void add_once(const StageTurns& takes, int p) {
    const Seconds summed = passed_ + takes.sums, updated = summed + takes.update;
    add("gradients added up over replicas", "replicas", passed_, summed, kExchanges, p);
    add("update", "update", summed, updated, kPasses, p);
    add("weights gathered from replicas", "replicas", updated, updated + takes.gathers, kExchanges, p);
  }

  const PipelineStages& pipeline_;
  const std::vector<StageTime>& stages_;
  std::int64_t slowest_;
  std::vector<PipelineTurn> turns_;
  Json& events_;
  Seconds passed_;  ///< as laid out: the end of all passes
  double stretched_ = 1;
};

}  // namespace

void add_training_stages(const StepReport& r, Json& events) {
  if (!r.step.stages.each.empty()) Drawing(r, events).draw();
}

}  // namespace plumbline
