// Decode of grouped heads from an fp8 cache, as TensorRT-LLM's kernel for Hopper runs it (its XQA kernels, mha_sm90.cu): a
// warpgroup multiplies queries by keys, another one the scores by values, a third of warps loads. What its source says is
// counted here; the clocks of its chains are fitted (docs/calibration/attention.md).
#include <algorithm>
#include <array>
#include <cmath>

#include "model/stacks/trtllm/plan_attention.hpp"

namespace plumbline {
namespace {

constexpr double kKeysPerTile = 64;

/// How the kernel is compiled for a shape.
struct WgmmaDecode {
  double width;        ///< of a head: a power of two
  double eights;       ///< columns of its products, the heads of a group, in eights
  double ctas_per_sm;  ///< as many as their registers leave room for
  double chain;        ///< of a tile, in those of 8 heads of 128: the longer one of its two warpgroups'
  double issued;       ///< instructions that a scheduler issues for a tile, counted
  /// What a CTA's start and end go with, in 8 heads of 128: half with its heads, each of which is loaded and rotated by a
  /// warp, half with the elements of its queries and results.
  double size;
};

/// Counted of the source, compiled for sm_90a as the library has it done at run time (ptxas of CUDA 13.0; launch bounds name
/// threads alone, as OPTIMIZE_FOR_LATENCY is on): registers of a thread by eights of heads; the chain of a tile of 8 heads, as
/// SASS with the stalls that the compiler set and answers of shared memory; instructions of both warpgroups and of the loading warps
/// in one scheduler. Two numbers are next to a bound, and on its other side by published rows: 16 heads of 64 (44 counted,
/// up to 40 are four CTAs) and of 128 (54; up to 56 are three).
struct CountedWidth {
  std::array<double, 4> registers;
  double ctas_of_others;  ///< most CTAs of 8 heads and fewer that are no power of two: a bound and a mask more
  double chain_clk, issued;
};
constexpr std::array<CountedWidth, 3> kCounted{
    {{{40, 40, 48, 56}, 3, 782, 318}, {{47, 61, 70, 72}, 3, 838, 362}, {{72, 92, 94, 126}, 2, 972, 478}}};
constexpr double kCountedChain = 838, kIssuedOfEight = 75;
/// By training rows, one CTA an SM and several; of the source 0.15 was counted, without what warps wait for each other's maxima.
constexpr double kLongerByEight = 0.33;

double ctas_by_registers(double registers, const StreamingMultiprocessor& sm) {
  constexpr double kWarps = 12;
  const double granule = static_cast<double>(sm.register_granule);
  const double of_a_warp = ceil_div(registers * static_cast<double>(sm.warp_size), granule) * granule;
  return std::max(1.0, std::floor(static_cast<double>(sm.registers) / of_a_warp / kWarps));
}

WgmmaDecode wgmma_decode(const DecodeTask& t, const Rates& m) {
  constexpr double kEight = 8, kUnitWidth = 128;
  WgmmaDecode k{};
  k.width = std::exp2(std::ceil(std::log2(std::max(t.qk_dim, 16.0))));
  k.eights = ceil_div(t.rows, kEight);
  const CountedWidth& counted = kCounted.at(k.width <= 64 ? 0 : k.width <= 128 ? 1 : 2);
  k.ctas_per_sm =
      ctas_by_registers(counted.registers.at(static_cast<std::size_t>(std::min(k.eights, 4.0)) - 1), m.gpu.sm);
  const bool power_of_two = std::exp2(std::round(std::log2(t.rows))) == t.rows;
  if (k.eights <= 1 && !power_of_two) k.ctas_per_sm = std::min(k.ctas_per_sm, counted.ctas_of_others);
  k.chain = counted.chain_clk / kCountedChain * (1 + kLongerByEight * (k.eights - 1));
  k.issued = counted.issued + kIssuedOfEight * k.eights;
  k.size = k.eights * (1 + k.width / kUnitWidth) / 2;
  return k;
}

/// Parts of the keys that have any: a tile each at least. CTAs beyond them return at once.
double parts_with_keys(double splits, double tiles) { return tiles < 2 ? 1 : std::min(splits, tiles); }

/// Tiles of 64 keys that a window leaves, its first and its last one whole.
double visible_tiles(const DecodeTask& t) {
  const double hidden = std::max(0.0, t.cached + 1 - std::max(t.context, 1.0));
  return ceil_div(t.cached + 1, kKeysPerTile) - std::floor(hidden / kKeysPerTile);
}

/// The scalars that the grouped kernel lends are of a call whose first launch rotates the queries and writes the cache,
/// which this kernel does by itself: an empty launch less, the gap behind it, and a warp's way in it. (decoderXQAImplJIT.cpp:
/// applyRoPEInXqaKernel.)
Seconds launch_spared(const Rates& m, std::span<const FamilyScalars> families) {
  if (families[trtllm::kDecode8bit].on_file) return {};
  const FamilyScalars& pass = families[trtllm::kPrepare];
  const Seconds launch = pass.fixed + m.gap_graph + pass.start_clk / m.clock;
  return std::min(launch, families[trtllm::kDecode].fixed);
}

/// What a CTA of the kernel lives by, in SM clocks.
struct Life {
  double start_clk, tile_clk;
};

/// Where nobody measured it, the grouped kernel on mma.sync lends a start, and the chain of a tile in the proportion of what
/// was counted of both kernels.
Life life_of(const WgmmaDecode& k, std::span<const FamilyScalars> families) {
  constexpr double kBySize = 0.2;
  const FamilyScalars& own = families[trtllm::kDecode8bit];
  const FamilyScalars& grouped = families[trtllm::kDecode];
  const double start_clk = own.on_file ? own.start_clk : grouped.start_clk;
  const double tile_clk = own.on_file ? own.step_clk : kCountedChain * trtllm::beside_counted(families);
  return {start_clk * (1 - kBySize + kBySize * k.size), tile_clk * k.chain};
}

/// A CTA's life: it starts, then tile follows tile, keys waiting for room, the softmax for keys, values for scores. CTAs that
/// share an SM hide each other's waits, but not what an SM has to issue for all of them.
void live(Demand& d, const DecodeTask& t, const WgmmaDecode& k, double splits, const Rates& m,
          std::span<const FamilyScalars> families) {
  const Life life = life_of(k, families);
  const double parts = parts_with_keys(splits, visible_tiles(t));
  const double tiles = ceil_div(visible_tiles(t), parts);
  d.plan.ctas = static_cast<std::int64_t>(t.kv_sets * parts);
  d.plan.steps = d.plan.longest = tiles;
  // the first CTAs start side by side and nothing reads meanwhile, and so do those that begin as they end; later ones are spread
  constexpr double kSideBySide = 2;
  const double waves = ceil_div(t.kv_sets * parts, m.sm_count * k.ctas_per_sm), seen = std::min(waves, kSideBySide);
  const double later = 1 - seen / waves;
  d.step_latency = (later * life.start_clk + tiles * life.tile_clk) / tiles / m.clock;
  d.issue_clk = k.issued;
  const Seconds spared = launch_spared(m, families);
  d.serial_latency = seen * life.start_clk / m.clock + trtllm::merge_of_parts(parts, m, families) - spared;
  d.serial_latency_of = spared > Seconds{} ? "to start and to merge the splits, less a launch spared"
                                           : "to start and to merge the splits";
}

/// Queries are rotated and the cache is written by the kernel itself. Published rows of heads of 64, which their collector gives
/// attention sinks, take longer by a launch that goes before; nobody measured them without.
void rotate_before(AttentionChoice& c, const DecodeTask& t, DType dtype, const FamilyScalars& family) {
  constexpr double kSinkWidth = 64;
  if (t.qk_dim > kSinkWidth) return;
  c.prepares = true;
  c.prepare_family = &family;
  c.prepare = trtllm::append_demand(t, dtype, family);
}

}  // namespace

const FamilyScalars& trtllm::wgmma_decode_family(std::span<const FamilyScalars> families) {
  return families[families[kDecode8bit].on_file ? kDecode8bit : kDecode];
}

double trtllm::beside_counted(std::span<const FamilyScalars> families) {
  const double link_clk = families[kDecode].step_clk;
  return families[kDecode].on_file && link_clk > 0 ? link_clk / kCountedLink : 1;
}

Seconds trtllm::merge_of_parts(double parts, const Rates& m, std::span<const FamilyScalars> families) {
  // the last CTA waits for the others' partial results and reads them, four at a time; to begin takes as long as eight parts
  constexpr double kPartsOfBeginning = 8, kPartsAtOnce = 4;
  if (parts <= 1) return {};
  const FamilyScalars& own = families[kDecode8bit];
  if (own.on_file) return own.merge_clk * (kPartsOfBeginning + parts) / m.clock;
  // the grouped kernel's: a CTA hands its part on, then turns are answers from L2 and what is issued for them
  const FamilyScalars& grouped = families[kDecode];
  const Seconds turn = grouped.issue_step_clk / m.clock + m.l2_mean_latency();
  return grouped.merge_clk / m.clock + ceil_div(parts, kPartsAtOnce) * turn;
}

bool trtllm::has_wgmma_decode(const AttentionDecode& s, const Rates& m) {
  return m.path.kind == TensorPath::Kind::wgmma && s.kv_dtype == DType::fp8 &&
         m.gpu.sm.tensor_flop_per_clk[DType::fp8] > 0;
}

AttentionChoice plan_trtllm_wgmma_decode(const AttentionDecode& s, const Rates& m,
                                         std::span<const FamilyScalars> families, const KeyCutting& how) {
  const DecodeTask t = decode_task(s);
  const WgmmaDecode kernel = wgmma_decode(t, m);
  AttentionChoice c;
  c.family = &trtllm::wgmma_decode_family(families);
  c.plan.kv_tile = static_cast<std::int64_t>(kKeysPerTile);
  c.plan.packed_heads = static_cast<std::int64_t>(t.rows);
  score_demand(c.main, {kernel.eights * 8, kKeysPerTile, t.qk_dim, t.v_dim}, m.gpu.sm.tensor_flop_per_clk[DType::fp8],
               t.key_bytes / (t.qk_dim + t.v_dim), m);
  decode_traffic(c.main, t, s.dtype, ResultsLeave::here);
  c.main.plan.threads = 384;
  c.main.plan.ctas_per_sm = static_cast<std::int64_t>(kernel.ctas_per_sm);
  rotate_before(c, t, s.dtype, families[trtllm::kPrepare8bit]);
  const double blocks = std::max(1.0, std::floor(t.cached / trtllm::kKeysPerBlock));
  cut_keys(c, how, trtllm::grouped_splits(blocks, t.kv_sets, m), blocks, m,
           [&](Demand& d, double splits) { live(d, t, kernel, splits, m, families); });
  return c;
}

}  // namespace plumbline
