// The Chrome trace of a step: slices that nest, figures on each, and a power counter that is the step's energy.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <vector>

#include "model/report/power_trace.hpp"
#include "model/report/report.hpp"

namespace plumbline::trace_test {
namespace {

using Json = nlohmann::json;

struct Traced {
  Llm llm;
  Workload workload;
  Machine machine;
  RunOptions run;
  StepPrediction step;
  Json trace;

  Traced(const char* model, const char* gpu, Phase phase, Runtime runtime = Runtime::graph, MachineOptions options = {})
      : llm(load_llm(model)), machine(make_machine(load_gpu(gpu), options)), run{runtime} {
    workload.phase = phase;
    step = predict(llm, workload, machine, run);
    trace = Json::parse(step_trace({llm, workload, machine, ClockMode::steady, run, step, {}, {}}));
  }

  std::vector<Json> of(const char* kind, const char* category = "") const {
    std::vector<Json> out;
    for (const Json& event : trace["traceEvents"]) {
      if (event["ph"] == kind && (*category == '\0' || event["cat"] == category)) out.push_back(event);
    }
    return out;
  }
};

/// In ns: what viewers count in.
long long begin_ns(const Json& slice) { return std::llround(1e3 * slice["ts"].get<double>()); }
long long end_ns(const Json& slice) { return begin_ns(slice) + std::llround(1e3 * slice["dur"].get<double>()); }

TEST(Trace, SlicesNestInStepAndLayer) {
  for (const char* model : {"llama-3.1-8b", "gpt-oss-120b"}) {
    const Traced t(model, "h200_sxm", Phase::decode);
    std::vector<Json> open;
    std::map<std::size_t, int> at_depth;
    for (const Json& slice : t.of("X")) {
      while (!open.empty() && end_ns(open.back()) <= begin_ns(slice)) open.pop_back();
      if (!open.empty()) {
        EXPECT_LE(begin_ns(open.back()), begin_ns(slice));
        EXPECT_GE(end_ns(open.back()), end_ns(slice)) << slice["name"] << " in " << open.back()["name"];
      }
      ++at_depth[open.size()];
      open.push_back(slice);
    }
    std::int64_t layers = 0, operators = 0;
    for (const Segment& segment : t.step.graph.segments) {
      layers += segment.repeat;
      operators += segment.repeat * segment.size;
    }
    EXPECT_EQ(at_depth,
              (std::map<std::size_t, int>{{0, 1}, {1, static_cast<int>(layers)}, {2, static_cast<int>(operators)}}));
    EXPECT_EQ(t.of("X", "step").size(), 1u);
    EXPECT_EQ(t.of("X", "layer").size(), static_cast<std::size_t>(layers));
  }
}

TEST(Trace, NamesProcessThreadAndLayers) {
  const Traced t("llama-3.1-8b", "h200_sxm", Phase::decode);
  std::map<std::string, std::string> names;
  for (const Json& event : t.of("M")) names[event["name"]] = event["args"]["name"];
  EXPECT_EQ(names["process_name"], t.machine.gpu().title);
  EXPECT_EQ(names["thread_name"], "compute (stream 0)");
  bool second = false;
  for (const Json& layer : t.of("X", "layer")) second = second || layer["name"] == "layer 2 of 32";
  EXPECT_TRUE(second);
}

TEST(Trace, OperatorsCarryTheirFigures) {
  const Traced t("llama-3.1-8b", "h200_sxm", Phase::decode);
  double flops = 0, bytes = 0;
  for (const Json& slice : t.of("X")) {
    if (slice["cat"] == "step" || slice["cat"] == "layer") continue;
    const Json& args = slice["args"];
    for (const char* key : {"op", "dtype", "shape", "bound", "limiter", "provider", "provenance"}) {
      EXPECT_TRUE(args.at(key).is_string()) << key;
    }
    EXPECT_EQ(args["bound"], slice["cat"]);
    EXPECT_GT(args.at("power_W").get<double>(), 0);
    flops += args.at("flops").get<double>();
    bytes += args.at("dram_bytes").get<double>();
  }
  EXPECT_NEAR(flops / t.step.flops.in(units::FLOP), 1, 1e-9);
  EXPECT_NEAR(bytes / t.step.dram_bytes.in(units::B), 1, 1e-9);
}

TEST(Trace, PowerCounterIntegratesToTheEnergyOfTheStep) {
  for (const Runtime runtime : {Runtime::graph, Runtime::stream, Runtime::eager}) {
    for (const Phase phase : {Phase::decode, Phase::prefill}) {
      const Traced t("llama-3.1-8b", "h200_sxm", phase, runtime);
      const std::vector<Json> counters = t.of("C");
      ASSERT_GT(counters.size(), 2u);
      EXPECT_EQ(counters.front()["ts"], 0);
      EXPECT_NEAR(1e-6 * counters.back()["ts"].get<double>() / t.step.latency.in(units::s), 1, 1e-4);
      double joules = 0;
      for (std::size_t i = 0; i + 1 < counters.size(); ++i) {
        const double seconds = 1e-6 * (counters[i + 1]["ts"].get<double>() - counters[i]["ts"].get<double>());
        EXPECT_GE(seconds, 0);
        joules += seconds * counters[i]["args"]["W"].get<double>();
      }
      EXPECT_NEAR(joules / t.step.energy->in(units::J), 1, 1e-3);
    }
  }
}

TEST(Trace, PowerCounterHasNoDipsInShortWaits) {
  const Traced t("llama-3.1-8b", "h200_sxm", Phase::decode);
  const double waiting = t.step.waiting_power->in(units::W);
  const std::vector<Json> counters = t.of("C");
  for (std::size_t i = 0; i + 1 < counters.size(); ++i) {
    EXPECT_GT(counters[i]["args"]["W"].get<double>(), waiting) << i;  // all gaps of a graph are short
  }
}

TEST(Trace, WithoutEnergiesHasTimesAndNoCounter) {
  MachineOptions options;
  options.stack = "ideal";
  const Traced t("llama-3.1-8b", "h200_sxm", Phase::decode, Runtime::graph, options);
  EXPECT_TRUE(t.of("C").empty());
  EXPECT_EQ(t.of("X", "step").size(), 1u);
  for (const Json& slice : t.of("X", "memory")) EXPECT_TRUE(slice["args"]["power_W"].is_null());
}

/// A process a stage: no micro-batch before the stage in front has handed it on, none beside another of its stage; a prefill
/// ends with the last one's, and a decode step keeps its slowest stage busy.
TEST(Trace, StagesOfAPipelineHaveProcessesWithTheirMicroBatches) {
  for (const Overlap overlap : {Overlap::none, Overlap::sends}) {
    for (const Phase phase : {Phase::prefill, Phase::decode}) {
      const Llm llm = load_llm("llama-3.1-8b");
      MachineOptions options;
      options.clock = ClockMode::burst;
      const Machine machine = make_machine(load_gpu("h200_sxm"), options);
      Workload w;
      w.phase = phase;
      w.batch = 24;
      w.prompt = w.context = 512;
      w.parallel.pipeline = 3;
      w.parallel.micro_batches = 6;
      w.overlap = overlap;
      const StepPrediction step = predict(llm, w, machine, {});
      const Json trace = Json::parse(step_trace({llm, w, machine, ClockMode::burst, {}, step, {}, {}}));
      std::map<int, std::vector<Json>> stages;
      int sends = 0;
      for (const Json& event : trace["traceEvents"]) {
        if (event["ph"] != "X") continue;
        if (event["cat"] == "stage") stages[event["pid"].get<int>()].push_back(event);
        if (event["cat"] == "send") ++sends;
      }
      EXPECT_EQ(sends, overlap == Overlap::none ? 0 : 2 * 6) << "the last stage hands nothing on";
      ASSERT_EQ(stages.size(), 3U);
      for (const auto& [process, slices] : stages) {
        ASSERT_EQ(slices.size(), 6U);
        for (std::size_t m = 0; m < 6; ++m) {
          if (m > 0) {
            EXPECT_GE(begin_ns(slices[m]), end_ns(slices[m - 1]));
          }
          if (process > 1) {
            EXPECT_GE(begin_ns(slices[m]), end_ns(stages[process - 1][m]));
          }
        }
      }
      const double end = static_cast<double>(end_ns(stages[3].back())) * 1e-9;
      if (phase == Phase::prefill) {
        EXPECT_NEAR(end / step.latency.in(units::s), 1, 1e-3) << "but for the launch of the graph";
      } else {
        const auto& slowest = stages[static_cast<int>(step.stage) + 1];
        const double every = static_cast<double>(begin_ns(slowest[5]) - begin_ns(slowest[0])) * 1e-9 / 5;
        EXPECT_NEAR(every / (step.latency.in(units::s) / 6), 1, 1e-3);
      }
    }
  }
}

TEST(BoardPower, CountsShortWaitsToTheSliceBeforeAndKeepsEnergies) {
  const auto slice = [](bool gap, double at, double us, double watts) {
    return PowerSlice{nullptr, gap, at * units::us, us * units::us, watts * units::W};
  };
  PowerSegment one;
  one.slices = {slice(false, 0, 9, 500), slice(true, 9, 1, 100), slice(false, 10, 10, 600), slice(true, 20, 20, 100)};
  const auto shown = board_power({one});
  ASSERT_EQ(shown[0].slices.size(), 3u);
  EXPECT_NEAR(shown[0].slices[0].duration.in(units::us), 10, 1e-9);
  EXPECT_NEAR(shown[0].slices[0].power.in(units::W), 460, 1e-9);  // (9 x 500 + 1 x 100) / 10
  EXPECT_TRUE(shown[0].slices[2].gap);                            // a long wait stays one
  EXPECT_NEAR(shown[0].slices[2].power.in(units::W), 100, 1e-9);
}

}  // namespace
}  // namespace plumbline::trace_test
