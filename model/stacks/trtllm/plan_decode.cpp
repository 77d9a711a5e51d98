// Decode attention as TensorRT-LLM runs it (1.0 on the A100, 1.3 on Hopper): which of its two kernels it picks, how that
// cuts the keys, and what that asks of the SMs. The rules are the library's own; that the published rows follow them,
// jumps and all, is shown in data/calibration/README.md.
#include <algorithm>
#include <cmath>

#include "model/stacks/trtllm/plan_attention.hpp"

namespace plumbline {
namespace {

/// Keys a step.
constexpr double kKeysPerStep = 64;

/// The grouped-query kernel (XQA) packs the query heads of a KV head into one tile, 32 at most, and is taken where its
/// CTAs, one for each 128 keys of each KV head, come to a quarter of the SMs or more; else the kernel with a CTA for
/// each query head (MMHA) runs. (TensorRT-LLM, DecoderXQAImplJIT::mayHavePerfGain(); decoderXQAConstants.h:
/// kMinHistoryTokensPerBlock 128, kEnableMinBlockFactor 4, kTargetWaveFactor 8; splits: computeMultiBlockCount().)
constexpr double kMostPackedHeads = 32, kEnoughShareOfSms = 0.25;

/// What it is compiled for: 16-bit queries, heads of whole 16 up to 256, pages of 8 to 128 keys, from cp.async on.
/// (supportConfigCommon() and supportConfigHMMA() in decoderXQAImplJIT/kernelUtils.cpp.)
bool has_grouped_kernel(const AttentionDecode& s, const DecodeTask& t, const Rates& m) {
  constexpr std::int64_t kWidthUnit = 16, kWidest = 256, kSmallestPage = 8, kLargestPage = 128;
  const bool query16 = s.dtype == DType::bf16 || s.dtype == DType::fp16;
  const bool cache =
      s.kv_dtype == DType::bf16 || s.kv_dtype == DType::fp16 || s.kv_dtype == DType::int8 || s.kv_dtype == DType::fp8;
  const bool width = s.qk_dim == s.v_dim && s.qk_dim % kWidthUnit == 0 && s.qk_dim <= kWidest;
  const bool page = s.page == 0 || (s.page >= kSmallestPage && s.page <= kLargestPage && (s.page & (s.page - 1)) == 0);
  return query16 && cache && width && page && m.path.async_copy && t.rows > 1 && t.rows <= kMostPackedHeads;
}

double blocks_of(const DecodeTask& t) { return std::max(1.0, std::floor((t.cached + 1) / trtllm::kKeysPerBlock)); }

bool fills_enough(const DecodeTask& t, const Rates& m) {
  return t.kv_sets * blocks_of(t) >= kEnoughShareOfSms * m.sm_count;
}

/// Keys that a CTA's threads take in one turn: `head_size * 2 / 16` of its 512 threads a key, eight keys each. (Of the
/// block sizes 256, 512 and 1024 the published rows follow 512 best.)
constexpr double kPlainThreads = 512;

double keys_of_a_turn(const DecodeTask& t) {
  constexpr double kKeysAtOnce = 8, kVectorBytes = 16, kElementBytes = 2;
  const double width = trtllm::compiled_width(static_cast<std::int64_t>(t.qk_dim));
  return ceil_div(kPlainThreads, std::max(1.0, width * kElementBytes / kVectorBytes)) * kKeysAtOnce;
}

/// A CTA an SM, rounded up, and no part shorter than a turn. (TensorRT-LLM, multi_block_grid_setup() in
/// decoderMaskedMultiheadAttentionLaunch.h and AttentionOp::getMaxNumSeqLenTile().)
double plain_splits(const DecodeTask& t, const Rates& m) {
  return std::max(1.0, std::min(ceil_div(m.sm_count, t.out_rows), ceil_div(t.context + 1, keys_of_a_turn(t))));
}

/// How a kernel walks its keys: a chain of which each link takes so many keys and so long.
struct Walk {
  double keys_a_link, link_clk;  ///< of its chain
  double fill_steps = 0;
  bool whole_links = true;
};

/// `d.plan.ctas_per_sm` CTAs an SM. Within its time on the SM a CTA starts, fills its ring and then walks its keys step
/// by step, while the others keep memory busy: all of it is a chain beside the traffic. CTAs whose keys a window hides
/// only start.
void walk(Demand& d, const DecodeTask& t, double splits, const Walk& w, const Rates& m, const FamilyScalars& family) {
  const double keys = std::min(t.context, ceil_div(t.cached + 1, splits));
  const double steps = ceil_div(keys, kKeysPerStep) + w.fill_steps;
  const double links = (w.whole_links ? ceil_div(keys, w.keys_a_link) : keys / w.keys_a_link) + w.fill_steps;
  const double all = static_cast<double>(d.plan.ctas);
  const double busy = std::min(1.0, ceil_div(t.context, keys) / splits);
  const double at_once = m.sm_count * static_cast<double>(d.plan.ctas_per_sm);
  const double waves = ceil_div(all, at_once), busy_waves = ceil_div(all * busy, at_once);
  d.plan.steps = d.plan.longest = std::max(1.0, steps * busy);
  d.step_latency = (family.start_clk + busy_waves / waves * links * w.link_clk) / d.plan.steps / m.clock;
  // the last CTA of a head merges the others' results, in the same launch
  d.serial_latency = splits > 1 ? family.merge_clk / m.clock : Seconds{};
  d.serial_latency_of = "to merge the splits";
}

/// The last CTA of a head goes through the others' partial results, 16-bit sums of whole tiles of 8 query heads, 4 KB at a
/// time: its 256 threads ask for 16 bytes each, and wait for L2. (TensorRT-LLM, mha.cu; XqaDispatcher::getWorkspaceSize().)
Seconds merge_of(double parts, const DecodeTask& t, const Rates& m, const FamilyScalars& family) {
  constexpr double kTileHeads = 8, kPartialBytes = 2, kAskedAtOnce = 256.0 * 16;
  const double bytes = parts * ceil_div(t.rows, kTileHeads) * kTileHeads * t.v_dim * kPartialBytes;
  return family.merge_clk / m.clock + bytes / kAskedAtOnce * m.l2_mean_latency();
}

/// On SMs of 100 KB the kernel has its keys come in parts of half the bytes, so that twice as many follow one another. (mha.cu,
/// preferedKHeadPartBytes and cacheVTileSeqLen: 64 bytes and 32 keys for sm_86, 89 and 120, else 128 and 64.)
double parts_a_key(const Rates& m) {
  constexpr Bytes kRoomForWholeParts = 128.0 * units::KiB;
  return m.gpu.sm.smem < kRoomForWholeParts ? 2 : 1;
}

/// Grouped heads on tensor units, by mma.sync, in tiles of 16 rows.
AttentionChoice plan_grouped(const DecodeTask& t, DType dtype, const Rates& m, std::span<const FamilyScalars> families,
                             const KeyCutting& how) {
  AttentionChoice c;
  c.plan.kv_tile = static_cast<std::int64_t>(kKeysPerStep);
  c.plan.packed_heads = static_cast<std::int64_t>(t.rows);
  c.family = &families[trtllm::kDecode];
  score_demand(c.main, ceil_div(t.rows, 16) * 16, kKeysPerStep, t.qk_dim, t.v_dim, m.gpu.sm.tensor_flop_per_clk[dtype],
               t.key_bytes / (t.qk_dim + t.v_dim), m);
  decode_traffic(c.main, t, dtype, ResultsLeave::here);  // the last CTA of a head merges, in the same launch
  c.main.plan.threads = 256;
  c.main.plan.ctas_per_sm = 1;
  // heads of 192 are padded to 256 in the kernel's steps; query heads go through a step 16 at a time
  DecodeTask padded = t;
  padded.key_bytes *= ceil_div(t.rows, 16) * parts_a_key(m);
  padded.key_bytes *= (trtllm::compiled_width(static_cast<std::int64_t>(t.qk_dim)) == 192 ? 256 : t.qk_dim) / t.qk_dim;
  // the chain of a step grows with the bytes of its keys; the scalar is that of 64 keys of 2 x 128 at 16 bits
  constexpr double kReferenceKeyBytes = 512;
  const Walk by_bytes{kKeysPerStep, c.family->step_clk * (padded.key_bytes / kReferenceKeyBytes), 1};
  cut_keys(c, how, trtllm::grouped_splits(blocks_of(t), t.kv_sets, m), blocks_of(t), m, [&](Demand& d, double splits) {
    d.plan.ctas = static_cast<std::int64_t>(t.kv_sets * splits);
    walk(d, padded, splits, by_bytes, m, *c.family);
    if (splits > 1) d.serial_latency = merge_of(splits, t, m, *c.family);
  });
  return c;
}

/// A CTA for each query head, on ordinary lanes; the heads of a group read the same keys through L2.
AttentionChoice plan_plain(const DecodeTask& t, DType dtype, const Rates& m, const FamilyScalars& family,
                           const KeyCutting& how) {
  AttentionChoice c;
  c.plan.kv_tile = static_cast<std::int64_t>(kKeysPerStep);
  c.family = &family;
  score_demand(c.main, 1, kKeysPerStep, t.qk_dim, t.v_dim, m.gpu.sm.tensor_flop_per_clk[dtype],
               t.key_bytes / (t.qk_dim + t.v_dim), m);
  c.main.fp32_clk += kKeysPerStep * (t.qk_dim + t.v_dim) / (m.gpu.sm.fp32_flop_per_clk / 2);
  decode_traffic(c.main, t, dtype, ResultsLeave::here);
  c.main.plan.threads = static_cast<std::int64_t>(kPlainThreads);
  // with mma.sync two share an SM, as their registers allow: 185 rows of short caches on an A100, of up to 32,768 CTAs,
  // end after half as many turns; those of Hopper's do not
  c.main.plan.ctas_per_sm = trtllm::is_warp_specialised(m) ? 1 : 2;
  DecodeTask visible = t;
  visible.cached = t.context - 1;  // keys that a window hides are not shared out
  // a turn of all threads is one way to memory and back, whatever a number's width; it ends with the keys
  const Walk by_turns{keys_of_a_turn(t), family.step_clk, 0, false};
  cut_keys(c, how, plain_splits(t, m), ceil_div(t.context + 1, keys_of_a_turn(t)), m, [&](Demand& d, double splits) {
    d.plan.ctas = static_cast<std::int64_t>(t.out_rows * splits);
    walk(d, visible, splits, by_turns, m, family);
  });
  return c;
}

}  // namespace

double trtllm::grouped_splits(double blocks, double kv_sets, const Rates& m) {
  constexpr double kMostWaves = 8, kReduction = 8;
  const double wanted = std::min(blocks, std::round(std::sqrt(kReduction * blocks)));
  return std::max(1.0, std::min(wanted, std::floor(kMostWaves * m.sm_count / kv_sets)));
}

AttentionChoice plan_trtllm_plain_decode(const AttentionDecode& s, const Rates& m,
                                         std::span<const FamilyScalars> families, const KeyCutting& how) {
  return plan_plain(decode_task(s), s.dtype, m, families[trtllm::kSingle], how);
}

AttentionChoice plan_trtllm_decode(const AttentionDecode& s, const Rates& m, std::span<const FamilyScalars> families,
                                   const KeyCutting& how) {
  if (trtllm::takes_tensor_memory(s, m)) return plan_trtllm_tensor_memory_decode(s, m, families, how);
  const DecodeTask t = decode_task(s);
  const auto plain = [&] { return plan_plain(t, s.dtype, m, families[trtllm::kSingle], how); };
  if (m.path.kind == TensorPath::Kind::tcgen05) return plain();  // (XqaDispatcher::shouldUse())
  if (!has_grouped_kernel(s, t, m)) return plain();
  if (trtllm::has_wgmma_decode(s, m, families)) return plan_trtllm_wgmma_decode(s, m, families, how);
  if (how.cutting == Cutting::by_rule && !fills_enough(t, m)) return plain();
  const AttentionChoice grouped = plan_grouped(t, s.dtype, m, families, how);
  if (how.cutting == Cutting::by_rule) return grouped;
  const AttentionChoice other = plain();
  return time_of(grouped, m, how) <= time_of(other, m, how) ? grouped : other;
}

}  // namespace plumbline
