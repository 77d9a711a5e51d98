#include "model/schedule/training.hpp"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "model/schedule/zero_bubble.hpp"

namespace plumbline {
namespace {

/// Turns of all stages that are laid out one by one, however many micro-batches they are.
constexpr std::int64_t kMostTurns = 8000;

/// Each stage's turns one after the other, as soon as what they work on is there.
class Layout {
 public:
  Layout(std::span<const StagePasses> stages, const PipelineOrder& order, std::vector<PipelineTurn>* told = nullptr)
      : told_(told),
        order_(order),
        count_(static_cast<std::int64_t>(stages.size())),
        turns_(order.micro_batches * order.chunks),
        ends_(static_cast<std::size_t>(2 * turns_ * count_), Seconds{-1.0 * units::s}) {
    for (std::int64_t s = 0; s < count_; ++s) {
      const StagePasses& each = stages[static_cast<std::size_t>(s)];
      const auto chunks = static_cast<double>(order.chunks);
      stages_.push_back({each.forward / chunks, each.backward / chunks, {}, 0, 0, ahead(s)});
    }
  }

  Seconds run() {
    Seconds last;
    for (bool moved = true; moved;) {
      moved = false;
      for (std::int64_t s = 0; s < count_; ++s) {
        while (take_turn(s)) moved = true;
      }
    }
    for (const Stage& each : stages_) last = std::max(last, each.free);
    return last;
  }

 private:
  struct Stage {
    Seconds forward, backward;  ///< of a chunk
    Seconds free;
    std::int64_t forwards = 0, backwards = 0;  ///< turns taken
    std::int64_t ahead = 0;                    ///< forward turns before the first backward one
  };

  std::int64_t ahead(std::int64_t stage) const {
    const std::int64_t behind = count_ - 1 - stage;
    switch (order_.schedule) {
      case PipelineSchedule::gpipe: return turns_;
      case PipelineSchedule::interleaved:
        if (order_.micro_batches == count_) return turns_;
        return std::min(turns_, 2 * behind + (order_.chunks - 1) * count_ + 1);
      default: return std::min(turns_, behind + 1);
    }
  }

  /// Where the end of a chunk's pass of a micro-batch stands, of a stage.
  Seconds& end(bool forward, std::int64_t stage, std::int64_t chunk, std::int64_t part) {
    const std::int64_t way = (stage * order_.chunks + chunk) * order_.micro_batches + part;
    return ends_[static_cast<std::size_t>(forward ? way : way + turns_ * count_)];
  }

  bool take_turn(std::int64_t number) {
    Stage& stage = stages_[static_cast<std::size_t>(number)];
    const bool forward = stage.forwards < turns_ && stage.forwards < stage.ahead + stage.backwards;
    if (!forward && stage.backwards == turns_) return false;
    const std::int64_t turn = forward ? stage.forwards : stage.backwards;
    std::int64_t chunk = 0, part = turn;
    if (order_.chunks > 1) {  // micro-batches in groups of as many as there are stages
      const std::int64_t group = count_ * order_.chunks;
      chunk = turn / count_ % order_.chunks;
      if (!forward) chunk = order_.chunks - 1 - chunk;
      part = turn / group * count_ + turn % count_;
    }
    const Seconds from = ready(forward, number, chunk, part);
    if (from < Seconds{}) return false;
    const Seconds begin = std::max(stage.free, from);
    stage.free = begin + (forward ? stage.forward : stage.backward);
    end(forward, number, chunk, part) = stage.free;
    if (told_ != nullptr) {
      const TurnKind kind = forward ? TurnKind::forward : TurnKind::backward;
      told_->push_back({kind, number, part, chunk, -1, begin, stage.free});
    }
    ++(forward ? stage.forwards : stage.backwards);
    return true;
  }

  /// When what a turn works on is there; before 0: not yet.
  Seconds ready(bool forward, std::int64_t stage, std::int64_t chunk, std::int64_t part) {
    if (forward) {
      if (stage > 0) return end(true, stage - 1, chunk, part);
      return chunk > 0 ? end(true, count_ - 1, chunk - 1, part) : Seconds{};
    }
    if (stage + 1 < count_) return end(false, stage + 1, chunk, part);
    if (chunk + 1 < order_.chunks) return end(false, 0, chunk + 1, part);
    return end(true, stage, chunk, part);
  }

  std::vector<PipelineTurn>* told_;
  PipelineOrder order_;
  std::int64_t count_, turns_;
  std::vector<Stage> stages_;
  std::vector<Seconds> ends_;
};

/// 1F1B of at least as many micro-batches as there are stages, wave by wave: a stage's backward turn of one micro-batch
/// waits for the wave before alone, its forward turn of the next one for that and for the stage in front. The same maxima
/// and sums as Layout's, which asks each turn whether it is ready.
class Waves {
 public:
  Waves(std::span<const StagePasses> stages, std::int64_t micro_batches)
      : micro_batches_(micro_batches),
        count_(static_cast<std::int64_t>(stages.size())),
        forward_(stages.size()),
        backward_(stages.size()),
        free_(stages.size()),
        gradient_(stages.size() + 1) {
    for (std::size_t s = 0; s < stages.size(); ++s) {
      forward_[s] = stages[s].forward;
      backward_[s] = stages[s].backward;
    }
  }

  /// Where the last turn ends.
  Seconds run() {
    follow(micro_batches_);
    return drained(micro_batches_);
  }

  /// The same of so many micro-batches, no more than all, and of all.
  std::pair<Seconds, Seconds> run_twice(std::int64_t fewer) {
    follow(fewer);
    const Seconds first = Waves(*this).drained(fewer);
    return {first, run()};
  }

 private:
  /// Waves that are followed side by side, each a stage behind the one before: a processor waits for one's maxima and sums, and
  /// works on the others' meanwhile.
  static constexpr std::int64_t kBeside = 4;

  /// Waves up to `end`.
  void follow(std::int64_t end) {
    for (; wave_ < end; wave_ += kBeside) several(wave_, std::min(kBeside, end - wave_));
    wave_ = end;
  }

  /// Behind the forward turns of so many micro-batches.
  Seconds drained(std::int64_t micro_batches) {
    for (std::int64_t wave = micro_batches; wave < micro_batches + count_; ++wave) {
      backward(static_cast<std::size_t>(std::min(count_, micro_batches + count_ - wave)));
    }
    return *std::max_element(free_.begin(), free_.end());
  }

  /// At a step each wave is at the stage behind the one that the wave behind it is at. From the step on at which the first wave
  /// has gradients to work on, all have.
  void several(std::int64_t wave, std::int64_t waves) {
    const std::int64_t gradients = count_ - wave;
    std::array<Seconds, kBeside> before{};  // when the stage in front ends its forward turn, by wave
    std::int64_t step = 0;
    if (waves == kBeside) {
      for (; step < std::min(kBeside - 1, count_); ++step) turns(step, 0, step + 1, step >= gradients, before);
      for (; step < std::min(gradients, count_); ++step) turns(step, 0, kBeside, false, before);
      for (; step < count_; ++step) turns(step, 0, kBeside, true, before);
    }
    for (; step < count_ + waves - 1; ++step) {
      const std::int64_t first = std::max<std::int64_t>(0, step - count_ + 1);
      turns(step, first, std::min(waves, step + 1), step >= gradients, before);
    }
  }

  /// Of waves `first` to `end`: the backward turn of a micro-batch whose gradient the stage behind made in the wave before (the
  /// last stage reads its own forward turn), if there is one, and the forward turn behind it.
  void turns(std::int64_t step, std::int64_t first, std::int64_t end, bool has_gradient,
             std::array<Seconds, kBeside>& before) {
    for (std::int64_t k = first; k < end; ++k) {
      const auto s = static_cast<std::size_t>(step - k);
      Seconds free = free_[s];
      if (has_gradient) gradient_[s] = free = std::max(free, gradient_[s + 1]) + backward_[s];
      Seconds& handed = before[static_cast<std::size_t>(k)];
      handed = free_[s] = std::max(free, handed) + forward_[s];
    }
  }

  /// One backward turn of each of the first stages.
  void backward(std::size_t end) {
    for (std::size_t s = 0; s < end; ++s) {
      gradient_[s] = free_[s] = std::max(free_[s], gradient_[s + 1]) + backward_[s];
    }
  }

  std::int64_t micro_batches_, count_;
  std::int64_t wave_ = 0;  ///< the next one
  std::vector<Seconds> forward_, backward_;
  std::vector<Seconds> free_;      ///< when a stage's last turn ends
  std::vector<Seconds> gradient_;  ///< and its last backward turn; of the one behind the last: 0
};

bool comes_in_waves(std::span<const StagePasses> stages, const PipelineOrder& order) {
  return order.schedule == PipelineSchedule::one_f_one_b && order.chunks == 1 &&
         order.micro_batches >= static_cast<std::int64_t>(stages.size());
}

Seconds taking_turns_time(std::span<const StagePasses> stages, const PipelineOrder& order) {
  return comes_in_waves(stages, order) ? Waves(stages, order.micro_batches).run() : Layout(stages, order).run();
}

}  // namespace

Seconds laid_out_time(std::span<const StagePasses> stages, const PipelineOrder& order) {
  if (order.schedule != PipelineSchedule::zero_bubble) return taking_turns_time(stages, order);
  PipelineOrder taking_turns = order;
  taking_turns.schedule = PipelineSchedule::one_f_one_b;
  return std::min(zero_bubble_time(stages, order.micro_batches), taking_turns_time(stages, taking_turns));
}

std::vector<PipelineTurn> laid_out_turns(std::span<const StagePasses> stages, const PipelineOrder& order) {
  std::vector<PipelineTurn> turns, weights_apart;
  PipelineOrder taken = order;
  const bool zero_bubble = order.schedule == PipelineSchedule::zero_bubble;
  if (zero_bubble) taken.schedule = PipelineSchedule::one_f_one_b;
  const Seconds end = Layout(stages, taken, &turns).run();
  if (!zero_bubble || zero_bubble_time(stages, order.micro_batches, &weights_apart) > end) return turns;
  return weights_apart;
}

Seconds pipeline_time(std::span<const StagePasses> stages, const PipelineOrder& order) {
  const auto count = static_cast<std::int64_t>(stages.size());
  // whole groups of micro-batches are left out
  // with chunks a single group has an order of its own
  const std::int64_t laid_out = order.chunks > 1 ? 3 : 2, groups = order.micro_batches / count - laid_out;
  const bool few = 2 * order.micro_batches * order.chunks * count <= kMostTurns;
  if (groups <= 0 || few) return laid_out_time(stages, order);
  PipelineOrder some = order;
  some.micro_batches -= groups * count;
  const auto longer_by = [groups](Seconds shorter, Seconds longer) {
    return longer + static_cast<double>(groups) * (longer - shorter);
  };
  if (comes_in_waves(stages, some)) {
    const auto [shorter, longer] = Waves(stages, some.micro_batches).run_twice(some.micro_batches - count);
    return longer_by(shorter, longer);
  }
  const Seconds longer = laid_out_time(stages, some);
  some.micro_batches -= count;
  return longer_by(laid_out_time(stages, some), longer);
}

}  // namespace plumbline
