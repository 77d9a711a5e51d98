// Prefill attention as TensorRT-LLM runs it (1.0 on the A100, 1.3 on Hopper): how its kernel cuts the work, and what
// that asks of the SMs. The rules are the library's own; that the published rows follow them, jumps and all,
// is shown in docs/calibration/attention.md.
#include <algorithm>
#include <array>
#include <cmath>

#include "model/stacks/common/plan_stream.hpp"
#include "model/stacks/trtllm/plan_attention.hpp"

namespace plumbline {

double trtllm::compiled_width(std::int64_t width) {
  const auto w = static_cast<double>(width);
  for (const double compiled : {16.0, 32.0, 64.0, 128.0, 192.0, 256.0}) {
    if (w <= compiled) return compiled;
  }
  return ceil_div(w, 64) * 64;
}

namespace {

/// How a prefill kernel cuts the scores.
struct ScoreCut {
  double q_tile, kv_tile, ctas_per_sm;
  double rows_a_group;  ///< query rows of one warpgroup, or warp: each group reads the keys from shared memory itself
  double qk_dim, v_dim;
  bool one_query_buffer = false;  ///< no room for a second query tile: the next one is fetched after the last is done
  bool hides_softmax =
      false;               ///< two query tiles, or two blocks of one, take turns: softmax beside the other's products
  bool in_pairs = false;   ///< of SMs, each with half of the keys and values
  bool lent = false;       ///< wgmma's kernel where nobody measured it: scalars are another kernel's
  double counted_clk = 0;  ///< of a block beside another CTA's, where nobody measured it and all of it was counted
};

/// Shared memory of one CTA of the tiled mma.sync kernel, with what an SM reserves for it: its queries, and two buffers
/// each for a block's keys and values, 64 of their width at a time (81,920 B where heads are 128 wide, queries 64 and keys
/// 128: the library's own list of kernels).
Bytes tiled_bytes(double q_tile, double kv_tile, double width, const Rates& m) {
  constexpr double kWidth = 64, kBuffers = 4, kElementBytes = 2;
  return (q_tile * width + kBuffers * kv_tile * kWidth) * kElementBytes * units::B + m.gpu.sm.smem_reserved_per_block;
}

/// What a block takes a CTA on SMs of 100 KB, by heads of 64, 128, 192 and 256: for each of two CTAs, or for one that has the SM
/// to itself, for want of shared memory (16 bits of 256 columns 80 KiB, 8 bits of 192 and 256 64 KiB). Counted: the library's kernels
/// compiled for sm_89 and sm_120, their warps on one scheduler, with the stalls that the compiler set, products at the tensor rate of
/// professional cards, answers and reads of shared memory (16 bits of 256 columns: for sm_89 alone). An A100's scalars say 1.20 and
/// 1.35 times what is counted of its kernels for 128 and 64 columns. Nobody measured any on such a card.
void take_counted(ScoreCut& cut, double width, bool narrow, const Rates& m) {
  using ByWidth = std::array<double, 4>;
  constexpr ByWidth kAda16{909, 1695, 1470, 15883}, kAda8{3971, 1025, 2919, 4560},
      kBlackwell16{1076, 1957, 1595, 15883}, kBlackwell8{4336, 1166, 3213, 4472};
  constexpr double kNarrowest = 64, kBesideCounted = 1.2;
  if (width < kNarrowest || !m.path.async_copy) return;
  const bool later = m.gpu.sm.async_copy == AsyncCopy::tma;
  const ByWidth& counted = later ? (narrow ? kBlackwell8 : kBlackwell16) : (narrow ? kAda8 : kAda16);
  const std::size_t at = width <= 64 ? 0 : width <= 128 ? 1 : width <= 192 ? 2 : 3;
  if (at == 3 || (narrow && at == 2)) cut.ctas_per_sm = 1;
  cut.counted_clk = kBesideCounted * counted.at(at);
}

/// mma.sync: four warps that share the queries. The tiled kernel takes 128 keys a block, and 128 queries where heads are
/// narrow; it runs where two of its CTAs fit on an SM, and for the widest heads everywhere. Else the plain kernel, whose
/// blocks are 64 to 16 keys: for short keys, and on SMs of 100 KB; of 8 bits 128 queries by 128 keys of narrow heads, 64 by 32
/// of others. (TensorRT-LLM, fmhaRunner.cpp, setupLaunchParams(): granular_tiling; tiles: fmha_v2/setup.py,
/// enumerate_hmma_flash_kernels_base() and enumerate_qmma_flash_kernels(). The library asks for the SM's number, and has its 100 KB
/// parts.)
ScoreCut mma_sync_cut(const AttentionPrefill& s, const Rates& m) {
  constexpr std::int64_t kShortKeys = 64;
  constexpr double kWarps = 4, kWidest = 256, kMostCtas = 2;
  ScoreCut cut{64, 64, kMostCtas, 16, trtllm::compiled_width(s.qk_dim), trtllm::compiled_width(s.v_dim)};
  const double width = std::max(cut.qk_dim, cut.v_dim);
  const Bytes smem = m.gpu.sm.smem;
  const bool latent = s.qk_dim != s.v_dim, narrow = bits(s.dtype) <= 8;
  const double q_tile = width <= 64 ? 128 : 64;
  const double kv_tile = latent ? 64 : 128;  // latent: the published rows are of blocks of 64
  const double fit = std::floor(smem / tiled_bytes(q_tile, kv_tile, width, m));
  const bool large = smem >= 2.0 * tiled_bytes(64, 128, 128, m);
  const bool wide = !narrow && width >= kWidest;
  const bool tiled = m.path.async_copy && s.kv_len > kShortKeys && (large || wide) && fit >= 1;
  if (tiled) {
    cut.q_tile = q_tile;
    cut.kv_tile = kv_tile;
    cut.ctas_per_sm = std::min(kMostCtas, fit);
    cut.rows_a_group = q_tile / kWarps;
    if (!large && !latent) take_counted(cut, width, narrow, m);
    return cut;
  }
  cut.kv_tile = width <= 32 ? 64 : width <= 128 || narrow ? 32 : 16;
  if (narrow && width <= 64) {
    cut.q_tile = cut.kv_tile = 128;
    cut.rows_a_group = cut.q_tile / kWarps;
  }
  if (!large && !latent) take_counted(cut, width, narrow, m);
  return cut;
}

/// Blocks of 256 keys where heads are narrow, fewer where they are wide; from 64 on twice as many of 8 bits, but for latent
/// attention (fmha_v2/setup.py, enumerate_hgmma_flash_warpspec_kernels() and enumerate_qgmma_flash_warpspec_kernels()). A
/// second tile of queries finds room in shared memory where a row of them has 256 bytes or less.
ScoreCut wgmma_cut(const AttentionPrefill& s) {
  constexpr double kLongestRow = 256;
  ScoreCut cut{128, 64, 1, 64, trtllm::compiled_width(s.qk_dim), trtllm::compiled_width(s.v_dim)};
  const double width = cut.v_dim;  // the accumulator's: keys that are wider by a rotated part change nothing
  cut.kv_tile = width <= 64 ? 256 : width <= 128 ? 128 : 64;
  if (bits(s.dtype) <= 8) {
    if (s.qk_dim == s.v_dim && width > 64) cut.kv_tile *= 2;
    // rows lie in lines of 128 bytes
    constexpr double kLine = 128;
    for (double* row : {&cut.qk_dim, &cut.v_dim}) *row = *row > kLine ? ceil_div(*row, kLine) * kLine : *row;
  }
  cut.one_query_buffer = cut.qk_dim * bytes_of(s.dtype) > kLongestRow;
  return cut;
}

/// tcgen05: scores and results of a tile of 128 queries lie in tensor memory, 512 columns of it, so that a CTA has two
/// tiles where both and their results fit. A warpgroup each does the softmax of a tile, a third one corrects the results;
/// probabilities go back through tensor memory, so that of the second product only values are read from shared memory.
/// (FlashAttention-4, forward pipeline; CUTLASS, example 77 of Blackwell's FMHA. TensorRT-LLM's kernels for these parts
/// are not published as source; nothing was fitted on such a card.) The chain of one tile (two products of 512 clk, the
/// softmax, about 800 clk of barriers and reductions on Hopper) is no longer than what two take, so it is hidden.
ScoreCut tcgen05_cut(const AttentionPrefill& s) {
  constexpr double kTile = 128;
  ScoreCut cut{kTile, kTile, 1, kTile, trtllm::compiled_width(s.qk_dim), trtllm::compiled_width(s.v_dim)};
  const bool two_tiles = two_tiles_in_tensor_memory(kTile, cut.v_dim, static_cast<double>(s.q_len));
  if (two_tiles) cut.q_tile = 2 * kTile;
  cut.in_pairs = two_blocks_in_tensor_memory(kTile, cut.v_dim);
  cut.hides_softmax = two_tiles || cut.in_pairs;
  return cut;
}

ScoreCut prefill_cut(const AttentionPrefill& s, const Rates& m) {
  switch (m.path.kind) {
    case TensorPath::Kind::mma_sync: return mma_sync_cut(s, m);
    case TensorPath::Kind::wgmma: return wgmma_cut(s);
    case TensorPath::Kind::tcgen05: return tcgen05_cut(s);
  }
  return wgmma_cut(s);
}

/// Where nobody measured it, the transposing of a block's values by the warpgroup that loads, counted: 16 bytes of a thread
/// a turn, which are read, permuted and written before the next ones (TensorRT-LLM, warpspec/dma.h, transpose_v_tile()). An
/// access takes a latency and what four warps move; a thread permutes its 16 bytes by 16 instructions, our estimate. (Where
/// it was measured, on H100 and H200, a chain of 32 KiB takes 970 clocks; this comes to 912.)
double transposing_clk(const ScoreCut& cut, const Rates& m) {
  constexpr double kThreads = 128, kVector = 16, kLatencyClk = 33, kPermutes = 16;
  const double turns = cut.kv_tile * cut.v_dim / (kThreads * kVector);
  const double access = kLatencyClk + kThreads * kVector / m.gpu.sm.smem_bytes_per_clk.in(units::B);
  return turns * (2 * access + kPermutes);
}

/// Where nobody measured it, what a block of 128 queries takes in 16 bits at least: two warpgroups, which nothing keeps from one another
/// (fmha_v2, enable_mutex() of bf16), each go from products to softmax to products. Counted: the kernels compiled for sm_90a, both
/// groups' SASS followed on one scheduler, its exponentials, products and shared memory shared. (By H100's and H200's own scalars,
/// which were in view, blocks take 1.20 to 1.29 of it at 64, 128, 192 and 256; mha.cu's links on an A100 1.18 of what was counted there.)
double counted_block_clk(const ScoreCut& cut, const Rates& m) {
  const double counted = cut.v_dim <= 64 ? 3150 : cut.v_dim <= 128 ? 2740 : cut.v_dim <= 192 ? 2110 : 2620;
  const double rotated = cut.q_tile * cut.kv_tile * std::max(0.0, cut.qk_dim - cut.v_dim);  // keys wider than values
  return counted + 2 * rotated / m.gpu.sm.tensor_flop_per_clk[DType::bf16];
}

/// The chain of a block. wgmma takes 8-bit values along the keys alone, so that they are transposed on their way through
/// shared memory: the chain grows with the bytes of a block's keys and values; the scalar is that of 32 KiB, 256 of both 64
/// wide. (By training rows: 64, 128 and 256 wide, and latent ones, agree to a tenth.)
double chain_clk(const ScoreCut& cut, const AttentionPrefill& s, const Rates& m, const FamilyScalars& family) {
  if (m.path.kind != TensorPath::Kind::wgmma || bits(s.dtype) > 8) return cut.lent ? 0 : family.step_clk;
  if (cut.lent) return transposing_clk(cut, m);
  constexpr double kReferenceBytes = 32 * 1024;
  return family.step_clk * cut.kv_tile * (cut.qk_dim + cut.v_dim) * bytes_of(s.dtype) / kReferenceBytes;
}

/// Clocks of one (query tile, key block) pair. Exponentials and ordinary lanes work one after the other on a score, so
/// what of the softmax is not hidden is a share of their sum; `step_clk` is what a block costs beside its scores
/// (barriers, reductions over a row). From shared memory each group reads its queries (wgmma only; mma.sync keeps them
/// in registers), keys and values; the ring's filling takes the same port.
void block_demand(Demand& d, const ScoreCut& cut, const AttentionPrefill& s, const Rates& m,
                  std::span<const FamilyScalars> families, const FamilyScalars& family) {
  const StreamingMultiprocessor& sm = m.gpu.sm;
  const double es = bytes_of(s.dtype), kv_es = bytes_of(s.kv_dtype);
  const double width = cut.qk_dim + cut.v_dim;
  score_demand(d, {cut.q_tile, cut.kv_tile, cut.qk_dim, cut.v_dim}, sm.tensor_flop_per_clk[s.dtype], kv_es, m);
  const double rescale_clk = cut.q_tile * cut.v_dim / (sm.fp32_flop_per_clk / 2);  // the output, once a block
  d.fp32_clk += rescale_clk;
  const double groups = cut.q_tile / cut.rows_a_group;
  const double queries = trtllm::is_warp_specialised(m) ? cut.rows_a_group * cut.qk_dim : 0;
  const double here = cut.kv_tile * width / (cut.in_pairs ? 2 : 1);  // keys and values of this SM
  const double read = groups * (queries + here) * es;
  d.smem_clk = (read + here * kv_es) / sm.smem_bytes_per_clk.in(units::B);
  if (cut.in_pairs) d.l2 = here * kv_es * units::B;
  if (cut.counted_clk > 0) {
    d.chain_clk = cut.ctas_per_sm * cut.counted_clk;
    return;
  }
  const double exposed = cut.lent ? 0 : family.exposed;
  if (!cut.hides_softmax) d.exposed_clk = exposed * (d.sfu_clk + d.fp32_clk) + chain_clk(cut, s, m, family);
  if (cut.lent && bits(s.dtype) > 8) d.chain_clk = counted_block_clk(cut, m) * trtllm::beside_counted(families);
}

/// Blocks in which a mask is computed, in those that take 8 operations a score. wgmma's 8-bit kernel takes two and a half
/// times as long for each where a window hides keys (by training rows of heads of 64 in a window of 128).
double mask_share(const AttentionPrefill& s, const ScoreCut& cut, double visited, const Rates& m) {
  constexpr double kWindowed8bit = 2.5;
  const bool windowed = s.window > 0 && s.window < s.kv_len;
  const bool narrow = bits(s.dtype) <= 8 && m.path.kind == TensorPath::Kind::wgmma;
  return (windowed && narrow ? kWindowed8bit : 1) * masked_blocks(s, cut.q_tile, cut.kv_tile, visited);
}

/// What a tile costs beside its blocks: the masks, and the way of the next queries where they have no buffer of their
/// own (the scheduler's counter in L2, then the queries and behind them the first keys from memory).
double tile_clk(const AttentionPrefill& s, const ScoreCut& cut, double visited, const Rates& m) {
  const StreamingMultiprocessor& sm = m.gpu.sm;
  double clk = mask_share(s, cut, visited, m) * mask_clk(cut.q_tile * cut.kv_tile, m);
  if (cut.one_query_buffer) {
    const Seconds way = m.l2_latency + 2.0 * m.dram_latency;
    clk += way * m.clock + cut.q_tile * cut.qk_dim * bytes_of(s.dtype) / sm.l2_bytes_per_clk.in(units::B);
  }
  return clk;
}

/// Keys that are wider than values by the rotated part.
bool is_latent(const AttentionPrefill& s) { return s.qk_dim > s.v_dim; }

/// What the kernel multiplies: fp8 where the cache is fp8 and tensor units take it, since caches are paged and the paged
/// kernels have operands of one type (thop/attentionOp.cpp: mFP8ContextFMHA; MLA: mFP8ContextMLA). Results stay as wide.
AttentionPrefill as_run(AttentionPrefill s, const Rates& m) {
  if (s.kv_dtype == DType::fp8 && m.gpu.sm.tensor_flop_per_clk[DType::fp8] > 0) s.dtype = DType::fp8;
  return s;
}

/// One pass over the new tokens: read their fused QKV, write rotated Q, as `run` reads it, and the cache.
Demand prepare_demand(const AttentionPrefill& s, const AttentionPrefill& run, const Rates& m,
                      const FamilyScalars& family) {
  const double tokens = static_cast<double>(s.batch * s.q_len);
  // Latent attention (keys wider than values by the rotated part) rotates only that part of its queries, in place, four
  // to a warp, and reads one narrow row a token; else a warp takes a whole query, and all keys and values are read.
  const bool latent = is_latent(s);
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
  const double q_es = latent ? es : bytes_of(run.dtype);
  p.dram_write = (q_elements * q_es + new_kv * kv_es) * units::B;
  if (latent && trtllm::is_warp_specialised(m)) {
    // 1.3 takes keys and values where their projection left them, and each head's rotated part is put beside; 1.0 (the
    // rows on mma.sync) copies them all into one packed operand
    const double rotated = tokens * static_cast<double>(s.kv_heads * (s.qk_dim - s.v_dim));
    p.dram_write = (q_elements * es + rotated * std::max(es, kv_es) + tokens * wide * kv_es) * units::B;
  }
  // a warp's way (sequence length, data, rotation table) is a chain of latencies; as many as fit on an SM are on it
  // side by side
  p.plan.ctas = static_cast<std::int64_t>(ceil_div(rows, kWarps * (latent ? kLatentRowsPerWarp : 1)));
  p.plan.ctas_per_sm = 8;
  p.plan.threads = 256;
  p.once_clk = family.start_clk / static_cast<double>(p.plan.ctas_per_sm);
  return p;
}

/// Latent operands, which the projections leave in 16 bits, in a launch of their own: whole queries, keys and values.
/// (invokeMLAContextFp8Quantize().)
Demand quantize_demand(const AttentionPrefill& s, const AttentionPrefill& run, const Rates& m) {
  const double tokens = static_cast<double>(s.batch * s.q_len);
  const double elements = tokens * static_cast<double>(s.q_heads * s.qk_dim + s.kv_heads * (s.qk_dim + s.v_dim));
  Work w;
  w.read = storage(s.dtype, elements);
  w.write = storage(run.dtype, elements);
  w.fp32 = 2 * elements * units::FLOP;  // scale, clamp
  return stream_demand(w, m, false);
}

const FamilyScalars& family_of(const AttentionPrefill& run, const Rates& m, std::span<const FamilyScalars> families) {
  if (!trtllm::is_warp_specialised(m)) return families[trtllm::kPrefillMma];
  const bool own = bits(run.dtype) <= 8 && families[trtllm::kPrefill8bit].on_file;
  return families[own ? trtllm::kPrefill8bit : trtllm::kPrefill];
}

/// The scalars of another kernel then, in 16 bits those of mma.sync, which has no chain of a block: its softmax's share that nothing
/// hides is not taken, as here two warpgroups take turns, nor its CTAs' start for each tile, as a CTA stays and has the next tile's
/// queries fetched meanwhile (dma.h, load_q(): a buffer for each warpgroup).
bool is_lent(const AttentionPrefill& run, const Rates& m, std::span<const FamilyScalars> families) {
  if (m.path.kind != TensorPath::Kind::wgmma) return false;
  if (bits(run.dtype) <= 8) return !families[trtllm::kPrefill8bit].on_file;
  const FamilyScalars& own = families[trtllm::kPrefill];
  return own.step_clk <= 0 && own.exposed > 0;
}

/// A CTA that stays starts once.
void start_once(Demand& d, const FamilyScalars& family, const Rates& m) {
  d.serial_latency = family.start_clk / m.clock;
  d.serial_latency_of = "to start";
}

}  // namespace

AttentionChoice plan_trtllm_prefill(const AttentionPrefill& asked, bool appends, const Rates& m,
                                    std::span<const FamilyScalars> families) {
  AttentionChoice c;
  const AttentionPrefill s = as_run(asked, m);
  c.math = s.dtype;
  c.family = &family_of(s, m, families);
  ScoreCut cut = prefill_cut(s, m);
  cut.lent = is_lent(s, m, families);
  c.plan.q_tile = static_cast<std::int64_t>(cut.q_tile);
  c.plan.kv_tile = static_cast<std::int64_t>(cut.kv_tile);
  // windowed rows of training take what the worst alignment would, of 8 bits by a quarter more than their own blocks
  const BlockCount blocks = visited_blocks(s, cut.q_tile, cut.kv_tile, WindowBegin::worst_tile);
  Demand& d = c.main;
  d.plan.ctas = s.batch * s.q_heads * static_cast<std::int64_t>(blocks.tiles);
  d.plan.ctas_per_sm = static_cast<std::int64_t>(cut.ctas_per_sm);
  d.plan.threads = cut.hides_softmax ? 512 : trtllm::is_warp_specialised(m) ? 384 : 128;
  d.plan.shortest_first = true;
  d.plan.steps = blocks.total / blocks.tiles;
  d.plan.longest = blocks.longest;
  block_demand(d, cut, s, m, families, *c.family);
  // a CTA's way to its first data and from its last runs beside the other's of the SM
  d.once_clk = tile_clk(s, cut, d.plan.steps, m) + (cut.lent ? 0 : c.family->start_clk / cut.ctas_per_sm);
  if (cut.lent) start_once(d, *c.family, m);
  prefill_traffic(d, appends ? s : asked);
  d.dram_write = prefill_results(asked);  // as wide as the caller's, whatever is multiplied
  if (!appends) return c;
  c.prepares = true;
  const bool narrow = bits(s.dtype) <= 8 && !is_latent(s);
  c.prepare_family = &families[narrow ? trtllm::kPrepare8bit : trtllm::kPrepare];
  c.prepare = prepare_demand(asked, s, m, *c.prepare_family);
  c.quantizes = is_latent(s) && bits(asked.dtype) > 8 && bits(s.dtype) <= 8;
  if (c.quantizes) c.quantize = quantize_demand(asked, s, m);
  return c;
}

}  // namespace plumbline
