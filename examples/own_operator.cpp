// A kernel that nobody has written: norm and QKV projection of each layer fused into one. What would it gain?
#include <cstdio>

#include <plumbline/model/predict.hpp>
using namespace plumbline;

int main() {
  const Machine h200 = make_machine(load_gpu("h200"), MachineOptions{});
  const Llm llm = load_llm("llama-3.1-8b");
  const StepPrediction before = predict(llm, Workload{}, h200, RunOptions{});  // a decode step: a sequence of 1024 tokens
  Graph graph = before.graph;                                                  // the operators that its stack runs
  CustomOp fused;                                                              // what one launch asks of the GPU
  fused.tensor = 2.0 * 4096 * 6144 * units::FLOP;
  fused.read = (2.0 * 4096 * 6144 + 2 * 4096) * units::B;
  fused.write = 2.0 * 6144 * units::B;
  replace_nodes(graph, "attn_norm", "qkv_proj", "fused_qkv", fused);
  const StepPrediction after = predict(graph, h200, RunOptions{});
  std::printf("%.3f ms, fused %.3f ms (%.3f to %.3f), %.0f W\n", before.latency.in(units::ms),
              after.latency.in(units::ms), after.low.in(units::ms), after.high.in(units::ms), after.power->in(units::W));
}
