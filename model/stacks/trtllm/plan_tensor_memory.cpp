// Decode of TensorRT-LLM where tensor units have memory of their own (tcgen05), latent one too: the kernels that the library
// calls trtllm-gen. Their code is not published; how they are picked and cut is (xqaDispatcher.cpp, fmhaKernels.h), and
// so are the tiles, threads and shared memory of each (the metadata of the cubins). Nobody's measurements of them are on
// file: Hopper's kernel for 8-bit caches, which is fed by bulk copies and warp specialised too, lends its start and its
// merge, and a launch that rotates and appends goes before, as it does before all kernels of the library but that one.
#include <algorithm>
#include <cmath>

#include "model/stacks/trtllm/flash_mla.hpp"
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

constexpr double kPartialBytes = 2, kMostInCluster = 16;

/// Of so many numbers a part. Up to 16 parts are CTAs of one cluster, which add up their sums through each other's shared memory, each a slice of them;
/// the last CTA reads those of more parts from L2, 16 bits a number, four times 16 bytes for each of its threads at a time.
/// (fmhaKernels.cuh, computeCtaAndClusterConfig(): CgaSmemReduction where numCtasPerSeqKv <= 16, else GmemReduction.) What it takes to begin is lent by Hopper's kernel:
/// a merge of two.
Seconds merge_of(double parts, double numbers, bool in_cluster, const Rates& m,
                 std::span<const FamilyScalars> families) {
  constexpr double kAskedAtOnce = kThreads * 4 * 16.0;
  if (parts <= 1) return {};
  const Seconds begins = trtllm::merge_of_parts(2, m, families);
  if (in_cluster) return begins;
  return begins + ceil_div(parts * numbers * kPartialBytes, kAskedAtOnce) * m.l2_mean_latency();
}

/// How latent decode is cut (fmhaKernels.h, hashFromRunnerParams(), computeNumCtas()). Low latency: heads are the narrow side of
/// the products, up to 16 of them a CTA. High throughput: 64 heads a CTA, of 128 heads two CTAs that multiply as one.
struct LatentCut {
  double heads = 16;     ///< of a CTA
  double columns = 512;  ///< of the results of a CTA; scores are made of all columns by each
  double ctas = 1;       ///< of a sequence, before its keys are cut
  double parts = 1;
  bool narrow = true;  ///< heads are the narrow side, and CTAs merge their parts themselves
  bool paired = false;
};

/// Keys a turn (mStepKv of these kernels' metadata), and the bytes of keys that a CTA has room for: two turns of 8 bits of 166,688
/// bytes of shared memory.
constexpr double kLatentTurnKeys = 128, kOnTheWay = 2 * kLatentTurnKeys * 576;

/// ctas: of one part of all sequences.
double latent_parts(double ctas, double context, const Rates& m) {
  return std::min(ceil_div(context, kLatentTurnKeys), std::max(1.0, std::floor(m.sm_count / ctas)));
}

/// Few heads, or parts of no more than 1024 keys with all heads' CTAs on the card at once (useSwapsMmaAbMlaGenKernel()).
bool takes_narrow_heads(double sequences, double heads, double context, const Rates& m) {
  constexpr double kFew = 32, kHeads = 16, kMostKeys = 1024;
  if (heads <= kFew) return true;
  const double ctas = sequences * ceil_div(heads, kHeads);
  const double parts = std::min(ceil_div(context, kTurnKeys), std::max(1.0, std::floor(m.sm_count / ctas)));
  return ceil_div(context, parts) <= kMostKeys && ctas <= m.sm_count;
}

LatentCut latent_cut(const MlaDecode& s, double context, const Rates& m) {
  constexpr double kPaired = 128, kWide = 64;
  const double sequences = static_cast<double>(s.batch), heads = static_cast<double>(s.heads);
  LatentCut cut;
  cut.columns = static_cast<double>(s.latent);
  cut.narrow = takes_narrow_heads(sequences, heads, context, m);
  cut.heads = !cut.narrow ? kWide : heads <= kNarrowest ? kNarrowest : 2 * kNarrowest;
  cut.ctas = ceil_div(heads, cut.heads);
  cut.paired = !cut.narrow && heads == kPaired;
  cut.parts = latent_parts(sequences * cut.ctas, context, m);
  if (cut.paired) return cut;
  // what is left idle then takes columns of the results; a single sequence's may fill the card, others leave half of it
  const double all = sequences * cut.ctas * cut.parts * (s.batch == 1 ? 1 : 2);
  if (all > m.sm_count) return cut;
  const double shares = 2 * all <= m.sm_count ? 4 : 2;
  cut.columns /= shares;
  cut.ctas *= shares;
  cut.parts = latent_parts(sequences * cut.ctas, context, m);
  return cut;
}

/// Clocks and bytes of a CTA's step of 128 keys. They are written to shared memory once and read twice, as keys and as values.
void latent_step(Demand& d, const DecodeTask& t, const LatentCut& cut, DType math, const Rates& m) {
  score_demand(d, {cut.heads, kLatentTurnKeys, t.qk_dim, cut.columns}, m.gpu.sm.tensor_flop_per_clk[math],
               t.key_bytes / (t.qk_dim + cut.columns), m);
  // an instruction of one SM with 64 rows has half of tensor memory's lanes, and is no shorter than one of 128 (PTX ISA, layouts)
  constexpr double kHalfEmpty = 2;
  if (!cut.narrow && !cut.paired) d.tensor_clk *= kHalfEmpty;
  const double shared = cut.paired ? 0.5 : 1;
  const double keys = kLatentTurnKeys * t.key_bytes, read = keys * (1 + cut.columns / t.qk_dim);
  d.smem_clk = shared * (keys + read) / m.gpu.sm.smem_bytes_per_clk.in(units::B);
  d.l2 = shared * keys * units::B;
  d.in_flight = kOnTheWay * units::B;
}

/// A CTA begins with its queries and ends with its results, by way of the SM's port, while nothing else passes it.
double latent_rows_clk(const DecodeTask& t, const LatentCut& cut, DType math, DType out, double parts, const Rates& m) {
  const double result = parts > 1 ? kPartialBytes : output_bytes_of(out);
  const Bytes rows = cut.heads * (t.qk_dim * bytes_of(math) + cut.columns * result) * units::B;
  return (rows / m.l2_per_sm).in(units::s)*m.clock.in(units::Hz);
}

/// fmhaReduction.cu: CTAs of 512 threads share out the results of 64 heads, two on an SM; a thread takes 16 bytes of each part.
Demand latent_merge(const DecodeTask& t, double parts, DType dtype, const Rates& m) {
  constexpr double kThreadsOfMerge = 512, kVector = 16, kTwice = 2;
  Demand d = combine_demand(t.out_rows, t.v_dim, parts, output_bytes_of(dtype), m);
  const double slices = ceil_div(t.out_rows * t.v_dim * kPartialBytes, kThreadsOfMerge * kVector);
  const double ctas = std::min(slices, kTwice * m.sm_count);
  d.plan.ctas = static_cast<std::int64_t>(ctas);
  d.plan.ctas_per_sm = static_cast<std::int64_t>(kTwice);
  d.plan.threads = static_cast<std::int64_t>(kThreadsOfMerge);
  d.plan.steps = d.plan.longest = ceil_div(slices, ctas);
  d.l2 = parts * kThreadsOfMerge * kVector * units::B;
  for (Bytes* each : {&d.partials, &d.dram_read}) *each *= kPartialBytes / 4;
  d.dram_write -= d.partials;  // half as many, of results in fp32
  d.step_latency = 2 * m.l2_latency;
  return d;
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
    main.serial_latency += merge_of(parts, rows * t.v_dim, parts <= kMostInCluster, m, families);
  });
  if (s.append == 0) return c;  // a step's own node has rotated and written already
  c.prepares = true;
  c.prepare_family = &families[trtllm::kPrepare];
  c.prepare = trtllm::append_demand(t, s.dtype, *c.prepare_family);
  return c;
}

/// The scalars are those of Hopper's latent decode, where the launch before it is told apart from it: what a CTA takes to its first
/// keys and from its last, and what is left of the tensor rate.
AttentionChoice plan_mla_tensor_memory(const MlaDecode& s, bool appends, const Rates& m,
                                       std::span<const FamilyScalars> families, const KeyCutting& how) {
  DecodeTask t = latent_task(s, static_cast<double>(s.heads));
  const LatentCut cut = latent_cut(s, t.context, m);
  // queries have the cache's type
  const bool eight_bits = s.kv_dtype == DType::fp8 && m.gpu.sm.tensor_flop_per_clk[DType::fp8] > 0;
  AttentionChoice c;
  const FamilyScalars& own = families[trtllm::kMla8bit];
  c.family = own.on_file ? &own : &families[trtllm::kMla];
  c.math = eight_bits ? DType::fp8 : s.dtype;
  c.plan.kv_tile = static_cast<std::int64_t>(kLatentTurnKeys);
  c.plan.packed_heads = static_cast<std::int64_t>(cut.heads);
  c.main.plan.threads = kThreads;
  c.main.plan.ctas_per_sm = 1;
  latent_step(c.main, t, cut, c.math, m);
  const double each = t.kv_sets * cut.ctas, most = ceil_div(t.context, kLatentTurnKeys);
  cut_keys(c, how, cut.parts, most, m, [&](Demand& main, double parts) {
    main.plan.ctas = static_cast<std::int64_t>(each * parts);
    main.plan.steps = main.plan.longest = ceil_div(ceil_div(t.context, parts), kLatentTurnKeys);
    main.plan.persistent = parts <= 1;
    main.once_clk = latent_rows_clk(t, cut, c.math, s.dtype, parts, m);
    c.combines = !cut.narrow && parts > 1;
    decode_traffic(main, t, s.dtype, c.combines ? ResultsLeave::by_the_merge : ResultsLeave::here);
    const bool in_cluster = parts <= kMostInCluster && s.batch > 1;
    main.serial_latency = cut.narrow ? merge_of(parts, cut.heads * cut.columns, in_cluster, m, families) : Seconds{};
    main.serial_latency_of = "to merge the parts";
    if (c.combines) {
      c.combine = latent_merge(t, parts, s.dtype, m);
      c.combine_family = &families[trtllm::kCombine];
    }
  });
  if (!appends || !own.on_file) return c;
  c.prepares = true;
  c.prepare_family = &families[trtllm::kPrepare];
  c.prepare = mla_prepare_demand(s, m);
  return c;
}

}  // namespace plumbline
