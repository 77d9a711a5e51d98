// What our own kernels are compiled for. The planner chooses from these menus and the launchers dispatch on them, so
// that the plan that was priced is the plan that runs. No machine in here: which engine a GPU has is the planner's
// business.
#pragma once

#include <cstdint>
#include <span>

#include "arch/dtype.hpp"
#include "ops/plan/plans.hpp"

namespace plumbline {

/// One compiled GEMM tile: `rows` lie on the row side of the tensor instruction, `cols` on the other; either operand
/// may take the row side (GemmPlan::swapped). A step covers `step_bytes` of K; `stages` such steps are in the ring.
///
/// wgmma: persistent, one launch whatever the cut. Tiles of 64 rows have one consumer warpgroup,
/// others two; a cluster is that many
/// neighbours on the row side, which share one fetch of their columns (GemmPlan::cluster_m when not swapped, else
/// cluster_n). Work is counted in units, a unit being a tile (of a whole cluster) or, with splits, the `splits` parts
/// of K of a tile; the min(units, SMs * ctas_per_sm / cluster) clusters take them in turn. The parts' fp32 sums (rows *
/// cols * 4 bytes each) pass through L2: each writes its own, and the last to come reads them all and stores the tile.
struct GemmVariant {
  std::int64_t rows = 0, cols = 0, step_bytes = 128, stages = 4;
  std::int64_t cluster = 1;      ///< CTAs that share an operand by multicast
  std::int64_t ctas_per_sm = 1;  ///< co-resident
};
/// Ordered from large to small. Empty where the engine has no kernel for the type.
std::span<const GemmVariant> own_gemm_menu(GemmEngine engine, DType math);
/// ... of gradients' products, bf16, by wgmma, whose operands lie as the forward pass left them (WeightLayout::kn): of
/// inputs (bf16 result) and of weights (fp32 result; its left operand lies as [K, M]). Neither is swapped.
std::span<const GemmVariant> own_gradient_menu();
/// Ways of cutting K that the kernels take, ascending from 1. The wgmma kernels also take 0: whole tiles but for those
/// that are left over behind whole waves, tiles % clusters; these come first, each cut into min(clusters / left over,
/// sqrt(steps / 2)) parts, so that the last wave is a short one. (Dealing out the steps evenly, stream-K, was measured
/// slower: CTAs at different places of K do not meet in L2.)
std::span<const std::int64_t> own_gemm_splits();

/// One compiled flash attention forward kernel: `q_tile` query rows of one head a CTA, `kv_tile` keys a step.
struct PrefillVariant {
  std::int64_t head_dim = 0, q_tile = 0, kv_tile = 0, ctas_per_sm = 1;
  bool causal = false;
};
/// Null where no kernel is compiled for the head width.
const PrefillVariant* own_prefill_variant(std::int64_t head_dim, bool causal);

/// One compiled flash attention forward kernel of mma.sync, causal and not, bf16 and fp16: `q_tile` query rows of one head
/// a CTA, 32 a warp; `kv_tile` keys a step; `stages` of K and V in shared memory. `ctas_per_sm`: co-resident as far as
/// registers go. `holds_queries`: in registers; else a warp reads its queries from shared memory at each step.
struct PortablePrefillVariant {
  std::int64_t head_dim = 0, q_tile = 0, kv_tile = 0, stages = 0, ctas_per_sm = 1;
  bool holds_queries = false;
};
std::span<const PortablePrefillVariant> own_portable_prefill_menu();
/// Shared memory of a CTA: the tile's queries, and the ring.
std::int64_t shared_bytes(const PortablePrefillVariant& variant);

/// One compiled kernel of attention's backward pass, causal and not: `kv_tile` keys a CTA, `q_tile` queries a step.
struct BackwardVariant {
  std::int64_t head_dim = 0, q_tile = 0, kv_tile = 0, ctas_per_sm = 1;
};
/// Null where no kernel is compiled for the head width.
const BackwardVariant* own_backward_variant(std::int64_t head_dim);

/// One compiled paged decode kernel: the `rows` packed query heads of a KV head against `kv_tile` keys a step, K and V
/// of a step being one of `stages` in the ring. Persistent: `ctas_per_sm` CTAs an SM share the B * Hkv * splits work
/// items.
struct DecodeVariant {
  std::int64_t head_dim = 0, rows = 0, kv_tile = 0, stages = 0, ctas_per_sm = 1;
};
/// The smallest variant that holds `group` query heads a KV head; null where none does.
const DecodeVariant* own_decode_variant(std::int64_t head_dim, std::int64_t group);

}  // namespace plumbline
