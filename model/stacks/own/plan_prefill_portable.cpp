// Our portable prefill attention: flash attention forward of mma.sync and cp.async (kernels/attention/flash_portable.cuh),
// by what its instructions ask of an SM.
#include <algorithm>
#include <cmath>
#include <optional>

#include "arch/gpu/occupancy.hpp"
#include "model/stacks/common/make_gemm_task.hpp"
#include "model/stacks/own/own_kernels.hpp"
#include "model/stacks/own/plan_attention.hpp"

namespace plumbline {
namespace {

constexpr double kWarpRows = 32;  // queries of a warp

std::int64_t threads_of(const PortablePrefillVariant& v, const Rates& m) {
  return v.q_tile / static_cast<std::int64_t>(kWarpRows) * m.gpu.sm.warp_size;
}

/// CTAs that an SM holds; 0: none.
std::int64_t resident(const PortablePrefillVariant& v, const Rates& m) {
  constexpr std::int64_t kRegisters = 255;  // what a thread may have, which these kernels are near
  const Bytes shared = static_cast<double>(shared_bytes(v)) * units::B;
  return std::min(occupancy(m.gpu.sm, {threads_of(v, m), kRegisters, shared}).blocks_per_sm, v.ctas_per_sm);
}

/// One step of one CTA, instruction by instruction.
void step_demand(Demand& d, const PortablePrefillVariant& v, const AttentionPrefill& s, const Rates& m,
                 const FamilyScalars& family) {
  const StreamingMultiprocessor& sm = m.gpu.sm;
  const double rows = static_cast<double>(v.q_tile), keys = static_cast<double>(v.kv_tile);
  const double width = static_cast<double>(v.head_dim);
  const double es = bytes_of(s.dtype), warps = rows / kWarpRows, scores = rows * keys;
  const double flop = 4 * scores * width;  // both products
  d.tensor_clk = flop / mma_sync_flop_per_clk(s.dtype, m);
  // of a score: a maximum, a fused multiply-add, an addition, and half a conversion of two, which run at half the rate
  constexpr double kLaneOps = 4, kExponential = 1, kConversion = 0.5;
  const double lanes = sm.fp32_flop_per_clk / 2;
  d.sfu_clk = scores / sm.sfu_op_per_clk;
  d.fp32_clk = scores * kLaneOps / lanes;
  // a warp reads its own queries and all keys and values; cp.async writes the keys and values once
  const double read = ((v.holds_queries ? 0 : rows) + 2 * warps * keys) * width * es, filled = 2 * keys * width * es;
  d.smem_clk = (read + filled) / sm.smem_bytes_per_clk.in(units::B);
  constexpr double kFlopOfAProduct = 16 * 8 * 16 * 2, kBytesOfALoad = 512;
  const double warp = static_cast<double>(sm.warp_size);
  const double issued = scores * (kLaneOps - kConversion + kExponential) / warp + flop / kFlopOfAProduct +
                        (read + filled) / kBytesOfALoad;
  d.issue_clk = issued / sm.issue_per_clk;
  d.l2 = filled * units::B;
  // Within a warp copies, the first product, its softmax and the second product follow each other. A CTA of fewer warps than
  // the SM has quarters leaves the others' units alone. Accumulators leave no registers to read fragments ahead: every 16
  // columns of the first product and every 16 keys by 16 columns of the second wait for shared memory.
  constexpr double kFragment = 16;
  const double quarters = sm.issue_per_clk / std::min(sm.issue_per_clk, warps);
  const double maximum = scores / lanes;
  const double waits = width / kFragment * (1 + keys / kFragment) * own::kFragmentClk;
  const double copies = filled / kBytesOfALoad / warps * own::kCopyClk;
  const double chain = quarters * (d.tensor_clk + maximum + std::max(d.sfu_clk, d.fp32_clk - maximum)) + waits + copies;
  d.chain_clk = chain + family.step_clk;
}

/// CTAs that begin together ask for their queries, and for the first keys and values, which heads and tiles of a group share,
/// before anything can be multiplied.
Bytes first_bytes(const Demand& d, const PortablePrefillVariant& v, const AttentionPrefill& s, const Rates& m) {
  const double at_once =
      std::min(1.0, m.sm_count * static_cast<double>(d.plan.ctas_per_sm) / static_cast<double>(d.plan.ctas));
  const double queries = static_cast<double>(s.batch * s.q_heads * s.q_len);
  const double keys = std::min(static_cast<double>(v.kv_tile), static_cast<double>(s.kv_len));
  const double values = static_cast<double>(s.batch * s.kv_heads) * 2 * keys;
  return at_once * (queries + values) * static_cast<double>(s.qk_dim) * bytes_of(s.dtype) * units::B;
}

AttentionChoice cut_as(const PortablePrefillVariant& v, const AttentionPrefill& s, const Rates& m,
                       const FamilyScalars& family) {
  AttentionChoice c;
  c.family = &family;
  c.math = s.dtype;
  c.plan.q_tile = v.q_tile;
  c.plan.kv_tile = v.kv_tile;
  c.plan.stages = v.stages;
  const double rows = static_cast<double>(v.q_tile), keys = static_cast<double>(v.kv_tile);
  const double width = static_cast<double>(s.qk_dim);
  const BlockCount blocks = visited_blocks(s, rows, keys);
  Demand& d = c.main;
  d.plan.ctas = s.batch * s.q_heads * static_cast<std::int64_t>(blocks.tiles);
  d.plan.ctas_per_sm = resident(v, m);
  d.plan.threads = threads_of(v, m);
  d.plan.shared_memory = static_cast<double>(shared_bytes(v)) * units::B;
  d.plan.steps = blocks.total / blocks.tiles;
  d.plan.longest = blocks.longest;
  step_demand(d, v, s, m, family);
  // a CTA alone on its SM: its chain is all there is
  constexpr double kAlone = 8;
  if (static_cast<double>(d.plan.ctas) <= m.sm_count) d.overlap = kAlone;
  // what a CTA has on its way: the next step's keys and values
  d.in_flight = 2 * keys * width * bytes_of(s.dtype) * units::B;
  // a score that is masked takes a comparison and a selection more; results pass through shared memory on their way out
  constexpr double kMaskOps = 2;
  const StreamingMultiprocessor& sm = m.gpu.sm;
  const double masked = masked_blocks(s, rows, keys, d.plan.steps) * rows * keys * kMaskOps;
  const double result = std::min(rows, static_cast<double>(s.q_len)) * width * output_bytes_of(s.dtype);
  d.once_clk = masked / (sm.fp32_flop_per_clk / 2) + result / sm.l2_bytes_per_clk.in(units::B) +
               2 * result / sm.smem_bytes_per_clk.in(units::B);
  prefill_traffic(d, s);
  d.start = first_bytes(d, v, s, m) / m.dram_read;
  return c;
}

}  // namespace

bool runs_portable(const PortablePrefillVariant& v, const AttentionPrefill& s, const Rates& m) {
  return v.head_dim == s.qk_dim && resident(v, m) > 0;
}

AttentionChoice plan_portable_prefill(const AttentionPrefill& s, const Rates& m, const FamilyScalars& family,
                                      const AttentionPlan* as_cut, const KeyCutting& how) {
  std::optional<AttentionChoice> best;
  Seconds least;
  for (const PortablePrefillVariant& v : own_portable_prefill_menu()) {
    if (!runs_portable(v, s, m)) continue;
    AttentionChoice c = cut_as(v, s, m, family);
    const bool named =
        as_cut != nullptr && as_cut->q_tile == v.q_tile && as_cut->kv_tile == v.kv_tile && as_cut->stages == v.stages;
    if (named) return c;
    const Seconds time = time_of(c, m, how);
    if (best && time >= least) continue;
    best = c;
    least = time;
  }
  return *best;
}

}  // namespace plumbline
