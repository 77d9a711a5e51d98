#include "model/stacks/own/row_kernels.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "ops/plan/row_menu.hpp"

namespace plumbline {
namespace {

/// Dependent steps, in SM clocks: a shuffle and what is done with its result; the two exponentials of a merge of
/// partial softmaxes beside it; a barrier of a CTA with the shared memory around it.
constexpr double kShuffle = 25, kMergeExponentials = 25, kBarrier = 80;
/// A multiplication of 32 x 32 to 64 bits keeps its unit for three slots; two of them a round of Philox, seven rounds
/// a group of eight elements.
constexpr double kPhiloxExtra = 28;

double to_double(std::int64_t n) { return static_cast<double>(n); }
double elements_of(const Rowwise& s) { return to_double(s.rows) * to_double(s.cols); }
std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }
double log2_up(double n) { return n > 1 ? std::ceil(std::log2(n)) : 0; }

// --- norms, softmax, sum and argmax of rows, quantize ----------------------------------------------------------------

/// Instructions a warp executes: for the row, of which `warps` only where several share it; for a vector that its
/// threads hold, for a vector's residual, for a vector of rows that are not whole vectors (gamma and beta are then
/// loaded element by element), and for the exchange of a cluster.
struct RowCounts {
  double row = 0, warps = 0, vector = 0, residual = 0, ragged_vector = 0, cluster = 0;
};
constexpr double kRaggedEnd = 90;  // of the warps at both ends of a row
/// The ends' elements come by loads of their own, and gamma's and beta's.
constexpr double kRaggedLoads = 1.4;

RowCounts counts_of(RowwiseKind kind) {
  switch (kind) {
    case RowwiseKind::rmsnorm: return {41, 4, 86, 44, 55, 145};
    case RowwiseKind::layernorm: return {87, 10, 128, 44, 105, 200};
    case RowwiseKind::softmax: return {89, 26, 80, 0, 0, 170};
    case RowwiseKind::quantize: return {71, 1, 54, 0, 0, 140};
    case RowwiseKind::sum_rows: return {41, 5, 28, 0, 0, 130};
    case RowwiseKind::argmax: return {82, 16, 28, 0, 0, 140};
    default: break;
  }
  return {50, 0, 60, 44, 0, 140};
}

/// Special-function instructions of a warp. Up to four vectors a thread keep their exponentials, more are worked out
/// again where they are written, which `filled` are.
double row_sfu(RowwiseKind kind, double vecs, double filled, double warps, bool cluster) {
  if (kind != RowwiseKind::softmax) return 3;
  return 13 + 8 * vecs + (vecs > 4 ? 8 * filled : 0) + 2 * log2_up(warps) + (cluster ? 8 : 0);
}

RowKernel held_kernel(const Rowwise& s, const RowWay& way) {
  const Holding& h = way.holding();
  const bool cluster = way.choice.cluster > 1,
             norm = s.kind == RowwiseKind::rmsnorm || s.kind == RowwiseKind::layernorm;
  const bool reduces = s.kind == RowwiseKind::sum_rows || s.kind == RowwiseKind::argmax;
  const RowCounts n = counts_of(s.kind);
  RowKernel k;
  k.plan = plan_of(h, way.choice, s.rows);
  // nothing but the row itself is in a reduction's registers
  const bool small = reduces && h.vecs <= 4 && !h.walks;
  k.plan.ctas_per_sm =
      std::min<std::int64_t>(32, small ? std::max<std::int64_t>(1, 2048 / k.plan.threads) : together(h));
  if (h.threads == kRowWarp && h.vecs == 1) k.plan.ctas_per_sm = 2048 / k.plan.threads;  // few registers
  const double warps = to_double(k.plan.threads) / kRowWarp, row_warps = to_double(h.threads) / kRowWarp;
  const double row = n.row + (row_warps > 1 ? n.warps : 0);
  double each = row + (n.vector + (s.residual ? n.residual : 0)) * h.vecs + (cluster ? n.cluster : 0);
  if (h.walks) {  // 8 for the loop
    each = row + to_double(s.cols) / to_double(kRowVector * h.threads * h.vecs) * (n.vector * h.vecs + 8);
  }
  if (!whole_rows(s.cols)) {
    each += n.ragged_vector * h.vecs + kRaggedEnd * std::min(1.0, 2 / (row_warps * way.choice.cluster));
    k.loads = kRaggedLoads;
  }
  k.instructions = each * warps;
  const double filled = std::ceil(to_double(s.cols) / to_double(kRowVector * h.threads * way.choice.cluster));
  k.sfu = row_sfu(s.kind, h.vecs, std::min<double>(h.vecs, filled), row_warps, cluster) * warps;
  k.holds = true;
  k.lockstep = cluster;
  k.phases = reduces ? 0 : 1;
  // a warp's, then those of the warps' results: of all of a cluster's warps, which take several turns of 32
  const double steps = 5 + (cluster ? std::ceil(way.choice.cluster * row_warps / kRowWarp) + 5 : log2_up(row_warps));
  k.chain_clk =
      steps * (kShuffle + (s.kind == RowwiseKind::softmax ? kMergeExponentials : 0)) + (row_warps > 1 ? kBarrier : 0);
  if (cluster) k.l2_trips += 1;  // every other CTA's shared memory, about as far
  // gamma and beta come after the reduction, as few at a time as registers are left
  if (norm && way.menu != RowMenu::few) k.l2_trips += h.vecs > 4 ? h.vecs : 2;
  return k;
}

// --- selection (kernels/rows/topk.cu)
// -------------------------------------------------------------------------------------

/// A warp takes its largest out k times.
RowKernel warp_selection(const Holding& h, double k, bool softmax, bool ragged) {
  RowKernel r;
  const double v = h.vecs;
  constexpr double kHalfRate =
      1.5;  // of the passes over the elements, half are comparisons of integers, at half the rate
  const double select = 90 + 110 * v + k * (16 + kHalfRate * 21 * v) + (ragged ? 60 : 0);
  r.instructions = kRowsPerCta * (select + (softmax ? 70 + 10 * v : 0));
  r.sfu = softmax ? kRowsPerCta * (8 * v + 12) : 0;
  r.plan.ctas_per_sm = h.vecs == 4 ? 4 : 6;
  r.chain_clk = 60 * k;  // a warp-wide maximum and its removal
  return r;
}

/// A CTA finds a threshold among the largest of 128 groups, collects who reaches it (128 ln(128 / (128 - k)) elements
/// of shuffled data), and ranks them; a cluster's lists are merged by its first CTA.
RowKernel cta_selection(const Holding& h, double k, bool softmax, bool cluster, bool ragged) {
  RowKernel r;
  const double v = h.vecs, warps = to_double(h.threads) / kRowWarp, of_group = to_double(h.threads) / 128;
  const double found = k > 1 ? -128 * std::log(1 - std::min(k, 127.0) / 128) : 1, padded = 32 * std::ceil(found / 32);
  // vectors of a warp that hold any of those found, and are gone through element by element, twice
  const double hit = v * (1 - std::exp(-found / (warps * v)));
  double each = 150 + 26.5 * v + 180 * hit + (320 + 2.5 * padded) / of_group;
  if (softmax) each += 90 + 35 * v + (cluster ? 80 : 0);
  if (cluster) each += 150;
  if (ragged) each += 40;
  r.instructions = each * warps;
  r.sfu = softmax ? (8 * v + 18) * warps : 0;
  if (softmax && h.threads == 1024) {
    // 64 registers a thread do not hold eight vectors and their exponentials. 352 bytes a thread beyond its share of the
    // row pass through L2, where kernels that spill nothing have 36 to 75; 54 are written to DRAM, 0.2 elsewhere
    // (data/kernels/profiled_h200.train.csv, 1000 rows of 262208; ptxas: 108 bytes of stores, 148 of loads).
    r.spilled = 300;
    r.evicted = 54;
  }
  r.plan.ctas_per_sm = h.vecs == 8 ? 1 : 1024 / h.threads;
  // eight vectors' unrolled code is met for the first time by every warp, from beyond the SM's instruction cache
  const double fetched = h.vecs > 4 && cluster ? 3200 : 0;
  r.chain_clk = fetched + (softmax ? 1300 : 2000) +
                45 * k;  // barriers and shared-memory passes from the groups' largest to the ranks
  if (cluster) {  // the lists' way to the first CTA, and their merge, during which the others' places are free already
    r.chain_clk += softmax ? 6000 : 2600;
    r.tail_clk = softmax ? 0 : 1800;
  }
  r.lockstep = cluster;
  return r;
}

RowKernel selection_kernel(std::int64_t rows, std::int64_t cols, std::int64_t k, bool softmax) {
  const Choice choice = choose_topk(rows, cols, k);
  const Holding& h = kTopKMenu[choice.entry < 0 ? std::size(kTopKMenu) - 1 : static_cast<std::size_t>(choice.entry)];
  const bool ragged = !whole_rows(cols);
  RowKernel r = h.threads == kRowWarp ? warp_selection(h, to_double(k), softmax, ragged)
                                      : cta_selection(h, to_double(k), softmax, choice.cluster > 1, ragged);
  const std::int64_t together = r.plan.ctas_per_sm;
  r.plan = plan_of(h, choice, rows);
  r.plan.ctas_per_sm = together;
  if (ragged) r.loads = kRaggedLoads;
  r.holds = r.selects = true;
  return r;
}

// --- the training attention chain (kernels/chain/attention_chain.cu)
// -------------------------------------------------------

/// Registers a thread, as compiled.
std::int64_t chain_registers(bool forward, bool fused, bool norm, const ChainHolding& h) {
  constexpr std::int64_t kForward[] = {39, 64, 72, 72}, kFused[] = {30, 48, 64, 80}, kBackward[] = {27, 44, 59, 76},
                         kNorm[] = {37, 53, 70, 88};
  if (!forward && (h.lanes == 256 || h.lanes == 512)) return 128;
  if (h.lanes == 1024) return 64;
  if (forward && h.lanes == 128 && h.groups == 4) return 87;
  const std::size_t i = static_cast<std::size_t>(h.groups) - 1;
  return forward ? kForward[i] : fused ? kFused[i] : norm ? kNorm[i] : kBackward[i];
}

/// Rows as fp32 in the registers of a few lanes, or walked by 1024 threads.
RowKernel chain_kernel(const Rowwise& s, std::int64_t sms) {
  const bool forward = s.kind == RowwiseKind::scale_mask_softmax_dropout,
             norm = s.kind == RowwiseKind::rmsnorm_backward, fused = !norm && s.kind != RowwiseKind::softmax_backward;
  ChainHolding h = chain_holding(s.cols);
  const bool walks = h.lanes == 0;
  if (walks) h = kChainMenu[std::size(kChainMenu) - 1];
  const double g = h.groups, warps = to_double(h.lanes) / kRowWarp;
  // rows that fill their lanes are compiled without questions, so that a thread's groups are worked on side by side
  const bool full =
      s.cols == kRowVector * h.lanes * h.groups &&
      (forward ? h.groups < 4 : h.lanes <= 32 || (h.lanes == 128 && h.groups == 4) || (h.lanes == 1024 && !fused));
  RowKernel k;
  k.turns = walks ? 1 : static_cast<int>(chain_rows_each(forward, s.rows, h.lanes, sms));
  k.plan.threads = chain_threads(h.lanes);
  k.plan.ctas = walks ? s.rows : chain_ctas(s.rows, h.lanes, k.turns);
  k.plan.ctas_per_sm = std::clamp<std::int64_t>(65536 / (chain_registers(forward, fused, norm, h) * k.plan.threads), 1,
                                                2048 / k.plan.threads);
  double row = forward ? 87 + (182 + kPhiloxExtra) * g
               : fused ? 70 + ((full ? 162 : 193) + kPhiloxExtra) * g
               : norm  ? 79 + (full ? 131 : 147) * g  // its SASS, nvcc 13.0
                       : 44 + (full ? 66 : 82) * g;
  if (!whole_rows(s.cols)) row *= 1.85;
  if (walks) row *= 1.5 * to_double(s.cols) / to_double(kRowVector * h.lanes * h.groups);
  k.instructions = (row * k.turns + 20) * to_double(k.plan.threads) / kRowWarp;
  k.sfu = (fused ? 8 * g + 2 : norm ? 3 : 0) * k.turns * to_double(k.plan.threads) / kRowWarp;
  const double reductions = forward || norm ? 2 : 1;
  k.chain_clk = reductions * (std::min(5.0, log2_up(h.lanes)) + log2_up(warps)) * kShuffle +
                (warps > 1 ? reductions * kBarrier : 0);
  if (fused && !full) k.l2_trips += 2 * g;  // one group after the other: the mask's vector, then the random numbers
  k.holds = true;
  k.phases = forward ? 2 : 1;
  return k;
}

// --- element by element ----------------------------------------------------------------------------------------------

/// Instructions of a warp for the eight elements of each of its threads, and special-function ones among them.
struct FlatCounts {
  double instructions = 0, sfu = 0, ragged = 1;  ///< ragged: how many times as many in rows that are not whole vectors
};

FlatCounts flat_counts(RowwiseKind kind) {
  switch (kind) {
    case RowwiseKind::copy: return {28, 0};
    case RowwiseKind::add: return {62, 0};
    case RowwiseKind::silu: return {104, 16};
    case RowwiseKind::gelu: return {113, 16};
    case RowwiseKind::swiglu: return {126, 16, 2.5};
    case RowwiseKind::scale: return {79, 3, 1.7};
    case RowwiseKind::mask: return {92, 3, 1.7};
    case RowwiseKind::dropout: return {167 + kPhiloxExtra, 3, 4.6};
    case RowwiseKind::dropout_backward: return {103, 3, 1.9};
    case RowwiseKind::relu: return {48, 0};
    case RowwiseKind::sigmoid: return {96, 16};
    case RowwiseKind::squared_relu: return {56, 0};
    case RowwiseKind::adamw: return {180, 16};
    default: break;
  }
  return {60, 0};
}

RowKernel flat_kernel(double vectors, const FlatCounts& n, bool ragged) {
  constexpr std::int64_t kThreads = 256, kTogether = 8;
  RowKernel k;
  k.plan.threads = kThreads;
  k.plan.ctas = static_cast<std::int64_t>(std::max(1.0, std::ceil(vectors / to_double(kThreads))));
  k.plan.ctas_per_sm = kTogether;
  k.instructions = n.instructions * (ragged ? n.ragged : 1) * to_double(kThreads) / kRowWarp;
  k.sfu = n.sfu * to_double(kThreads) / kRowWarp;
  return k;
}

/// Tiles pass through shared memory: 128 x 128 where both sides are whole sectors, else 64 x 128.
RowKernel transpose_kernel(const Rowwise& s) {
  constexpr std::int64_t kSector = 16;
  const bool whole = whole_rows(s.cols) && s.rows % kSector == 0;
  const std::int64_t halo = s.rows % kSector == 0 ? 0 : kSector - 1;
  RowKernel k;
  k.plan.threads = whole ? 512 : 256;
  k.plan.ctas = ceil_div(s.rows + halo, whole ? 128 : 64) * ceil_div(s.cols, 128);
  k.plan.ctas_per_sm = whole ? 4 : 6;
  k.instructions = (whole ? 278.0 : 645.0) * to_double(k.plan.threads) / kRowWarp;
  k.chain_clk = 2 * kBarrier + 500;  // into shared memory, and a column's words out of it one after the other
  k.scattered = 0.025;
  k.holds = true;
  return k;
}

// --- sums and scans of a whole array ---------------------------------------------------------------------------------

RowKernel scan_kernel(const Scan& s, std::int64_t sms) {
  const double bytes = to_double(s.n) * (s.dtype == DType::fp32 ? 4 : 2);
  RowKernel k;
  if (s.kind == ScanKind::sum_all) {
    constexpr double kThreads = 512, kCtasAnSm = 4;
    const double ctas = std::clamp(std::ceil(bytes / 16 / kThreads), 1.0, kCtasAnSm * to_double(sms));
    k.plan.threads = static_cast<std::int64_t>(kThreads);
    k.plan.ctas = static_cast<std::int64_t>(ctas);
    k.plan.ctas_per_sm = 4;
    k.instructions = (160 + 3.2 * to_double(s.n) / ctas / kThreads) * kThreads / kRowWarp;
    // the last CTA's fence, its turn at the counter, the others' sums, and two reductions
    k.tail_trips = 6;
    k.tail_clk = 1000 + 2.5 * ctas;
    return k;
  }
  // tiles wait for those before them and hold their registers meanwhile: decoupled look-back
  constexpr double kTile = 48 * 1024;
  k.plan.threads = 256;
  k.plan.ctas = static_cast<std::int64_t>(std::max(1.0, std::ceil(bytes / kTile)));
  k.plan.ctas_per_sm = 3;
  k.instructions = 976.0 * to_double(k.plan.threads) / kRowWarp;
  k.chained = true;
  k.tail_trips = 4;  // published, seen, published again: each a store's way and a load's
  k.tail_clk = 2 * kBarrier + 800;
  return k;
}

RowKernel rowwise_kernel(const Rowwise& s, std::int64_t sms) {
  switch (s.kind) {
    case RowwiseKind::layernorm:
    case RowwiseKind::rmsnorm:
    case RowwiseKind::softmax:
    case RowwiseKind::sum_rows:
    case RowwiseKind::argmax:
    case RowwiseKind::quantize: {
      const RowWay way = row_way(s, sms);
      if (way.choice.entry >= 0) return held_kernel(s, way);
      return flat_kernel(elements_of(s) / to_double(kRowVector), {200, 16},
                         false);  // no kernel of ours: as a wide one would
    }
    case RowwiseKind::rmsnorm_backward:
    case RowwiseKind::softmax_backward:
    case RowwiseKind::scale_mask_softmax_dropout:
    case RowwiseKind::scale_mask_softmax_dropout_backward: return chain_kernel(s, sms);
    case RowwiseKind::transpose_copy: return transpose_kernel(s);
    default: break;
  }
  RowKernel k = flat_kernel(elements_of(s) / to_double(kRowVector), flat_counts(s.kind), !whole_rows(s.cols));
  // the last elements that are no vector are a launch of their own (kernels/rows/flat.cu; the attention chain's are
  // not)
  const bool tail = s.kind == RowwiseKind::copy || s.kind == RowwiseKind::add || row_of(s.kind).activation;
  if (tail && s.rows * s.cols % kRowVector != 0) k.launches = 2;
  return k;
}

}  // namespace

RowKernel row_kernel(const Op& op, const Work& w, std::int64_t sms) {
  if (const auto* row = std::get_if<Rowwise>(&op)) return rowwise_kernel(*row, sms);
  if (const auto* top = std::get_if<TopK>(&op)) return selection_kernel(top->rows, top->cols, top->k, false);
  if (const auto* top = std::get_if<SoftmaxTopK>(&op)) return selection_kernel(top->rows, top->cols, top->k, true);
  if (const auto* scan = std::get_if<Scan>(&op)) return scan_kernel(*scan, sms);
  if (const auto* rope = std::get_if<Rope>(&op)) {
    const double elements = to_double(rope->tokens * rope->heads) * to_double(rope->head_dim);
    RowKernel k = flat_kernel(elements / 2 / to_double(kRowVector), {174, 2}, false);
    k.plan.ctas_per_sm = 6;
    k.chain_clk = 200;   // sines and cosines, once a CTA, and a barrier
    k.scattered = 0.03;  // half a head here, half there
    return k;
  }
  if (const auto* table = std::get_if<Embedding>(&op)) {
    if (!whole_rows(table->cols)) {  // an element a thread, a 64-bit division each
      RowKernel k = flat_kernel(to_double(table->rows) * to_double(table->cols), {70, 2}, false);
      k.start_loads = 1;
      return k;
    }
    const double vectors = to_double(table->rows) * to_double(table->cols) / to_double(kRowVector);
    constexpr double kThreads = 128, kVecs = 4, kEnoughAnSm = 4;
    const bool many = vectors >= kEnoughAnSm * to_double(sms) * kThreads * kVecs;
    RowKernel k = flat_kernel(vectors, {}, false);
    k.plan.threads = static_cast<std::int64_t>(kThreads);
    k.plan.ctas = static_cast<std::int64_t>(std::max(1.0, std::ceil(vectors / kThreads / (many ? kVecs : 1))));
    k.plan.ctas_per_sm = many ? 12 : 16;
    k.instructions = (many ? 105 : 50) * kThreads / kRowWarp;
    k.start_loads = 1;  // the row's number first
    k.scattered = 0.05;
    return k;
  }
  // no kernel of ours counted: what the operator needs whatever the kernel
  RowKernel k = flat_kernel(std::max(w.read, w.write).in(units::B) / 16, {}, false);
  const double ctas = to_double(k.plan.ctas);
  k.instructions = w.fp32.in(units::FLOP) / ctas / kRowWarp;
  k.sfu = w.sfu / ctas / kRowWarp;
  return k;
}

}  // namespace plumbline
