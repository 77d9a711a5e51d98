#include <cstdio>

#include <plumbline/model/predict.hpp>
using namespace plumbline;

int main() {
  const auto machine = make_machine(load_gpu("h200_sxm"), MachineOptions{});
  Workload decode;
  decode.batch = 64;
  decode.context = 4096;
  const StepPrediction step = predict(load_llm("llama-3.1-8b"), decode, machine, RunOptions{});
  std::printf("%.2f ms a step, %.0f tokens/s\n", step.latency.in(units::ms), step.tokens_per_s);
}
