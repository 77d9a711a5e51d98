// The roofline floor: what no kernel can be faster than.
#pragma once

#include "arch/gpu/gpu.hpp"
#include "model/engine/demand.hpp"
#include "ops/facts/work.hpp"
#include "ops/shape/shapes.hpp"

namespace plumbline {

/// max(FLOPs / peak, bytes / bandwidth) with datasheet peaks at the boost clock; of a custom operator whatever it asks
/// for: special functions, instructions, bytes of shared memory and L2, accesses to DRAM that wait for one another.
Seconds roofline(const Op& op, const Work& work, const GpuNumbers& gpu);
/// The same of an operator's own work.
Seconds roofline(const Op& op, const GpuNumbers& gpu);

/// Which of its terms it is.
Resource roofline_limiter(const Op& op, const Work& work, const GpuNumbers& gpu);

}  // namespace plumbline
