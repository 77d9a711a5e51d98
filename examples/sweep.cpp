// Memory bandwidth against batch in two threads: machines are shared, each thread has a Predictor of its own.
#include <cstdio>
#include <thread>

#include <plumbline/model/predict.hpp>
using namespace plumbline;

int main() {
  const Machine h200 = make_machine(load_gpu("h200"), MachineOptions{});
  const Llm llm = load_llm("llama-3.1-8b");
  const auto sweep = [&](int batch) {
    Predictor predictor;
    Workload decode;
    decode.batch = batch;
    for (const double times : {1.0, 1.5, 2.0}) {
      GpuNumbers numbers = h200.numbers();
      numbers.memory.bandwidth *= times;
      const StepPrediction step = predictor.predict(llm, decode, h200.with(numbers), RunOptions{});
      std::printf("batch %d, bandwidth x%.1f: %.0f tokens/s\n", batch, times, step.tokens_per_s);
    }
  };
  std::thread other(sweep, 64);
  sweep(1);
  other.join();
}
