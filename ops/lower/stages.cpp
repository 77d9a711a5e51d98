// Which segments each stage of a pipeline runs.
#include <cstring>
#include <span>
#include <vector>

#include "ops/lower/parts.hpp"
#include "ops/resolve/ranks.hpp"

namespace plumbline::lowering {

/// Each rank sends to the one in its place. In training, where the tensor ranks of a stage hold the same tokens, each
/// sends its part and they are gathered on arrival (arXiv 2104.04473, section 4.1).
void hand_over(Step& s) {
  const ParallelPlan& plan = s.workload.parallel;
  s.open("stage_end", 1);
  const bool in_parts = s.train() && plan.tensor > 1 && !s.scattered;
  const double elements = static_cast<double>(s.tokens) * static_cast<double>(s.hidden);
  Transfer send;
  send.kind = TransferKind::send_recv;
  send.bytes = whole_bytes(storage(s.types.base, in_parts ? elements / static_cast<double>(plan.tensor) : elements));
  send.stride = plan.stage_ranks();
  s.add("stage_send"_node, send, 1);
  if (in_parts) s.all_gather("stage_all_gather"_node, s.tokens, s.hidden, s.types.base, plan.tensor);
  s.close();
}

std::vector<std::int64_t> updating_stages(const Workload& w) {
  const std::int64_t stages = w.parallel.pipeline;
  if (stages == 1) return {0};
  if (w.training.schedule == PipelineSchedule::dual_pipe_v) return {0, 1};
  if (w.training.two_stages()) return stages == 2 ? std::vector<std::int64_t>{0} : std::vector<std::int64_t>{0, 1};
  return stages == 2 ? std::vector<std::int64_t>{0, 1} : std::vector<std::int64_t>{0, 1, stages - 1};
}

namespace {

/// Parts of the model, one behind the other on its way.
std::int64_t stages_of(const Step& s) {
  const std::int64_t ranks = s.workload.parallel.pipeline;
  return s.train() ? stages_over(ranks, s.workload.training.schedule) : ranks;
}

/// The next stage is the same rank's: the last rank's two, in DualPipe's V form.
bool turns_here(const Step& s, std::int64_t stage) {
  return stages_of(s) > s.workload.parallel.pipeline && stage + 1 == s.workload.parallel.pipeline;
}

/// Repeats of the forward segments: what comes before the layers belongs to the first stage, what follows to the last. A
/// stage of several chunks hands on behind each of them, the last one behind all but its last.
void divide_forward(const Step& s, const Llm& llm, std::int64_t stage, std::span<std::int64_t> at) {
  const std::int64_t chunks = s.train() ? s.workload.training.chunks : 1, stages = stages_of(s);
  const bool first = stage == 0, last = stage + 1 == stages;
  const auto head = static_cast<std::size_t>(s.kind_segments.back().first) + 1;
  std::size_t forward = 0;
  while (forward < at.size() && s.graph.segments[forward].forward < 0 && !s.graph.segments[forward].once) ++forward;
  for (std::size_t i = 0; i + 1 < forward; ++i) at[i] = (i < head ? first : last) ? 1 : 0;
  at[forward - 1] = last || turns_here(s, stage) ? chunks - 1 : chunks;
  const std::vector<std::int64_t> layers = layers_of_stage(llm, llm.main(), stages, stage);
  for (const auto& [segment, kind] : s.kind_segments) {
    at[static_cast<std::size_t>(segment)] = layers[static_cast<std::size_t>(kind)];
  }
}

/// Whose stage what follows the passes is: an update for each of `updating` (updating_stages), in front of which stands what replicas
/// exchange in each micro-batch, and behind it what is gathered of what was updated.
class Updates {
 public:
  Updates(const Step& s, std::int64_t stage, std::span<const std::int64_t> updating)
      : updating_(updating),
        stage_(stage),
        first_(stage == 0),
        last_(stage + 1 == stages_of(s)),
        two_stages_(s.workload.training.two_stages()) {}

  /// Asked of each segment in turn.
  bool begun(const Segment& segment) {
    begun_ = begun_ || segment.once || (passed_ && segment.forward < 0);
    passed_ = passed_ || segment.forward >= 0;
    return begun_;
  }

  bool run_here(const Segment& segment) {
    const bool update = std::strcmp(segment.name, "optimizer") == 0;
    if (update) ++updated_;
    const std::size_t of = segment.once ? updated_ - 1 : updated_;
    if (two_stages_) return (first_ || last_) == (of == 0);
    const bool middle = updating_.size() == 3 && of == 1 && !first_ && !last_;
    return middle || updating_[of] == stage_;
  }

 private:
  std::span<const std::int64_t> updating_;
  std::int64_t stage_;
  bool first_, last_, two_stages_;
  bool passed_ = false, begun_ = false;
  std::size_t updated_ = 0;
};

/// Backward segments run as often as their forward ones; gradients are handed to the stage before.
void divide_backward(const Step& s, std::int64_t stage, std::span<const std::int64_t> updating,
                     std::span<std::int64_t> at) {
  const std::vector<Segment>& segments = s.graph.segments;
  const std::int64_t chunks = s.workload.training.chunks;
  Updates updates(s, stage, updating);
  int sends = 0;
  while (segments[static_cast<std::size_t>(sends) + 1].forward < 0) ++sends;
  for (std::size_t i = 0; i < segments.size(); ++i) {
    if (updates.begun(segments[i])) {
      at[i] = updates.run_here(segments[i]) ? segments[i].repeat : 0;
    } else if (segments[i].forward == sends) {
      at[i] = stage == 0 || turns_here(s, stage - 1) ? chunks - 1 : chunks;
    } else if (segments[i].forward >= 0) {
      at[i] = at[static_cast<std::size_t>(segments[i].forward)];
    }
  }
}

}  // namespace

namespace {

/// Each rank runs the stage in its place from the other end too.
void add_other_stages(Step& s) {
  std::vector<std::int64_t>& repeats = s.graph.pipeline.repeats;
  const std::vector<std::int64_t> own = repeats;
  const std::size_t segments = s.graph.segments.size(), stages = own.size() / segments;
  for (std::size_t i = 0; i < own.size(); ++i) {
    const std::size_t stage = i / segments, segment = i % segments;
    if (!s.graph.segments[segment].once) repeats[i] += own[(stages - 1 - stage) * segments + segment];
  }
  repeats.resize(static_cast<std::size_t>(s.workload.parallel.pipeline) * segments);
}

}  // namespace

void divide_among_stages(Step& s, const Llm& llm) {
  const std::size_t segments = s.graph.segments.size(), stages = static_cast<std::size_t>(stages_of(s));
  std::vector<std::int64_t>& repeats = s.graph.pipeline.repeats;
  repeats.assign(stages * segments, 0);
  const std::vector<std::int64_t> updating = updating_stages(s.workload);
  for (std::size_t stage = 0; stage < stages; ++stage) {
    const std::span at = std::span(repeats).subspan(stage * segments, segments);
    divide_forward(s, llm, static_cast<std::int64_t>(stage), at);
    if (s.train()) divide_backward(s, static_cast<std::int64_t>(stage), updating, at);
  }
  if (s.train() && s.workload.training.two_stages()) add_other_stages(s);
}

}  // namespace plumbline::lowering
