#include "model/schedule/dual_pipe.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <vector>

namespace plumbline {
namespace {

/// A turn: a forward pass, a backward pass, both together, or gradients of weights that were put off. Of which of its two
/// stages: 0 the one whose micro-batches reach it first, 1 the other.
struct DualTurn {
  int forward = -1, backward = -1;
  bool put_off = false;  ///< backward makes no gradients of weights
  bool weights = false;
};

/// The turns of a rank, by how far it is from its end of the pipeline.
std::vector<DualTurn> turns_of(std::int64_t rank, std::int64_t ranks, std::int64_t micro_batches) {
  const std::int64_t half = ranks / 2, place = std::min(rank, ranks - 1 - rank), far = half - place - 1;
  const bool middle = far == 0;
  std::vector<DualTurn> turns;
  const auto add = [&](const DualTurn& turn) { turns.push_back(turn); };
  for (std::int64_t i = 0; i < 2 * far; ++i) add({.forward = 0});
  for (std::int64_t i = 0; i <= place; ++i) {
    add({.forward = 0});
    add({.forward = 1});
  }
  for (std::int64_t i = 0; i < far; ++i) {
    add({.backward = 1, .put_off = true});
    add({.weights = true});
    add({.forward = 1});
  }
  for (std::int64_t i = 0; i < micro_batches / 2 - ranks + place + 1; ++i) {
    if (i == 0 && middle) {
      add({.forward = 0});
      add({.backward = 1});
    } else {
      add({.forward = 0, .backward = 1});
    }
    add({.forward = 1, .backward = 0});
  }
  for (std::int64_t i = 0; i < far; ++i) {
    add({.backward = 1});
    add({.forward = 1, .backward = 0});
  }
  bool put_off = false;
  for (std::int64_t i = 0; i <= place; ++i) {
    const bool here = i == (place + 1) / 2;
    put_off = put_off || (here && place % 2 == 1);
    add({.backward = 1, .put_off = put_off});
    put_off = put_off || (here && place % 2 == 0);
    add({.backward = 0, .put_off = put_off});
  }
  for (std::int64_t i = 0; i < far; ++i) {
    add({.weights = true});
    add({.backward = 0, .put_off = true});
  }
  for (std::int64_t i = 0; i <= place; ++i) add({.weights = true});
  return turns;
}

class DualLayout {
 public:
  DualLayout(std::span<const DualPasses> ranks, std::int64_t micro_batches)
      : passes_(ranks), count_(static_cast<std::int64_t>(ranks.size())), micro_batches_(micro_batches) {
    ranks_.resize(ranks.size());
    for (std::int64_t r = 0; r < count_; ++r) at(r).turns = turns_of(r, count_, micro_batches);
  }

  Seconds run(std::vector<PipelineTurn>* told = nullptr) {
    told_ = told;
    for (bool moved = true; moved;) {
      moved = false;
      for (std::int64_t r = 0; r < count_; ++r) {
        while (take_turn(r)) moved = true;
      }
    }
    Seconds last;
    for (const Rank& rank : ranks_) last = std::max(last, rank.free);
    return last;
  }

 private:
  /// Gradients of weights, of which micro-batch of its direction and of which stage.
  struct PutOff {
    std::int64_t micro_batch;
    int stage;
  };
  struct Rank {
    std::vector<DualTurn> turns;
    std::size_t next = 0;
    Seconds free;
    std::array<std::vector<Seconds>, 2> forward_ends, backward_ends;  ///< by the direction of micro-batches
    std::vector<PutOff> put_off;
    std::size_t made_up = 0;  ///< of those
  };

  Rank& at(std::int64_t rank) { return ranks_[static_cast<std::size_t>(rank)]; }
  /// 0: from the first rank to the last.
  std::size_t direction(std::int64_t rank, int stage) const {
    return static_cast<std::size_t>(stage == 0 ? rank >= count_ / 2 : rank < count_ / 2);
  }

  /// When what the next pass of a stage works on is there; none: not yet.
  std::optional<Seconds> ready(std::int64_t rank, int stage, bool forward) {
    const std::size_t way = direction(rank, stage);
    const std::int64_t before = forward == (way == 0) ? rank - 1 : rank + 1;
    const std::vector<Seconds>& done = forward ? at(rank).forward_ends[way] : at(rank).backward_ends[way];
    const std::vector<Seconds>* from = nullptr;
    if (before >= 0 && before < count_) from = forward ? &at(before).forward_ends[way] : &at(before).backward_ends[way];
    else if (!forward) from = &at(rank).forward_ends[way];  // the last stage goes back by itself
    if (from == nullptr) return Seconds{};
    return done.size() < from->size() ? std::optional((*from)[done.size()]) : std::nullopt;
  }

  /// Passes of a stage that are done.
  std::int64_t of(const std::array<std::vector<Seconds>, 2>& ends, std::int64_t number, int stage) const {
    return static_cast<std::int64_t>(ends[direction(number, stage)].size());
  }

  /// A turn that is about to be counted.
  void tell(std::int64_t number, const DualTurn& turn, Seconds begin) {
    Rank& rank = at(number);
    PipelineTurn out{TurnKind::weights, number, 0, 0, -1, begin, rank.free};
    if (turn.weights) {
      const PutOff& made = rank.put_off[rank.made_up++];
      out.micro_batch = counted(made.micro_batch, number, made.stage);
      out.chunk = made.stage;
    } else if (turn.forward >= 0) {
      out.kind = turn.backward >= 0 ? TurnKind::both : TurnKind::forward;
      out.micro_batch = counted(of(rank.forward_ends, number, turn.forward), number, turn.forward);
      out.chunk = turn.forward;
      if (turn.backward >= 0) {
        out.backward = counted(of(rank.backward_ends, number, turn.backward), number, turn.backward);
      }
    } else {
      out.kind = turn.put_off ? TurnKind::inputs : TurnKind::backward;
      out.micro_batch = counted(of(rank.backward_ends, number, turn.backward), number, turn.backward);
      out.chunk = turn.backward;
    }
    told_->push_back(out);
  }

  /// Among those of both ends.
  std::int64_t counted(std::int64_t micro_batch, std::int64_t number, int stage) const {
    return micro_batch + (direction(number, stage) == 1 ? micro_batches_ / 2 : 0);
  }

  bool take_turn(std::int64_t number) {
    Rank& rank = at(number);
    if (rank.next == rank.turns.size()) return false;
    const DualTurn& turn = rank.turns[rank.next];
    const DualPasses& takes = passes_[static_cast<std::size_t>(number)];
    Seconds begin = rank.free;
    for (const bool forward : {true, false}) {
      const int stage = forward ? turn.forward : turn.backward;
      if (stage < 0) continue;
      const std::optional<Seconds> there = ready(number, stage, forward);
      if (!there) return false;
      begin = std::max(begin, *there);
    }
    const Seconds alone = turn.put_off ? takes.backward - takes.weights : takes.backward;
    rank.free = begin + (turn.weights                              ? takes.weights
                         : turn.forward >= 0 && turn.backward >= 0 ? takes.both
                         : turn.forward >= 0                       ? takes.forward
                                                                   : alone);
    if (told_ != nullptr) tell(number, turn, begin);
    if (turn.forward >= 0) rank.forward_ends[direction(number, turn.forward)].push_back(rank.free);
    if (turn.backward >= 0) rank.backward_ends[direction(number, turn.backward)].push_back(rank.free);
    if (turn.put_off) rank.put_off.push_back({of(rank.backward_ends, number, turn.backward) - 1, turn.backward});
    ++rank.next;
    return true;
  }

  std::span<const DualPasses> passes_;
  std::int64_t count_, micro_batches_;
  std::vector<Rank> ranks_;
  std::vector<PipelineTurn>* told_ = nullptr;
};

}  // namespace

Seconds dual_pipe_time(std::span<const DualPasses> ranks, std::int64_t micro_batches) {
  const auto count = static_cast<std::int64_t>(ranks.size());
  const std::int64_t some = 4 * count;
  if (micro_batches <= some) return DualLayout(ranks, micro_batches).run();
  const Seconds longer = DualLayout(ranks, some).run(), shorter = DualLayout(ranks, some - count).run();
  return longer + static_cast<double>(micro_batches - some) / static_cast<double>(count) * (longer - shorter);
}

std::vector<PipelineTurn> dual_pipe_turns(std::span<const DualPasses> ranks, std::int64_t micro_batches) {
  std::vector<PipelineTurn> turns;
  DualLayout(ranks, micro_batches).run(&turns);
  return turns;
}

double passes_together(std::int64_t ranks, std::int64_t micro_batches) {
  double least = 1;
  for (std::int64_t rank = 0; rank < ranks / 2; ++rank) {
    double both = 0;
    for (const DualTurn& turn : turns_of(rank, ranks, micro_batches)) both += turn.forward >= 0 && turn.backward >= 0;
    least = std::min(least, both / static_cast<double>(micro_batches));
  }
  return least;
}

namespace {

std::vector<DualPasses> mirrored(std::span<const DualPasses> ranks) {
  std::vector<DualPasses> all(ranks.begin(), ranks.end());
  all.insert(all.end(), ranks.rbegin(), ranks.rend());
  return all;
}

}  // namespace

Seconds dual_pipe_v_time(std::span<const DualPasses> ranks, std::int64_t micro_batches) {
  return dual_pipe_time(mirrored(ranks), 2 * micro_batches);
}

std::vector<PipelineTurn> dual_pipe_v_turns(std::span<const DualPasses> ranks, std::int64_t micro_batches) {
  std::vector<PipelineTurn> turns = dual_pipe_turns(mirrored(ranks), 2 * micro_batches);
  const auto count = static_cast<std::int64_t>(ranks.size());
  std::erase_if(turns, [count](const PipelineTurn& turn) { return turn.stage >= count; });
  for (PipelineTurn& turn : turns) {  // what comes from the other end there has come back
    turn.micro_batch %= micro_batches;
    if (turn.backward >= 0) turn.backward %= micro_batches;
  }
  return turns;
}

double passes_together_in_v(std::int64_t ranks, std::int64_t micro_batches) {
  return passes_together(2 * ranks, 2 * micro_batches);
}

}  // namespace plumbline
