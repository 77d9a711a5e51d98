#include "validate/measure/cuda_prober.hpp"

#include <cuda_runtime_api.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <optional>
#include <vector>

#include "kernels/common/measure.cuh"
#include "kernels/probes/energy.hpp"
#include "kernels/probes/probes.hpp"
#include "kernels/run/arena.hpp"
#include "kernels/run/clock_stamps.hpp"
#include "validate/board/nvml_board.hpp"
#include "validate/measure/cuda_card.hpp"
#include "validate/measure/host_clock.hpp"

namespace plumbline {
namespace {

using Clock = std::chrono::steady_clock;

// The clock settles within a second; the energy counter steps every 20 to 100 ms.
constexpr double kProbeSettle_s = 1.5, kProbeWindow_s = 3.0;

/// Mean power between the first and the last step of the board's energy counter that were seen: a reading between two
/// steps would be off by up to what a step holds.
class EnergyMeter {
 public:
  explicit EnergyMeter(const Board& board) : board_(board), last_(board.energy()) {}
  void look() {
    const std::optional<Joules> now = board_.energy();
    if (!now || now == last_) return;
    last_ = now;
    steps_.push_back({seconds_since(start_), *now});
  }
  std::optional<Watts> power() const {
    if (steps_.empty() || steps_.back().at_s - steps_.front().at_s < 0.5 * kProbeWindow_s) return {};
    return (steps_.back().energy - steps_.front().energy) / ((steps_.back().at_s - steps_.front().at_s) * units::s);
  }

 private:
  struct Step {
    double at_s = 0;
    Joules energy;
  };
  const Board& board_;
  Clock::time_point start_ = Clock::now();
  std::optional<Joules> last_;
  std::vector<Step> steps_;
};

/// A load that runs without a pause: batches of some 25 ms, up to three of them queued, so that looking at the board
/// (several ms at times) never leaves the card idle.
class KeepBusy {
 public:
  KeepBusy(const SteadyLoad& load, cudaStream_t stream) : load_(load), stream_(stream) {
    const Stopwatch watch;
    for (int i = 0; i < 2; ++i) {  // the first one loads code
      watch.start(stream_);
      load_.runner.enqueue(0, stream_);
      watch.stop(stream_);
      batch_ = std::max(1L, std::lround(kBatch_s / watch.seconds()));
    }
  }
  /// Returns how many were launched; `meanwhile` is called as often as there is time.
  template <class Meanwhile>
  long run(double seconds, const Meanwhile& meanwhile) {
    long batches = 0, passed = 0;
    for (const auto start = Clock::now(); seconds_since(start) < seconds;) {
      while (passed < batches && marks_[static_cast<std::size_t>(passed) % kAhead].passed()) ++passed;
      if (batches - passed < kAhead) {
        for (long i = 0; i < batch_; ++i) load_.runner.enqueue(0, stream_);
        marks_[static_cast<std::size_t>(batches++) % kAhead].record(stream_);
      } else {
        meanwhile();
      }
    }
    return batches * batch_;
  }

 private:
  static constexpr double kBatch_s = 0.025;
  static constexpr long kAhead = 3;

  class Mark {
   public:
    Mark() { PLUMBLINE_CUDA_CHECK(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming)); }
    ~Mark() { cudaEventDestroy(event_); }
    Mark(const Mark&) = delete;
    Mark& operator=(const Mark&) = delete;
    void record(cudaStream_t stream) const { PLUMBLINE_CUDA_CHECK(cudaEventRecord(event_, stream)); }
    bool passed() const {
      const cudaError_t status = cudaEventQuery(event_);
      if (status == cudaErrorNotReady) return false;
      PLUMBLINE_CUDA_CHECK(status);
      return true;
    }

   private:
    cudaEvent_t event_ = nullptr;
  };

  const SteadyLoad& load_;
  cudaStream_t stream_;
  long batch_ = 1;
  std::array<Mark, kAhead> marks_;
};

struct SteadyReading {
  Conditions conditions;
  std::optional<Watts> power;
  double launches_per_s = 0;
  LoadWork work;  ///< of a launch
};

SteadyReading measure(const SteadyLoad& load, const Board& board, const Stream& stream) {
  SteadyReading out;
  KeepBusy busy(load, stream);
  busy.run(kProbeSettle_s, [] {});
  const Stopwatch watch;
  ClockStamps stamps;
  EnergyMeter meter(board);
  BoardSampler sampler(board);
  stamps.enqueue_start(static_cast<cudaStream_t>(stream));
  watch.start(stream);
  const long launched = busy.run(kProbeWindow_s, [&] { meter.look(); });
  watch.stop(stream);
  stamps.enqueue_end(static_cast<cudaStream_t>(stream));
  out.launches_per_s = static_cast<double>(launched) / watch.seconds();
  out.conditions = conditions(sampler.stop());
  out.conditions.board_clock = out.conditions.sm_clock;
  out.conditions.memory_power = board.memory_power();
  out.conditions.sm_clock = stamps.mean_clock(static_cast<cudaStream_t>(stream));
  out.power = meter.power();
  out.work = load.work;
  if (load.filled_B) {
    const double bytes = load.filled_B();
    out.work.l2_B += bytes;
    out.work.smem_B += bytes;
  }
  return out;
}

/// One steady run's readings, and what the load did a second.
void add_records(const SteadyLoad& load, const SteadyReading& m, std::vector<Record>& out) {
  const auto add = [&](const char* name, double value) {
    out.push_back({name, load.setting, {value, value, value, 1}});
  };
  const Conditions& c = m.conditions;
  add("steady_power_W", m.power->in(units::W));
  if (c.sm_clock) add("steady_sm_clock_Hz", c.sm_clock->in(units::Hz));
  if (c.board_clock) add("steady_board_clock_Hz", c.board_clock->in(units::Hz));
  if (c.memory_power) add("steady_memory_W", c.memory_power->in(units::W));
  if (c.temperature_C) add("steady_temperature_C", *c.temperature_C);
  const auto add_rate = [&](const char* name, double work) {
    if (work > 0) add(name, work * m.launches_per_s);
  };
  add_rate("steady_tensor_FLOP_per_s", m.work.tensor_FLOP);
  add_rate("steady_instructions_per_s", m.work.instructions);
  add_rate("steady_smem_B_per_s", m.work.smem_B);
  add_rate("steady_l2_B_per_s", m.work.l2_B);
  add_rate("steady_dram_read_B_per_s", m.work.dram_read_B);
  add_rate("steady_dram_write_B_per_s", m.work.dram_write_B);
}

/// Nothing where the board does not say what it draws.
std::vector<Record> probe_energy(const Board& board, const ProbeProgress& progress) {
  std::vector<Record> out;
  if (!board.energy()) {
    progress("energies: the board's energy cannot be read");
    return out;
  }
  const Stream stream;
  Arena arena;
  std::vector<SteadyLoad> loads;
  try {
    loads = steady_loads(arena, static_cast<cudaStream_t>(stream));
  } catch (const NotModelled& small) {
    progress(std::string("energies: ") + small.what());
  }
  for (const SteadyLoad& load : loads) {
    arena.hold(load.data, static_cast<cudaStream_t>(stream));
    const SteadyReading m = measure(load, board, stream);
    if (m.power) add_records(load, m, out);
    const Conditions& c = m.conditions;
    progress(load.setting + ": " + (m.power ? std::to_string(std::lround(m.power->in(units::W))) + " W" : "no power") +
             (c.sm_clock ? ", " + std::to_string(std::lround(c.sm_clock->in(units::MHz))) + " MHz" : ""));
  }
  return out;
}

}  // namespace

ProbeRun run_cuda_probes(bool energies, const ProbeProgress& progress) {
  const auto start = Clock::now();
  const auto tell = [&](const std::string& text) {
    char at[24];
    std::snprintf(at, sizeof at, "%6.1f s  ", seconds_since(start));
    progress(at + text);
  };
  const Board board(select_card());
  ProbeRun run;
  run.session = card_session(board);
  const bool hopper = run.session.compute_capability == "9.0";
  if (run.session.compute_capability.size() == 3 && run.session.compute_capability < "8.0") {
    throw DeviceError(run.session.gpu + ": the probes are built for compute capability 8.0 and later");
  }
  if (!hopper) tell("no instruction rates, no energies: those loads are built for compute capability 9.0");
  run.session.cool_C = board.temperature_C().value_or(0);
  const auto see_others = [&] {
    const auto now = other_processes(board.compute_processes(), static_cast<unsigned>(::getpid()));
    run.session.other_processes = std::max(run.session.other_processes, static_cast<int>(now));
  };
  see_others();
  run.records = probe_machine([&](const char* what, const std::vector<Record>& records) {
    see_others();
    if (run.session.memory_clock_MHz <= 0) {
      run.session.memory_clock_MHz = board.memory_clock().value_or(Hertz()).in(units::MHz);
    }
    tell(std::string(what) + ": " + std::to_string(records.size()) + " records");
  });
  if (energies && hopper) {
    const std::vector<Record> steady = probe_energy(board, tell);
    run.records.insert(run.records.end(), steady.begin(), steady.end());
  }
  see_others();
  run.session.warm_C = board.temperature_C().value_or(0);
  run.session.seconds = seconds_since(start);
  return run;
}

}  // namespace plumbline
