// Attention as TensorRT-LLM runs it (1.0 on the A100, 1.3 on Hopper): which kernel it picks, how that cuts the work,
// and what that asks of the SMs. The rules are the library's own; that the published rows follow them, jumps and all,
// is shown in data/calibration/README.md.
#include <algorithm>
#include <cmath>

#include "model/engine/tensor_path.hpp"
#include "model/stacks/trtllm/plan_attention.hpp"

namespace plumbline {
namespace {

/// wgmma and what came after it: a persistent kernel, one producer warp and two warpgroups of 64 query rows a CTA.
/// mma.sync: four warps of 16 rows, two CTAs an SM.
bool is_warp_specialised(const Rates& m) { return m.path.kind != TensorPath::Kind::mma_sync; }

/// Head widths that the kernels are compiled for; others are padded up (72 and 80 run as 128 does).
double compiled_width(std::int64_t width) {
  const auto w = static_cast<double>(width);
  for (const double compiled : {16.0, 32.0, 64.0, 128.0, 192.0, 256.0}) {
    if (w <= compiled) return compiled;
  }
  return ceil_div(w, 64) * 64;
}

/// How a prefill kernel cuts the scores.
struct PrefillCut {
  double q_tile, kv_tile, ctas_per_sm;
  double rows_a_group;  ///< query rows of one warpgroup, or warp: each group reads the keys from shared memory itself
  double qk_dim, v_dim;
  bool one_query_buffer;  ///< no room for a second query tile: the next one is fetched after the last is done
};

PrefillCut prefill_cut(const AttentionPrefill& s, const Rates& m) {
  PrefillCut cut{64, 64, 2, 16, compiled_width(s.qk_dim), compiled_width(s.v_dim), false};
  if (!is_warp_specialised(m)) return cut;
  const double width = cut.v_dim;  // the accumulator's: keys that are wider by a rotated part change nothing
  cut.q_tile = 128;
  cut.kv_tile = width <= 64 ? 256 : width <= 128 ? 128 : 64;
  cut.ctas_per_sm = 1;
  cut.rows_a_group = 64;
  cut.one_query_buffer = width > 128;
  return cut;
}

/// Clocks of one (query tile, key block) pair. Exponentials and ordinary lanes work one after the other on a score, so
/// what of the softmax is not hidden is a share of their sum; `step_clk` is what a block costs beside its scores
/// (barriers, reductions over a row). From shared memory each group reads its queries (wgmma only; mma.sync keeps them
/// in registers), keys and values; the ring's filling takes the same port.
void block_demand(Demand& d, const PrefillCut& cut, const AttentionPrefill& s, const Rates& m,
                  const FamilyScalars& family) {
  const StreamingMultiprocessor& sm = m.gpu.sm;
  const double es = bytes_of(s.dtype), kv_es = bytes_of(s.kv_dtype);
  const double width = cut.qk_dim + cut.v_dim;
  score_demand(d, cut.q_tile, cut.kv_tile, cut.qk_dim, cut.v_dim, sm.tensor_flop_per_clk[s.dtype], kv_es, m);
  const double rescale_clk = cut.q_tile * cut.v_dim / (sm.fp32_flop_per_clk / 2);  // the output, once a block
  d.fp32_clk += rescale_clk;
  const double groups = cut.q_tile / cut.rows_a_group;
  const double queries = is_warp_specialised(m) ? cut.rows_a_group * cut.qk_dim : 0;
  const double read = groups * (queries + cut.kv_tile * width) * es;
  d.smem_clk = (read + cut.kv_tile * width * kv_es) / sm.smem_bytes_per_clk.in(units::B);
  d.exposed_clk = family.exposed * (d.sfu_clk + d.fp32_clk) + family.step_clk;
}

/// What a tile costs beside its blocks: the masks, and the way of the next queries where they have no buffer of their
/// own (the scheduler's counter in L2, then the queries and behind them the first keys from memory).
double tile_clk(const AttentionPrefill& s, const PrefillCut& cut, double visited, const Rates& m) {
  const StreamingMultiprocessor& sm = m.gpu.sm;
  double clk = masked_blocks(s, cut.q_tile, cut.kv_tile, visited) * mask_clk(cut.q_tile * cut.kv_tile, m);
  if (cut.one_query_buffer) {
    const Seconds way = m.l2_latency + 2.0 * m.dram_latency;
    clk += way * m.clock + cut.q_tile * cut.qk_dim * bytes_of(s.dtype) / sm.l2_bytes_per_clk.in(units::B);
  }
  return clk;
}

/// One pass over the new tokens: read their fused QKV, write rotated Q and the cache.
Demand prepare_demand(const AttentionPrefill& s, const FamilyScalars& family) {
  const double tokens = static_cast<double>(s.batch * s.q_len);
  // Latent attention (keys wider than values by the rotated part) rotates only that part of its queries, in place, four
  // to a warp, and reads one narrow row a token; else a warp takes a whole query, and all keys and values are read.
  const bool latent = s.qk_dim > s.v_dim;
  constexpr double kLatentRowsPerWarp = 4, kWarps = 8;
  const double rows = tokens * static_cast<double>(s.q_heads);
  const double q_elements = rows * static_cast<double>(latent ? s.qk_dim - s.v_dim : s.qk_dim);
  const double wide = static_cast<double>(s.qk_dim + s.v_dim);
  const double new_kv = tokens * static_cast<double>(s.kv_heads) * wide;
  const double es = bytes_of(s.dtype);
  Demand p;
  const double kv_es = bytes_of(s.kv_dtype);
  // The attention itself counts the keys that its window shows it, as stored. What new keys were wider before is read
  // here, and so are new keys that no query sees, and the frequencies of the rotation (fp32).
  const double seen =
      static_cast<double>(s.batch * s.kv_heads) * wide * std::min(visible_keys(s), static_cast<double>(s.q_len));
  const double frequencies = 4 * static_cast<double>(s.qk_dim) / 2;
  const double read_kv = latent ? std::max(tokens * wide * es, new_kv * es - seen * kv_es + frequencies) : new_kv * es;
  p.dram_read = (q_elements * es + read_kv) * units::B;
  p.dram_write = (q_elements * es + new_kv * kv_es) * units::B;
  // a warp's way (sequence length, data, rotation table) is a chain of latencies; as many as fit on an SM are on it
  // side by side
  p.plan.ctas = static_cast<std::int64_t>(ceil_div(rows, kWarps * (latent ? kLatentRowsPerWarp : 1)));
  p.plan.ctas_per_sm = 8;
  p.plan.threads = 256;
  p.once_clk = family.start_clk / static_cast<double>(p.plan.ctas_per_sm);
  return p;
}

}  // namespace

AttentionChoice plan_trtllm_prefill(const AttentionPrefill& s, bool appends, const Rates& m,
                                    std::span<const FamilyScalars> families) {
  AttentionChoice c;
  c.family = &families[trtllm::kPrefill];
  const PrefillCut cut = prefill_cut(s, m);
  c.plan.q_tile = static_cast<std::int64_t>(cut.q_tile);
  c.plan.kv_tile = static_cast<std::int64_t>(cut.kv_tile);
  const BlockCount blocks = visited_blocks(s, cut.q_tile, cut.kv_tile);
  Demand& d = c.main;
  d.plan.ctas = s.batch * s.q_heads * static_cast<std::int64_t>(blocks.tiles);
  d.plan.ctas_per_sm = static_cast<std::int64_t>(cut.ctas_per_sm);
  d.plan.threads = is_warp_specialised(m) ? 384 : 128;
  d.plan.shortest_first = true;
  d.plan.steps = blocks.total / blocks.tiles;
  d.plan.longest = blocks.longest;
  block_demand(d, cut, s, m, *c.family);
  d.once_clk = tile_clk(s, cut, d.plan.steps, m);
  prefill_traffic(d, s);
  if (!appends) return c;
  c.prepares = true;
  c.prepare_family = &families[trtllm::kPrepare];
  c.prepare = prepare_demand(s, *c.prepare_family);
  return c;
}

namespace {

/// Keys a step.
constexpr double kKeysPerStep = 64;

/// The grouped-query kernel (XQA) packs the query heads of a KV head into one tile, 32 at most, and is taken where its
/// CTAs, one for each 128 keys of each KV head, come to a quarter of the SMs or more; else the kernel with a CTA for
/// each query head runs. (TensorRT-LLM, decoderXQAConstants.h and decoderXQAImplJIT.cpp: kMinHistoryTokensPerBlock 128,
/// kEnableMinBlockFactor 4, kTargetWaveFactor 8; splits: computeMultiBlockCount().)
constexpr double kMostPackedHeads = 32, kKeysPerBlock = 128, kEnoughShareOfSms = 0.25;

double blocks_of(const DecodeTask& t) { return std::max(1.0, std::floor((t.cached + 1) / kKeysPerBlock)); }

bool takes_grouped_kernel(const DecodeTask& t, const Rates& m) {
  if (t.rows < 1.5 || t.rows > kMostPackedHeads) return false;
  return t.kv_sets * blocks_of(t) >= kEnoughShareOfSms * m.sm_count;
}

/// As many splits as there are blocks of 128 keys, but no more than sqrt(8 blocks) ("otherwise the final reduction may
/// dominate"), and no more than 8 CTAs an SM. Of the whole cache, whatever a window hides.
double grouped_splits(const DecodeTask& t, const Rates& m) {
  constexpr double kMostWaves = 8, kReduction = 8;
  const double blocks = blocks_of(t);
  const double wanted = std::min(blocks, std::round(std::sqrt(kReduction * blocks)));
  return std::max(1.0, std::min(wanted, std::floor(kMostWaves * m.sm_count / t.kv_sets)));
}

/// One wave, and 256 keys at least.
double plain_splits(const DecodeTask& t, double heads, const Rates& m) {
  constexpr double kLeastKeys = 256;
  return std::max(1.0, std::min(std::floor(m.sm_count / heads), ceil_div(t.context, kLeastKeys)));
}

/// One CTA an SM. Within its time on the SM a CTA starts, fills its ring and then walks its keys step by step, while
/// the others keep memory busy: all of it is a chain beside the traffic. CTAs whose keys a window hides only start.
void walk(Demand& d, const DecodeTask& t, double splits, double fill_steps, const Rates& m,
          const FamilyScalars& family) {
  const double keys = std::min(t.context, ceil_div(t.cached + 1, splits));
  const double steps = ceil_div(keys, kKeysPerStep) + fill_steps;
  const double all = static_cast<double>(d.plan.ctas);
  const double busy = std::min(1.0, ceil_div(t.context, keys) / splits);
  const double waves = ceil_div(all, m.sm_count), busy_waves = ceil_div(all * busy, m.sm_count);
  d.plan.ctas_per_sm = 1;
  d.plan.steps = d.plan.longest = std::max(1.0, steps * busy);
  // the chain of a step grows with the bytes of its keys; the scalar is that of 64 keys of 2 x 128 at 16 bits
  constexpr double kReferenceKeyBytes = 512;
  const double step_clk = family.step_clk * (t.key_bytes / kReferenceKeyBytes);
  d.step_latency = (family.start_clk + busy_waves / waves * steps * step_clk) / d.plan.steps / m.clock;
  // the last CTA of a head merges the others' results, in the same launch
  if (splits > 1) d.serial_latency = family.merge_clk / m.clock;
  d.serial_latency_of = "to merge the splits";
}

/// Grouped heads on tensor units, in tiles of 16 rows. Hopper has a kernel of its own for 8-bit caches (wgmma, a
/// producer warp, several CTAs an SM): its CTAs start in a sixth of the time, and it does not see keys that a window
/// hides.
void plan_grouped(AttentionChoice& c, DecodeTask t, DType dtype, const Rates& m,
                  std::span<const FamilyScalars> families) {
  c.family = &families[trtllm::kDecode];
  const double bits_a_number = 8 * t.key_bytes / (t.qk_dim + t.v_dim);
  if (families[trtllm::kDecode8bit].on_file && is_warp_specialised(m) && bits_a_number <= 8) {
    c.family = &families[trtllm::kDecode8bit];
    t.cached = t.context;
  }
  const double splits = grouped_splits(t, m), rows = ceil_div(t.rows, 16) * 16;
  Demand& d = c.main;
  d.plan.ctas = static_cast<std::int64_t>(t.kv_sets * splits);
  d.plan.threads = 256;
  // heads of 192 are padded to 256 in the kernel's steps
  DecodeTask padded = t;
  padded.key_bytes *= (compiled_width(static_cast<std::int64_t>(t.qk_dim)) == 192 ? 256 : t.qk_dim) / t.qk_dim;
  walk(d, padded, splits, 1, m, *c.family);
  score_demand(d, rows, kKeysPerStep, t.qk_dim, t.v_dim, m.gpu.sm.tensor_flop_per_clk[dtype],
               t.key_bytes / (t.qk_dim + t.v_dim), m);
  c.plan.splits = static_cast<std::int64_t>(splits);
  c.plan.packed_heads = static_cast<std::int64_t>(t.rows);
}

/// A CTA for each query head, on ordinary lanes; the heads of a group read the same keys through L2.
void plan_plain(AttentionChoice& c, const DecodeTask& t, DType dtype, const Rates& m, const FamilyScalars& family) {
  c.family = &family;
  const double heads = t.out_rows, splits = plain_splits(t, heads, m);
  Demand& d = c.main;
  d.plan.ctas = static_cast<std::int64_t>(heads * splits);
  d.plan.threads = 256;
  DecodeTask visible = t;
  visible.cached = t.context - 1;  // keys that a window hides are not shared out
  walk(d, visible, splits, 0, m, *c.family);
  score_demand(d, 1, kKeysPerStep, t.qk_dim, t.v_dim, m.gpu.sm.tensor_flop_per_clk[dtype],
               t.key_bytes / (t.qk_dim + t.v_dim), m);
  d.fp32_clk += kKeysPerStep * (t.qk_dim + t.v_dim) / (m.gpu.sm.fp32_flop_per_clk / 2);
  c.plan.splits = static_cast<std::int64_t>(splits);
}

}  // namespace

AttentionChoice plan_trtllm_decode(const AttentionDecode& s, const Rates& m, std::span<const FamilyScalars> families) {
  const DecodeTask t = decode_task(s);
  AttentionChoice c;
  c.plan.kv_tile = static_cast<std::int64_t>(kKeysPerStep);
  if (takes_grouped_kernel(t, m)) plan_grouped(c, t, s.dtype, m, families);
  else plan_plain(c, t, s.dtype, m, families[trtllm::kSingle]);
  decode_traffic(c.main, t, s.dtype, ResultsLeave::here);  // the last CTA of a head merges, in the same launch
  return c;
}

}  // namespace plumbline
