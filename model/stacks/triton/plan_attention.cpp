// Attention as SGLang's Triton kernels run it: a CTA for each query head and tile of queries, whose blocks of keys are
// loaded, multiplied, loaded and multiplied in turn (num_stages 1), by whatever instruction the tensor units take;
// decode with up to 16 heads of a group in a CTA, the keys in parts, and a launch that merges them. Tiles, warps and
// stages are the published sources' (triton_ops/extend_attention.py, decode_attention.py). Nobody's measurements of
// them are on file.
#include "model/stacks/triton/plan_attention.hpp"

#include <algorithm>
#include <cmath>

#include "model/stacks/flash_attention/plan_attention.hpp"

namespace plumbline {
namespace {

constexpr double kWarpSize = 32;

/// Heads' widths are powers of two; 192 is 128 and 64.
double compiled_width(std::int64_t width) {
  constexpr std::int64_t kInTwoParts = 192;
  return width == kInTwoParts ? static_cast<double>(width)
                              : std::exp2(std::ceil(std::log2(static_cast<double>(width))));
}

struct PrefillTile {
  double rows, keys, warps;
};

/// _get_block_sizes_for_extend_attention(): by the SM's number, which is an SM of 100 KB for 8.6, 8.9 and 12.x.
PrefillTile prefill_tile(double width, const Rates& m) {
  constexpr Bytes kLargeSm = 128.0 * units::KiB;
  const double warps = width <= 64 ? 4 : 8;
  if (m.gpu.sm.smem < kLargeSm) {
    if (width <= 128) return {64, 128, warps};
    return width <= 256 ? PrefillTile{64, 64, warps} : PrefillTile{32, 32, warps};
  }
  if (m.path.kind != TensorPath::Kind::mma_sync)
    return width <= 256 ? PrefillTile{128, 64, warps} : PrefillTile{32, 64, warps};
  if (width <= 128) return {128, 128, warps};
  return width <= 256 ? PrefillTile{64, 64, warps} : PrefillTile{32, 64, warps};
}

/// A CTA's way to its first keys and from its last: those that share an SM are on it side by side.
void start_ctas(Demand& d, const Rates& m, const FamilyScalars& family) {
  const double side_by_side =
      std::min(static_cast<double>(d.plan.ctas_per_sm), std::ceil(static_cast<double>(d.plan.ctas) / m.sm_count));
  d.once_clk = family.start_clk / std::max(1.0, side_by_side);
}

/// What a block of keys costs a tile: nothing of it is on its way while another is multiplied, so that a CTA takes
/// what its loads take, of keys and of values, beside the sum of its arithmetic.
void prefill_block(Demand& d, const PrefillTile& tile, double qk_dim, double v_dim, const AttentionPrefill& s,
                   const Rates& m, const FamilyScalars& family) {
  const StreamingMultiprocessor& sm = m.gpu.sm;
  constexpr double kLoads = 2;
  score_demand(d, {tile.rows, tile.keys, qk_dim, v_dim}, m.gpu.sm.tensor_flop_per_clk[s.dtype], bytes_of(s.dtype), m,
               kPlainSoftmax);
  // results are rescaled, and every block is masked
  d.fp32_clk += tile.rows * v_dim / (sm.fp32_flop_per_clk / 2) + mask_clk(tile.rows * tile.keys, m);
  const Seconds arithmetic = (d.tensor_clk + d.fp32_clk + d.sfu_clk + family.step_clk) / m.clock;
  const Seconds port = d.l2.in(units::B) / sm.l2_bytes_per_clk.in(units::B) / m.clock;
  d.step_latency = arithmetic + kLoads * m.l2_mean_latency() + port;
}

/// Keys of a step, and query heads of a CTA. Where each head has keys of its own it is multiplied on ordinary lanes.
struct DecodeBlock {
  double heads, keys;
  bool tensor;
};

DecodeBlock decode_block(const DecodeTask& t) {
  constexpr double kMostHeads = 16;
  if (t.rows <= 1) return {1, 64, false};
  return {std::min(kMostHeads, t.rows), 32, true};
}

/// The merge: a CTA a head, which goes from part to part and waits for L2 each time. (_fwd_kernel_stage2())
Demand merge_demand(const DecodeTask& t, double parts, DType dtype, const Rates& m) {
  constexpr double kPartialBytes = 4;
  Demand d = combine_demand(t.out_rows, t.v_dim, parts, output_bytes_of(dtype), m);
  d.plan.steps = d.plan.longest = parts;
  d.l2 = t.v_dim * kPartialBytes * units::B;
  d.step_latency = m.l2_mean_latency();
  return d;
}

}  // namespace

double triton::parts_of(double ctas, double context, double sm_count) {
  constexpr double kMost = 8, kUnit = 64, kShortest = 32;
  const double slots = std::floor(sm_count * std::max(1.0, std::log2(context / kUnit)));
  const double wanted = std::min(ceil_div(slots, ctas), kMost);
  // parts are of whole blocks of 32 keys, so that the last ones may be empty
  const double keys = ceil_div(ceil_div(context, wanted), kShortest) * kShortest;
  return std::max(1.0, ceil_div(context, keys));
}

AttentionChoice plan_triton_prefill(const AttentionPrefill& s, bool appends, const Rates& m,
                                    std::span<const FamilyScalars> families) {
  const double qk_dim = compiled_width(s.qk_dim), v_dim = compiled_width(s.v_dim);
  const PrefillTile tile = prefill_tile(static_cast<double>(s.qk_dim), m);
  AttentionChoice c;
  c.math = s.dtype;
  c.family = &families[triton::kPrefill];
  c.plan.q_tile = static_cast<std::int64_t>(tile.rows);
  c.plan.kv_tile = static_cast<std::int64_t>(tile.keys);
  const BlockCount blocks = visited_blocks(s, tile.rows, tile.keys);
  Demand& d = c.main;
  d.plan.ctas = static_cast<std::int64_t>(static_cast<double>(s.batch * s.q_heads) * blocks.tiles);
  d.plan.threads = static_cast<std::int64_t>(tile.warps * kWarpSize);
  // by registers: scores, results, queries and a block's operands are all held there
  d.plan.ctas_per_sm = tile.warps > 4 ? 1 : 2;
  d.plan.shortest_first = true;  // tiles are the slowest index of the grid, the first ones first
  d.plan.steps = blocks.total / blocks.tiles;
  d.plan.longest = blocks.longest;
  prefill_block(d, tile, qk_dim, v_dim, s, m, *c.family);
  start_ctas(d, m, *c.family);
  prefill_traffic(d, s);
  if (appends) write_new_keys(c, s, families[triton::kCacheWrite], m);
  return c;
}

AttentionChoice plan_triton_decode(const AttentionDecode& s, const Rates& m, std::span<const FamilyScalars> families,
                                   const KeyCutting& how) {
  const DecodeTask t = decode_task(s);
  const DecodeBlock block = decode_block(t);
  const double ctas = t.kv_sets * ceil_div(t.rows, block.heads);
  AttentionChoice c;
  c.math = s.dtype;
  c.family = &families[triton::kDecode];
  c.combine_family = &families[triton::kCombine];
  c.plan.kv_tile = static_cast<std::int64_t>(block.keys);
  c.plan.packed_heads = static_cast<std::int64_t>(block.heads);
  Demand& d = c.main;
  constexpr double kTensorRows = 16, kWarps = 4;
  d.plan.threads = static_cast<std::int64_t>(kWarps * kWarpSize);
  d.plan.ctas_per_sm = 4;  // by registers
  score_demand(d, {block.tensor ? kTensorRows : block.heads, block.keys, t.qk_dim, t.v_dim},
               m.gpu.sm.tensor_flop_per_clk[s.dtype], t.key_bytes / (t.qk_dim + t.v_dim), m, kPlainSoftmax);
  if (!block.tensor) {
    d.tensor_clk = 0;
    d.fp32_clk += block.keys * (t.qk_dim + t.v_dim) / (m.gpu.sm.fp32_flop_per_clk / 2);
  }
  // where keys lie is asked of L2 first, then keys and values are asked for, one behind the other's product
  d.step_latency = m.l2_mean_latency() + m.gpu.memory.latency;
  const double most = ceil_div(t.context, block.keys);
  cut_keys(c, how, triton::parts_of(ctas, t.context, m.sm_count), most, m, [&](Demand& main, double parts) {
    main.plan.ctas = static_cast<std::int64_t>(ctas * parts);
    main.plan.steps = main.plan.longest = ceil_div(ceil_div(t.context, parts), block.keys);
    start_ctas(main, m, *c.family);
    decode_traffic(main, t, s.dtype, ResultsLeave::by_the_merge);
    c.combines = true;
    c.combine = merge_demand(t, parts, s.dtype, m);
  });
  if (s.append == 1) write_new_token(c, s, families[triton::kCacheWrite], m);
  return c;
}

}  // namespace plumbline
