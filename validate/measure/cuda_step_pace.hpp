// How a stream is kept busy with launches of one graph, and what is read of the board meanwhile.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "kernels/common/measure.cuh"
#include "validate/board/nvml_board.hpp"

namespace plumbline {

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
  using Clock = std::chrono::steady_clock;
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
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

  std::vector<Step> steps_;
  std::atomic<bool> done_{false};
  std::thread thread_;  // the last member: it uses the others
};

/// Keeps the stream busy with a graph, a few launches ahead of the device, and times each. Of a graph that waits for
/// other cards' every rank must have a pacer, in a thread of its own, and launch as often.
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

}  // namespace plumbline
