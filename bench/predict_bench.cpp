// How long one prediction takes when everything is loaded: what a sweep pays a point. Storage is reused, as sweeps do.
#include <benchmark/benchmark.h>

#include <string>

#include "arch/gpu/gpu.hpp"
#include "model/plan_search.hpp"
#include "model/predict.hpp"
#include "model/report/ops_batch.hpp"
#include "ops/llm/llm.hpp"
#include "ops/lower/lower.hpp"
#include "ops/table/text.hpp"

namespace plumbline {
namespace {

Workload decode(std::int64_t batch, std::int64_t context) {
  Workload workload;
  workload.phase = Phase::decode;
  workload.batch = batch;
  workload.context = context;
  return workload;
}

Workload prefill(std::int64_t batch, std::int64_t prompt) {
  Workload workload;
  workload.phase = Phase::prefill;
  workload.batch = batch;
  workload.prompt = prompt;
  return workload;
}

Machine h200() { return make_machine(load_gpu("h200_sxm"), MachineOptions{"own"}); }

void predict_step(benchmark::State& state, const char* model, const Workload& workload) {
  const Llm llm = load_llm(model);
  const auto machine = h200();
  StepPrediction step;
  Predictor predictor;
  for (auto _ : state) {
    predictor.predict(llm, workload, machine, RunOptions{}, step);
    benchmark::DoNotOptimize(step.latency);
  }
  state.counters["nodes"] = static_cast<double>(step.nodes.size());
}
BENCHMARK_CAPTURE(predict_step, llama_70b_decode, "llama-3.1-70b", decode(64, 4096));
BENCHMARK_CAPTURE(predict_step, llama_70b_prefill, "llama-3.1-70b", prefill(4, 2048));
BENCHMARK_CAPTURE(predict_step, deepseek_v3_decode, "deepseek-v3", decode(128, 4096));

/// A plan of many GPUs, another batch every call.
void predict_ranks(benchmark::State& state, const char* model, const ParallelPlan& plan, Overlap overlap) {
  const Llm llm = load_llm(model);
  const auto machine = make_machine(load_gpu("h200_sxm"), MachineOptions{});
  Workload workload = decode(0, 4096);
  workload.parallel = plan;
  workload.overlap = overlap;
  StepPrediction step;
  Predictor predictor;
  std::int64_t turn = 0;
  for (auto _ : state) {
    workload.batch = plan.data * (64 + turn++ % 64);
    predictor.predict(llm, workload, machine, RunOptions{}, step);
    benchmark::DoNotOptimize(step.latency);
  }
}
BENCHMARK_CAPTURE(predict_ranks, deepseek_v3_64_gpus, "deepseek-v3", ParallelPlan{.tensor = 8, .data = 8, .expert = 64},
                  Overlap::none);
BENCHMARK_CAPTURE(predict_ranks, deepseek_v3_64_gpus_two_batch, "deepseek-v3",
                  ParallelPlan{.tensor = 8, .data = 8, .expert = 64}, Overlap::two_batch);
BENCHMARK_CAPTURE(predict_ranks, deepseek_v3_16384_gpus, "deepseek-v3",
                  ParallelPlan{.tensor = 8, .data = 2048, .expert = 64}, Overlap::none);

/// An iteration of the largest published run: 1008 B parameters on 3072 GPUs, 512 micro-batches through 64 stages.
void predict_iteration(benchmark::State& state) {
  const Llm llm = load_llm("megatron-gpt-1t");
  const auto machine = make_machine(load_gpu("a100_sxm"), MachineOptions{"megatron-2021", ClockMode::steady});
  Workload workload = prefill(3072, 2048);
  workload.phase = Phase::train;
  workload.parallel = ParallelPlan{.tensor = 8, .pipeline = 64, .data = 6};
  workload.training.recompute = Recompute::full;
  StepPrediction step;
  Predictor predictor;
  for (auto _ : state) {
    predictor.predict(llm, workload, machine, RunOptions{}, step);
    benchmark::DoNotOptimize(step.latency);
  }
}
BENCHMARK(predict_iteration)->Unit(benchmark::kMicrosecond);

void rank_all_plans(benchmark::State& state, const char* model, std::int64_t gpus) {
  const Llm llm = load_llm(model);
  const auto machine = make_machine(load_gpu("h200_sxm"), MachineOptions{});
  PlanQuestion question;
  question.gpus = gpus;
  std::int64_t plans = 0;
  for (auto _ : state) {
    Predictor predictor;
    plans = rank_plans(predictor, llm, decode(512, 4096), machine, RunOptions{}, question).legal;
  }
  state.counters["plans"] = static_cast<double>(plans);
}
BENCHMARK_CAPTURE(rank_all_plans, deepseek_v3_64_gpus, "deepseek-v3", 64)->Unit(benchmark::kMillisecond);

/// At the clock that the power cap leaves: what steps over the cap pay for its solution.
void predict_step_steady(benchmark::State& state, const char* model, const Workload& workload, double cap_W) {
  const Llm llm = load_llm(model);
  MachineOptions options{"own"};
  options.clock = ClockMode::steady;
  options.power_cap = cap_W * units::W;
  const auto machine = make_machine(load_gpu("h200_sxm"), options);
  StepPrediction step;
  Predictor predictor;
  for (auto _ : state) {
    predictor.predict(llm, workload, machine, RunOptions{}, step);
    benchmark::DoNotOptimize(step.energy);
  }
  state.counters["W"] = step.power->in(units::W);
}
BENCHMARK_CAPTURE(predict_step_steady, llama_70b_decode, "llama-3.1-70b", decode(64, 4096), 700);
BENCHMARK_CAPTURE(predict_step_steady, llama_70b_decode_500W, "llama-3.1-70b", decode(64, 4096), 500);
BENCHMARK_CAPTURE(predict_step_steady, llama_70b_prefill, "llama-3.1-70b", prefill(4, 2048), 700);
BENCHMARK_CAPTURE(predict_step_steady, deepseek_v3_decode_500W, "deepseek-v3", decode(128, 4096), 500);

/// `predict_step` with another batch each time, as a sweep over batch sizes: no GEMM has been planned before.
void predict_step_cold(benchmark::State& state, const char* model) {
  const Llm llm = load_llm(model);
  const auto machine = h200();
  StepPrediction step;
  Predictor predictor;
  std::int64_t batch = 0;
  for (auto _ : state) {
    batch = batch % 4000 + 1;
    predictor.predict(llm, decode(batch, 4096), machine, RunOptions{}, step);
    benchmark::DoNotOptimize(step.latency);
  }
}
BENCHMARK_CAPTURE(predict_step_cold, llama_70b_decode, "llama-3.1-70b");
BENCHMARK_CAPTURE(predict_step_cold, deepseek_v3_decode, "deepseek-v3");

/// A point of a hardware study: one number of the descriptor changed, then a step that no one asked for before.
void hardware_point(benchmark::State& state, KernelSet kernels) {
  const Llm llm = load_llm("llama-3.1-70b");
  const Workload workload = decode(64, 4096);
  MachineOptions options;
  options.stack = usual_stack(kernels);
  const Machine base = make_machine(load_gpu("h200_sxm"), options);
  StepPrediction step;
  Predictor predictor;
  GpuNumbers numbers = base.numbers();
  double k = 0;
  for (auto _ : state) {
    k = k < 0.5 ? k + 1e-5 : 0;
    numbers.memory.bandwidth = (1 + k) * base.numbers().memory.bandwidth;
    predictor.predict(llm, workload, base.with(numbers), RunOptions{}, step);
    benchmark::DoNotOptimize(step.latency);
  }
}
BENCHMARK_CAPTURE(hardware_point, own, KernelSet::own);
BENCHMARK_CAPTURE(hardware_point, library, KernelSet::library);

/// The machine of that point alone: descriptor numbers x scalars x clock.
void changed_machine(benchmark::State& state) {
  const Machine base = h200();
  GpuNumbers numbers = base.numbers();
  double k = 0;
  for (auto _ : state) {
    k = k < 0.5 ? k + 1e-5 : 1e-5;
    numbers.memory.bandwidth = (1 + k) * base.numbers().memory.bandwidth;
    benchmark::DoNotOptimize(base.with(numbers));
  }
}
BENCHMARK(changed_machine);

void lower_step(benchmark::State& state, const char* model, const Workload& workload) {
  const Llm llm = load_llm(model);
  Graph graph;
  for (auto _ : state) {
    lower(llm, workload, graph);
    benchmark::DoNotOptimize(graph.tokens);
  }
}
BENCHMARK_CAPTURE(lower_step, llama_70b_decode, "llama-3.1-70b", decode(64, 4096));
BENCHMARK_CAPTURE(lower_step, deepseek_v3_decode, "deepseek-v3", decode(128, 4096));

void predict_op(benchmark::State& state, const char* op, const char* shape) {
  const Op parsed = parse_op(op, "bf16", shape);
  const auto machine = h200();
  OpPrediction out;
  Predictor predictor;
  for (auto _ : state) {
    predictor.predict(parsed, machine, out);
    benchmark::DoNotOptimize(out.time);
  }
}
BENCHMARK_CAPTURE(predict_op, gemm, "gemm", "M=4096;N=4096;K=4096");
BENCHMARK_CAPTURE(predict_op, attention_decode, "attention_decode", "B=64;Hq=32;Hkv=8;D=128;S=4096");
BENCHMARK_CAPTURE(predict_op, rmsnorm, "rmsnorm", "rows=4096;cols=8192");

void parse_shape(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(parse_op("gemm", "bf16", "M=4096;N=4096;K=4096"));
}
BENCHMARK(parse_shape);

/// Rows of an ops CSV a second, one worker, no files.
void ops_csv_rows(benchmark::State& state) {
  std::string text = "op,dtype,shape\n";
  const int rows = 10000;
  for (int i = 0; i < rows; ++i) text += "gemm,bf16,M=" + std::to_string(1 + i % 4096) + ";N=4096;K=4096\n";
  const auto machine = h200();
  for (auto _ : state) {
    std::size_t at = 0, written = 0;
    const ByteSource source = [&](char* to, std::size_t most) {
      const std::size_t n = text.copy(to, most, at);
      at += n;
      return n;
    };
    const ByteSink sink = [&](std::string_view block) { written += block.size(); };
    const BatchOutcome outcome = predict_batch(source, sink, machine, BatchOptions{.place = "bench"});
    if (outcome.rows != rows || outcome.refused != 0) state.SkipWithError("rows were lost or refused");
    benchmark::DoNotOptimize(written);
  }
  state.SetItemsProcessed(state.iterations() * rows);
}
BENCHMARK(ops_csv_rows)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace plumbline
