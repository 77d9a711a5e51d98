// Times whole steps: spans by events between graph launches with nothing attached, then, when all spans are done, the
// operators' own times with the profiler attached. (CUPTI adds 0.15 us between kernels: 1 to 2 % of a small model's
// decode step.)
#include "validate/measure/cuda_step.hpp"

#include <cuda_runtime_api.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <thread>

#include "kernels/common/measure.cuh"
#include "kernels/run/clock_stamps.hpp"
#include "validate/measure/cuda_session.hpp"
#include "validate/measure/cuda_step_check.hpp"
#include "validate/measure/cuda_step_run.hpp"
#include "validate/measure/cupti_activity.hpp"
#include "validate/measure/nvml_board.hpp"

namespace plumbline {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr double kPause_s = 0.6, kBurst_s = 0.03, kSettle_s = 1.5, kWindow_s = 5.0, kTraceSettle_s = 1.2;
constexpr std::size_t kWarmUps = 2, kFewest = 4, kMost = 30, kTraced = 4;

double since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

class TimedEvent {
 public:
  TimedEvent() { PLUMBLINE_CUDA_CHECK(cudaEventCreate(&event_)); }
  ~TimedEvent() { cudaEventDestroy(event_); }
  TimedEvent(const TimedEvent&) = delete;
  TimedEvent& operator=(const TimedEvent&) = delete;
  void record(cudaStream_t stream) const { PLUMBLINE_CUDA_CHECK(cudaEventRecord(event_, stream)); }
  void wait() const { PLUMBLINE_CUDA_CHECK(cudaEventSynchronize(event_)); }
  Seconds until(const TimedEvent& later) const {
    float ms = 0;
    PLUMBLINE_CUDA_CHECK(cudaEventElapsedTime(&ms, event_, later.event_));
    return static_cast<double>(ms) * units::ms;
  }

 private:
  cudaEvent_t event_ = nullptr;
};

/// The energy counter's steps, seen by a thread of its own: between two of them the mean power is exact, whatever the
/// launching thread waits for.
class EnergyWatch {
 public:
  explicit EnergyWatch(const Board& board) : thread_([this, &board] { watch(board); }) {}
  ~EnergyWatch() { stop(); }
  EnergyWatch(const EnergyWatch&) = delete;
  EnergyWatch& operator=(const EnergyWatch&) = delete;

  std::optional<Watts> stop() {
    done_ = true;
    if (thread_.joinable()) thread_.join();
    if (steps_.size() < 3) return {};
    const Step &first = steps_.front(), &last = steps_.back();
    return (last.energy - first.energy) / (std::chrono::duration<double>(last.at - first.at).count() * units::s);
  }

 private:
  struct Step {
    Clock::time_point at;
    Joules energy;
  };
  void watch(const Board& board) {
    std::optional<Joules> last = board.energy();
    while (!done_) {
      const std::optional<Joules> now = board.energy();
      if (now && last && *now != *last) steps_.push_back({Clock::now(), *now});
      last = now;
      std::this_thread::sleep_for(milliseconds(1));
    }
  }

  std::vector<Step> steps_;
  std::atomic<bool> done_{false};
  std::thread thread_;
};

/// Keeps the stream busy with a graph, a few launches ahead of the device, and times each.
class Pacer {
 public:
  Pacer(const CudaGraph& graph, cudaStream_t stream) : graph_(graph), stream_(stream) { mark().record(stream_); }

  void launch() {
    graph_.launch(stream_);
    ++launched_;
    mark().record(stream_);
    if (launched_ < kAhead) return;
    const std::size_t done = launched_ - kAhead;  // launches before this one are through
    event(done + 1).wait();
    times_.push_back(event(done).until(event(done + 1)));
  }
  /// Waits for all of them; one time a launch, in order.
  std::vector<Seconds> finish() {
    PLUMBLINE_CUDA_CHECK(cudaStreamSynchronize(stream_));
    while (times_.size() < launched_) times_.push_back(event(times_.size()).until(event(times_.size() + 1)));
    return std::move(times_);
  }
  std::size_t launched() const { return launched_; }

 private:
  static constexpr std::size_t kAhead = 3;
  const TimedEvent& event(std::size_t i) const { return events_[i % events_.size()]; }
  const TimedEvent& mark() const { return event(launched_); }

  const CudaGraph& graph_;
  cudaStream_t stream_;
  std::array<TimedEvent, kAhead + 2> events_;
  std::size_t launched_ = 0;
  std::vector<Seconds> times_;
};

void set_times(std::vector<Seconds> times, StepMeasurement& out) {
  if (times.empty()) {
    out.fault = "no step was timed";
    return;
  }
  std::sort(times.begin(), times.end());
  const auto at = [&](double q) { return times[static_cast<std::size_t>(q * static_cast<double>(times.size() - 1))]; };
  out.low = at(0.1);
  out.time = at(0.5);
  out.high = at(0.9);
  out.samples = static_cast<int>(times.size());
}

class CudaStepMeasurer final : public StepMeasurer {
 public:
  MeasuringSession session() const override {
    MeasuringSession s = session_;
    if (tracer_) {
      s.profiler = tracer_->version();
      s.dropped_records = tracer_->dropped();
    }
    others_ = std::max(others_, other_processes(board_.compute_processes(), static_cast<unsigned>(::getpid())));
    s.other_processes = others_;
    return s;
  }

  StepMeasurement measure(const StepTask& task) override {
    StepMeasurement out;
    out.what = task.what;
    guarded(task, out, [&] {
      if (task.what.clock == ClockMode::burst) burst(out);
      else steady(out);
    });
    return out;
  }

  void trace(const StepTask& task, StepMeasurement& out) override {
    if (!out.fault.empty()) return;
    if (!tracer_) {
      loaded_.reset();
      tracer_ = std::make_unique<KernelTracer>();
    }
    StepMeasurement scratch;
    guarded(task, scratch, [&] { trace_loaded(task, out); });
    if (!scratch.fault.empty()) out.fault = "traced: " + scratch.fault;
  }

  std::vector<StepOpCheck> check(const StepTask& task) override {
    load(task);
    return check_step(*loaded_, *task.priced, stream_);
  }

 private:
  template <class Work>
  void guarded(const StepTask& task, StepMeasurement& out, const Work& work) {
    try {
      load(task);
      out.memory_B = static_cast<double>(loaded_->program().bytes);
      loaded_->enqueue(stream_);  // outside a graph: faults surface here, code gets loaded
      out.fault = loaded_->complaint(stream_);
      if (out.fault.empty()) work();
    } catch (const NotModelled& refusal) {
      out.fault = refusal.what();
    } catch (const DeviceError& failure) {
      cudaGetLastError();
      if (cudaDeviceSynchronize() != cudaSuccess) throw;
      out.fault = failure.what();
    }
  }

  void load(const StepTask& task) {
    const std::string key = LoadedStep::key(task);
    if (loaded_ && key == key_) return;
    loaded_.reset();  // its memory first
    loaded_ = std::make_unique<LoadedStep>(task, static_cast<cudaStream_t>(stream_));
    key_ = key;
  }

  CudaGraph graph() {
    return CudaGraph(stream_, [this] { loaded_->enqueue(static_cast<cudaStream_t>(stream_)); });
  }

  void pause() {
    PLUMBLINE_CUDA_CHECK(cudaStreamSynchronize(stream_));
    std::this_thread::sleep_for(std::chrono::duration<double>(kPause_s));
  }

  void burst(StepMeasurement& out) {
    const CudaGraph step = graph();
    step.upload(stream_);
    Pacer first(step, stream_);
    first.launch();
    const double one = first.finish().front().in(units::s);
    const auto count =
        static_cast<std::size_t>(std::clamp(kBurst_s / one, static_cast<double>(kFewest), static_cast<double>(kMost)));
    pause();
    Pacer pacer(step, stream_);
    std::vector<BoardSample> samples;
    for (std::size_t i = 0; i < kWarmUps + count; ++i) {
      if (i == kWarmUps) stamps_.enqueue_start(stream_);
      pacer.launch();
      samples.push_back(sample(board_));
    }
    stamps_.enqueue_end(stream_);
    std::vector<Seconds> times = pacer.finish();
    // the first one that counts also holds the clock stamps' kernel
    times.erase(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(kWarmUps + 1));
    set_times(std::move(times), out);
    out.conditions = conditions(samples);
    if (const auto clock = stamps_.mean_clock(stream_)) out.conditions.sm_clock = clock;
    out.conditions.power.reset();  // the reading follows the load by tens of ms
  }

  void steady(StepMeasurement& out) {
    const CudaGraph step = graph();
    {
      Pacer settle(step, stream_);
      const Clock::time_point start = Clock::now();
      while (since(start) < kSettle_s) settle.launch();
      // no pause: the next launches queue behind these
      Pacer pacer(step, stream_);
      stamps_.enqueue_start(stream_);
      BoardSampler sampler(board_, milliseconds(20));
      EnergyWatch energy(board_);
      const Clock::time_point window = Clock::now();
      while (since(window) < kWindow_s) pacer.launch();
      const std::optional<Watts> power = energy.stop();
      out.conditions = conditions(sampler.stop());
      out.conditions.memory_power = board_.memory_power();
      stamps_.enqueue_end(stream_);
      std::vector<Seconds> times = pacer.finish();
      if (times.size() > 2) times.erase(times.begin());
      Seconds all;
      for (const Seconds t : times) all += t;
      const Seconds mean = all / static_cast<double>(times.size());
      set_times(std::move(times), out);
      out.conditions.board_clock = out.conditions.sm_clock;
      if (const auto clock = stamps_.mean_clock(stream_)) out.conditions.sm_clock = clock;
      out.conditions.power = power;
      if (power) out.energy = *power * mean;
    }
  }

  /// How many kernels each launch of the program is, and the first one's name.
  struct Made {
    std::size_t kernels = 0;
    std::string name;
  };
  std::vector<Made> launch_one_by_one() {
    std::vector<Made> made;
    for (const StepLaunch& launch : loaded_->program().launches) {
      PLUMBLINE_CUDA_CHECK(cudaStreamSynchronize(stream_));
      tracer_->take();
      loaded_->enqueue(launch, static_cast<cudaStream_t>(stream_));
      PLUMBLINE_CUDA_CHECK(cudaStreamSynchronize(stream_));
      const std::vector<KernelRecord> records = tracer_->take();
      made.push_back({records.size(), records.empty() ? "" : kernel_name(records.front().name)});
    }
    return made;
  }

  void trace_loaded(const StepTask& task, StepMeasurement& out) {
    const std::vector<Made> made = launch_one_by_one();
    std::size_t kernels = 0;
    for (const Made& m : made) kernels += m.kernels;
    const CudaGraph step = graph();
    step.upload(stream_);
    pause();
    tracer_->take();
    const std::uint64_t dropped = tracer_->dropped();
    Pacer pacer(step, stream_);
    const Clock::time_point start = Clock::now();
    const double settle = task.what.clock == ClockMode::steady ? kTraceSettle_s : 0;
    do {
      pacer.launch();
    } while (since(start) < settle);
    for (std::size_t i = 0; i < kTraced; ++i) pacer.launch();
    pacer.finish();
    std::vector<KernelRecord> records = tracer_->take();
    std::erase_if(records, [](const KernelRecord& r) { return r.graph == 0; });
    if (tracer_->dropped() > dropped) {
      out.fault = "traced: kernel records were dropped by the profiler";
    } else if (kernels == 0 || records.size() != kernels * pacer.launched()) {
      out.fault = "traced: expected " + std::to_string(kernels * pacer.launched()) + " kernel records, found " +
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
        MeasuredStepOp& op = out.ops[static_cast<std::size_t>(loaded_->program().launches[i].node)];
        op.time += static_cast<double>(end - before) * units::ns;
        op.kernel = made[i].name;
        op.launches = static_cast<std::int64_t>(made[i].kernels);
        before = end;
      }
    }
    for (std::size_t i = 0; i < out.ops.size(); ++i) {
      MeasuredStepOp& op = out.ops[i];
      op.name = graph.nodes[i].name;
      op.op = std::string(op_name(graph.nodes[i].op));
      op.count = graph.nodes[i].count;
      op.time = op.time / static_cast<double>(op.count * static_cast<std::int64_t>(kTraced));
    }
    std::sort(spans.begin(), spans.end());
    out.traced = spans[spans.size() / 2];
  }

  Board board_{select_card()};
  MeasuringSession session_ = describe_session(board_, "none");
  Stream stream_;
  ClockStamps stamps_;
  std::unique_ptr<KernelTracer> tracer_;
  mutable std::int64_t others_ = 0;  // the most that was seen so far
  std::unique_ptr<LoadedStep> loaded_;
  std::string key_;
};

}  // namespace

std::unique_ptr<StepMeasurer> make_cuda_step_measurer() {
  need_driver();
  return std::make_unique<CudaStepMeasurer>();
}

}  // namespace plumbline
