// How many thread blocks fit on one SM at a time, by the CUDA occupancy rules.
#pragma once

#include <cstdint>
#include <string_view>

#include "arch/gpu/gpu.hpp"

namespace plumbline {

struct BlockResources {
  std::int64_t threads = 0;
  std::int64_t registers_per_thread = 0;
  Bytes shared_memory;  ///< static + dynamic, without what the system reserves
};

struct Occupancy {
  std::int64_t blocks_per_sm = 0;  ///< 0: the block does not fit at all
  std::string_view limited_by;     ///< "registers", "shared memory", "threads", "blocks"
  double warp_fraction = 0;        ///< resident warps / possible warps
};

/// blocks = min over registers, shared memory, warps, block slots. Registers are handed out per warp in
/// `register_granule` from `warp_granule` equal sub-partitions of the file, so the SM holds warp_granule x
/// floor(registers / warp_granule / registers of a warp) warps; the launch check rounds the block's warps up to that
/// granule. Shared memory is handed out in `smem_granule`, reserved part included. On ties the first of the list above
/// is named. Source: NVIDIA's cuda_occupancy.h (CUDA Toolkit); CUDA C++ Programming Guide, Compute Capabilities.
Occupancy occupancy(const StreamingMultiprocessor& sm, const BlockResources& block);

}  // namespace plumbline
