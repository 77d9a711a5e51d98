#include "model/stacks/own/row_kernels.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>
#include <stdexcept>

#include "arch/gpu/occupancy.hpp"
#include "ops/plan/row_menu.hpp"

namespace plumbline {
namespace {

using Counts = KernelCounts;

double to_double(std::int64_t n) { return static_cast<double>(n); }
double elements_of(const Rowwise& s) { return to_double(s.rows) * to_double(s.cols); }
std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }
double log2_up(double n) { return n > 1 ? std::ceil(std::log2(n)) : 0; }

/// The counts, and the GPU on which SMs are shared and some grids are sized.
struct On {
  const Counts& counts;
  const GpuNumbers& gpu;
};

/// What the compiler left: CTAs that fit an SM, and the bytes that spilled registers send to L2 and on to DRAM.
void set_resources(RowKernel& k, const KernelResources& built, const On& on) {
  const Occupancy fits = occupancy(on.gpu.sm, {k.plan.threads, built.registers, to_double(built.shared_B) * units::B});
  k.plan.ctas_per_sm = std::max<std::int64_t>(1, fits.blocks_per_sm);
  const Counts::Spills& n = on.counts.spills;
  if (to_double(k.plan.threads) < n.least_threads) return;
  k.spilled = n.l2_ratio * to_double(built.stack_B);
  k.evicted = n.dram_ratio * to_double(built.stack_B);
}

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

/// Share of the places between vectors at which rows that are not whole vectors begin or end within one.
double unaligned_share(std::int64_t cols) { return 1 - to_double(std::gcd(cols, kRowVector)) / to_double(kRowVector); }

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
  if (cluster) k.l2_trips += 1;  // every other CTA's shared memory, about as far
  // gamma and beta come after the reduction, as few at a time as registers are left
  if (norm && chosen.menu != RowMenu::few) k.l2_trips += h.vecs > 4 ? h.vecs : 2;
  return k;
}

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
  // eight vectors' unrolled code is met for the first time by every warp, from beyond the SM's instruction cache
  const double fetched = h.vecs > 4 && cluster ? n.fetch_clk : 0;
  // barriers and shared-memory passes from the groups' largest to the ranks
  r.chain_clk = fetched + (softmax ? n.softmax_clk : n.clk) + n.pick_clk * k;
  if (cluster) {  // the lists' way to the first CTA, and their merge, during which the others' places are free already
    r.chain_clk += softmax ? n.softmax_merge_clk : n.merge_clk;
    r.tail_clk = softmax ? 0 : n.tail_clk;
  }
  r.lockstep = cluster;
  return r;
}

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
    default: return ChainOp::norm_backward;
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

/// Rows as fp32 in the registers of a few lanes, or walked by 1024 threads.
RowKernel chain_kernel(const On& on, const Rowwise& s) {
  const Counts& c = on.counts;
  const ChainOp op = chain_op(s.kind);
  const bool forward = op == ChainOp::forward, norm = op == ChainOp::norm_backward,
             draws = forward || op == ChainOp::fused_backward, whole = whole_rows(s.cols);
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
  const double reductions = forward || norm ? 2 : 1;
  k.chain_clk = reductions * (std::min(5.0, log2_up(h.lanes)) + log2_up(warps)) * c.waits.shuffle_clk +
                (warps > 1 ? reductions * c.waits.barrier_clk : 0);
  // Groups whose bounds are checked come one after the other: the mask's vector and the random numbers, or gamma's.
  if (fit != ChainFit::full) k.l2_trips += (draws ? 2.0 : norm ? 1.0 : 0.0) * (walks ? h.groups : groups);
  if (s.residual) k.loads += groups;  // behind the sums, each behind the store of the group before
  if (!whole) k.loads += c.rows.ragged_loads;
  k.holds = true;
  k.in_lanes = true;
  k.phases = forward ? 2 : 1;
  return k;
}

// --- element by element ----------------------------------------------------------------------------------------------

RowKernel flat_kernel(double vectors, const Counts::Flat& n, const On& on) {
  constexpr std::int64_t kThreads = 256;
  RowKernel k;
  k.plan.threads = kThreads;
  k.plan.ctas = static_cast<std::int64_t>(std::max(1.0, std::ceil(vectors / to_double(kThreads))));
  set_resources(k, {static_cast<std::int64_t>(on.counts.flat_registers), 0, 0}, on);
  k.instructions = n.instructions * to_double(kThreads) / kRowWarp;
  k.sfu = n.sfu * to_double(kThreads) / kRowWarp;
  return k;
}

/// Attention's kernels take each row by itself, the others all elements as one array.
RowKernel element_wise_kernel(const On& on, const Rowwise& s) {
  const Counts& c = on.counts;
  const auto kind = static_cast<std::size_t>(s.kind);
  const bool attention = goes_by_rows(s.kind) && s.kind != RowwiseKind::swiglu, whole = whole_rows(s.cols);
  const double vectors =
      attention ? to_double(s.rows) * to_double(ceil_div(s.cols, kRowVector)) : elements_of(s) / to_double(kRowVector);
  Counts::Flat n = c.flat[kind];
  double drawings = s.kind == RowwiseKind::dropout ? 1 : 0;
  if (goes_by_rows(s.kind) && !whole) {
    const Counts::FlatRagged& r = c.flat_ragged[kind];
    const double ends = std::min(1.0, to_double(kRowWarp * kRowVector) / to_double(s.cols) * unaligned_share(s.cols));
    n = {r.instructions + r.row_end * ends, r.sfu + r.sfu_row_end * ends};
    drawings = r.drawings;
  }
  RowKernel k = flat_kernel(vectors, n, on);
  if (attention) set_resources(k, c.resources.attention_flat(s.kind, whole), on);
  k.wide_slots = c.chains.philox * drawings * to_double(k.plan.threads) / kRowWarp;
  // the last elements that are no vector are a launch of their own (kernels/rows/flat.cu)
  const bool tail = s.kind == RowwiseKind::copy || s.kind == RowwiseKind::add || row_of(s.kind).activation;
  if (tail && s.rows * s.cols % kRowVector != 0) k.launches = 2;
  return k;
}

/// Tiles pass through shared memory: 128 x 128 where both sides are whole sectors, else 64 x 128.
RowKernel transpose_kernel(const On& on, const Rowwise& s) {
  const Counts& c = on.counts;
  constexpr std::int64_t kSector = 16;
  const bool whole_in = whole_rows(s.cols), whole_out = s.rows % kSector == 0, whole = whole_in && whole_out;
  const std::int64_t halo = s.rows % kSector == 0 ? 0 : kSector - 1;
  RowKernel k;
  k.plan.threads = whole ? 512 : 256;
  k.plan.ctas = ceil_div(s.rows + halo, whole ? 128 : 64) * ceil_div(s.cols, 128);
  const Counts::Transpose& n = c.transpose;
  set_resources(k, c.resources.transpose(whole_in, whole_out), on);
  const double warps = to_double(k.plan.threads) / kRowWarp;
  k.instructions = (whole ? n.whole : whole_in ? n.whole_in : whole_out ? n.whole_out : n.ragged) * warps;
  k.sfu = n.sfu * warps;
  k.chain_clk = 2 * c.waits.barrier_clk + n.clk;  // into shared memory, and a column's words out of it one by one
  k.scattered = n.scattered_fraction;
  k.holds = true;
  return k;
}

// --- sums and scans of a whole array ---------------------------------------------------------------------------------

RowKernel scan_kernel(const On& on, const Scan& s) {
  const Counts& c = on.counts;
  const bool fp32 = s.dtype == DType::fp32;
  const double bytes = to_double(s.n) * (fp32 ? 4 : 2);
  RowKernel k;
  if (s.kind == ScanKind::sum_all) {
    constexpr double kThreads = 512;
    const Counts::SumAll& n = c.sum_all;
    const double ctas = std::clamp(std::ceil(bytes / 16 / kThreads), 1.0, n.ctas * to_double(on.gpu.sm_count));
    k.plan.threads = static_cast<std::int64_t>(kThreads);
    k.plan.ctas = static_cast<std::int64_t>(ctas);
    set_resources(k, c.resources.sum_all(fp32), on);
    // each turn takes four vectors, one of each quarter of what all threads take at a time: a last turn is gone through
    // by every thread that finds a vector in the first
    constexpr double kVectors = 4;
    const double turns = bytes / 16 / (ctas * kThreads * kVectors), whole = std::floor(turns);
    const double taken = whole + std::min(1.0, kVectors * (turns - whole));
    k.instructions = (n.thread + (fp32 ? n.vector_fp32 : n.vector_bf16) * kVectors * taken) * kThreads / kRowWarp;
    // the last CTA's fence, its turn at the counter, the others' sums, and two reductions
    k.tail_trips = n.tail_trips;
    k.tail_clk = n.tail_clk + n.tail_clk_a_cta * ctas;
    return k;
  }
  // tiles wait for those before them and hold their registers meanwhile: decoupled look-back
  constexpr double kTile = 48 * 1024;
  k.plan.threads = 256;
  k.plan.ctas = static_cast<std::int64_t>(std::max(1.0, std::ceil(bytes / kTile)));
  set_resources(k, c.resources.cumsum(fp32), on);
  k.instructions =
      (fp32 ? c.cumsum.instructions_fp32 : c.cumsum.instructions_bf16) * to_double(k.plan.threads) / kRowWarp;
  k.chained = true;
  k.chained_clk = c.cumsum.tile_clk;
  k.tail_trips = c.cumsum.tail_trips;  // published, seen, published again: each a store's way and a load's
  k.tail_clk = 2 * c.waits.barrier_clk + c.cumsum.tail_clk;
  return k;
}

RowKernel rowwise_kernel(const On& on, const Rowwise& s) {
  const Counts& c = on.counts;
  switch (s.kind) {
    case RowwiseKind::layernorm:
    case RowwiseKind::rmsnorm:
    case RowwiseKind::softmax:
    case RowwiseKind::sum_rows:
    case RowwiseKind::argmax:
    case RowwiseKind::quantize: {
      const RowChoice chosen = choose_row_tile(s, on.gpu.sm_count);
      if (chosen.choice.entry >= 0) return row_tile_kernel(on, s, chosen);
      return flat_kernel(elements_of(s) / to_double(kRowVector), c.rows_other, on);
    }
    case RowwiseKind::rmsnorm_backward:
    case RowwiseKind::softmax_backward:
    case RowwiseKind::scale_mask_softmax_dropout:
    case RowwiseKind::scale_mask_softmax_dropout_backward: return chain_kernel(on, s);
    case RowwiseKind::transpose_copy: return transpose_kernel(on, s);
    default: break;
  }
  return element_wise_kernel(on, s);
}

// --- gathers ---------------------------------------------------------------------------------------------------------

/// Items of 256 neighbouring threads lie in so many tokens, whose angles the CTA works out a frequency a thread.
double rope_passes(const Rope& s, std::int64_t items_a_token) {
  constexpr std::int64_t kThreads = 256;
  const double begins = to_double(kThreads - std::gcd(kThreads, items_a_token));
  const double tokens = std::min(to_double(s.tokens), 1 + begins / to_double(items_a_token));
  return std::ceil(tokens * to_double(s.head_dim / 2) / kRowWarp) * kRowWarp / to_double(kThreads);
}

RowKernel rope_kernel(const On& on, const Rope& s) {
  const Counts::Rope& n = on.counts.rope;
  const bool vectors = whole_rows(s.head_dim / 2);
  const std::int64_t a_token = s.heads * (s.head_dim / 2) / (vectors ? kRowVector : 1);
  const double passes = rope_passes(s, a_token), begun = std::min(1.0, passes);
  const Counts::Flat item{(vectors ? n.vector : n.single) + n.turns_once * begun + n.turns * passes,
                          n.sfu_once * begun + n.sfu_turns * passes};
  RowKernel k = flat_kernel(to_double(s.tokens * a_token), item, on);
  set_resources(k, on.counts.resources.rope(vectors), on);
  k.chain_clk = n.clk;  // sines and cosines, once a CTA, and a barrier
  k.scattered = n.scattered_fraction;
  return k;
}

RowKernel embedding_kernel(const On& on, const Embedding& s) {
  const Counts& c = on.counts;
  const Counts::Embedding& n = c.embedding;
  const double elements = to_double(s.rows) * to_double(s.cols);
  if (!whole_rows(s.cols)) {  // an element a thread, a 64-bit division each
    RowKernel k = flat_kernel(elements, {n.element, n.element_sfu}, on);
    k.start_loads = 1;
    return k;
  }
  const double vectors = elements / to_double(kRowVector);
  constexpr double kThreads = 128, kVecs = 4, kEnoughAnSm = 4;  // kernels/rows/flat.cu
  const bool many = vectors >= kEnoughAnSm * to_double(on.gpu.sm_count) * kThreads * kVecs;
  RowKernel k;
  k.plan.threads = static_cast<std::int64_t>(kThreads);
  k.plan.ctas = static_cast<std::int64_t>(std::max(1.0, std::ceil(vectors / kThreads / (many ? kVecs : 1))));
  set_resources(k, c.resources.gather(many), on);
  k.instructions = (many ? n.many : n.few) * kThreads / kRowWarp;
  k.start_loads = 1;  // the row's number first
  k.scattered = n.scattered_fraction;
  return k;
}

/// No kernel of ours: what the operator needs whatever the kernel.
RowKernel other_kernel(const On& on, const Work& w) {
  RowKernel k = flat_kernel(std::max(w.read, w.write).in(units::B) / 16, on.counts.flat_other, on);
  const double ctas = to_double(k.plan.ctas);
  k.instructions = w.fp32.in(units::FLOP) / ctas / kRowWarp;
  k.sfu = w.sfu / ctas / kRowWarp;
  return k;
}

}  // namespace

RowKernel row_kernel(const Op& op, const Work& w, const KernelCounts& counts, const GpuNumbers& gpu) {
  const On on{counts, gpu};
  if (const auto* row = std::get_if<Rowwise>(&op)) return rowwise_kernel(on, *row);
  if (const auto* top = std::get_if<TopK>(&op)) return selection_kernel(on, top->rows, top->cols, top->k, false);
  if (const auto* top = std::get_if<SoftmaxTopK>(&op)) return selection_kernel(on, top->rows, top->cols, top->k, true);
  if (const auto* scan = std::get_if<Scan>(&op)) return scan_kernel(on, *scan);
  if (const auto* rope = std::get_if<Rope>(&op)) return rope_kernel(on, *rope);
  if (const auto* table = std::get_if<Embedding>(&op)) return embedding_kernel(on, *table);
  return other_kernel(on, w);
}

}  // namespace plumbline
