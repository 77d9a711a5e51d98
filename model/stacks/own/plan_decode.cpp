// Our own paged decode attention: a persistent launch over items, an item being one split of the keys of one KV head of
// one sequence (kernels/attention/decode_ring.cuh), and a second launch that merges the splits.
//
// Numbers below: launches of 4 to 12000 items of 1 to 2048 steps, D 64 to 256, pages of 16 and 64, none of them held
// out; H200, 2026-11-20 (tests/model/sweeps/decode_h200.csv, and a sweep of splits over training shapes). The first
// launch comes out within 1.9 % in the median and 7.4 % at p90 of 1073.
#include <algorithm>
#include <cmath>

#include "model/engine/timing.hpp"
#include "model/stacks/own/own_kernels.hpp"
#include "model/stacks/own/plan_attention.hpp"

namespace plumbline {
namespace {

/// Cut into `splits`: a CTA walks whole tiles of keys through a ring of `stages`.
void cut_items(Demand& d, const DecodeTask& t, const DecodeVariant& v, double splits, const Rates& m) {
  const double tiles = ceil_div(t.context, static_cast<double>(v.kv_tile));
  d.plan.ctas = static_cast<std::int64_t>(t.ctas_unsplit * splits);
  d.plan.steps = d.plan.longest = ceil_div(tiles, splits);
  decode_traffic(d, t, DType::bf16, splits > 1 ? ResultsLeave::by_the_merge : ResultsLeave::here);
  // all CTAs that begin together ask for their first tile at once, and the last of them waits for the others' too
  const double at_once = std::min(t.ctas_unsplit * splits, m.sm_count * static_cast<double>(v.ctas_per_sm));
  d.start = at_once * static_cast<double>(v.kv_tile) * t.key_bytes * units::B / m.dram_read;
}

/// A step's chain: barrier and softmax (family.step), the copies that fetch the tile, issued one after the other, and
/// the products over the head's width.
Seconds step_chain(const AttentionDecode& s, const DecodeVariant& v, const FamilyScalars& family) {
  constexpr Seconds kCopy = 32.0 * units::ns, kColumn = 1.05 * units::ns;
  constexpr double kPanel = 64;  // columns a copy takes, of one page
  const double rows = static_cast<double>(s.page > 0 ? std::min(s.page, v.kv_tile) : v.kv_tile);
  const double copies =
      ceil_div(static_cast<double>(s.qk_dim + s.v_dim), kPanel) * static_cast<double>(v.kv_tile) / rows;
  return family.step + copies * kCopy + static_cast<double>(s.qk_dim) * kColumn;
}

Demand item_demand(const AttentionDecode& s, const DecodeTask& t, const DecodeVariant& v, const Rates& m,
                   const FamilyScalars& family) {
  Demand d;
  const double keys = static_cast<double>(v.kv_tile), stages = static_cast<double>(v.stages);
  d.plan.ctas_per_sm = v.ctas_per_sm;
  d.plan.persistent = d.loads_stop = d.dealt_once = true;
  d.plan.threads = 160;  // a consumer warp for every 16 keys of the tile, and the producer
  score_demand(d, static_cast<double>(v.rows), keys, t.qk_dim, t.v_dim, m.gpu.sm.tensor_flop_per_clk[DType::bf16],
               t.key_bytes / (t.qk_dim + t.v_dim), m);
  d.step_latency = std::max(m.dram_latency / stages, step_chain(s, v, family));
  // the consumers' results are merged in shared memory and written: 2 clocks an element of the group's rows
  constexpr double kMergeClk = 2.0;
  d.serial_clk = kMergeClk * t.rows * t.v_dim;
  // then the next item's page numbers come from memory, and its first keys, beside others'
  d.next_tile_wait = m.gpu.memory.latency + m.dram_latency;
  d.in_flight = stages * keys * t.key_bytes * units::B;
  return d;
}

/// The second launch is a chain of round trips to lines that other SMs have just written: a warp takes four partial
/// rows at a time, 490 ns with their log-sums. A lane's values lie side by side, so that each of its loads of 8 bytes
/// asks for a sector of its own: v_dim / 64 times the bytes.
Demand merge_demand(const DecodeTask& t, double splits, const Rates& m) {
  constexpr double kAtOnce = 4, kFewSplits = 4, kManySplits = 32, kWarpsOfMany = 16, kColumns = 64;
  constexpr double kRoundTrips = 3.4;  // of L2's latency to near lines that are clean
  const double warps = splits <= kFewSplits ? 1 : splits <= kManySplits ? kAtOnce : kWarpsOfMany;
  Demand d = combine_demand(t.out_rows, t.v_dim, splits, 2, m);
  d.l2 = splits * t.v_dim * 4.0 * (1 + t.v_dim / kColumns) * units::B;
  d.step_latency = ceil_div(splits, kAtOnce * warps) * kRoundTrips * m.l2_latency;
  return d;
}

/// One cut into `splits` with its price, kept in `best` if it is the cheapest so far.
void consider(AttentionChoice& best, Seconds& total, const DecodeTask& t, const DecodeVariant& v, double splits,
              const Rates& m) {
  cut_items(best.main, t, v, splits, m);
  Demand combine;
  Seconds extra;
  if (splits > 1) {
    combine = merge_demand(t, splits, m);
    extra = price_total(combine, m, *best.combine_family, total) + m.gap_graph;
  }
  const Seconds here = extra + price_total(best.main, m, *best.family, total - extra);
  if (here >= total) return;
  total = here;
  best.combine = combine;
  best.combines = splits > 1;
  best.plan.splits = static_cast<std::int64_t>(splits);
}

}  // namespace

/// Splits: the cheapest of none and as many as give each SM 1, 2, ... items; an item is two tiles of keys at least.
AttentionChoice plan_own_decode(const AttentionDecode& s, const DecodeVariant& v, const Rates& m,
                                std::span<const FamilyScalars> families, const AttentionPlan* as_cut) {
  const DecodeTask t = decode_task(s);
  AttentionChoice c;
  c.family = &families[own::kDecode];
  c.combine_family = &families[own::kCombine];
  c.plan.kv_tile = v.kv_tile;
  c.plan.packed_heads = static_cast<std::int64_t>(t.rows);
  c.main = item_demand(s, t, v, m, *c.family);
  constexpr double kMostTurns = 3, kLeastTiles = 2, kMostSplits = 64;
  const double tiles = ceil_div(t.context, static_cast<double>(v.kv_tile));
  const double most = std::min(kMostSplits, std::floor(tiles / kLeastTiles));
  Seconds best = 1e30 * units::s;
  double last_steps = tiles;
  consider(c, best, t, v, as_cut ? static_cast<double>(as_cut->splits) : 1, m);
  if (as_cut) return c;
  for (double items = 1; items <= kMostTurns * static_cast<double>(v.ctas_per_sm); ++items) {
    const double splits = std::min(most, std::floor(items * m.sm_count / t.ctas_unsplit));
    if (splits <= 1) continue;
    const double steps = ceil_div(tiles, splits);
    if (steps < last_steps) consider(c, best, t, v, splits, m);  // else only one more partial result
    last_steps = steps;
    if (splits >= most) break;
  }
  cut_items(c.main, t, v, static_cast<double>(c.plan.splits), m);
  return c;
}

}  // namespace plumbline
