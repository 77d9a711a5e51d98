// Decode attention as TensorRT-LLM runs it (1.0 on the A100, 1.3 on Hopper): which of its two kernels it picks, how that
// cuts the keys, and what that asks of the SMs. The rules are the library's own; that the published rows follow them,
// jumps and all, is shown in docs/calibration/attention.md.
#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "model/stacks/trtllm/plan_attention.hpp"

namespace plumbline {
namespace {

/// Keys a step; of the plain kernel those that a row of threads takes in a turn.
constexpr double kKeysPerStep = 64, kKeysOfTurn = 8;

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

/// How the plain kernel is launched. Registers leave an SM room for 1024 threads: CTAs have 256, 512 or 1024 of them, as many
/// as SMs have room for when each query head has one CTA. 16 bytes of a value are a thread's; rows of threads take a value
/// each, eight in one turn. Keys are shared out to as many CTAs as there are SMs, rounded up, so that some run behind the
/// others, but none has less than a turn. (TensorRT-LLM, mmha_launch_kernel_ex() and multi_block_grid_setup() in
/// decoderMaskedMultiheadAttentionLaunch.h.)
struct PlainLaunch {
  double threads, ctas_per_sm;
  double rows;  ///< of threads, a value each
  double parts;
};

constexpr double kSmallestCta = 256, kLargestCta = 1024;

/// Of `merge_clk` what each part of a head's keys takes to hand its results on (training rows of one and of two rounds of CTAs); the
/// rest is the merge itself.
constexpr double kHandingOn = 0.3;

double plain_threads(const DecodeTask& t, const Rates& m) {
  constexpr double kMost = kLargestCta / kSmallestCta;
  const double factor = std::min(ceil_div(m.sm_count * kMost, t.out_rows), kMost);
  return factor >= kMost ? kLargestCta : factor >= 2 ? 2 * kSmallestCta : kSmallestCta;
}

PlainLaunch plain_launch(const DecodeTask& t, double threads, const Rates& m) {
  constexpr double kVectorBytes = 16, kElementBytes = 2;
  PlainLaunch l{};
  l.threads = threads;
  l.ctas_per_sm = kLargestCta / l.threads;
  const double width = trtllm::compiled_width(static_cast<std::int64_t>(t.qk_dim));
  l.rows = ceil_div(l.threads, std::max(1.0, width * kElementBytes / kVectorBytes));
  // the length that is shared out has the new token, and one more is counted
  const double turns = ceil_div(t.cached + 2, l.rows * kKeysOfTurn);
  l.parts = std::max(1.0, std::min(ceil_div(m.sm_count, t.out_rows), turns));
  return l;
}

/// A CTA starts, then turn follows turn; where keys are fewer than rows of threads, a part of one. CTAs that share an SM hide
/// each other's waits, but not what they issue: so much for each 256 threads and each 256 keys of 128 columns. Keys that a
/// window hides are not shared out. The first CTAs start side by side and nothing reads meanwhile; others start while their
/// neighbours read. A part of a head's keys writes its results, fences and counts itself, whether it is the last one or not;
/// the last one then merges them.
void walk_turns(Demand& d, const DecodeTask& t, const PlainLaunch& l, const Rates& m, const FamilyScalars& family) {
  constexpr double kUnitThreads = 256, kUnitKeys = 256, kUnitWidth = 128;
  const double keys = ceil_div(t.context, l.parts);
  const double turns = keys < l.rows ? keys / l.rows : ceil_div(keys, l.rows * kKeysOfTurn);
  const double units = keys / kUnitKeys * trtllm::compiled_width(static_cast<std::int64_t>(t.qk_dim)) / kUnitWidth;
  const double waves = ceil_div(t.out_rows * l.parts, m.sm_count * l.ctas_per_sm), later = 1 - 1 / waves;
  const double issued = later * family.issue_start_clk * l.threads / kUnitThreads + family.issue_step_clk * units;
  const double handing_on = l.parts > 1 ? kHandingOn * family.merge_clk : 0;
  d.plan.ctas = static_cast<std::int64_t>(t.out_rows * l.parts);
  d.plan.threads = static_cast<std::int64_t>(l.threads);
  d.plan.ctas_per_sm = static_cast<std::int64_t>(l.ctas_per_sm);
  d.plan.steps = d.plan.longest = ceil_div(keys, kKeysPerStep);
  d.step_latency = (later * family.start_clk + turns * family.step_clk + handing_on) / d.plan.steps / m.clock;
  d.issue_clk = issued / d.plan.steps;
  // the last CTA of a head merges the others' results, in the same launch
  const double merge = l.parts > 1 ? (1 - kHandingOn) * family.merge_clk : 0;
  d.serial_latency = (family.start_clk + merge) / m.clock;
  d.serial_latency_of = l.parts > 1 ? "to start and to merge the splits" : "to start";
}

/// Warps that add up values, as many of them for each 64 keys of a tile as a head has 64 columns (mha.cu, ctaShapeInWarps,
/// gemm1WarpsPerGrp, gemm1NbWarpGrps; heads of 192 are padded to 256): so many groups of them work side by side.
constexpr double kWarpTile = 64;

double compiled_columns(double width) { return std::exp2(std::ceil(std::log2(std::max(width, kWarpTile)))); }
double warp_groups(const DecodeTask& t) {
  constexpr double kAddingWarps = 4;
  return std::max(1.0, kAddingWarps / (compiled_columns(t.qk_dim) / kWarpTile));
}

/// The last CTA of a head reads the others' maxima, eight at a time, then their sums: each group of warps takes a part, asks for
/// its next one and waits for this one, whatever the heads, so that a turn is an answer from L2 and what is issued for it. (mha.cu,
/// mergeRowMax<8>() and loadBufAsync(). What every CTA does before is in walk_tiles().)
Seconds merge_of(double parts, const DecodeTask& t, const Rates& m, const FamilyScalars& family) {
  constexpr double kMaximaAtOnce = 8;
  const double turns = ceil_div(parts, warp_groups(t));
  return turns * family.issue_step_clk / m.clock + (turns + ceil_div(parts, kMaximaAtOnce)) * m.l2_mean_latency();
}

/// How many times as long as on SMs with an A100's shared memory, from 16 bits, a link takes where keys come in parts of half the
/// bytes and values in tiles of half the keys (mha.cu, preferedKHeadPartBytes and cacheVTileSeqLen for sm_86, 89 and 120), and
/// where each number of 8 bits is converted, by heads of 64, 128 and 256. Counted: mha.cu compiled for sm_80, 89 and 120, the longer
/// chain of its two kinds of warps, as SASS with the stalls that the compiler set and answers of shared memory; from sm_90 on barriers
/// are the SM's own. (A link of 128 on sm_80 comes to 1,460 clocks; the A100's rows say 1,724.) Nobody measured any of it on such a card.
double counted_links(const DecodeTask& t, double bytes, const Rates& m) {
  constexpr Bytes kRoomForWholeParts = 128.0 * units::KiB;
  using ByWidth = std::array<double, 3>;
  constexpr ByWidth kAda16{1.09, 1.58, 1.81}, kAda8{1.54, 2.34, 1.90}, kBlackwell16{1.05, 1.29, 1.17},
      kBlackwell8{1.13, 1.45, 1.30};
  if (m.gpu.sm.smem >= kRoomForWholeParts) return bytes;
  const bool barriers = m.gpu.sm.async_copy == AsyncCopy::tma, narrow = bytes < 1;
  const ByWidth& links = barriers ? (narrow ? kBlackwell8 : kBlackwell16) : (narrow ? kAda8 : kAda16);
  const double width = compiled_columns(t.qk_dim);
  return links.at(width <= 64 ? 0 : width <= 128 ? 1 : 2);
}

/// The chain of a CTA of the grouped kernel: it starts, then link follows link.
struct GroupedChain {
  double start_clk, link_clk;
  double empty_clk;  ///< of a CTA without keys
  double link_keys;  ///< of a tile that are added up at a time
};

/// Four warps make the scores of 64 keys each, and four add up values, as many of them for each 64 keys as a head has 64 columns,
/// so that a link is of fewer keys the wider heads are, and as long (mha.cu, ctaShapeInWarps, warpTile, gemm1NbWarpGrps; heads of
/// 192 are padded to 256). 0.3 of a start goes with the width of heads and with how many there are (queries in, results out), by rows of heads of 64 to 256
/// and all lengths of an H200 and an H100; of a CTA without keys nothing does: windows of heads of 192, most of whose CTAs have none,
/// take no longer than those of 128, and caches of 255 keys of 64 no less. Query heads go through 16 at a time, 8-bit keys come in
/// half the time: products and softmax of 16 more heads make a link twice as long (training rows of all three cards).
GroupedChain grouped_chain(const DecodeTask& t, const Rates& m, const FamilyScalars& family) {
  constexpr double kUnitWidth = 128, kUnitBytes = 2, kByWidth = 0.3;
  constexpr double kMoreHeads = 1;
  const double width = compiled_columns(t.qk_dim);
  const double bytes = t.key_bytes / (t.qk_dim + t.v_dim) / kUnitBytes;
  const double tiles = ceil_div(t.rows, 16);  // of query heads
  const double repeats = (1 + kMoreHeads * (tiles - 1)) * counted_links(t, bytes, m);
  const double by_width = 1 - kByWidth + kByWidth * tiles * width / kUnitWidth;
  return {family.start_clk * by_width, family.step_clk * repeats, family.issue_start_clk, kWarpTile * warp_groups(t)};
}

/// What a CTA with so many keys takes, `hands_on` of it to write its part of the results, fence it and count itself; without keys
/// that is in `empty_clk`.
double life_clk(double keys, double hands_on, const GroupedChain& chain) {
  if (keys <= 0) return chain.empty_clk;
  return chain.start_clk + hands_on + ceil_div(keys, chain.link_keys) * chain.link_clk;
}

/// CTAs of two lives, `longer` a share of them, spread evenly: each begins where one ends first. Until the last one ends.
double until_the_last_ends(double ctas, double share, double longer, double shorter, double sm_count) {
  struct Ended {
    int longs, shorts;  ///< CTAs that an SM has run
    double sms;
  };
  constexpr double kMostWaves = 8, kHalfACta = 0.5, kNothing = 1e-3;
  const double waves = ceil_div(ctas, sm_count);
  if (waves <= 1 || share >= 1) return waves * longer;
  if (waves > kMostWaves) return (waves - 1) * (share * longer + (1 - share) * shorter) + longer;
  std::vector<Ended> free{{0, 0, sm_count}};
  const auto time = [&](const Ended& e) { return e.longs * longer + e.shorts * shorter; };
  double last = 0;
  const auto add = [&](const Ended& e) {
    if (e.sms < kNothing) return;
    if (e.sms >= kHalfACta) last = std::max(last, time(e));
    for (Ended& other : free) {
      if (other.longs != e.longs || other.shorts != e.shorts) continue;
      other.sms += e.sms;
      return;
    }
    free.push_back(e);
  };
  for (double left = ctas; left > 0 && !free.empty();) {
    const auto first =
        std::min_element(free.begin(), free.end(), [&](const Ended& a, const Ended& b) { return time(a) < time(b); });
    const Ended now = *first;
    *first = free.back();
    free.pop_back();
    const double begin = std::min(now.sms, left);
    left -= begin;
    add({now.longs + 1, now.shorts, begin * share});
    add({now.longs, now.shorts + 1, begin * (1 - share)});
  }
  return last;
}

/// Tiles of 256 keys go to parts in turn, so that some parts have one more than others, and of fewer tiles than parts some have none;
/// those only start (an A100's in half of the time of a start with keys, Hopper's, whose kernel has half of the registers, in two
/// thirds of it). A tile is a chain of so many links as its keys take, whole ones. The first CTAs start side by side and nothing reads
/// meanwhile. Tiles that a window hides are left out. (mha.cu, nbSeqIters and seqStrideIters.)
void walk_tiles(Demand& d, const DecodeTask& t, double splits, const GroupedChain& chain, const Rates& m,
                const FamilyScalars& family) {
  constexpr double kTileKeys = 256;
  const double all = t.cached + 1, hidden = std::max(0.0, all - std::max(t.context, 1.0));
  const double skipped = std::floor(hidden / kTileKeys), tiles = ceil_div(all, kTileKeys) - skipped;
  const double fewer = std::floor(tiles / splits), more = ceil_div(tiles, splits);
  const double share = fewer < more ? tiles / splits - fewer : 1;
  const double keys = std::min(all - skipped * kTileKeys, more * kTileKeys);
  const double steps = share * ceil_div(keys, kKeysPerStep) + (1 - share) * fewer * kTileKeys / kKeysPerStep;
  d.plan.steps = d.plan.longest = std::max(1.0, steps);
  const double ctas = static_cast<double>(d.plan.ctas), waves = ceil_div(ctas, m.sm_count);
  const double hands_on = splits > 1 ? family.merge_clk : 0;
  const double longest = life_clk(keys, hands_on, chain);
  const double shorter = life_clk(fewer * kTileKeys, hands_on, chain);
  const double all_clk = until_the_last_ends(ctas, share, longest, shorter, m.sm_count);
  d.step_latency = (all_clk - chain.start_clk) / waves / d.plan.steps / m.clock;
  d.serial_latency = chain.start_clk / m.clock;
  d.serial_latency_of = "to start";
  if (splits <= 1) return;
  d.serial_latency += merge_of(splits, t, m, family);
  d.serial_latency_of = "to start and to merge the splits";
}

/// Grouped heads on tensor units, by mma.sync, in tiles of 16 rows.
AttentionChoice plan_grouped(const DecodeTask& t, DType dtype, const Rates& m, std::span<const FamilyScalars> families,
                             const KeyCutting& how) {
  AttentionChoice c;
  c.plan.kv_tile = static_cast<std::int64_t>(kKeysPerStep);
  c.plan.packed_heads = static_cast<std::int64_t>(t.rows);
  c.family = &families[trtllm::kDecode];
  score_demand(c.main, {ceil_div(t.rows, 16) * 16, kKeysPerStep, t.qk_dim, t.v_dim},
               m.gpu.sm.tensor_flop_per_clk[dtype], t.key_bytes / (t.qk_dim + t.v_dim), m);
  decode_traffic(c.main, t, dtype, ResultsLeave::here);  // the last CTA of a head merges, in the same launch
  c.main.plan.threads = 256;
  c.main.plan.ctas_per_sm = 1;
  const GroupedChain chain = grouped_chain(t, m, *c.family);
  cut_keys(c, how, trtllm::grouped_splits(blocks_of(t), t.kv_sets, m), blocks_of(t), m, [&](Demand& d, double splits) {
    d.plan.ctas = static_cast<std::int64_t>(t.kv_sets * splits);
    walk_tiles(d, t, splits, chain, m, *c.family);
  });
  return c;
}

/// A CTA for each query head, on ordinary lanes; the heads of a group read the same keys through L2.
AttentionChoice plan_plain_of(const DecodeTask& t, double threads, DType dtype, const Rates& m,
                              const FamilyScalars& family, const KeyCutting& how) {
  AttentionChoice c;
  c.plan.kv_tile = static_cast<std::int64_t>(kKeysPerStep);
  c.family = &family;
  score_demand(c.main, {1, kKeysPerStep, t.qk_dim, t.v_dim}, m.gpu.sm.tensor_flop_per_clk[dtype],
               t.key_bytes / (t.qk_dim + t.v_dim), m);
  c.main.fp32_clk += kKeysPerStep * (t.qk_dim + t.v_dim) / (m.gpu.sm.fp32_flop_per_clk / 2);
  decode_traffic(c.main, t, dtype, ResultsLeave::here);
  PlainLaunch launch = plain_launch(t, threads, m);
  const double most = ceil_div(t.cached + 2, launch.rows * kKeysOfTurn);
  cut_keys(c, how, launch.parts, most, m, [&](Demand& d, double parts) {
    launch.parts = parts;
    walk_turns(d, t, launch, m, family);
    // by time a machine may leave SMs empty, so that one with more of them has no last wave that one with fewer has not
    d.ends_alone = how.cutting == Cutting::by_rule;
  });
  return c;
}

/// With as many threads as the rule says, or as take the least time.
AttentionChoice plan_plain(const DecodeTask& t, DType dtype, const Rates& m, const FamilyScalars& family,
                           const KeyCutting& how) {
  if (how.cutting == Cutting::by_rule) return plan_plain_of(t, plain_threads(t, m), dtype, m, family, how);
  AttentionChoice best = plan_plain_of(t, kSmallestCta, dtype, m, family, how);
  for (double threads = 2 * kSmallestCta; threads <= kLargestCta; threads *= 2) {
    const AttentionChoice c = plan_plain_of(t, threads, dtype, m, family, how);
    if (time_of(c, m, how) < time_of(best, m, how)) best = c;
  }
  return best;
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
  if (trtllm::has_wgmma_decode(s, m)) return plan_trtllm_wgmma_decode(s, m, families, how);
  if (how.cutting == Cutting::by_rule && !fills_enough(t, m)) return plain();
  const AttentionChoice grouped = plan_grouped(t, s.dtype, m, families, how);
  if (how.cutting == Cutting::by_rule) return grouped;
  const AttentionChoice other = plain();
  return time_of(grouped, m, how) <= time_of(other, m, how) ? grouped : other;
}

}  // namespace plumbline
