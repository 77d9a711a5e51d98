// How a kernel cuts a shape: the plan that the model prices is the plan that a launcher runs. No machine in here.
#pragma once

#include <cstdint>

#include "arch/units.hpp"

namespace plumbline {

/// One launch as the hardware sees it.
struct KernelPlan {
  std::int64_t ctas = 0;         ///< thread blocks, or work items of a persistent kernel
  std::int64_t ctas_per_sm = 1;  ///< co-resident
  std::int64_t threads = 0;
  std::int64_t registers_per_thread = 0;
  Bytes shared_memory;
  std::int64_t cluster = 1;  ///< CTAs a cluster
  /// One CTA a slot walks the work items: prologue and drain are paid once, not by every item.
  bool persistent = false;
  double steps = 1;             ///< main-loop iterations a CTA, mean over CTAs
  double longest = 1;           ///< ... of the longest CTA (= steps when all are alike)
  bool shortest_first = false;  ///< unequal CTAs are taken shortest first, not longest first
};

/// Which tensor instructions a GEMM kernel is made of.
enum class GemmEngine { mma_sync, wgmma };

/// Tiles of C[M,N], K in `tile_k` steps through a ring of `stages`; `splits` CTAs share one tile's K (0: see
/// own_gemm_splits()).
struct GemmPlan {
  std::int64_t tile_m = 0, tile_n = 0, tile_k = 0, stages = 0, splits = 1;
  std::int64_t cluster_m = 1, cluster_n = 1;
  bool swapped = false;  ///< weights fill the M side of the tensor instruction (small M)
  GemmEngine engine = GemmEngine::wgmma;
  /// wgmma: a last tile asks for the rows that are there, by a tensor map of its own; else for all of its box.
  bool clipped = false;
  bool operator==(const GemmPlan&) const = default;
};

/// `q_tile` query rows (after packing the query heads of a KV head) against `kv_tile` keys a step; `splits` CTAs share
/// one row tile's keys. `stages`: of K and V in the ring of prefill by mma.sync and cp.async; 0: another kernel's plan.
struct AttentionPlan {
  std::int64_t q_tile = 0, kv_tile = 0, splits = 1, packed_heads = 1, stages = 0;
};

}  // namespace plumbline
