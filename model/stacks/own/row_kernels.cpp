#include "model/stacks/own/row_kernels.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "arch/gpu/occupancy.hpp"
#include "model/stacks/own/row_kernels_internal.hpp"

namespace plumbline {

void row_kernels::set_resources(RowKernel& k, const KernelResources& built, const On& on) {
  const Occupancy fits = occupancy(on.gpu.sm, {k.plan.threads, built.registers, to_double(built.shared_B) * units::B});
  k.plan.ctas_per_sm = std::max<std::int64_t>(1, fits.blocks_per_sm);
  const Counts::Spills& n = on.counts.spills;
  if (to_double(k.plan.threads) < n.least_threads) return;
  k.spilled = n.l2_ratio * to_double(built.stack_B);
  k.evicted = n.dram_ratio * to_double(built.stack_B);
}

RowKernel row_kernels::flat_kernel(double vectors, const Counts::Flat& n, const On& on) {
  constexpr std::int64_t kThreads = 256;
  RowKernel k;
  k.plan.threads = kThreads;
  k.plan.ctas = static_cast<std::int64_t>(std::max(1.0, std::ceil(vectors / to_double(kThreads))));
  set_resources(k, {static_cast<std::int64_t>(on.counts.flat_registers), 0, 0}, on);
  k.instructions = n.instructions * to_double(kThreads) / kRowWarp;
  k.sfu = n.sfu * to_double(kThreads) / kRowWarp;
  return k;
}

namespace {

using namespace row_kernels;

double elements_of(const Rowwise& s) { return to_double(s.rows) * to_double(s.cols); }

// --- element by element ----------------------------------------------------------------------------------------------

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
  if (attention && !whole) k.stores = kRowVector;  // element by element, as the chain's
  k.wide_slots = c.chains.philox * drawings * to_double(k.plan.threads) / kRowWarp;
  // the last elements that are no vector are a launch of their own (kernels/rows/flat.cu)
  const bool tail = s.kind == RowwiseKind::copy || s.kind == RowwiseKind::add || row_of(s.kind).activation;
  if (tail && s.rows * s.cols % kRowVector != 0) k.launches = 2;
  if (s.kind == RowwiseKind::adamw) {
    k.scattered = c.adamw.scattered_fraction;
    k.read_before = 12.0 / 14;  // mean, variance and master weights; not their bf16 copy
  }
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

/// fp32 gradients (kernels/training/update.cu); others are read as if they were.
RowKernel norm_all_kernel(const On& on, const Scan& s) {
  constexpr std::int64_t kThreads = 512, kAnSm = 3, kMost = 1024, kVector = 4;
  const Counts::NormAll& n = on.counts.norm_all;
  const auto most = std::min(kAnSm * static_cast<std::int64_t>(on.gpu.sm_count), kMost);
  RowKernel k;
  k.plan.threads = kThreads;
  k.plan.ctas = std::clamp<std::int64_t>(ceil_div(s.n, kThreads * kVector), 1, most);
  set_resources(k, {32, 128, 0}, on);
  const double vectors = to_double(s.n) / to_double(kVector * k.plan.ctas);
  k.instructions = (n.thread * to_double(kThreads) + n.vector * vectors) / kRowWarp;
  k.tail_clk = n.tail_clk;
  k.scattered = n.uneven_fraction;
  return k;
}

/// cumsum's tiles, by as many warps. What the last warp has behind the end of the array it goes through element by
/// element: a comparison, a load, a conversion and a store, 27 clocks with code that is met for the first time; of
/// fp32, which is not converted, half of the instructions. (20,000 elements of bf16 on an H200, a training row of
/// scans.train.json: 4.77 us, 3.45 without; 1,000,000, whose loads take as long: 4.90, 4.52 without.)
constexpr double kScanTile_B = 48 * 1024, kScanWarps = 8;
double padded_clk(double n, bool fp32) {
  const double tile = kScanTile_B / (fp32 ? 4 : 2), lanes = kRowWarp;
  const double behind = std::ceil(n / tile) * tile - n;
  return (fp32 ? 13.5 : 27) * std::min(behind, tile / kScanWarps) / lanes;
}

RowKernel scan_kernel(const On& on, const Scan& s) {
  const Counts& c = on.counts;
  if (s.kind == ScanKind::norm_all) return norm_all_kernel(on, s);
  const bool fp32 = s.dtype == DType::fp32;
  const double bytes = to_double(s.n) * (fp32 ? 4 : 2);
  RowKernel k;
  if (s.kind == ScanKind::sum_all) {
    constexpr double kThreads = 512;
    const Counts::SumAll& n = c.sum_all;
    const double ctas = std::clamp(std::ceil(bytes / 16 / kThreads), 1.0, n.most_ctas);
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
  k.plan.threads = 256;
  k.plan.ctas = static_cast<std::int64_t>(std::max(1.0, std::ceil(bytes / kScanTile_B)));
  set_resources(k, c.resources.cumsum(fp32), on);
  k.instructions =
      (fp32 ? c.cumsum.instructions_fp32 : c.cumsum.instructions_bf16) * to_double(k.plan.threads) / kRowWarp;
  k.chained = true;
  k.chained_clk = c.cumsum.tile_clk;
  k.beside_clk = padded_clk(to_double(s.n), fp32);
  k.tail_trips = c.cumsum.tail_trips;  // published, seen, published again: each a store's way and a load's
  k.tail_clk = 2 * c.waits.barrier_clk + c.cumsum.tail_clk;
  return k;
}

RowKernel rowwise_kernel(const On& on, const Rowwise& s) {
  const Counts& c = on.counts;
  if (auto of_training = training_kernel(on, s)) return *of_training;
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
  if (const auto* table = std::get_if<EmbeddingBackward>(&op)) return scatter_kernel(on, *table);
  return other_kernel(on, w);
}

}  // namespace plumbline
