// Gradients, and what else training runs (kernels/training): how many CTAs, how many passes, what is added in L2.
#include <algorithm>

#include "model/stacks/own/row_kernels_internal.hpp"

namespace plumbline::row_kernels {
namespace {

/// Of norms' gradients: the threads that share a row and the vectors that each has of it (choose_norm() in
/// kernels/training/norm_backward.cu); rows that a CTA of 512 threads works on at a time; registers and shared memory as
/// nvcc 13.0 makes them, by which as many CTAs fit an SM as are launched.
struct NormTile {
  std::int64_t vectors;  ///< of a row, at most
  int threads, vecs;
};
constexpr NormTile kNormTiles[] = {{128, 128, 1}, {256, 128, 2}, {512, 256, 2}, {1024, 512, 2}, {2048, 512, 4}};
constexpr std::int64_t kNormThreads = 512;

/// CTAs stay and take rows in turn, the next one on its way while this one is worked on, but where a thread holds four
/// vectors: then nothing of a row's trip to memory is hidden. Groups of a CTA hide each other's reductions. At the end
/// all CTAs add their columns' sums to the same places, one after the other, or as fast as L2 adds where there are many.
/// Rows beyond 16 Ki columns no kernel takes: they are priced as if the widest one did.
RowKernel norm_kernel(const On& on, const Rowwise& s) {
  const bool layer = s.kind == RowwiseKind::layernorm_backward;
  const Counts& c = on.counts;
  const Counts::NormBackward& n = layer ? c.layernorm_backward : c.rmsnorm_backward;
  const std::int64_t vectors = ceil_div(s.cols, kRowVector);
  const auto* tile = std::find_if(std::begin(kNormTiles), std::prev(std::end(kNormTiles)),
                                  [&](const NormTile& t) { return vectors <= t.vectors; });
  const std::int64_t groups = kNormThreads / tile->threads;
  const double wider = std::max(1.0, to_double(vectors) / to_double(tile->vectors));
  RowKernel k;
  k.plan.threads = kNormThreads;
  k.plan.ctas_per_sm = tile->vecs == 1 && !layer ? 2 : 1;
  k.plan.ctas = std::min(ceil_div(s.rows, groups), k.plan.ctas_per_sm * static_cast<std::int64_t>(on.gpu.sm_count));
  const double warps = to_double(kNormThreads) / kRowWarp;
  const double turns = std::max(1.0, to_double(s.rows) / to_double(k.plan.ctas * groups));
  k.stay_turns = turns;
  const double row = (tile->vecs == 1 ? n.row_1 : tile->vecs == 2 ? n.row_2 : n.row_4) * wider;
  k.instructions = row * warps * turns;
  k.sfu = warps * turns;
  const double reductions = layer ? 2 : 1, steps = 5 + log2_up(to_double(tile->threads) / kRowWarp);
  const double hidden = to_double(groups * k.plan.ctas_per_sm);
  k.chain_clk =
      c.norms_backward.wait_fraction / hidden * reductions * (steps * c.waits.shuffle_clk + c.waits.barrier_clk);
  k.l2_trips = 2 * c.norms_backward.wait_fraction / hidden;  // gamma's, before and behind the sums
  k.turn_loads = tile->vecs == 4 ? c.norms_backward.loads : 0;
  if (tile->vecs == 4) k.spilled = (s.residual ? n.spilled_residual_B : n.spilled_B) * turns;
  const double sums = layer ? 2 : 1;  // of columns: of gamma, and of beta
  k.end_adds = sums * to_double(k.plan.ctas * s.cols);
  k.end_adds_clk = c.norms_backward.add_clk * sums * to_double(k.plan.ctas);
  k.tail_clk = n.end_clk;
  k.overlap = n.overlap;
  return k;
}

/// 32 vectors of columns a CTA, a warp a row at a time. The launcher makes as many CTAs as eight an SM; five fit by their
/// 48 registers, so that a second wave begins.
RowKernel column_kernel(const On& on, const Rowwise& s) {
  constexpr std::int64_t kColumns = kRowWarp * kRowVector, kFewestRows = 64, kAsked = 8, kThreads = 256;
  const auto sms = static_cast<std::int64_t>(on.gpu.sm_count);
  const std::int64_t across = ceil_div(s.cols, kColumns);
  const std::int64_t parts = std::max<std::int64_t>(1, kAsked * sms / across);
  const std::int64_t each = std::max(kFewestRows, ceil_div(s.rows, parts));
  const Counts::SumColumns& n = on.counts.sum_columns;
  RowKernel k;
  k.plan.threads = kThreads;
  k.plan.ctas = across * ceil_div(s.rows, each);
  set_resources(k, {48, 8192, 0}, on);
  const double warps = to_double(kThreads) / kRowWarp, rows = to_double(s.rows) / to_double(ceil_div(s.rows, each));
  k.instructions = n.vector * (whole_rows(s.cols) ? 1 : to_double(kRowVector)) * rows;
  const double waves = std::max(1.0, to_double(k.plan.ctas) / to_double(sms * k.plan.ctas_per_sm));
  k.rounds = waves < 2 ? std::ceil(waves) : with_begun(waves, on.counts.waves);
  k.round_clk = n.wave_clk;
  k.turn_loads = 1;
  k.instructions += 64 * warps;  // the warps' sums through shared memory
  return k;
}

/// A CTA of 512 threads a row, two of which an SM holds. They go in step: while one merges its sums and looks up the
/// target, half of the bytes that keep memory busy are not asked for.
RowKernel loss_kernel(const On& on, const Rowwise& s) {
  const Counts::CrossEntropy& n = on.counts.cross_entropy;
  RowKernel k;
  k.plan.threads = 512;
  k.plan.ctas = s.rows;
  set_resources(k, {64, 128, 0}, on);
  const double vectors = to_double(ceil_div(s.cols, kRowVector)) / kRowWarp;  // of all warps
  k.instructions = n.vector * vectors;
  k.sfu = n.sfu_vector * vectors;
  const double waves =
      std::max(1.0, to_double(s.rows) / (static_cast<double>(on.gpu.sm_count) * to_double(k.plan.ctas_per_sm)));
  k.rounds = with_begun(waves, on.counts.waves);
  k.stretch = k.rounds / waves;
  k.round_clk = n.wave_clk + (whole_rows(s.cols) ? 0 : n.ragged_clk);
  k.tail_clk = n.end_clk;
  return k;
}

/// 512 vectors of a row a CTA of 256 threads.
RowKernel slope_kernel(const On& on, const Rowwise& s) {
  constexpr std::int64_t kThreads = 256, kVecs = 2;
  const Counts::Flat& n = on.counts.flat[static_cast<std::size_t>(RowwiseKind::cross_entropy_backward)];
  RowKernel k = flat_kernel(1, n, on);
  k.plan.ctas = s.rows * ceil_div(s.cols, kThreads * kVecs * kRowVector);
  const double filled = to_double(s.rows) * to_double(ceil_div(s.cols, kRowVector)) / to_double(k.plan.ctas);
  k.instructions = n.instructions * filled / kVecs / kRowWarp;
  k.sfu = n.sfu * filled / kVecs / kRowWarp;
  return k;
}

}  // namespace

std::optional<RowKernel> training_kernel(const On& on, const Rowwise& s) {
  switch (s.kind) {
    case RowwiseKind::rmsnorm_backward:
    case RowwiseKind::layernorm_backward: return norm_kernel(on, s);
    case RowwiseKind::sum_columns: return column_kernel(on, s);
    case RowwiseKind::cross_entropy:
    case RowwiseKind::cross_entropy_fused: return loss_kernel(on, s);
    case RowwiseKind::cross_entropy_backward: return slope_kernel(on, s);
    case RowwiseKind::swiglu_backward: {
      if (whole_rows(s.cols)) return {};
      const Counts::SwigluSingle& n = on.counts.swiglu_single;
      return flat_kernel(to_double(s.rows) * to_double(s.cols), {n.instructions, n.sfu}, on);
    }
    default: return {};
  }
}

/// A vector of dy a thread, which is added to the table by two instructions of 16 bytes; ragged rows an element a thread.
RowKernel scatter_kernel(const On& on, const EmbeddingBackward& s) {
  const Counts::Additions& n = on.counts.additions;
  const bool whole = whole_rows(s.cols);
  const double elements = to_double(s.rows) * to_double(s.cols);
  RowKernel k = flat_kernel(whole ? elements / to_double(kRowVector) : elements, {whole ? n.thread : n.element, 0}, on);
  k.scattered_adds = elements;
  k.read_before = 1;
  k.overlap = n.scattered_overlap;
  return k;
}

}  // namespace plumbline::row_kernels
