#include "validate/measure/cuda_timing.hpp"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <string_view>
#include <thread>

#include "kernels/common/measure.cuh"
#include "kernels/run/clock_stamps.hpp"
#include "kernels/run/l2_sweep.hpp"
#include "validate/measure/host_clock.hpp"
#include "validate/measure/stopping.hpp"

namespace plumbline {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr double kPauseAtLeast_s = 0.03, kPauseAtMost_s = 0.5, kPauseOverBusy = 10;
constexpr double kSettleAtMost_s = 2.0;
constexpr std::uint64_t kPowerCap = 0x4;  // of NVML's clock event reasons

class Event {
 public:
  Event() { PLUMBLINE_CUDA_CHECK(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming)); }
  ~Event() { cudaEventDestroy(event_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  void record(cudaStream_t stream) const { PLUMBLINE_CUDA_CHECK(cudaEventRecord(event_, stream)); }
  void wait() const { PLUMBLINE_CUDA_CHECK(cudaEventSynchronize(event_)); }

 private:
  cudaEvent_t event_ = nullptr;
};

bool idle(cudaStream_t stream) {
  const cudaError_t status = cudaStreamQuery(stream);
  if (status == cudaErrorNotReady) return false;
  PLUMBLINE_CUDA_CHECK(status);
  return true;
}

/// The records of graphs but for the clock stamps among them.
std::vector<KernelRecord> of_executions(std::vector<KernelRecord> records) {
  std::erase_if(records, [](const KernelRecord& r) {
    return r.graph == 0 || std::string_view(r.name).find(ClockStamps::kKernel) != std::string_view::npos;
  });
  return records;
}

}  // namespace

struct CudaTiming::Device {
  KernelTracer& tracer;
  const Board& board;
  const Bytes l2;
  Stream stream;
  L2Sweep sweep;
  ClockStamps stamps;
  std::uint64_t dropped_before = 0;
  double busy_s = 0;  ///< how long the device last worked without a pause
  Hertz fastest;      ///< SM clock seen so far

  Device(KernelTracer& t, const Board& b, Bytes l2_size)
      : tracer(t), board(b), l2(l2_size), sweep(static_cast<std::size_t>(kColdL2s * l2_size.in(units::B))) {}

  std::int64_t slots_of(const Runner& r, CacheState cache) const {
    return rotation_slots(cache, l2, static_cast<double>(r.slot_bytes) * units::B, r.max_slots);
  }

  /// What one execution is made of, and the sum of its kernels' times.
  struct First {
    std::size_t launches = 0;
    Seconds time;
    std::string fault;
  };
  /// One execution on the stream, outside a graph: faults surface here, code gets loaded. The span would count loading
  /// between two kernels.
  First first_execution(const Runner& r) {
    r.prepare(1, stream);
    PLUMBLINE_CUDA_CHECK(cudaStreamSynchronize(stream));
    tracer.take();
    dropped_before = tracer.dropped();
    r.enqueue(0, stream);
    PLUMBLINE_CUDA_CHECK(cudaStreamSynchronize(stream));
    std::vector<KernelRecord> records = tracer.take();
    First out{records.size(), {}, {}};
    const ExecutionTimes times = execution_times(std::move(records), {1, out.launches, 0});
    out.fault = times.fault;
    for (const MeasuredLaunch& launch : times.launches) out.time += launch.time;
    return out;
  }

  /// Leaves the card idle until the regulator has forgotten the work before, which would hold this case's clock down:
  /// ten times as long as that took, and on while the clock is below the highest one seen or capped.
  void pause() {
    const auto idle_since = Clock::now();
    std::this_thread::sleep_for(
        std::chrono::duration<double>(std::max(kPauseAtLeast_s, std::min(kPauseAtMost_s, kPauseOverBusy * busy_s))));
    busy_s = 0;
    while (seconds_since(idle_since) < kPauseAtMost_s) {
      const std::optional<Hertz> clock = board.sm_clock();
      if (clock) fastest = std::max(fastest, *clock);
      const bool capped = (board.clock_event_reasons().value_or(0) & kPowerCap) != 0;
      if (!capped && (!clock || *clock >= fastest)) return;
      std::this_thread::sleep_for(milliseconds(5));
    }
  }

  ExecutionTimes finish(const ExpectedRecords& expected) {
    PLUMBLINE_CUDA_CHECK(cudaStreamSynchronize(stream));
    ExecutionTimes times = execution_times(of_executions(tracer.take()), expected);
    const std::uint64_t dropped = tracer.dropped() - dropped_before;
    if (dropped > 0) times.fault = std::to_string(dropped) + " kernel records were dropped by the profiler";
    return times;
  }

  /// Keeps the stream busy with `graph` until `done`, never more than a few graphs ahead of the device.
  template <class Done>
  std::size_t keep_busy(const CudaGraph& graph, const Done& done) {
    std::array<Event, 3> marks;
    std::size_t launched = 0;
    do {
      const Event& mark = marks[launched % marks.size()];
      if (launched >= marks.size()) mark.wait();
      graph.launch(stream);
      mark.record(stream);
      ++launched;
    } while (!done());
    return launched;
  }

  void settle(const CudaGraph& graph);
};

CudaTiming::CudaTiming(KernelTracer& tracer, const Board& board, Bytes l2)
    : device_(std::make_unique<Device>(tracer, board, l2)) {}
CudaTiming::~CudaTiming() = default;

StreamHandle CudaTiming::stream() const { return static_cast<cudaStream_t>(device_->stream); }

void CudaTiming::burst(const Runner& runner, CacheState cache, Measurement& out) {
  Device& d = *device_;
  const Device::First first = d.first_execution(runner);
  if (!first.fault.empty()) {
    out.fault = first.fault;
    return;
  }
  const std::int64_t wanted = d.slots_of(runner, cache);
  const std::size_t warm_ups = burst_warm_ups(first.time, static_cast<std::size_t>(wanted));
  const std::size_t executions = warm_ups + burst_samples(first.time);
  const std::int64_t slots = std::min(wanted, static_cast<std::int64_t>(executions));
  runner.prepare(slots, d.stream);
  const CudaGraph graph(d.stream, [&] {
    for (std::size_t i = 0; i < executions; ++i) {
      if (i == warm_ups) d.stamps.enqueue_start(d.stream);
      runner.enqueue(static_cast<std::int64_t>(i) % slots, d.stream);
    }
    d.stamps.enqueue_end(d.stream);
  });
  graph.upload(d.stream);
  PLUMBLINE_CUDA_CHECK(cudaStreamSynchronize(d.stream));
  d.pause();
  if (cache == CacheState::cold) d.sweep.enqueue(d.stream);
  const Clock::time_point start = Clock::now();
  graph.launch(d.stream);
  std::vector<BoardSample> samples;
  do {
    samples.push_back(sample(d.board));
  } while (!idle(d.stream));
  d.busy_s = seconds_since(start);
  set_times(d.finish({executions, first.launches, warm_ups}), out);
  out.conditions = conditions(samples);
  if (const auto clock = d.stamps.mean_clock(d.stream)) out.conditions.sm_clock = clock;
  out.conditions.power.reset();  // the reading follows the load by tens of ms: it would be of the case before
}

void CudaTiming::Device::settle(const CudaGraph& graph) {
  const Clock::time_point start = Clock::now();
  Settling settling;
  std::vector<BoardSample> part;
  keep_busy(graph, [&] {
    part.push_back(sample(board));
    const Seconds passed = seconds_since(start) * units::s;
    if (!settling.due(passed)) return false;
    const bool settled = settling.settled(passed, conditions(part));
    part.clear();
    return settled;
  });
}

namespace {

/// Finds steps of the energy counter; a reading between two steps would be off by up to what a step holds.
class EnergySteps {
 public:
  EnergySteps(const Board& board, const KernelTracer& tracer) : board_(board), tracer_(tracer), last_(board.energy()) {}

  struct Step {
    std::uint64_t at_ns = 0;
    std::optional<Joules> energy;
  };
  /// Whether the counter has just moved, and where to.
  std::optional<Step> look() {
    const std::optional<Joules> now = board_.energy();
    if (now == last_ || !now) return {};
    last_ = now;
    return Step{tracer_.now_ns(), now};
  }

 private:
  const Board& board_;
  const KernelTracer& tracer_;
  std::optional<Joules> last_;
};

}  // namespace

void CudaTiming::steady(const Runner& runner, CacheState cache, Measurement& out) {
  Device& d = *device_;
  const Device::First first = d.first_execution(runner);
  if (!first.fault.empty()) {
    out.fault = first.fault;
    return;
  }
  const std::size_t launches = first.launches, most = most_steady_slots(launches);
  const std::int64_t slots = d.slots_of(runner, cache);
  if (static_cast<std::size_t>(slots) > most) {
    out.fault = "a steady cold run would need " + std::to_string(slots) + " sets of operands; expected at most " +
                std::to_string(most);
    return;
  }
  const std::size_t executions = steady_executions(first.time, launches, static_cast<std::size_t>(slots));
  runner.prepare(slots, d.stream);
  const CudaGraph graph(d.stream, [&] {
    for (std::size_t i = 0; i < executions; ++i) runner.enqueue(static_cast<std::int64_t>(i) % slots, d.stream);
  });
  d.settle(graph);
  PLUMBLINE_CUDA_CHECK(cudaStreamSynchronize(d.stream));
  d.tracer.take();
  d.dropped_before = d.tracer.dropped();

  d.busy_s = kSettleAtMost_s;
  BoardSampler sampler(d.board);
  EnergySteps steps(d.board, d.tracer);
  std::optional<EnergySteps::Step> from, to;
  const Clock::time_point start = Clock::now();
  EnergyWindow window;
  const std::size_t graphs = d.keep_busy(graph, [&] {
    const std::optional<EnergySteps::Step> step = steps.look();
    const EnergyWindow::Act act = window.look(seconds_since(start) * units::s, step.has_value());
    if (act == EnergyWindow::Act::wait) return false;
    auto& end = act == EnergyWindow::Act::open ? from : to;
    end = step ? *step : EnergySteps::Step{d.tracer.now_ns(), {}};
    if (act == EnergyWindow::Act::open) d.stamps.enqueue_start(d.stream);
    return act == EnergyWindow::Act::close;
  });
  d.stamps.enqueue_end(d.stream);
  out.conditions = conditions(sampler.stop());
  out.conditions.board_clock = out.conditions.sm_clock;
  out.conditions.memory_power = d.board.memory_power();
  ExecutionTimes times = d.finish({graphs * executions, launches, 0});
  if (const auto clock = d.stamps.mean_clock(d.stream)) out.conditions.sm_clock = clock;
  keep_between(times, from->at_ns, to->at_ns);
  set_times(times, out);
  if (!out.fault.empty() || !from->energy || !to->energy) return;
  const Joules energy = *to->energy - *from->energy;
  const Seconds length = static_cast<double>(to->at_ns - from->at_ns) * units::ns;
  out.conditions.power = energy / length;
  out.energy = energy / static_cast<double>(times.seconds.size());
}

}  // namespace plumbline
