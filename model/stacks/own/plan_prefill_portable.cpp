// Our portable prefill attention: flash attention forward of mma.sync and cp.async (kernels/attention/flash_portable.cuh),
// by what its instructions ask of an SM.
#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "arch/gpu/occupancy.hpp"
#include "model/stacks/common/make_gemm_task.hpp"
#include "model/stacks/common/shared_sms.hpp"
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
void step_demand(Demand& d, const PortablePrefillVariant& v, const AttentionPrefill& s, const Rates& m) {
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
}

/// What an SM gives the CTAs that it holds.
///
/// Within a warp copies, the first product, its softmax and the second product follow each other. Accumulators leave no registers
/// to read fragments ahead: every 16 columns of the first product and every 16 keys by 16 columns of the second wait for shared
/// memory; where the queries are held in registers there is room to read those of the first product ahead. Warps that share a
/// quarter of the SM meet at its units and go on in step from there: products and softmax of one pass beside the same of the
/// other, none under the other's, and only the waits hide (training rows of data/studies/portable.csv on an H200: a step of two
/// CTAs takes 4870 clocks at width 128 and 2930 at 64, of which products and softmax are 4232 and 2692).
SmShare share_of(const Demand& d, const PortablePrefillVariant& v, const AttentionPrefill& s, const Rates& m,
                 const FamilyScalars& family) {
  constexpr double kMaskOps = 2;  // of a score that is masked: a comparison and a selection
  constexpr double kFragment = 16, kBytesOfALoad = 512;
  const StreamingMultiprocessor& sm = m.gpu.sm;
  const double rows = static_cast<double>(v.q_tile), keys = static_cast<double>(v.kv_tile);
  const double width = static_cast<double>(v.head_dim), warps = rows / kWarpRows;
  // of one warp on its quarter, whether the CTA has warps for the others or not
  const double quarters = sm.issue_per_clk / warps;
  const double lanes = sm.fp32_flop_per_clk / 2, maximum = rows * keys / lanes;
  const double busy = quarters * (d.tensor_clk + maximum + std::max(d.sfu_clk, d.fp32_clk - maximum));
  const double groups = width / kFragment * ((v.holds_queries ? 0 : 1) + keys / kFragment);
  const double copies = 2 * keys * width * bytes_of(s.dtype) / kBytesOfALoad / warps * own::kCopyClk;
  const double waits = groups * own::kFragmentClk + copies + family.step_clk;
  SmShare share;
  share.resident = static_cast<std::size_t>(d.plan.ctas_per_sm);
  for (std::size_t i = 0; i < share.resident; ++i) {
    const auto held = static_cast<double>(i + 1);
    const double on_quarter = std::max(1.0, std::ceil(held * warps / sm.issue_per_clk));
    share.step_clk[i] = std::max(on_quarter * busy + waits / on_quarter, held * d.smem_clk);
  }
  // its queries come from memory and its results go, beside those of all that begin and end with it
  const double ctas = static_cast<double>(d.plan.ctas), resident = static_cast<double>(d.plan.ctas_per_sm);
  const double beside = std::min(std::ceil(ctas / m.sm_count), resident),
               at_once = std::min(ctas, m.sm_count * resident);
  const double bytes = 2 * std::min(rows, static_cast<double>(s.q_len)) * width * bytes_of(s.dtype);
  const double by_dram = at_once * bytes / (m.dram_read / m.clock / units::B);
  const double ends = std::max(beside * bytes / sm.l2_bytes_per_clk.in(units::B), by_dram);
  const double masked = masked_blocks(s, rows, keys, d.plan.steps) * rows * keys * kMaskOps / lanes;
  share.start_clk = family.start_clk + family.exposed * ends + masked;
  return share;
}

/// The CTAs of a launch in its order: longest first where a mask makes them unequal (flash_portable.cuh, Place).
std::vector<CtaBatch> batches_of(const PortablePrefillVariant& v, const AttentionPrefill& s, const BlockCount& blocks) {
  const auto heads = static_cast<double>(s.batch * s.q_heads);
  if (!s.causal) return {{blocks.longest, heads * blocks.tiles}};
  std::vector<CtaBatch> batches;
  for (std::int64_t tile = static_cast<std::int64_t>(blocks.tiles); tile > 0; --tile) {
    const std::int64_t seen = std::min(s.kv_len, s.kv_len - s.q_len + tile * v.q_tile);
    const double steps = std::ceil(static_cast<double>(seen) / static_cast<double>(v.kv_tile));
    if (!batches.empty() && batches.back().steps == steps) batches.back().ctas += heads;
    else batches.push_back({steps, heads});
  }
  return batches;
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
  step_demand(d, v, s, m);
  d.dealt_clk = clocks_of(batches_of(v, s, blocks), m.sm_count, share_of(d, v, s, m, family));
  // what a CTA has on its way: the next step's keys and values
  d.in_flight = 2 * keys * width * bytes_of(s.dtype) * units::B;
  prefill_traffic(d, s);
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
