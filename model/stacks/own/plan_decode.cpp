// Our own paged decode attention: a persistent launch over items, an item being one split of the keys of one KV head of
// one sequence (kernels/attention/decode_ring.cuh), and a second launch that merges the splits.
//
// Numbers below: launches of 4 to 12000 items of 1 to 2048 steps, D 64 to 256, pages of 16 and 64, none of them held
// out; H200, 2026-11-20 (tests/model/sweeps/decode_h200.csv, and a sweep of splits over training shapes). The first
// launch comes out within 1.9 % in the median and 7.4 % at p90 of 1073.
#include <algorithm>
#include <cmath>
#include <utility>

#include "model/engine/timing.hpp"
#include "model/stacks/own/own_kernels.hpp"
#include "model/stacks/own/plan_attention.hpp"

namespace plumbline {
namespace {

/// Tokens that one copy brings: of one page, and no more than a tile.
double box_tokens(std::int64_t page, const DecodeVariant& v) {
  return static_cast<double>(page > 0 ? std::min(page, v.kv_tile) : v.kv_tile);
}

/// Cut into `splits`: a CTA walks whole tiles of keys through a ring of `stages`. A copy of which one token is in the
/// context brings the others of its box too (decode_ring.cuh), `box` of them.
void cut_items(Demand& d, const DecodeTask& t, const DecodeVariant& v, double box, double splits, const Rates& m) {
  const double tiles = ceil_div(t.context, static_cast<double>(v.kv_tile));
  d.plan.ctas = static_cast<std::int64_t>(t.ctas_unsplit * splits);
  d.plan.steps = d.plan.longest = ceil_div(tiles, splits);
  DecodeTask brought = t;
  brought.context = ceil_div(t.context, box) * box;
  decode_traffic(d, brought, DType::bf16, splits > 1 ? ResultsLeave::by_the_merge : ResultsLeave::here);
  // all CTAs that begin together ask for their first tile at once, and the last of them waits for the others' too
  const double at_once = std::min(t.ctas_unsplit * splits, m.sm_count * static_cast<double>(v.ctas_per_sm));
  d.start = at_once * static_cast<double>(v.kv_tile) * t.key_bytes * units::B / m.dram_read;
}

/// A step's chain: barrier and softmax (family.step), the copies that fetch the tile, issued one after the other, and
/// the products over the head's width.
Seconds step_chain(const AttentionDecode& s, const DecodeVariant& v, const FamilyScalars& family) {
  constexpr Seconds kCopy = 32.0 * units::ns, kColumn = 1.05 * units::ns;
  constexpr double kPanel = 64;  // columns a copy takes, of one page
  const double copies = ceil_div(static_cast<double>(s.qk_dim + s.v_dim), kPanel) * static_cast<double>(v.kv_tile) /
                        box_tokens(s.page, v);
  return family.step + copies * kCopy + static_cast<double>(s.qk_dim) * kColumn;
}

Demand item_demand(const AttentionDecode& s, const DecodeTask& t, const DecodeVariant& v, const Rates& m,
                   const FamilyScalars& family) {
  Demand d;
  const double keys = static_cast<double>(v.kv_tile), stages = static_cast<double>(v.stages);
  d.plan.ctas_per_sm = v.ctas_per_sm;
  d.plan.persistent = d.loads_stop = d.dealt_once = true;
  d.plan.threads = 160;  // a consumer warp for every 16 keys of the tile, and the producer
  score_demand(d, {static_cast<double>(v.rows), keys, t.qk_dim, t.v_dim}, m.gpu.sm.tensor_flop_per_clk[DType::bf16],
               t.key_bytes / (t.qk_dim + t.v_dim), m);
  d.step_latency = std::max(m.dram_latency / stages, step_chain(s, v, family));
  // the consumers' results are merged in shared memory and written: 2 clocks an element of the group's rows
  constexpr double kMergeClk = 2.0;
  d.serial_clk = kMergeClk * t.rows * t.v_dim;
  // then the next item's page numbers come from memory, and its first keys, beside others'
  d.next_tile_wait = m.gpu.memory.latency + m.dram_latency;
  d.in_flight = stages * keys * t.key_bytes * units::B;
  d.polls = true;
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

/// The whole launch cut into `splits`.
void cut(AttentionChoice& c, const DecodeTask& t, const DecodeVariant& v, double box, double splits, const Rates& m) {
  cut_items(c.main, t, v, box, splits, m);
  c.combines = splits > 1;
  if (c.combines) c.combine = merge_demand(t, splits, m);
  c.plan.splits = static_cast<std::int64_t>(splits);
}

/// Its time, or anything above `give_up`.
Seconds time_below(const AttentionChoice& c, const Rates& m, const KeyCutting& how, Seconds give_up) {
  if (how.alone > Flops{}) return time_of(c, m, how);
  Seconds merge;
  if (c.combines) merge = price_total(c.combine, m, *c.combine_family, give_up) + m.gap_graph;
  return merge + price_total(c.main, m, *c.family, give_up - merge);
}

}  // namespace

/// Splits: the cheapest of all that leave the SMs no more turns than `kMostTurns`, so that a GPU with more SMs has every
/// cut that one with fewer has. An item is two tiles of keys at least. In a step, where each prediction's time counts, of
/// splits whose items are as long the fewest: more of them only fill the SMs otherwise.
AttentionChoice plan_own_decode(const AttentionDecode& s, const DecodeVariant& v, const Rates& m,
                                std::span<const FamilyScalars> families, const AttentionPlan* as_cut,
                                const KeyCutting& how) {
  const DecodeTask t = decode_task(s);
  const double box = box_tokens(s.page, v);
  AttentionChoice c;
  c.family = &families[own::kDecode];
  c.combine_family = &families[own::kCombine];
  c.plan.kv_tile = v.kv_tile;
  c.plan.packed_heads = static_cast<std::int64_t>(t.rows);
  c.main = item_demand(s, t, v, m, *c.family);
  if (as_cut) {
    cut(c, t, v, box, static_cast<double>(as_cut->splits), m);
    return c;
  }
  constexpr double kMostTurns = 3, kLeastTiles = 2, kMostSplits = 64;
  const double tiles = ceil_div(t.context, static_cast<double>(v.kv_tile));
  const double room = std::floor(kMostTurns * static_cast<double>(v.ctas_per_sm) * m.sm_count / t.ctas_unsplit);
  const double most = std::min({kMostSplits, std::floor(tiles / kLeastTiles), room});
  Seconds least = 1e30 * units::s;
  double best = 1;
  for (double splits = 1, steps = tiles; splits == 1 || splits <= most; ++splits) {
    const double last_steps = std::exchange(steps, ceil_div(tiles, splits));
    if (how.alone <= Flops{} && splits > 1 && steps == last_steps) continue;
    cut(c, t, v, box, splits, m);
    const Seconds time = time_below(c, m, how, least);
    if (time >= least) continue;
    least = time;
    best = splits;
  }
  cut(c, t, v, box, best, m);
  return c;
}

}  // namespace plumbline
