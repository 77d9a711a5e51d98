// The trace of a pipeline that trains: turns as its schedule lays them out, ending where the iteration's time ends.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>
#include <vector>

#include "model/report/report.hpp"
#include "model/schedule/dual_pipe.hpp"
#include "model/schedule/training.hpp"

namespace plumbline::training_trace_test {
namespace {

using Json = nlohmann::json;

constexpr Seconds ms(double value) { return value * units::ms; }

Seconds end_of(const std::vector<PipelineTurn>& turns) {
  Seconds last;
  for (const PipelineTurn& turn : turns) last = std::max(last, turn.end);
  return last;
}

/// Stages that differ.
const std::vector<StagePasses> kStages{
    {ms(2), ms(5), ms(2)}, {ms(3), ms(4), ms(1.5)}, {ms(2.5), ms(6), ms(3)}, {ms(4), ms(7), ms(3)}};

TEST(PipelineTurns, EndWhereTheTimeEnds) {
  using enum PipelineSchedule;
  for (const PipelineOrder& order : {PipelineOrder{gpipe, 8, 1},
                                     {one_f_one_b, 8, 1},
                                     {one_f_one_b, 2, 1},
                                     {interleaved, 8, 2},
                                     {zero_bubble, 8, 1}}) {
    const std::vector<PipelineTurn> turns = laid_out_turns(kStages, order);
    EXPECT_EQ(end_of(turns), laid_out_time(kStages, order));
    std::set<std::tuple<TurnKind, std::int64_t, std::int64_t, std::int64_t>> taken;
    for (const PipelineTurn& t : turns) EXPECT_TRUE(taken.insert({t.kind, t.stage, t.micro_batch, t.chunk}).second);
    const std::int64_t kinds = order.schedule == zero_bubble ? 3 : 2;
    EXPECT_EQ(static_cast<std::int64_t>(taken.size()), 4 * kinds * order.micro_batches * order.chunks);
  }
}

/// Every rank has each micro-batch's passes of both of its stages: DualPipe half of them from each end, its V form all.
TEST(PipelineTurns, OfTwoStagesARankEndWhereTheTimeEnds) {
  const std::vector<DualPasses> ranks(4, {ms(1), ms(2.2), ms(1), ms(3)});
  for (const bool v : {false, true}) {
    const auto turns = v ? dual_pipe_v_turns(ranks, 12) : dual_pipe_turns(ranks, 12);
    EXPECT_EQ(end_of(turns), v ? dual_pipe_v_time(ranks, 12) : dual_pipe_time(ranks, 12));
    std::map<std::int64_t, std::map<std::int64_t, std::vector<int>>>
        passes;  // by rank and micro-batch: forward, backward, weights
    for (const PipelineTurn& t : turns) {
      auto& of = passes[t.stage];
      for (auto* p : {&of[t.micro_batch], &of[t.backward < 0 ? t.micro_batch : t.backward]}) p->resize(3);
      if (t.kind == TurnKind::forward || t.kind == TurnKind::both) ++of[t.micro_batch][0];
      if (t.kind == TurnKind::both) ++of[t.backward][1], ++of[t.backward][2];
      if (t.kind == TurnKind::backward) ++of[t.micro_batch][1], ++of[t.micro_batch][2];
      if (t.kind == TurnKind::inputs) ++of[t.micro_batch][1];
      if (t.kind == TurnKind::weights) ++of[t.micro_batch][2];
    }
    ASSERT_EQ(passes.size(), 4U);
    for (const auto& [rank, of] : passes) {
      ASSERT_EQ(of.size(), 12U) << rank;
      for (const auto& [part, times] : of) EXPECT_EQ(times, std::vector<int>(3, v ? 2 : 1)) << rank << ' ' << part;
    }
  }
}

struct Traced {
  StepPrediction step;
  std::map<std::pair<int, int>, std::vector<Json>> rows;  ///< of stages: slices by process and row, as they begin

  Traced(PipelineSchedule schedule, std::int64_t chunks, ClockMode clock) {
    const Llm llm = load_llm("llama-3.2-1b");
    MachineOptions options;
    options.clock = clock;
    options.stack = "megatron";
    const Machine machine = make_machine(load_gpu("h200_sxm"), options);
    Workload w;
    w.phase = Phase::train;
    w.batch = 16;
    w.prompt = 2048;
    w.parallel.pipeline = 4;
    w.parallel.data = 2;
    w.parallel.zero = 1;
    w.training.chunks = chunks;
    w.training.micro_batch = 1;
    w.training.schedule = schedule;
    step = predict(llm, w, machine, {});
    const Json trace = Json::parse(step_trace({llm, w, machine, clock, {}, step, {}, {}}));
    for (const Json& event : trace["traceEvents"]) {
      if (event["ph"] == "X" && event["pid"] > 0) rows[{event["pid"], event["tid"]}].push_back(event);
    }
  }
};

long long begin_ns(const Json& slice) { return std::llround(1e3 * slice["ts"].get<double>()); }
long long end_ns(const Json& slice) { return begin_ns(slice) + std::llround(1e3 * slice["dur"].get<double>()); }

TEST(TrainingTrace, EndsWhereTheIterationEnds) {
  using enum PipelineSchedule;
  constexpr ClockMode kBurst = ClockMode::burst, kSteady = ClockMode::steady;
  for (const auto& [schedule, chunks, clock] : {std::tuple{gpipe, 1, kBurst},
                                                {one_f_one_b, 1, kSteady},
                                                {interleaved, 2, kBurst},
                                                {zero_bubble, 1, kSteady},
                                                {dual_pipe, 1, kBurst}}) {
    const Traced t(schedule, chunks, clock);
    ASSERT_EQ(t.rows.size(), 8U) << "four stages, passes and exchanges";
    long long end = 0, busy = 0;
    for (const auto& [row, slices] : t.rows) {
      long long before = 0;
      for (const Json& one : slices) {
        EXPECT_GE(begin_ns(one), before) << one["name"];
        before = end_ns(one);
        if (row.first == t.step.stage + 1) busy += end_ns(one) - begin_ns(one);
      }
      end = std::max(end, before);
    }
    EXPECT_EQ(end, std::llround(t.step.latency.in(units::ns)));
    const double worked = (t.step.latency - t.step.bubble).in(units::ns);
    EXPECT_NEAR(static_cast<double>(busy) / worked, 1, schedule == dual_pipe ? 0.02 : 1e-6);
  }
}

}  // namespace
}  // namespace plumbline::training_trace_test
