// Runs one operator many times and gives its times from device timestamps: a burst, or a steady run. No CUDA type in
// here.
//
// Burst: the card idles for 30 to 500 ms, then warm-up executions, then 10 to 30 samples (5 of executions beyond 6 ms),
// all from one CUDA graph, so that the host is never the limit. Cold: executions take turns on sets of operands that
// are together more than three times the L2; the warm-up is a whole turn where that is short (3 executions where it is
// not), behind a copy that leaves the L2 full of other lines, half of them dirty. Warm: the same operands each time.
//
// Steady: graphs of whole rotations over more than three times the L2 (warm: one set of operands) until clock and power
// have settled, at least 1.2 s; then a window of 0.6 s or more between two steps of the board's energy counter.
#pragma once

#include <memory>

#include "kernels/run/runner.hpp"
#include "validate/board/nvml_board.hpp"
#include "validate/measure/cupti_activity.hpp"
#include "validate/record/measurer.hpp"

namespace plumbline {

class CudaTiming {
 public:
  CudaTiming(KernelTracer& tracer, const Board& board, Bytes l2);
  ~CudaTiming();
  CudaTiming(const CudaTiming&) = delete;
  CudaTiming& operator=(const CudaTiming&) = delete;

  /// What runners are made on.
  StreamHandle stream() const;
  /// Fills in times, launches, conditions and energy, or a fault. Throws NotModelled when a launcher refuses,
  /// DeviceError when the card does.
  void burst(const Runner& runner, CacheState cache, Measurement& out);
  void steady(const Runner& runner, CacheState cache, Measurement& out);

 private:
  struct Device;
  std::unique_ptr<Device> device_;
};

}  // namespace plumbline
