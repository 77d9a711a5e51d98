// A GPU that nobody has built: an H200 with half as many SMs again, and what it would gain on a prefill.
#include <cstdio>

#include <plumbline/model/predict.hpp>
using namespace plumbline;

int main() {
  const Machine h200 = make_machine(load_gpu("h200"), MachineOptions{});
  GpuNumbers numbers = h200.numbers();
  numbers.sm_count += numbers.sm_count / 2;
  const Machine wider = h200.with(numbers);
  Workload prefill;
  prefill.phase = Phase::prefill;
  prefill.prompt = 4096;
  const Llm llm = load_llm("llama-3.1-8b");
  for (const Machine& machine : {h200, wider}) {
    const StepPrediction step = predict(llm, prefill, machine, RunOptions{});
    std::printf("%lld SMs: %.1f ms\n", static_cast<long long>(machine.numbers().sm_count), step.latency.in(units::ms));
  }
}
