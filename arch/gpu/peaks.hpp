// Peak rates derived from counts, per-unit rates and a clock.
#pragma once

#include "arch/gpu/gpu.hpp"

namespace plumbline {

/// SMs x FLOP/clk/SM x clock; dense. Zero when the GPU has no such tensor path.
FlopRate tensor_peak(const GpuNumbers& gpu, DType math, Hertz sm_clock);
FlopRate fp32_peak(const GpuNumbers& gpu, Hertz sm_clock);
FlopRate fp64_peak(const GpuNumbers& gpu, Hertz sm_clock);
/// Special-function operations a second.
Hertz sfu_peak(const GpuNumbers& gpu, Hertz sm_clock);
Bandwidth smem_peak(const GpuNumbers& gpu, Hertz sm_clock);
/// min(L2 slices at this clock, SMs x what an SM can take).
Bandwidth l2_peak(const GpuNumbers& gpu, Hertz sm_clock);
/// FLOP per DRAM byte where the tensor roof meets the memory roof.
Intensity ridge_point(const GpuNumbers& gpu, DType math, Hertz sm_clock);

}  // namespace plumbline
