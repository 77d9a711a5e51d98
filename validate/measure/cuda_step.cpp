// Times whole steps: spans by events between graph launches with nothing attached, then, when all spans are done, the
// operators' own times with the profiler attached. (CUPTI adds 0.15 us between kernels: 1 to 2 % of a small model's
// decode step.) Steps of several cards: a graph a rank, launched as often by a thread each; their collectives keep them
// together.
#include "validate/measure/cuda_step.hpp"

#include <cuda_runtime_api.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <thread>

#include "validate/measure/cuda_session.hpp"
#include "validate/measure/cuda_step_check.hpp"
#include "validate/measure/cuda_step_pace.hpp"
#include "validate/measure/cuda_step_ranks.hpp"
#include "validate/measure/cupti_activity.hpp"

namespace plumbline {
namespace {

using std::chrono::milliseconds;

constexpr double kPause_s = 0.6, kSettle_s = 1.5, kWindow_s = 5.0, kTraceSettle_s = 1.2;
constexpr std::size_t kTraced = 4;

/// Of one rank's run.
struct RankRun {
  std::vector<Seconds> times;
  Conditions conditions;
  std::optional<Joules> energy;
};

std::size_t launches_of(double seconds, double one_s) {
  return static_cast<std::size_t>(std::ceil(std::max(seconds / one_s, 1.0)));
}

Seconds quantile(const std::vector<Seconds>& sorted, double q) {
  return sorted[static_cast<std::size_t>(q * static_cast<double>(sorted.size() - 1))];
}

/// Mean of what the ranks have; empty where one has none.
template <class T, class Get>
std::optional<T> mean_of(const std::vector<RankRun>& runs, const Get& get) {
  T sum;
  for (const RankRun& run : runs) {
    const std::optional<T> one = get(run);
    if (!one) return {};
    sum += *one;
  }
  return sum / static_cast<double>(runs.size());
}

Conditions conditions_of(const std::vector<RankRun>& runs) {
  Conditions all = runs.front().conditions;
  if (runs.size() == 1) return all;
  all.sm_clock = mean_of<Hertz>(runs, [](const RankRun& r) { return r.conditions.sm_clock; });
  all.board_clock = mean_of<Hertz>(runs, [](const RankRun& r) { return r.conditions.board_clock; });
  all.memory_clock = mean_of<Hertz>(runs, [](const RankRun& r) { return r.conditions.memory_clock; });
  all.power = mean_of<Watts>(runs, [](const RankRun& r) { return r.conditions.power; });
  all.memory_power = mean_of<Watts>(runs, [](const RankRun& r) { return r.conditions.memory_power; });
  for (const RankRun& run : runs) {
    all.clock_event_reasons |= run.conditions.clock_event_reasons;
    if (run.conditions.temperature_C) {
      all.temperature_C = std::max(all.temperature_C.value_or(0), *run.conditions.temperature_C);
    }
  }
  return all;
}

/// The slowest rank's times, the means of what the boards said.
void conclude(std::vector<RankRun> runs, StepMeasurement& out) {
  const std::vector<Seconds>* slowest = nullptr;
  for (RankRun& run : runs) {
    if (run.times.empty()) {
      out.fault = "no step was timed";
      return;
    }
    std::sort(run.times.begin(), run.times.end());
    if (slowest == nullptr || quantile(run.times, 0.5) > quantile(*slowest, 0.5)) slowest = &run.times;
    if (runs.size() > 1) {
      out.ranks.push_back({quantile(run.times, 0.5), run.conditions.sm_clock, run.conditions.power});
    }
  }
  out.low = quantile(*slowest, 0.1);
  out.time = quantile(*slowest, 0.5);
  out.high = quantile(*slowest, 0.9);
  out.samples = static_cast<int>(slowest->size());
  out.conditions = conditions_of(runs);
  out.energy = mean_of<Joules>(runs, [](const RankRun& r) { return r.energy; });
}

class CudaStepMeasurer final : public StepMeasurer {
 public:
  MeasuringSession session() const override {
    MeasuringSession s = session_;
    if (tracer_) {
      s.profiler = tracer_->version();
      s.dropped_records = tracer_->dropped();
    }
    for (std::size_t r = 0; r < ranks_->count(); ++r) {
      const auto processes = ranks_->card(r).board.compute_processes();
      others_ = std::max(others_, other_processes(processes, static_cast<unsigned>(::getpid())));
    }
    s.other_processes = others_;
    return s;
  }

  StepMeasurement measure(const StepTask& task) override {
    StepMeasurement out;
    out.what = task.what;
    guarded(task, out, [&] {
      std::vector<RankRun> runs(ranks_->count());
      if (task.what.clock == ClockMode::burst) burst(runs);
      else steady(runs);
      ranks_->need_no_fault();
      conclude(std::move(runs), out);
    });
    return out;
  }

  void trace(const StepTask& task, StepMeasurement& out) override {
    if (!out.fault.empty()) return;
    if (!tracer_) {
      ranks_->unload();
      tracer_ = std::make_unique<KernelTracer>();
    }
    StepMeasurement scratch;
    guarded(task, scratch, [&] { trace_loaded(task, out); });
    if (!scratch.fault.empty()) out.fault = "traced: " + scratch.fault;
  }

  std::vector<StepOpCheck> check(const StepTask& task) override {
    if (task.what.workload.phase == Phase::train) {
      throw NotModelled("step: --check: a training iteration's kernels are held against fp64 by 'probe', not here");
    }
    load(task);
    return check_step(*ranks_, *task.priced);
  }

 private:
  template <class Work>
  void guarded(const StepTask& task, StepMeasurement& out, const Work& work) {
    try {
      load(task);
      out.memory_B = static_cast<double>(ranks_->program().bytes);
      ranks_->enqueue_all();  // outside a graph: faults surface here, code gets loaded
      ranks_->need_no_fault();
      out.fault = ranks_->complaint();
      if (!out.fault.empty()) return;
      ranks_->capture();
      work();
    } catch (const NotModelled& refusal) {
      out.fault = refusal.what();
    } catch (const DeviceError& failure) {
      cudaGetLastError();
      if (cudaDeviceSynchronize() != cudaSuccess) throw;
      out.fault = failure.what();
      // Ranks that missed each other count their launches apart from now on: the next step takes new ones.
      if (ranks_->count() > 1) ranks_ = std::make_unique<StepRanks>(1);
    }
  }

  void load(const StepTask& task) {
    const auto count = static_cast<std::size_t>(task.what.workload.parallel.ranks());
    if (ranks_->count() != count) {
      ranks_->unload();
      ranks_ = std::make_unique<StepRanks>(count);
    }
    const std::string key = LoadedStep::key(task);
    if (ranks_->loaded() && key == key_) return;
    ranks_->load(task);
    key_ = key;
  }

  void pause() {
    ranks_->wait();
    std::this_thread::sleep_for(std::chrono::duration<double>(kPause_s));
  }

  /// Seconds of a launch, the shortest of a few.
  double one_launch() {
    std::vector<double> shortest(ranks_->count());
    ranks_->together([&](std::size_t rank, StepCard& card) {
      Pacer pacer(*card.graph, card.stream);
      for (int i = 0; i < 2; ++i) pacer.launch();
      const std::vector<Seconds> times = pacer.finish();
      shortest[rank] = std::min_element(times.begin(), times.end())->in(units::s);
    });
    return *std::max_element(shortest.begin(), shortest.end());
  }

  void burst(std::vector<RankRun>& runs) {
    const std::size_t count = StepBurst::counted(one_launch() * units::s);
    pause();
    ranks_->together([&](std::size_t rank, StepCard& card) {
      RankRun& run = runs[rank];
      Pacer pacer(*card.graph, card.stream);
      std::vector<BoardSample> samples;
      for (std::size_t i = 0; i < StepBurst::kWarmUps + count; ++i) {
        if (i == StepBurst::kWarmUps) card.stamps.enqueue_start(static_cast<cudaStream_t>(card.stream));
        pacer.launch();
        samples.push_back(sample(card.board));
      }
      card.stamps.enqueue_end(static_cast<cudaStream_t>(card.stream));
      run.times = pacer.finish();
      // the first one that counts also holds the clock stamps' kernel
      run.times.erase(run.times.begin(), run.times.begin() + static_cast<std::ptrdiff_t>(StepBurst::kWarmUps + 1));
      run.conditions = conditions(samples);
      set_clock(card, run);
      run.conditions.power.reset();  // the reading follows the load by tens of ms
    });
  }

  void steady(std::vector<RankRun>& runs) {
    const double one = one_launch();
    const std::size_t settle = launches_of(kSettle_s, one), count = launches_of(kWindow_s, one);
    ranks_->together([&](std::size_t rank, StepCard& card) {
      RankRun& run = runs[rank];
      Pacer before(*card.graph, card.stream);
      for (std::size_t i = 0; i < settle; ++i) before.launch();
      // no pause: the next launches queue behind these
      Pacer pacer(*card.graph, card.stream);
      card.stamps.enqueue_start(static_cast<cudaStream_t>(card.stream));
      BoardSampler sampler(card.board, milliseconds(20));
      EnergyWatch energy(card.board);
      for (std::size_t i = 0; i < count; ++i) pacer.launch();
      const std::optional<Watts> power = energy.stop();
      run.conditions = conditions(sampler.stop());
      run.conditions.memory_power = card.board.memory_power();
      card.stamps.enqueue_end(static_cast<cudaStream_t>(card.stream));
      run.times = pacer.finish();
      if (run.times.size() > 2) run.times.erase(run.times.begin());
      Seconds all;
      for (const Seconds t : run.times) all += t;
      run.conditions.board_clock = run.conditions.sm_clock;
      set_clock(card, run);
      run.conditions.power = power;
      if (power) run.energy = *power * (all / static_cast<double>(run.times.size()));
    });
  }

  static void set_clock(const StepCard& card, RankRun& run) {
    if (const auto clock = card.stamps.mean_clock(static_cast<cudaStream_t>(card.stream))) {
      run.conditions.sm_clock = clock;
    }
  }

  /// How many kernels each launch of the program is, and the first one's name.
  struct Made {
    std::size_t kernels = 0;
    std::string name;
  };
  std::vector<Made> launch_one_by_one() {
    std::vector<Made> made;
    for (const StepLaunch& launch : ranks_->program().launches) {
      ranks_->wait();
      tracer_->take();
      ranks_->enqueue(launch);
      ranks_->wait();
      const std::vector<KernelRecord> records = of_first_card();
      made.push_back({records.size(), records.empty() ? "" : kernel_name(records.front().name)});
    }
    return made;
  }

  std::vector<KernelRecord> of_first_card() {
    std::vector<KernelRecord> records = tracer_->take();
    std::erase_if(records, [](const KernelRecord& r) { return r.device != 0; });
    return records;
  }

  void trace_loaded(const StepTask& task, StepMeasurement& out) {
    const std::vector<Made> made = launch_one_by_one();
    std::size_t kernels = 0;
    for (const Made& m : made) kernels += m.kernels;
    pause();
    const double settle = task.what.clock == ClockMode::steady ? kTraceSettle_s : 0;
    const std::size_t launches = launches_of(settle, out.time.in(units::s)) + kTraced;
    tracer_->take();
    const std::uint64_t dropped = tracer_->dropped();
    ranks_->together([&](std::size_t, StepCard& card) {
      Pacer pacer(*card.graph, card.stream);
      for (std::size_t i = 0; i < launches; ++i) pacer.launch();
      pacer.finish();
    });
    ranks_->need_no_fault();
    std::vector<KernelRecord> records = of_first_card();
    std::erase_if(records, [](const KernelRecord& r) { return r.graph == 0; });
    if (tracer_->dropped() > dropped) {
      out.fault = "traced: kernel records were dropped by the profiler";
    } else if (kernels == 0 || records.size() != kernels * launches) {
      out.fault = "traced: expected " + std::to_string(kernels * launches) + " kernel records, found " +
                  std::to_string(records.size());
    } else {
      std::sort(records.begin(), records.end(),
                [](const KernelRecord& a, const KernelRecord& b) { return a.end_ns < b.end_ns; });
      records.erase(records.begin(), records.end() - static_cast<std::ptrdiff_t>(kernels * kTraced));
      add_up(task, made, kernels, records, out);
    }
  }

  void add_up(const StepTask& task, const std::vector<Made>& made, std::size_t kernels,
              const std::vector<KernelRecord>& records, StepMeasurement& out) const {
    const Graph& graph = task.priced->graph;
    out.ops.assign(graph.nodes.size(), {});
    std::vector<Seconds> spans;
    for (std::size_t run = 0; run < kTraced; ++run) {
      std::size_t at = run * kernels;
      std::uint64_t before = records[at].start_ns;
      spans.push_back(static_cast<double>(records[at + kernels - 1].end_ns - before) * units::ns);
      for (std::size_t i = 0; i < made.size(); ++i) {
        at += made[i].kernels;
        const std::uint64_t end = records[at - 1].end_ns;
        MeasuredStepOp& op = out.ops[static_cast<std::size_t>(ranks_->program().launches[i].node)];
        op.time += static_cast<double>(end - before) * units::ns;
        op.kernel = made[i].name;
        op.launches = static_cast<std::int64_t>(made[i].kernels);
        before = end;
      }
    }
    for (std::size_t i = 0; i < out.ops.size(); ++i) {
      MeasuredStepOp& op = out.ops[i];
      op.name = step_node_name(graph.nodes[i]);
      op.op = std::string(op_name(graph.nodes[i].op));
      op.count = graph.nodes[i].count;
      op.time = op.time / static_cast<double>(op.count * static_cast<std::int64_t>(kTraced));
    }
    std::sort(spans.begin(), spans.end());
    out.traced = spans[spans.size() / 2];
  }

  std::unique_ptr<StepRanks> ranks_ = std::make_unique<StepRanks>(1);
  MeasuringSession session_ = describe_session(ranks_->first().board, "none");
  std::unique_ptr<KernelTracer> tracer_;
  mutable std::int64_t others_ = 0;  // the most that was seen so far
  std::string key_;
};

}  // namespace

std::unique_ptr<StepMeasurer> make_cuda_step_measurer(std::int64_t gpus) {
  // A kernel that is loaded at its first launch waits for the device, which may be waiting for a peer.
  if (gpus > 1) setenv("CUDA_MODULE_LOADING", "EAGER", 1);
  need_driver();
  if (int there = 0; cudaGetDeviceCount(&there) == cudaSuccess && there < gpus) {
    throw DeviceError("steps on " + std::to_string(gpus) + " GPUs: found " + std::to_string(there));
  }
  return std::make_unique<CudaStepMeasurer>();
}

}  // namespace plumbline
