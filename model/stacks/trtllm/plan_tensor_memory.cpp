// Decode attention of TensorRT-LLM where tensor units have memory of their own (tcgen05): the kernels that the library
// calls trtllm-gen. Their code is not published; how they are picked and cut is (xqaDispatcher.cpp, fmhaKernels.h), and
// so are the tiles, threads and shared memory of each (the metadata of the cubins). Nobody's measurements of them are on
// file: Hopper's kernel for 8-bit caches, which is fed by bulk copies and warp specialised too, lends its start and its
// merge, and a launch that rotates and appends goes before, as it does before all kernels of the library but that one.
#include <algorithm>
#include <cmath>

#include "model/stacks/trtllm/plan_attention.hpp"

namespace plumbline {
namespace {

/// Tiles of 128 keys, two at a time for each turn; query heads of a KV head are the narrow side of the product, 8 or 16
/// of them. Four tiles of at most 128 columns are in shared memory: 131,072 of a CTA's 141,968 bytes with heads of 128
/// in 16 bits, 65,536 of 75,408 with heads of 64. 512 threads take all registers, so that a CTA has the SM for itself.
constexpr double kTileKeys = 128, kTurnKeys = 256, kTilesOnTheWay = 4, kWidestTile = 128;
constexpr std::int64_t kThreads = 512;
constexpr double kNarrowest = 8;

/// As many parts as leave no SM idle, but none shorter than a turn (computeNumCtas(); later versions ask for two).
double parts_of(double ctas, double context, const Rates& m) {
  return std::max(1.0, std::min(ceil_div(context, kTurnKeys), std::floor(m.sm_count / ctas)));
}

/// A CTA takes its tiles as they come, one after the other's end: its start is seen once, as loads of the next tile run
/// ahead of the products.
void walk(Demand& d, double ctas, double keys, const Rates& m, const FamilyScalars& family) {
  d.plan.ctas = static_cast<std::int64_t>(ctas);
  d.plan.steps = d.plan.longest = ceil_div(keys, kTileKeys);
  d.plan.persistent = true;
  d.serial_latency = family.start_clk / m.clock;
  d.serial_latency_of = "until a CTA's first keys have come, and behind its last";
}

/// Up to 16 parts are CTAs of one cluster, which add up their sums through each other's shared memory, each a slice of them;
/// the last CTA reads those of more parts from L2, 16 bits a number, four times 16 bytes for each of its threads at a time.
/// (fmhaKernels.cuh, computeCtaAndClusterConfig(): CgaSmemReduction where numCtasPerSeqKv <= 16, else GmemReduction.) What it takes to begin is lent by Hopper's kernel:
/// a merge of two.
Seconds merge_of(double parts, double rows, const DecodeTask& t, const Rates& m,
                 std::span<const FamilyScalars> families) {
  constexpr double kMostInCluster = 16, kPartialBytes = 2, kAskedAtOnce = kThreads * 4 * 16.0;
  if (parts <= 1) return {};
  const Seconds begins = trtllm::merge_of_parts(2, m, families);
  if (parts <= kMostInCluster) return begins;
  return begins + ceil_div(parts * rows * t.v_dim * kPartialBytes, kAskedAtOnce) * m.l2_mean_latency();
}

}  // namespace

Demand trtllm::append_demand(const DecodeTask& t, DType dtype, const FamilyScalars& family) {
  constexpr double kWarps = 8;  // a query head each
  Demand p;
  p.plan.ctas = static_cast<std::int64_t>(ceil_div(t.out_rows, kWarps));
  p.plan.ctas_per_sm = 8;
  p.plan.threads = 256;
  // a token's queries, keys and values are in L2: the product before has just written them, the attention reads them next
  const double numbers = t.out_rows * t.qk_dim + t.kv_sets * (t.qk_dim + t.v_dim);
  p.l2 = 2 * numbers * bytes_of(dtype) / static_cast<double>(p.plan.ctas) * units::B;
  p.once_clk = family.start_clk / static_cast<double>(p.plan.ctas_per_sm);
  return p;
}

bool trtllm::takes_tensor_memory(const AttentionDecode& s, const Rates& m) {
  constexpr std::int64_t kMostHeads = 16;
  // cubins are of queries of 16 bits and of e4m3 (fmhaKernels.h, mDtypeQ)
  const bool compiled = s.dtype == DType::bf16 || s.dtype == DType::fp16 || s.dtype == DType::fp8;
  return m.path.kind == TensorPath::Kind::tcgen05 && compiled && s.q_heads <= kMostHeads * s.kv_heads &&
         s.qk_dim == s.v_dim;
}

AttentionChoice plan_trtllm_tensor_memory_decode(const AttentionDecode& s, const Rates& m,
                                                 std::span<const FamilyScalars> families, const KeyCutting& how) {
  const DecodeTask t = decode_task(s);
  // queries have the cache's type (XqaDispatcher: mQDataType)
  const bool narrow = s.kv_dtype == DType::fp8 && m.gpu.sm.tensor_flop_per_clk[DType::fp8] > 0;
  const DType math = narrow ? DType::fp8 : s.dtype;
  AttentionChoice c;
  c.family = &trtllm::wgmma_decode_family(families);
  c.math = math;
  c.plan.kv_tile = static_cast<std::int64_t>(kTileKeys);
  c.plan.packed_heads = static_cast<std::int64_t>(t.rows);
  Demand& d = c.main;
  d.plan.threads = kThreads;
  d.plan.ctas_per_sm = 1;
  const double rows = std::max(kNarrowest, ceil_div(t.rows, kNarrowest) * kNarrowest);
  score_demand(d, {rows, kTileKeys, t.qk_dim, t.v_dim}, m.gpu.sm.tensor_flop_per_clk[math],
               t.key_bytes / (t.qk_dim + t.v_dim), m);
  const double columns = std::min(t.qk_dim, kWidestTile);
  d.in_flight = kTilesOnTheWay * kTileKeys * columns * bytes_of(s.kv_dtype) * units::B;
  const double most = ceil_div(t.context, kTurnKeys);
  cut_keys(c, how, parts_of(t.kv_sets, t.context, m), most, m, [&](Demand& main, double parts) {
    walk(main, t.kv_sets * parts, ceil_div(t.context, parts), m, *c.family);
    decode_traffic(main, t, s.dtype, ResultsLeave::here);
    main.serial_latency += merge_of(parts, rows, t, m, families);
  });
  if (s.append == 0) return c;  // a step's own node has rotated and written already
  c.prepares = true;
  c.prepare_family = &families[trtllm::kPrepare];
  c.prepare = trtllm::append_demand(t, s.dtype, *c.prepare_family);
  return c;
}

}  // namespace plumbline
