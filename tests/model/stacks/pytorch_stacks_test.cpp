// Stacks of PyTorch that capture or compile: which launches a layer becomes, and what passes between them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "arch/error.hpp"
#include "model/machines.hpp"
#include "model/predict.hpp"
#include "model/stacks/stack.hpp"
#include "tests/support/workloads.hpp"

namespace plumbline::pytorch_stacks_test {
namespace {

using ::testing::HasSubstr;
using testing_support::decode;
using testing_support::prefill;

Machine h200(const char* stack) { return machines().get({"h200_sxm", MachineOptions{stack}}); }

StepPrediction step_of(const char* model, const Workload& workload, const char* stack, Runtime runtime) {
  const Machine machine = h200(stack);
  Workload asked = workload;
  asked.fusion = machine.stack().fusion;
  Predictor predictor;
  return predictor.predict(load_llm(model), asked, machine, RunOptions{runtime});
}

/// Launches of one execution of the layers.
int a_layer(const StepPrediction& step) {
  int launches = 0;
  for (const NodePrediction& n : step.nodes) {
    const Segment& segment = step.graph.segments[static_cast<std::size_t>(n.node->segment)];
    if (std::string_view(segment.name) == "layer") {
      launches += static_cast<int>(n.node->count / segment.repeat) * n.op.launch_count;
    }
  }
  return launches;
}

/// As traced on an H200 (data/measurements/h200/pytorch/compiled.jsonl.gz): five products with the sums of their parts,
/// two without, attention behind two copies and a mask, six kernels of what is fused, a count.
TEST(PyTorchStacks, ACompiledLayerIsTwentyThreeLaunches) {
  EXPECT_EQ(a_layer(step_of("llama-3.1-8b", decode(8, 2000), "torch-compile", Runtime::graph)), 23);
}

/// The same layer captured as it stands, 53 launches from one attention to the next (steps.jsonl.gz, line 22).
TEST(PyTorchStacks, ACapturedLayerIsFiftyThreeLaunches) {
  EXPECT_EQ(a_layer(step_of("llama-3.1-8b", decode(8, 2000), "hf-static", Runtime::graph)), 53);
}

/// Keys and values of the cache are written out once for each query head that shares them, which no other stack does.
TEST(PyTorchStacks, AStaticCacheIsRepeatedForEachQueryHead) {
  const StepPrediction step = step_of("llama-3.1-8b", decode(8, 2000), "torch-compile", Runtime::graph);
  int copies = 0;
  for (const NodePrediction& n : step.nodes) {
    if (std::string_view(n.node->name).substr(0, 16) != "attention.repeat") continue;
    const auto& copy = std::get<CustomOp>(n.node->op);
    EXPECT_EQ(copy.write.in(units::B), 2.0 * 8 * 32 * 2001 * 128);
    EXPECT_EQ(copy.read.in(units::B), 2.0 * 8 * 8 * 2001 * 128);
    ++copies;
  }
  EXPECT_EQ(copies, 2);
  for (const NodePrediction& n :
       step_of("bert-large-uncased", prefill(8, 128), "torch-compile", Runtime::graph).nodes) {
    EXPECT_NE(std::string_view(n.node->name).substr(0, 16), "attention.repeat");
  }
}

/// A stack's own gap goes in place of the calibration's gap and change of kernels.
TEST(PyTorchStacks, PutTheirOwnGapBetweenKernelsOfAGraph) {
  const StepPrediction step = step_of("llama-3.1-8b", decode(1, 128), "hf-static", Runtime::graph);
  const Seconds own = h200("hf-static").stack().gap_in_graph;
  EXPECT_NEAR(own.in(units::us), 0.35, 1e-9);
  Seconds kernels;
  double launches = 0;
  for (const NodePrediction& n : step.nodes) {
    EXPECT_EQ(n.gap, Seconds{});
    for (int i = 0; i < n.op.launch_count; ++i) {
      kernels += static_cast<double>(n.node->count) * n.op.launches[static_cast<std::size_t>(i)].time.total;
    }
    launches += static_cast<double>(n.node->count) * n.op.launch_count;
  }
  EXPECT_NEAR(step.latency / (kernels + launches * own), 1, 1e-9);
  EXPECT_GT(h200("trt-llm").rates().gap_graph, own);
}

TEST(PyTorchStacks, AGapIsATimeWithASource) {
  const auto refusal = [](const std::string& gap) -> std::string {
    try {
      (void)parse_stack(R"({"schema": 1, "name": "m", "title": "m", "providers": [{"provider": "generic"}],
          "prefill_appends": false, "fusion": "none", "runtime": "graph", "gap_in_graph": )" +
                            gap + "}",
                        "mine.json");
    } catch (const BadInput& e) {
      return e.what();
    }
    return "(accepted)";
  };
  EXPECT_EQ(refusal(R"({"time": "0.35 us", "source": "here"})"), "(accepted)");
  EXPECT_THAT(refusal(R"({"time": "0 us", "source": "here"})"), HasSubstr("a time above 0"));
  EXPECT_THAT(refusal(R"({"time": "0.35 us"})"), HasSubstr("source"));
  EXPECT_THAT(refusal(R"({"each": "0.35 us", "source": "here"})"), HasSubstr("each"));
}

/// Blocks of two streams: a product for each of queries, keys and values of each, modulation a product a stream.
TEST(PyTorchStacks, DiffusersHasAProductForEachProjection) {
  Workload w = prefill(2, 1);
  const StepPrediction step = step_of("sd3.5-large-transformer", w, "diffusers", Runtime::eager);
  int projections = 0, modulations = 0;
  for (const NodePrediction& n : step.nodes) {
    if (n.node->segment != step.nodes.front().node->segment || !std::holds_alternative<Gemm>(n.node->op)) continue;
    const std::string_view name = n.node->name;
    projections += name.substr(0, 9) == "qkv_proj." || name.substr(0, 14) == "text_qkv_proj." ? 1 : 0;
    modulations += name.substr(0, 11) == "modulation." ? 1 : 0;
  }
  EXPECT_EQ(projections, 6);
  EXPECT_EQ(modulations, 2);
}

}  // namespace
}  // namespace plumbline::pytorch_stacks_test
