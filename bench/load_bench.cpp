// What a process pays before its first prediction: reading and checking descriptors.
#include <benchmark/benchmark.h>

#include "arch/gpu/gpu.hpp"
#include "model/predict.hpp"
#include "ops/llm/llm.hpp"

namespace plumbline {
namespace {

void load_gpu_h200(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(load_gpu("h200_sxm"));
}
BENCHMARK(load_gpu_h200)->Unit(benchmark::kMicrosecond);

void load_llm_by_name(benchmark::State& state, const char* name) {
  for (auto _ : state) benchmark::DoNotOptimize(load_llm(name));
}
BENCHMARK_CAPTURE(load_llm_by_name, llama_70b, "llama-3.1-70b")->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(load_llm_by_name, deepseek_v3, "deepseek-v3")->Unit(benchmark::kMicrosecond);

void make_machine_h200(benchmark::State& state) {
  const Gpu gpu = load_gpu("h200_sxm");
  for (auto _ : state) benchmark::DoNotOptimize(make_machine(gpu, MachineOptions{"own"}));
}
BENCHMARK(make_machine_h200)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace plumbline
