// How many thread blocks fit on one SM at a time, by the CUDA occupancy rules.
#pragma once

#include <cstdint>
#include <string_view>

#include "arch/gpu.hpp"

namespace plumbline {

struct BlockResources {
  std::int64_t threads = 0;
  std::int64_t registers_per_thread = 0;
  Bytes shared_memory;  ///< static + dynamic, without what the system reserves
};

struct Occupancy {
  std::int64_t blocks_per_sm = 0;   ///< 0: the block does not fit at all
  std::string_view limited_by;      ///< "registers", "shared memory", "threads", "blocks"
  double warp_fraction = 0;         ///< resident warps / possible warps
};

/// blocks = min over registers, shared memory, warps, block slots; registers are handed out per warp in
/// `register_granule`, warps in multiples of `warp_granule`, shared memory in `smem_granule` plus the reserved part.
/// Source: CUDA C++ Programming Guide, Compute Capabilities; NVIDIA occupancy calculator; modeling notes section 8.
Occupancy occupancy(const StreamingMultiprocessor& sm, const BlockResources& block);

}  // namespace plumbline
