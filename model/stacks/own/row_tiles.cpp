#include <algorithm>
#include <iterator>
#include <stdexcept>

#include "model/stacks/own/row_kernels_internal.hpp"

namespace plumbline::row_kernels {
namespace {

// --- norms, softmax, sum and argmax of rows, quantize ----------------------------------------------------------------

/// Special-function instructions of a warp. Up to four vectors a thread keep their exponentials, more are worked out
/// again where they are written, which `filled` are.
double row_sfu(const Counts& c, RowwiseKind kind, double vecs, double filled, double warps, bool cluster) {
  const Counts::Row& row = c.row[static_cast<std::size_t>(kind)];
  if (kind != RowwiseKind::softmax) return row.sfu + (cluster ? row.sfu_cluster : 0);
  const Counts::SoftmaxSfu& n = c.softmax_sfu;
  return n.row + n.vector * vecs + (vecs > 4 ? n.again * filled : 0) + n.warps_log2 * log2_up(warps) +
         (cluster ? n.cluster : 0);
}

/// Vectors of a row that a thread has, of the warp's thread that has most, on average over warps. Ragged rows touch
/// seven elements more.
double vectors_of_a_thread(std::int64_t cols, const RowTile& tile, int cluster) {
  const double spare = whole_rows(cols) ? 0 : to_double(kRowVector - 1) * cluster;
  const double vectors = (to_double(cols) + spare) / to_double(kRowVector) / cluster;
  return std::min<double>(tile.vecs, std::ceil(vectors / kRowWarp) * kRowWarp / tile.threads);
}

/// Of a warp, for the row or the part of it that its CTA holds.
double held_instructions(const Counts::Row& n, const RowTile& h, int cluster, const Rowwise& s, double filled) {
  const double warps = to_double(h.threads) / kRowWarp * cluster, v = h.vecs;
  double each = n.row + (h.threads > kRowWarp ? n.warps : 0) + n.held * v + n.filled * filled;
  if (s.residual) each += n.residual * v;
  if (v > 4) each += n.again * v;
  if (h.clustered) each += n.cluster + n.cluster_turn * (std::ceil(warps / kRowWarp) - 1);
  if (whole_rows(s.cols)) return each;
  const double ends = warps * v > 1 ? 2 * unaligned_share(s.cols) : 1;  // one vector has both ends of its row
  return each + n.ragged_held * v + n.ragged_filled * filled + n.row_end * ends / warps;
}

double walked_instructions(const Counts::Row& n, const RowTile& h, std::int64_t cols) {
  const double steps = to_double(cols) / to_double(kRowVector * h.threads * h.vecs);
  return n.row + n.warps + steps * (n.walk_step + (whole_rows(cols) ? 0 : n.walk_step_ragged));
}

}  // namespace

RowKernel row_tile_kernel(const On& on, const Rowwise& s, const RowChoice& chosen) {
  const Counts& c = on.counts;
  const RowTile& h = chosen.tile();
  const bool cluster = chosen.choice.cluster > 1,
             norm = s.kind == RowwiseKind::rmsnorm || s.kind == RowwiseKind::layernorm;
  const bool reduces = s.kind == RowwiseKind::sum_rows || s.kind == RowwiseKind::argmax;
  const Counts::Row& n = c.row[static_cast<std::size_t>(s.kind)];
  RowKernel k;
  k.plan = plan_of(h, chosen.choice, s.rows);
  set_resources(k, c.resources.row(s.kind, chosen, whole_rows(s.cols)), on);
  const double warps = to_double(k.plan.threads) / kRowWarp, row_warps = to_double(h.threads) / kRowWarp;
  const double filled = vectors_of_a_thread(s.cols, h, chosen.choice.cluster);
  const double each =
      h.walks ? walked_instructions(n, h, s.cols) : held_instructions(n, h, chosen.choice.cluster, s, filled);
  if (!whole_rows(s.cols)) k.loads = c.rows.ragged_loads;
  k.instructions = each * warps;
  k.sfu = row_sfu(c, s.kind, h.vecs, filled, row_warps, cluster) * warps;
  k.holds = true;
  k.lockstep = cluster;
  k.phases = reduces ? 0 : 1;
  // a warp's, then those of the warps' results: of all of a cluster's warps, which take several turns of 32
  const double steps = 5 + (cluster ? std::ceil(chosen.choice.cluster * row_warps / kRowWarp) + 5 : log2_up(row_warps));
  k.chain_clk = steps * (c.waits.shuffle_clk + (s.kind == RowwiseKind::softmax ? c.waits.exponentials_clk : 0)) +
                (row_warps > 1 ? c.waits.barrier_clk : 0);
  if (cluster && s.kind == RowwiseKind::softmax) {
    // Pairs of a largest and a sum take longer to agree on than one value, beside their way (25 training rows, H200, with
    // the drift of plan_rows.cpp: 5.3 -> 3.9 % in the median, rms 8.0 -> 6.1).
    constexpr double kPairsClk = 500;
    k.chain_clk += kPairsClk;
    k.drifts = true;
  }
  if (cluster) k.l2_trips += reduces ? 1 : 2;  // every other CTA's shared memory, about as far
  // gamma and beta come after the reduction, as few at a time as registers are left
  if (norm && chosen.menu != RowMenu::few) k.l2_trips += h.vecs > 4 ? h.vecs : 2;
  return k;
}

namespace {

// --- selection (kernels/rows/topk.cu)
// -------------------------------------------------------------------------------------

/// A warp takes its largest out k times.
RowKernel warp_selection(const Counts::WarpTopK& n, const RowTile& h, double k, bool softmax, bool ragged) {
  RowKernel r;
  const double v = h.vecs;
  const double select =
      n.row + n.vector * v + k * (n.pick + n.pick_vector * v) + (ragged ? n.ragged + n.ragged_vector * v : 0);
  r.instructions = kRowsPerCta * (select + (softmax ? n.softmax + n.softmax_vector * v : 0));
  r.sfu = softmax ? kRowsPerCta * (n.sfu_vector * v + n.sfu_row) : 0;
  r.wide_slots = kRowsPerCta * n.pick_vector_slots * k * v;
  r.chain_clk = n.pick_clk * k;  // a warp-wide maximum and its removal
  return r;
}

/// A CTA finds a threshold among the largest of 128 groups, collects who reaches it (128 ln(128 / (128 - k)) elements
/// of shuffled data), and ranks them; a cluster's lists are merged by its first CTA.
RowKernel cta_selection(const Counts::CtaTopK& n, const RowTile& h, double k, bool softmax, bool cluster, bool ragged) {
  RowKernel r;
  const double v = h.vecs, warps = to_double(h.threads) / kRowWarp, of_group = to_double(h.threads) / 128;
  const double found = k > 1 ? -128 * std::log(1 - std::min(k, 127.0) / 128) : 1, padded = 32 * std::ceil(found / 32);
  // vectors of a warp that hold any of those found, and are gone through element by element, twice
  const double hit = v * (1 - std::exp(-found / (warps * v)));
  double each = n.warp + n.vector * v + n.hit * hit + (n.ranks + n.rank_found * padded) / of_group;
  if (softmax) each += n.softmax + n.softmax_vector * v + (cluster ? n.softmax_cluster : 0);
  if (cluster) each += n.cluster;
  if (ragged) each += n.ragged;
  r.instructions = each * warps;
  r.sfu = (softmax   ? n.sfu_vector * v + n.sfu_warp + (cluster ? n.softmax_sfu_cluster : 0)
           : cluster ? n.sfu_cluster
                     : 0) *
          warps;
  // Unrolled code is met for the first time by every warp, from beyond the SM's instruction cache, by the vector. What
  // four vectors take of it is in the clocks of softmax's own merge.
  constexpr double kFetched = 8;  // vectors that `fetch_clk` is of
  const double fetched = !cluster ? 0 : softmax ? (v > 4 ? n.fetch_clk : 0) : n.fetch_clk * v / kFetched;
  // barriers and shared-memory passes from the groups' largest to the ranks
  r.chain_clk = fetched + (softmax ? n.softmax_clk : n.clk) + n.pick_clk * k;
  if (cluster) {  // the lists' way to the first CTA, and their merge, during which the others' places are free already
    r.chain_clk += softmax ? n.softmax_merge_clk : n.merge_clk;
    r.tail_clk = softmax ? 0 : n.tail_clk;
  }
  r.lockstep = cluster;
  r.drifts = cluster && !softmax;
  return r;
}

}  // namespace

RowKernel selection_kernel(const On& on, std::int64_t rows, std::int64_t cols, std::int64_t k, bool softmax) {
  const Counts& c = on.counts;
  const TileChoice choice = choose_topk(rows, cols, k);
  const std::size_t entry = choice.entry < 0 ? std::size(kTopKMenu) - 1 : static_cast<std::size_t>(choice.entry);
  const RowTile& h = kTopKMenu[entry];
  const bool ragged = !whole_rows(cols);
  RowKernel r = h.threads == kRowWarp ? warp_selection(c.topk_warp, h, to_double(k), softmax, ragged)
                                      : cta_selection(c.topk_cta, h, to_double(k), softmax, choice.cluster > 1, ragged);
  r.plan = plan_of(h, choice, rows);
  set_resources(r, c.resources.selection(entry, !ragged, softmax), on);
  if (ragged) r.loads = c.rows.ragged_loads;
  r.holds = r.selects = true;
  return r;
}

namespace {

// --- the training attention chain (kernels/chain/attention_chain.cu)
// -------------------------------------------------------

std::size_t entry_of(const ChainTile& tile) {
  for (std::size_t i = 0; i < std::size(kChainMenu); ++i) {
    if (kChainMenu[i].lanes == tile.lanes && kChainMenu[i].groups == tile.groups) return i;
  }
  throw std::logic_error("attention chain: no such entry in its menu");
}

ChainOp chain_op(RowwiseKind kind) {
  switch (kind) {
    case RowwiseKind::scale_mask_softmax_dropout: return ChainOp::forward;
    case RowwiseKind::scale_mask_softmax_dropout_backward: return ChainOp::fused_backward;
    case RowwiseKind::softmax_backward: return ChainOp::softmax_backward;
    default: throw std::logic_error(std::string(name(kind)) + ": not of the attention chain");
  }
}

/// Groups of eight columns that a lane of the row has, of the warp's lane that has most, on average over warps.
double groups_of_a_lane(std::int64_t cols, std::int64_t lanes) {
  const std::int64_t groups = ceil_div(cols, kRowVector);
  if (lanes <= kRowWarp) return to_double(ceil_div(groups, lanes));
  return to_double(ceil_div(groups, kRowWarp)) * kRowWarp / to_double(lanes);
}

/// Instructions and those of the special-function unit, of a warp, for a row or as many as share the warp.
Counts::Flat chain_row(const Counts::Chain& n, const ChainTile& tile, ChainFit fit, double groups) {
  const double each = fit == ChainFit::full ? n.group_full : fit == ChainFit::whole ? n.group : n.group_ragged;
  return {n.row + (tile.lanes > kRowWarp ? n.warps : 0) + (fit == ChainFit::whole ? n.held * tile.groups : 0) +
              each * groups,
          n.sfu_row + n.sfu_group * groups};
}

Counts::Flat walked_row(const Counts::Chain& n, bool whole, double groups) {
  return {n.walk_row + (whole ? n.walk_group : n.walk_group_ragged) * groups, n.sfu_row + n.sfu_walk_group * groups};
}

}  // namespace

/// Rows as fp32 in the registers of a few lanes, or walked by 1024 threads.
RowKernel chain_kernel(const On& on, const Rowwise& s) {
  const Counts& c = on.counts;
  const ChainOp op = chain_op(s.kind);
  const bool forward = op == ChainOp::forward, draws = forward || op == ChainOp::fused_backward,
             whole = whole_rows(s.cols);
  ChainTile h = chain_tile(s.cols);
  const bool walks = h.lanes == 0;
  if (walks) h = kChainMenu[std::size(kChainMenu) - 1];
  const double warps = to_double(h.lanes) / kRowWarp, groups = groups_of_a_lane(s.cols, h.lanes);
  const ChainFit fit = chain_fit(op, s.cols, h);
  const Counts::Chain& n = c.chain[static_cast<std::size_t>(op)];
  RowKernel k;
  k.turns = walks ? 1 : static_cast<int>(chain_rows_each(forward, s.rows, h.lanes, on.gpu.sm_count));
  k.plan.threads = walks ? kChainWalkThreads : chain_threads(h.lanes);
  k.plan.ctas = walks ? s.rows : chain_ctas(s.rows, h.lanes, k.turns);
  set_resources(k, walks ? c.resources.chain_walked(op, whole) : c.resources.chain(op, entry_of(h), fit), on);
  k.spilled *= k.turns;
  k.evicted *= k.turns;
  const Counts::Flat row = walks ? walked_row(n, whole, groups) : chain_row(n, h, fit, groups);
  const double of_cta = to_double(k.plan.threads) / kRowWarp;
  k.instructions = (row.instructions * k.turns + (walks ? 0 : n.launch)) * of_cta;
  k.sfu = row.sfu * k.turns * of_cta;
  if (draws) k.wide_slots = c.chains.philox * groups * k.turns * of_cta;
  const double reductions = forward ? 2 : 1;
  k.chain_clk = reductions * (std::min(5.0, log2_up(h.lanes)) + log2_up(warps)) * c.waits.shuffle_clk +
                (warps > 1 ? reductions * c.waits.barrier_clk : 0);
  // Groups whose bounds are checked come one after the other: the mask's vector and the random numbers.
  if (fit != ChainFit::full) k.l2_trips += (draws ? 2.0 : 0.0) * (walks ? h.groups : groups);
  if (!whole) {
    k.loads += c.rows.ragged_loads;
    k.stores = kRowVector;  // of a warp's store each lane has one element, of another group
  }
  k.holds = true;
  k.in_lanes = true;
  k.phases = forward ? 2 : 1;
  return k;
}

}  // namespace plumbline::row_kernels
