#include "model/schedule/zero_bubble.hpp"

#include <algorithm>
#include <optional>
#include <vector>

namespace plumbline {
namespace {

enum class Work { forward, inputs, weights };

struct Turn {
  Work work;
  Seconds from;
};

/// Micro-batches go through each stage in their order, so that a count says which one is next.
struct ZeroBubbleStage {
  Seconds forward, inputs, weights, free;
  std::vector<Seconds> forward_ends, input_ends;
  std::int64_t weights_made = 0;

  std::int64_t forwards() const { return static_cast<std::int64_t>(forward_ends.size()); }
  std::int64_t backwards() const { return static_cast<std::int64_t>(input_ends.size()); }
};

class ZeroBubble {
 public:
  ZeroBubble(std::span<const StagePasses> stages, std::int64_t micro_batches) : parts_(micro_batches) {
    for (const StagePasses& each : stages) {
      stages_.push_back({each.forward, each.backward - each.weights, each.weights, {}, {}, {}, 0});
    }
  }

  /// Always the stage that can begin first, so that no later decision changes an earlier one.
  Seconds run(std::vector<PipelineTurn>* told) {
    for (;;) {
      std::size_t first = stages_.size();
      std::optional<Turn> turn;
      for (std::size_t s = 0; s < stages_.size(); ++s) {
        const std::optional<Turn> next = next_of(s);
        if (!next || (turn && next->from >= turn->from)) continue;
        turn = next;
        first = s;
      }
      if (!turn) break;
      if (told != nullptr) told->push_back(turn_of(first, *turn));
      take(stages_[first], *turn);
    }
    Seconds last;
    for (const ZeroBubbleStage& each : stages_) last = std::max(last, each.free);
    return last;
  }

 private:
  static Seconds time_of(const ZeroBubbleStage& stage, Work work) {
    return work == Work::forward ? stage.forward : work == Work::inputs ? stage.inputs : stage.weights;
  }

  /// One that is about to be taken.
  PipelineTurn turn_of(std::size_t s, const Turn& turn) const {
    const ZeroBubbleStage& stage = stages_[s];
    const bool forward = turn.work == Work::forward, inputs = turn.work == Work::inputs;
    return {forward  ? TurnKind::forward
            : inputs ? TurnKind::inputs
                     : TurnKind::weights,
            static_cast<std::int64_t>(s),
            forward  ? stage.forwards()
            : inputs ? stage.backwards()
                     : stage.weights_made,
            0,
            -1,
            turn.from,
            turn.from + time_of(stage, turn.work)};
  }

  static void take(ZeroBubbleStage& stage, const Turn& turn) {
    stage.free = turn.from + time_of(stage, turn.work);
    if (turn.work == Work::forward) stage.forward_ends.push_back(stage.free);
    else if (turn.work == Work::inputs) stage.input_ends.push_back(stage.free);
    else ++stage.weights_made;
  }

  /// When the next forward pass of a stage can begin; none: it may not, or what it works on is not there.
  std::optional<Seconds> forward_from(std::size_t s) const {
    const ZeroBubbleStage& stage = stages_[s];
    const auto count = static_cast<std::int64_t>(stages_.size()), behind = count - 1 - static_cast<std::int64_t>(s);
    const bool ahead = stage.forwards() - stage.backwards() > behind;
    if (stage.forwards() == parts_ || ahead || stage.forwards() - stage.weights_made >= count) return {};
    if (s == 0) return stage.free;
    const std::vector<Seconds>& before = stages_[s - 1].forward_ends;
    if (stage.forwards() == static_cast<std::int64_t>(before.size())) return {};
    return std::max(stage.free, before[static_cast<std::size_t>(stage.forwards())]);
  }

  std::optional<Seconds> inputs_from(std::size_t s) const {
    const ZeroBubbleStage& stage = stages_[s];
    if (stage.backwards() == parts_) return {};
    const std::vector<Seconds>& before = s + 1 < stages_.size() ? stages_[s + 1].input_ends : stage.forward_ends;
    if (stage.backwards() == static_cast<std::int64_t>(before.size())) return {};
    return std::max(stage.free, before[static_cast<std::size_t>(stage.backwards())]);
  }

  std::optional<Turn> next_of(std::size_t s) const {
    const ZeroBubbleStage& stage = stages_[s];
    const std::optional<Seconds> inputs = inputs_from(s), forward = forward_from(s);
    // as 1f1b: forward wherever it may be, else the first stages hold back all others
    if (forward && *forward <= stage.free) return Turn{Work::forward, *forward};
    if (inputs && *inputs <= stage.free) return Turn{Work::inputs, *inputs};
    if (stage.weights_made < stage.backwards()) return Turn{Work::weights, stage.free};
    if (inputs && (!forward || *inputs <= *forward)) return Turn{Work::inputs, *inputs};
    if (forward) return Turn{Work::forward, *forward};
    return {};
  }

  std::int64_t parts_;
  std::vector<ZeroBubbleStage> stages_;
};

}  // namespace

Seconds zero_bubble_time(std::span<const StagePasses> stages, std::int64_t micro_batches,
                         std::vector<PipelineTurn>* told) {
  return ZeroBubble(stages, micro_batches).run(told);
}

}  // namespace plumbline
