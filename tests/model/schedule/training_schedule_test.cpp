// Pipelines that train: the timelines of their schedules against the published lengths of their bubbles.
#include "model/schedule/training.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <vector>

#include "arch/error.hpp"
#include "model/schedule/dual_pipe.hpp"

namespace plumbline::training_schedule_test {
namespace {

constexpr Seconds kForward = 2.0 * units::ms, kBackward = 5.0 * units::ms;

std::vector<StagePasses> alike(std::size_t stages) {
  std::vector<StagePasses> all(stages);
  for (StagePasses& each : all) each = {kForward, kBackward, {}};
  return all;
}

/// In times of one micro-batch's forward and backward pass of a stage.
double length(std::size_t stages, const PipelineOrder& order) {
  return laid_out_time(alike(stages), order) / (kForward + kBackward);
}

/// m + p - 1 (arXiv 1811.06965, section 2.3; 2104.04473, section 2.2.1).
TEST(PipelineTraining, FillsAndDrainsOnce) {
  for (const PipelineSchedule schedule : {PipelineSchedule::gpipe, PipelineSchedule::one_f_one_b}) {
    for (const std::int64_t parts : {1, 3, 4, 16}) {
      EXPECT_NEAR(length(4, {schedule, parts, 1}), static_cast<double>(parts) + 3, 1e-9) << parts;
    }
  }
}

/// Chunks shorten the bubble by their number: m + (p - 1) / v (arXiv 2104.04473, section 2.2.2).
TEST(PipelineTraining, ChunksShortenTheBubbleByTheirNumber) {
  for (const std::int64_t chunks : {2, 3, 5}) {
    for (const std::int64_t parts : {4, 8, 24}) {
      EXPECT_NEAR(length(4, {PipelineSchedule::interleaved, parts, chunks}),
                  static_cast<double>(parts) + 3.0 / static_cast<double>(chunks), 1e-9)
          << chunks << ' ' << parts;
    }
  }
}

TEST(PipelineTraining, OneStageWorksWithoutAPause) {
  EXPECT_NEAR(length(1, {PipelineSchedule::one_f_one_b, 7, 1}), 7, 1e-9);
}

/// By hand, in ms, of two stages (1 + 2, 3 + 4) and two micro-batches: forward at 0-1-4 and 1-2, 4-7 behind backward
/// (4-8): the second stage is busy from 1 on, 3 4 3 4, and the first one's last backward follows it.
TEST(PipelineTraining, StagesThatDifferWaitForTheSlowest) {
  const std::vector<StagePasses> stages{{1.0 * units::ms, 2.0 * units::ms, {}}, {3.0 * units::ms, 4.0 * units::ms, {}}};
  EXPECT_NEAR(laid_out_time(stages, {PipelineSchedule::one_f_one_b, 2, 1}).in(units::ms), 1 + 14 + 2, 1e-9);
  EXPECT_NEAR(laid_out_time(stages, {PipelineSchedule::gpipe, 2, 1}).in(units::ms), 1 + 14 + 2, 1e-9);
}

/// By hand, in ms, of two stages that take 1 for each of forward, inputs and weights, and two micro-batches. The last one
/// is busy from 1 to 7: forward, inputs, forward, inputs, weights, weights. The first one: forward 0-2, inputs 3-4 behind
/// the last one's, weights 4-5 where it would wait, inputs 5-6, weights 6-7.
TEST(PipelineTraining, WeightsAreMadeWhereAStageWouldWait) {
  const StagePasses each{1.0 * units::ms, 2.0 * units::ms, 1.0 * units::ms};
  const std::vector<StagePasses> two{each, each};
  EXPECT_NEAR(laid_out_time(two, {PipelineSchedule::zero_bubble, 2, 1}).in(units::ms), 7, 1e-9);
  EXPECT_NEAR(laid_out_time(two, {PipelineSchedule::one_f_one_b, 2, 1}).in(units::ms), 9, 1e-9);
}

/// (p / 2 - 1) (both + backward - 3 weights) (arXiv 2412.19437, table 2), where a forward pass is as long as gradients of
/// inputs and of weights; and no longer where gradients of inputs are.
TEST(PipelineTraining, DualPipeWaitsAsItsReportSays) {
  const DualPasses alike{1.0 * units::ms, 2.0 * units::ms, 1.0 * units::ms, 3.0 * units::ms};
  const DualPasses longer{1.0 * units::ms, 2.2 * units::ms, 1.0 * units::ms, 3.2 * units::ms};
  for (const std::int64_t stages : {2, 4, 8, 16}) {
    for (const std::int64_t parts : {2 * stages, 3 * stages, 10 * stages}) {
      const auto ms = [&](const DualPasses& each) {
        return dual_pipe_time(std::vector<DualPasses>(static_cast<std::size_t>(stages), each), parts).in(units::ms);
      };
      const auto d = [](std::int64_t n) { return static_cast<double>(n); };
      EXPECT_NEAR(ms(alike), 3 * d(parts) + (d(stages) / 2 - 1) * (3 + 2 - 3), 1e-9) << stages << ' ' << parts;
      EXPECT_LE(ms(longer), 3.2 * d(parts) + (d(stages) / 2 - 1) * (3.2 + 2.2 - 3) + 1e-9) << stages << ' ' << parts;
      EXPECT_GE(ms(longer), 3.2 * d(parts) - 1e-9) << stages << ' ' << parts;
    }
  }
}

/// The V form over p ranks waits as DualPipe over 2 p stages does (its README's table); micro-batches come from one end, each
/// through both stages of each rank.
TEST(PipelineTraining, DualPipesVFormWaitsAsDualPipeOverTwiceTheRanks) {
  const DualPasses alike{1.0 * units::ms, 2.0 * units::ms, 1.0 * units::ms, 3.0 * units::ms};
  for (const std::int64_t ranks : {2, 3, 4, 8}) {
    for (const std::int64_t parts : {2 * ranks, 2 * ranks + 1, 10 * ranks}) {
      const Seconds time = dual_pipe_v_time(std::vector<DualPasses>(static_cast<std::size_t>(ranks), alike), parts);
      const auto d = [](std::int64_t n) { return static_cast<double>(n); };
      EXPECT_NEAR(time.in(units::ms), 2 * 3 * d(parts) + (d(ranks) - 1) * (3 + 2 - 3), 1e-9) << ranks << ' ' << parts;
    }
  }
  EXPECT_EQ(passes_together_in_v(4, 40), passes_together(8, 80));
}

/// Two passes that run together in four fifths of their time.
TEST(PipelineTraining, DualPipeGainsWherePassesRunTogether) {
  const DualPasses alone{1.0 * units::ms, 2.0 * units::ms, 1.0 * units::ms, 3.0 * units::ms};
  DualPasses two = alone;
  two.both = 2.4 * units::ms;
  const std::vector<DualPasses> without(4, alone), with(4, two);
  const double together = passes_together(4, 40);
  EXPECT_GT(together, 0.8);
  EXPECT_LT(together, 1);
  EXPECT_NEAR((dual_pipe_time(without, 40) - dual_pipe_time(with, 40)).in(units::ms), 0.6 * 40 * together, 0.6 * 3);
}

/// The bubble of ZB-H1 is (p - 1) (forward + inputs - weights) (arXiv 2401.10241, table 1), where those are alike.
TEST(PipelineTraining, ZeroBubbleWaitsForAThirdOfTheTurns) {
  const StagePasses each{1.0 * units::ms, 2.0 * units::ms, 1.0 * units::ms};
  for (const std::int64_t stages : {3, 4, 8}) {
    const std::vector<StagePasses> all(static_cast<std::size_t>(stages), each);
    const std::int64_t parts = 3 * stages;
    EXPECT_NEAR(laid_out_time(all, {PipelineSchedule::zero_bubble, parts, 1}).in(units::ms),
                static_cast<double>(3 * parts + (stages - 1)), 1e-9)
        << stages;
  }
}

/// Whatever the stages take: never longer than 1f1b, nor shorter than the first micro-batch's way through all stages and
/// back, or than the busiest stage's work.
RC_GTEST_PROP(PipelineTraining, ZeroBubbleIsNeverSlowerThanTurns, ()) {
  std::vector<StagePasses> stages(static_cast<std::size_t>(*rc::gen::inRange(1, 7)));
  Seconds way, busy;
  const std::int64_t parts = *rc::gen::inRange(1, 30);
  for (StagePasses& each : stages) {
    const auto drawn = [] { return static_cast<double>(*rc::gen::inRange(1, 50)) * units::us; };
    each.forward = drawn();
    each.weights = drawn();
    each.backward = each.weights + drawn();
    way += each.forward + each.backward - each.weights;
    busy = std::max(busy, static_cast<double>(parts) * (each.forward + each.backward));
  }
  const Seconds took = laid_out_time(stages, {PipelineSchedule::zero_bubble, parts, 1});
  RC_ASSERT(took <= laid_out_time(stages, {PipelineSchedule::one_f_one_b, parts, 1}) * (1 + 1e-12));
  RC_ASSERT(took >= way * (1 - 1e-12));
  RC_ASSERT(took >= busy * (1 - 1e-12));
}

struct Drawn {
  std::vector<StagePasses> stages;
  PipelineOrder order;
};

Drawn drawn() {
  Drawn all;
  all.stages.resize(static_cast<std::size_t>(*rc::gen::inRange(1, 7)));
  for (StagePasses& each : all.stages) {
    each = {static_cast<double>(*rc::gen::inRange(1, 50)) * units::us,
            static_cast<double>(*rc::gen::inRange(1, 50)) * units::us,
            {}};
  }
  all.order.schedule =
      *rc::gen::element(PipelineSchedule::gpipe, PipelineSchedule::one_f_one_b, PipelineSchedule::interleaved);
  all.order.micro_batches = *rc::gen::inRange(1, 80);
  if (all.order.schedule == PipelineSchedule::interleaved) {
    all.order.chunks = *rc::gen::inRange(2, 5);
    all.order.micro_batches = static_cast<std::int64_t>(all.stages.size()) * *rc::gen::inRange(1, 12);
  }
  return all;
}

Seconds busiest(const Drawn& d) {
  Seconds most;
  for (const StagePasses& each : d.stages) most = std::max(most, each.forward + each.backward);
  return static_cast<double>(d.order.micro_batches) * most;
}

/// What is counted by the steady state takes as long as it does laid out, never less than the busiest stage's work, nor
/// more than a micro-batch at a time.
RC_GTEST_PROP(PipelineTraining, TheSteadyStateGoesOnAsItBegan, ()) {
  const Drawn d = drawn();
  const Seconds counted = pipeline_time(d.stages, d.order), laid_out = laid_out_time(d.stages, d.order);
  Seconds way;
  for (const StagePasses& each : d.stages) way += each.forward + each.backward;
  RC_ASSERT(counted >= busiest(d) * (1 - 1e-12));
  RC_ASSERT(laid_out <= static_cast<double>(d.order.micro_batches) * way * (1 + 1e-12));
  RC_ASSERT(counted == laid_out);  // so few turns are all laid out
}

/// Beyond what is laid out: stages that differ by no more than a fifth, 24 of them, with 30 to 60 micro-batches a stage.
RC_GTEST_PROP(PipelineTraining, ManyMicroBatchesTakeAsLongAsTheLastOnesOfSome, ()) {
  Drawn d;
  d.stages.resize(24);
  const bool even = *rc::gen::arbitrary<bool>();
  for (StagePasses& each : d.stages) {
    const double forward = even ? 100 : *rc::gen::inRange(100, 120),
                 backward = even ? 200 : *rc::gen::inRange(200, 240);
    each = {forward * units::us, backward * units::us, {}};
  }
  d.order.micro_batches = 24 * *rc::gen::inRange(40, 60);
  const Seconds counted = pipeline_time(d.stages, d.order), laid_out = laid_out_time(d.stages, d.order);
  const double near = even ? 1e-9 : 0.12;
  RC_ASSERT(counted >= (1 - near) * laid_out && counted <= (1 + near) * laid_out);
}

/// 1F1B as it is defined, turn by turn: when a stage's pass of a micro-batch ends, by what it waits for.
class TurnByTurn {
 public:
  explicit TurnByTurn(const Drawn& d) : stages_(d.stages), parts_(static_cast<std::size_t>(d.order.micro_batches)) {
    const std::size_t count = stages_.size();
    forward_.assign(count, std::vector<Seconds>(parts_, kNever));
    backward_ = forward_;
  }

  Seconds end() {
    Seconds last;
    for (std::size_t s = 0; s < stages_.size(); ++s) last = std::max(last, backward(s, parts_ - 1));
    return last;
  }

 private:
  static constexpr Seconds kNever = -1.0 * units::s;

  std::size_t ahead(std::size_t s) const { return std::min(parts_, stages_.size() - s); }

  Seconds forward(std::size_t s, std::size_t part) {
    Seconds& known = forward_[s][part];
    if (known != kNever) return known;
    const Seconds handed = s > 0 ? forward(s - 1, part) : Seconds{};
    const Seconds before = part == 0         ? Seconds{}
                           : part < ahead(s) ? forward(s, part - 1)
                                             : backward(s, part - ahead(s));
    return known = std::max(handed, before) + stages_[s].forward;
  }

  Seconds backward(std::size_t s, std::size_t part) {
    Seconds& known = backward_[s][part];
    if (known != kNever) return known;
    const Seconds handed = s + 1 < stages_.size() ? backward(s + 1, part) : forward(s, part);
    const std::size_t turn = part + ahead(s) - 1;  // the forward pass that it takes its turn behind
    const Seconds before = turn < parts_ ? forward(s, turn) : backward(s, part - 1);
    return known = std::max(handed, before) + stages_[s].backward;
  }

  std::vector<StagePasses> stages_;
  std::size_t parts_;
  std::vector<std::vector<Seconds>> forward_, backward_;
};

RC_GTEST_PROP(PipelineTraining, TurnsAreTakenAsTheyAreDefined, ()) {
  Drawn d = drawn();
  d.order = {PipelineSchedule::one_f_one_b, *rc::gen::inRange(1, 80), 1};
  RC_ASSERT(laid_out_time(d.stages, d.order) == TurnByTurn(d).end());
}

RC_GTEST_PROP(PipelineTraining, MoreMicroBatchesTakeLonger, ()) {
  Drawn d = drawn();
  const Seconds some = pipeline_time(d.stages, d.order);
  d.order.micro_batches *= 2;
  RC_ASSERT(pipeline_time(d.stages, d.order) >= some * (1 - 1e-12));
}

}  // namespace
}  // namespace plumbline::training_schedule_test
