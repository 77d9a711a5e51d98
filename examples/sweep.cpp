// Memory bandwidth against batch in two threads: machines are shared, each thread has a Predictor of its own.
#include <array>
#include <cstdio>
#include <thread>

#include <plumbline/model/predict.hpp>
using namespace plumbline;

int main() {
  const Machine h200 = make_machine(load_gpu("h200"), MachineOptions{});
  const Llm llm = load_llm("llama-3.1-8b");
  std::array<std::array<double, 4>, 2> tokens_per_s{};
  const auto sweep = [&](std::size_t thread) {
    Predictor predictor;
    Workload decode;
    decode.batch = thread == 0 ? 1 : 64;
    for (std::size_t i = 0; i < tokens_per_s[thread].size(); ++i) {
      GpuNumbers numbers = h200.numbers();
      numbers.memory.bandwidth *= 1 + 0.25 * static_cast<double>(i);
      tokens_per_s[thread][i] = predictor.predict(llm, decode, h200.with(numbers), RunOptions{}).tokens_per_s;
    }
  };
  std::thread other(sweep, 1);
  sweep(0);
  other.join();
  for (std::size_t i = 0; i < 4; ++i) {
    std::printf("x%.2f: batch 1 %.0f, batch 64 %.0f tokens/s\n", 1 + 0.25 * static_cast<double>(i), tokens_per_s[0][i],
                tokens_per_s[1][i]);
  }
}
