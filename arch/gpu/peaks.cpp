#include "arch/gpu/peaks.hpp"

#include <algorithm>

namespace plumbline {
namespace {

double sms(const GpuNumbers& gpu) { return static_cast<double>(gpu.sm_count); }

}  // namespace

FlopRate tensor_peak(const GpuNumbers& gpu, DType math, Hertz sm_clock) {
  return sms(gpu) * gpu.sm.tensor_flop_per_clk[math] * (units::FLOP * sm_clock);
}

FlopRate fp32_peak(const GpuNumbers& gpu, Hertz sm_clock) {
  return sms(gpu) * gpu.sm.fp32_flop_per_clk * (units::FLOP * sm_clock);
}

FlopRate fp64_peak(const GpuNumbers& gpu, Hertz sm_clock) {
  return sms(gpu) * gpu.sm.fp64_flop_per_clk * (units::FLOP * sm_clock);
}

Hertz sfu_peak(const GpuNumbers& gpu, Hertz sm_clock) { return sms(gpu) * gpu.sm.sfu_op_per_clk * sm_clock; }

Bandwidth smem_peak(const GpuNumbers& gpu, Hertz sm_clock) { return sms(gpu) * (gpu.sm.smem_bytes_per_clk * sm_clock); }

Bandwidth l2_peak(const GpuNumbers& gpu, Hertz sm_clock) {
  // The slices are taken to run in step with the SMs: measured L2 rates follow the SM clock (docs/sources.md:
  // hardware).
  const Bandwidth slices = gpu.l2.bandwidth * (sm_clock / gpu.boost_clock);
  const Bandwidth ports = sms(gpu) * (gpu.sm.l2_bytes_per_clk * sm_clock);
  return std::min(slices, ports);
}

Intensity ridge_point(const GpuNumbers& gpu, DType math, Hertz sm_clock) {
  return tensor_peak(gpu, math, sm_clock) / gpu.memory.bandwidth;
}

}  // namespace plumbline
