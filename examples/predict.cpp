// One decode step of a model on one GPU: how long, what it takes, and how sure that is.
#include <cstdio>

#include <plumbline/model/predict.hpp>
using namespace plumbline;

int main() {
  const Machine machine = make_machine(load_gpu("h200"), MachineOptions{});
  Workload decode;
  decode.batch = 32;
  decode.context = 4096;
  const StepPrediction step = predict(load_llm("llama-3.1-8b"), decode, machine, RunOptions{});
  std::printf("%.2f ms (%.2f to %.2f), %.0f tokens/s, %.0f W\n", step.latency.in(units::ms), step.low.in(units::ms),
              step.high.in(units::ms), step.tokens_per_s, step.power->in(units::W));
}
