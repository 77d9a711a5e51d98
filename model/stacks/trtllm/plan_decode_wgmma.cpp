// Decode of grouped heads from an fp8 cache, as TensorRT-LLM's kernel for Hopper runs it (its XQA kernels, mha_sm90.cu): a
// warpgroup multiplies queries by keys, another one the scores by values, a third of warps loads. What its source says is
// counted here; the clocks of its chains are fitted (docs/calibration/attention.md).
#include <algorithm>
#include <cmath>

#include "model/stacks/trtllm/plan_attention.hpp"

namespace plumbline {
namespace {

constexpr double kKeysPerTile = 64;

/// How the kernel is compiled for a shape.
struct WgmmaDecode {
  double width;        ///< of a head: a power of two
  double queries;      ///< columns of its products: the heads of a group, in eights
  double ctas_per_sm;  ///< three where accumulators are small, as its launch bounds ask of the compiler, else two
  /// Elements of a CTA's queries and of its results, in units of 8 heads of 128: what is loaded, rotated, rescaled with each
  /// tile and written.
  double size;
};

WgmmaDecode wgmma_decode(const DecodeTask& t) {
  constexpr double kEight = 8, kMostElementsOfThree = 128 * 16, kUnit = 8 * 128;
  WgmmaDecode k;
  k.width = std::exp2(std::ceil(std::log2(std::max(t.qk_dim, 16.0))));
  k.queries = ceil_div(t.rows, kEight) * kEight;
  const double elements = k.width * k.queries;
  k.ctas_per_sm = elements <= kMostElementsOfThree ? 3 : 2;
  k.size = elements / kUnit;
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
/// which this kernel does by itself: an empty launch less, and the gap behind it. (decoderXQAImplJIT.cpp:
/// applyRoPEInXqaKernel.)
Seconds launch_spared(const Rates& m, std::span<const FamilyScalars> families) {
  if (families[trtllm::kDecode8bit].on_file) return {};
  const Seconds launch = families[trtllm::kPrepare8bit].fixed + m.gap_graph;
  return std::min(launch, families[trtllm::kDecode].fixed);
}

/// What CTAs of the kernel live by, in SM clocks.
struct Chains {
  double start_clk, tile_clk;
  double issue_start_clk, issue_tile_clk;  ///< what an SM issues for a CTA and for each of its tiles
};

/// Where nobody measured it, the grouped kernel on mma.sync lends what both do: a CTA's way to its first keys and from
/// its last, and the wait for a turn of keys, half as long for 8 bits. What an SM issues is not told apart there.
Chains chains_of(std::span<const FamilyScalars> families) {
  constexpr double kOf16Bits = 0.5;
  const FamilyScalars& own = families[trtllm::kDecode8bit];
  if (own.on_file) return {own.start_clk, own.step_clk, own.issue_start_clk, own.issue_step_clk};
  const FamilyScalars& grouped = families[trtllm::kDecode];
  return {grouped.start_clk, grouped.step_clk * kOf16Bits, 0, 0};
}

/// A CTA's life: it starts, then tile follows tile, keys waiting for room, the softmax for keys, values for scores. CTAs that
/// share an SM hide each other's waits, but not what an SM has to issue for all of them.
void live(Demand& d, const DecodeTask& t, const WgmmaDecode& k, double splits, const Rates& m,
          std::span<const FamilyScalars> families) {
  /// The share of what is issued that does not grow with the heads (barriers, the loaders' warps), in units of `size`, and
  /// how much longer each 8 more heads make a tile's chain: both cards' training rows want 0.25 to 0.4 and 0.5 to 0.8.
  constexpr double kIssuedAnyway = 0.3, kLongerByEight = 0.6, kEight = 8;
  const Chains chains = chains_of(families);
  const double parts = parts_with_keys(splits, visible_tiles(t));
  const double tiles = ceil_div(visible_tiles(t), parts);
  d.plan.ctas = static_cast<std::int64_t>(t.kv_sets * parts);
  d.plan.steps = d.plan.longest = tiles;
  const double tile_clk = chains.tile_clk * (1 + kLongerByEight * (k.queries / kEight - 1));
  d.step_latency = (chains.start_clk + tiles * tile_clk) / tiles / m.clock;
  d.issue_clk = (kIssuedAnyway + k.size) * (chains.issue_start_clk + tiles * chains.issue_tile_clk) / tiles;
  const Seconds spared = launch_spared(m, families);
  d.serial_latency = trtllm::merge_of_parts(parts, m, families) - spared;
  d.serial_latency_of = spared > Seconds{} ? "to merge the splits, less a launch spared" : "to merge the splits";
}

/// Queries are rotated and the cache is written by the kernel itself. Published rows of heads of 64, which their collector gives
/// attention sinks, take 2.4 us longer than those of 128 whatever their size, as if a launch went before; nobody measured them
/// without.
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
  const WgmmaDecode kernel = wgmma_decode(t);
  AttentionChoice c;
  c.family = &trtllm::wgmma_decode_family(families);
  c.plan.kv_tile = static_cast<std::int64_t>(kKeysPerTile);
  c.plan.packed_heads = static_cast<std::int64_t>(t.rows);
  score_demand(c.main, {kernel.queries, kKeysPerTile, t.qk_dim, t.v_dim}, m.gpu.sm.tensor_flop_per_clk[DType::fp8],
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
