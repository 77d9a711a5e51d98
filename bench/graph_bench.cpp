// A graph of 10 000 operators, as a file that somebody wrote out: reading it and predicting a step, from nothing but the
// machine. With as many distinct shapes as its argument says; a layer has ten operators, so that there are a thousand layers.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>

#include "arch/gpu/gpu.hpp"
#include "model/machines.hpp"
#include "model/predict.hpp"
#include "ops/llm/llm.hpp"

namespace plumbline {
namespace {

constexpr std::int64_t kOperators = 10000, kOfLayer = 10;

/// Operator `i`: every other one a product with weights, between them element-wise ones; equal where `i % distinct` is.
std::string operator_text(std::int64_t i, std::int64_t distinct) {
  const std::int64_t shape = i % distinct;
  const std::string name = R"(, "name": "op)" + std::to_string(i) + "\"";
  const std::string width = std::to_string(1024 + 8 * shape);
  if (i % 2 == 0) return R"({"op": "linear", "in": "hidden", "out": )" + width + name + "}";
  return R"({"op": "rmsnorm", "rows": "T", "cols": )" + width + name + "}";
}

std::string graph_text(std::int64_t distinct) {
  std::string layers, order;
  for (std::int64_t layer = 0; layer < kOperators / kOfLayer; ++layer) {
    const std::string name = "\"l" + std::to_string(layer) + "\"";
    std::string ops;
    for (std::int64_t i = 0; i < kOfLayer; ++i) {
      ops += (i == 0 ? "" : ", ") + operator_text(layer * kOfLayer + i, distinct);
    }
    layers += (layer == 0 ? "" : ",\n") + name + R"(: {"ops": [)" + ops + "]}";
    order += (layer == 0 ? "" : ", ") + name;
  }
  return R"({"schema": "plumbline.graph.v1", "name": "long", "hidden": 2048, "vocab": 32000,
    "stacks": [{"role": "decoder", "layers": {)" +
         layers + R"(}, "order": [)" + order + "]}]}";
}

void load_and_predict_graph(benchmark::State& state) {
  const std::string path = (std::filesystem::temp_directory_path() / "plumbline_graph_bench.json").string();
  std::ofstream(path) << graph_text(state.range(0));
  const Machine machine = machines().get({"h200_sxm", MachineOptions{}});
  Workload workload;
  workload.phase = Phase::decode;
  workload.batch = 16;
  workload.context = 1024;
  std::size_t nodes = 0;
  for (auto _ : state) {
    const Llm llm = load_llm(path);
    Predictor predictor;
    const StepPrediction step = predictor.predict(llm, workload, machine, RunOptions{});
    nodes = step.nodes.size();
    benchmark::DoNotOptimize(step.latency);
  }
  state.counters["nodes"] = static_cast<double>(nodes);
  std::filesystem::remove(path);
}
BENCHMARK(load_and_predict_graph)->Arg(200)->Arg(10000)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace plumbline
