// The SM clock that work really ran at, from the SMs' own cycle counters. No CUDA type in here.
//
// NVML's reading is not it: on an H200 it says 1980 MHz while a tensor kernel on random data runs at 1600 MHz, since
// the clock gives way within microseconds and the reading does not follow (2026-11-20).
#pragma once

#include <memory>
#include <optional>

#include "arch/units.hpp"
#include "kernels/common/launch.hpp"

namespace plumbline {

/// Cycle counter of every SM and the device's timer, read by two tiny kernels around the work.
class ClockStamps {
 public:
  ClockStamps();
  ~ClockStamps();
  ClockStamps(const ClockStamps&) = delete;
  ClockStamps& operator=(const ClockStamps&) = delete;

  /// The kernels' name, as a profiler's record has it.
  static constexpr const char* kKernel = "read_cycle_counters";

  void enqueue_start(StreamHandle stream);
  void enqueue_end(StreamHandle stream);
  /// Cycles over time between the two, the median over SMs; nothing when they are less than 100 us apart (the timer may
  /// step by 1 us) or were not both run. Waits for the stream.
  std::optional<Hertz> mean_clock(StreamHandle stream) const;

 private:
  struct Memory;
  std::unique_ptr<Memory> memory_;
};

}  // namespace plumbline
