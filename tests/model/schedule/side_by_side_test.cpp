// Communication beside compute in whole steps: what must hold of times, energies and reports.
#include "model/schedule/side_by_side.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "model/report/power_trace.hpp"
#include "model/report/report.hpp"
#include "tests/support/workloads.hpp"

namespace plumbline::side_by_side_test {
namespace {

using testing_support::decode;
using testing_support::prefill;

Machine h200(const char* stack = "trt-llm", ClockMode clock = ClockMode::steady) {
  MachineOptions options{stack};
  options.clock = clock;
  return make_machine(load_gpu("h200_sxm"), options);
}

double count_of(const NodePrediction& n) { return static_cast<double>(n.node->count); }

std::vector<Workload> workloads() {
  std::vector<Workload> all;
  for (const std::int64_t batch : {2, 13, 64}) {
    Workload w = decode(8 * batch, 2000);
    w.parallel.tensor = 8;
    all.push_back(w);
    w.parallel.attention_data = true;
    all.push_back(w);
  }
  Workload w = prefill(1, 4096);
  w.parallel.tensor = 4;
  all.push_back(w);
  w.batch = 4;
  w.parallel.sequence = true;
  all.push_back(w);
  w.parallel.pipeline = 2;
  w.parallel.micro_batches = 2;
  all.push_back(w);
  return all;
}

/// Every model's every plan above, halved.
template <class Check>
void of_all(const Check& check) {
  Predictor predictor;
  for (const char* model : {"llama-3.1-8b", "mixtral-8x7b", "deepseek-v3"}) {
    const Llm llm = load_llm(model);
    for (Workload w : workloads()) {
      w.overlap = Overlap::two_batch;
      if (std::string_view(model) != "llama-3.1-8b" && !w.parallel.sequence) w.parallel.expert = w.parallel.tensor;
      SCOPED_TRACE(testing::Message() << model << " batch " << w.batch << " tp " << w.parallel.tensor);
      check(predictor, llm, w);
    }
  }
}

TEST(SideBySide, HiddenAndExposedAreTheNetworksOwnTime) {
  const Machine machine = h200();
  of_all([&](Predictor& predictor, const Llm& llm, const Workload& w) {
    const StepPrediction step = predictor.predict(llm, w, machine, {});
    Seconds network, all;
    for (const NodePrediction& n : step.nodes) {
      if (n.node->stream == 1) network += count_of(n) * (n.op.time + n.gap + n.tax);
      all += count_of(n) * n.on_path();
      EXPECT_GE(n.tax, -1e-9 * n.op.time);
      EXPECT_GE(n.on_path(), -1e-9 * n.op.time);
      if (n.node->stream == 0) {
        EXPECT_EQ(n.hidden, Seconds{});
      }
    }
    EXPECT_NEAR((step.network_exposed + step.network_hidden) / network, 1, 1e-9);
    EXPECT_NEAR((all + step.bubble) / step.latency, 1, 1e-9);
    EXPECT_GT(step.network_hidden, Seconds{});
    const TimeShare& s = step.share;
    EXPECT_NEAR(s.compute + s.memory + s.network + s.latency + s.launch, 1, 1e-6);
    EXPECT_LE(step.low, step.latency);
    EXPECT_GE(step.high, step.latency);
  });
}

/// Beside the same halves one after the other, at the same clock.
TEST(SideBySide, IsNeverSlowerThanOneAfterTheOtherByMoreThanItsTax) {
  const Machine machine = h200("trt-llm", ClockMode::burst);
  of_all([&](Predictor& predictor, const Llm& llm, const Workload& w) {
    if (w.parallel.pipeline > 1) return;
    Graph graph = lower(llm, w);
    const StepPrediction beside = predictor.predict(graph, machine, {});
    Seconds one_by_one;
    for (const NodePrediction& n : beside.nodes) one_by_one += count_of(n) * (n.op.time + n.gap);
    EXPECT_LE(beside.latency, one_by_one + beside.overlap_tax);
    EXPECT_GE(beside.latency, (1 - 1e-12) * (one_by_one - beside.network_hidden));
  });
}

TEST(SideBySide, EnergiesAddUpAndPowerKeepsToTheCap) {
  const Machine machine = h200();
  of_all([&](Predictor& predictor, const Llm& llm, const Workload& w) {
    const StepPrediction step = predictor.predict(llm, w, machine, {});
    EXPECT_LE(*step.power, machine.rates().power_cap);
    if (w.parallel.pipeline > 1) return;
    Joules sum, links;
    Seconds apart;
    for (const NodePrediction& n : step.nodes) {
      sum += count_of(n) * (*n.op.energy + *step.waiting_power * (n.gap + n.tax - n.hidden));
      apart += count_of(n) * (n.node->stream == 1 ? n.gap + n.tax - n.hidden : n.on_path());
    }
    links = apart * machine.rates().power->links_awake;
    const auto ranks = static_cast<double>(step.graph.ranks);
    EXPECT_NEAR(ranks * (sum + links) / *step.energy, 1, 1e-9);
    EXPECT_NEAR(ranks * *step.power * step.latency / *step.energy, 1, 1e-9);
    Joules traced;
    for (const PowerSegment& segment : power_trace(step)) {
      for (const PowerSlice& slice : segment.slices) {
        traced += static_cast<double>(segment.repeat) * slice.duration * slice.power;
      }
    }
    EXPECT_NEAR(traced / sum, 1, 1e-9);
  });
}

TEST(SideBySide, AnswersAreThoseOfAFreshPredictor) {
  const Machine machine = h200();
  of_all([&](Predictor& predictor, const Llm& llm, const Workload& w) {
    const StepPrediction warm = predictor.predict(llm, w, machine, {}), fresh = predict(llm, w, machine, {});
    EXPECT_EQ(warm.latency, fresh.latency);
    EXPECT_EQ(*warm.energy, *fresh.energy);
    EXPECT_EQ(warm.network_hidden, fresh.network_hidden);
  });
}

TEST(SideBySide, APrefillOfManyTokensGainsAndAStepOfFewLoses) {
  const Machine machine = h200();
  const Llm llm = load_llm("llama-3.1-70b");
  const auto gain = [&](Workload w) {
    w.parallel.tensor = 8;
    const Seconds none = predict(llm, w, machine, {}).latency;
    w.overlap = Overlap::two_batch;
    return none / predict(llm, w, machine, {}).latency;
  };
  EXPECT_GT(gain(prefill(4, 4096)), 1.1) << "a third of it is all-reduces";
  EXPECT_LT(gain(decode(8, 1024)), 0.8) << "each half reads all weights";
}

TEST(SideBySide, OneStreamAfterTheOtherIsAsBefore) {
  const Machine machine = h200();
  Workload w = decode(16, 1000);
  w.parallel.tensor = 2;
  const StepPrediction step = predict(load_llm("llama-3.1-8b"), w, machine, {});
  EXPECT_EQ(step.network_hidden, Seconds{});
  EXPECT_EQ(step.overlap_tax, Seconds{});
  for (const NodePrediction& n : step.nodes) EXPECT_EQ(n.tax + n.hidden, Seconds{});
}

/// Of a step in stages: what is handed on costs its last way, and what it takes from the compute beside it.
TEST(SideBySide, StagesHandOnWhileTheyWorkOnTheNextMicroBatch) {
  const Machine machine = h200();
  const Llm llm = load_llm("llama-3.1-70b");
  int sending = 0;
  for (Workload w : {prefill(8, 2048), decode(256, 2000)}) {
    for (const std::int64_t stages : {3, 4, 6}) {  // of 80 layers, the first stages have one more
      w.parallel.pipeline = stages;
      w.parallel.micro_batches = 8;
      w.overlap = Overlap::none;
      const StepPrediction none = predict(llm, w, machine, {});
      w.overlap = Overlap::sends;
      const StepPrediction beside = predict(llm, w, machine, {});
      EXPECT_LE(beside.latency, none.latency * (1 + 1e-12));
      Seconds all;
      for (const NodePrediction& n : beside.nodes) {
        all += count_of(n) * n.on_path();
        EXPECT_GE(n.tax, -1e-9 * n.op.time);
      }
      EXPECT_NEAR((all + beside.bubble) / beside.latency, 1, 1e-9);
      if (beside.stage + 1 == stages) continue;  // the last one sends nothing
      ++sending;
      EXPECT_NEAR(beside.network_hidden / beside.network_exposed, 7, 0.3) << "of eight micro-batches";
      // sends hold SMs; what goes on beside them in decode, a norm of 32 rows, has others
      const Seconds least = w.phase == Phase::prefill ? Seconds{} : -1e-9 * beside.latency;
      EXPECT_GT(beside.overlap_tax, least);
      EXPECT_LT(beside.overlap_tax, beside.network_hidden);
    }
  }
  EXPECT_GT(sending, 0);
}

struct Reported {
  Llm llm = load_llm("llama-3.1-8b");
  Workload w = [] {
    Workload halved = prefill(2, 2048);
    halved.parallel.tensor = 4;
    halved.overlap = Overlap::two_batch;
    return halved;
  }();
  Machine machine = h200();
  RunOptions run{};
  StepPrediction step = predict(llm, w, machine, run);
  StepReport report{llm, w, machine, ClockMode::steady, run, step, {}, ""};
};

TEST(SideBySide, ReportsSayWhatRanBesideWhat) {
  const Reported r;
  const auto json = nlohmann::json::parse(step_json(r.report));
  EXPECT_GT(json["network_s"]["hidden"].get<double>(), 0);
  EXPECT_GT(json["network_s"]["tax"].get<double>(), 0);
  EXPECT_EQ(json["parallel"]["overlap"], "two-batch");
  double total = 0;
  for (const auto& op : json["ops"]) {
    const double once = op["latency_s"].get<double>() + op["gap_s"].get<double>() + op["tax_s"].get<double>() -
                        op["hidden_s"].get<double>();
    total += op["count"].get<double>() * once;
    if (op["hidden_s"].get<double>() > 0) {
      EXPECT_THAT(op["explain"].get<std::string>(), testing::HasSubstr("nobody waits for it"));
    }
  }
  EXPECT_NEAR(total / json["latency_s"].get<double>(), 1, 1e-9);
  EXPECT_THAT(step_table(r.report, {}), testing::Not(testing::ContainsRegex(" -[0-9]")));
  EXPECT_THAT(step_table(r.report, {}), testing::AllOf(testing::HasSubstr("overlap two-batch"),
                                                       testing::HasSubstr("hidden behind compute, which is"),
                                                       testing::HasSubstr("beside   attn_all_reduce, which holds")));
}

/// A track a stream, on which slices do not overlap; both tracks lie within the step.
TEST(SideBySide, TheTraceHasATrackAStream) {
  const Reported r;
  const auto trace = nlohmann::json::parse(step_trace(r.report));
  std::map<int, std::vector<std::pair<double, double>>> tracks;
  for (const auto& event : trace["traceEvents"]) {
    if (event["ph"] != "X" || event["cat"] == "layer" || event["cat"] == "step") continue;
    const double start = event["ts"].get<double>();
    tracks[event["tid"].get<int>()].emplace_back(start, start + event["dur"].get<double>());
  }
  ASSERT_EQ(tracks.size(), 2U);
  for (auto& [track, slices] : tracks) {
    std::sort(slices.begin(), slices.end());
    int overlaps = 0;
    for (std::size_t i = 1; i < slices.size(); ++i) overlaps += slices[i].first < slices[i - 1].second - 0.002;
    EXPECT_LE(overlaps, 4) << "track " << track << ": the first and the last layer are drawn as the others";
    EXPECT_LE(slices.back().first, r.step.latency.in(units::us));
  }
}

}  // namespace
}  // namespace plumbline::side_by_side_test
