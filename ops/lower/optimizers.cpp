// What an optimizer moves and computes. Per parameter, with g bytes of gradient (Workload::training.gradient) and a weight
// of w bytes that layers read, beside an fp32 master weight that is read and written and the weight that is written:
//
//   adam, adamw   fp32 mean and variance, read and written (Loshchilov and Hutter, arXiv 1711.05101; mixed precision as
//                 ZeRO, arXiv 1910.02054, section 3.1, has it)
//   sgd           fp32 momentum, read and written
//   sgd-plain     without one
//   adam8bit      mean and variance of 8 bits with an fp32 scale for each 256 of them (Dettmers et al., arXiv 2110.02861;
//                 block size as bitsandbytes 0.44 and later), read and written. Its kernel is bitsandbytes 0.50.2's
//                 kOptimizerStatic8bit2StateBlockwise (csrc/cuda/optimizers.cu): a CTA of 256 threads for 256 elements,
//                 whose loads wait for one another and whose moments are found in tables by halving
//   adafactor     without momentum: of a matrix sums by row and by column in place of the variance (Shazeer and Stern,
//                 arXiv 1804.04235, algorithm 4). Three passes, each of which waits for a sum of all of the one before:
//                 squares by row and column; size of the update, for its clipping; the update
//   muon          of the layers' matrices an fp32 momentum, from which five Newton-Schulz steps in bf16 make an orthogonal
//                 update (Jordan et al., kellerjordan.github.io/posts/muon): of an [R, C] matrix, R <= C, each step is
//                 A = X X^T, B = b A + c A A, X = a X + B X. What tensor ranks hold of a matrix is taken by itself
//                 (Megatron-LM's blockwise mode); matrices of one shape are one batched product. All else is adamw's.
#include <algorithm>
#include <map>
#include <utility>

#include "ops/as_double.hpp"
#include "ops/lower/tensors.hpp"
#include "ops/memory/memory.hpp"
#include "ops/resolve/ranks.hpp"

namespace plumbline::lowering {
namespace {

constexpr double kFloat = 4;

double gradient_bytes(const Step& s) { return bits(s.workload.training.gradient) / 8; }
/// Layers that read fp32 read the master.
double copy_bytes(const Step& s) { return bits(s.types.base) < 32 ? bits(s.types.base) / 8 : 0; }

/// A pass over `n` parameters that moves so many bytes and computes so many FLOPs of each.
CustomOp pass_of(const Step& s, double n, double read, double write, double flops) {
  CustomOp op;
  op.read = n * read * units::B;
  op.write = n * write * units::B;
  op.fp32 = flops * n * units::FLOP;
  op.dtype = s.types.base;
  return op;
}

void adam(Step& s, double params, std::int64_t width) {
  const std::int64_t rows = ceil_div(static_cast<std::int64_t>(params), width);
  const Rowwise update{RowwiseKind::adamw, rows, width, false, s.workload.training.gradient, s.types.base};
  if (s.workload.training.optimizer == Optimizer::adamw_fused) s.add("adamw_fused"_node, update);
  else s.add("adamw"_node, update);
}

/// g + decay w; momentum m + g; w - rate m
void sgd(Step& s, double params, std::int64_t width) {
  const double n = d(ceil_div(static_cast<std::int64_t>(params), width)) * d(width);
  s.add("sgd"_node, pass_of(s, n, gradient_bytes(s) + 2 * kFloat, 2 * kFloat + copy_bytes(s), 6));
}

/// w - rate (g + decay w)
void sgd_plain(Step& s, double params, std::int64_t width) {
  const double n = d(ceil_div(static_cast<std::int64_t>(params), width)) * d(width);
  s.add("sgd_plain"_node, pass_of(s, n, gradient_bytes(s) + kFloat, kFloat + copy_bytes(s), 4));
}

/// Instructions of warps of a CTA, its registers and its tables, and how many latencies of memory it takes: as the kernel
/// of data/launches/transformers-training.json, adam_8_bits, where each is derived.
void adam_of_8_bits(Step& s, double params) {
  constexpr double kElements = 256, kInstructions = 3762, kLatencies = 5.3;
  const double states = 2 * kMomentOf8Bits;
  CustomOp op = pass_of(s, params, gradient_bytes(s) + states + kFloat, states + kFloat + copy_bytes(s), 0);
  op.ctas = std::max<std::int64_t>(1, static_cast<std::int64_t>(params / kElements));
  op.instructions = kInstructions * d(op.ctas);
  op.threads = 256;
  op.registers = 56;
  op.block_smem = 5760.0 * units::B;
  op.in_flight = (op.read + op.write) / d(op.ctas) / kLatencies;
  s.add("adam8bit"_node, op);
}

void adafactor(Step& s, const Llm& llm, const Updated& updated) {
  const double n = updated.share, g = gradient_bytes(s);
  const Bytes sums = kFloat * factor_elements(llm, s.workload, updated.stage) / updated.divided_by * units::B;
  CustomOp squares = pass_of(s, n, g, 0, 3);
  squares.write = sums;
  s.add("adafactor_sums"_node, squares);
  CustomOp size = pass_of(s, n, g, 0, 4);
  size.read += sums;
  size.write = 4.0 * units::B;
  s.add("adafactor_size"_node, size);
  CustomOp update = pass_of(s, n, g + kFloat, kFloat + copy_bytes(s), 5);
  update.read += sums;
  s.add("adafactor"_node, update);
}

using Shape = std::pair<std::int64_t, std::int64_t>;  // of a matrix, the shorter side first

/// The layers' matrices of this rank, as its products have them, those that so many replicas divide, and how many there are.
std::map<std::pair<Shape, std::int64_t>, std::int64_t> matrices_of(const Step& s, const Llm& llm,
                                                                   const Updated& updated) {
  const std::int64_t stage = updated.stage;
  std::map<std::pair<Shape, std::int64_t>, std::int64_t> all;
  const std::int64_t stages = stages_over(s.workload.parallel.pipeline, s.workload.training.schedule);
  auto layers = layers_of_stage(llm, llm.main(), stages, stage);
  if (s.workload.training.two_stages()) {
    const auto others = layers_of_stage(llm, llm.main(), stages, stages - 1 - stage);
    for (std::size_t i = 0; i < layers.size(); ++i) layers[i] += others[i];
  }
  for (const auto& [segment, kind] : s.kind_segments) {
    const Segment& of = s.graph.segments[static_cast<std::size_t>(segment)];
    const std::int64_t repeats = layers[static_cast<std::size_t>(kind)];
    for (int i = of.first; repeats > 0 && i < of.first + of.size; ++i) {
      const Node& node = s.graph.nodes[static_cast<std::size_t>(i)];
      const auto count = [&](std::int64_t rows, std::int64_t cols, std::int64_t copies, std::int64_t replicas) {
        all[{{std::min(rows, cols), std::max(rows, cols)}, replicas}] += repeats * copies;
      };
      if (node.role != NodeRole::plain) continue;
      if (const auto* product = std::get_if<Gemm>(&node.op)) {
        count(product->n, product->k, product->batch, updated.replicas);
      }
      if (const auto* sparse = std::get_if<GemmSparse24>(&node.op)) count(sparse->n, sparse->k, 1, updated.replicas);
      if (const auto* experts = std::get_if<GroupedGemm>(&node.op)) {
        count(experts->n, experts->k, experts->experts, updated.expert_replicas);
      }
    }
  }
  return all;
}

void muon(Step& s, const Llm& llm, const Updated& updated) {
  constexpr int kSteps = 5;
  double of_matrices = 0;
  for (const auto& [of, count] : matrices_of(s, llm, updated)) {
    const std::int64_t copies = ceil_div(count, of.second);
    const auto [rows, cols] = of.first;
    const double n = d(copies) * d(rows) * d(cols);
    of_matrices += n;
    // momentum, Nesterov's look ahead, and what the steps begin from
    s.add("muon_momentum"_node, pass_of(s, n, gradient_bytes(s) + kFloat, kFloat + 2, 4));
    s.add("muon_norm"_node, Scan{ScanKind::sum_all, static_cast<std::int64_t>(n), DType::bf16});
    const Precision bf16{DType::bf16, DType::bf16, DType::bf16, DType::bf16};
    for (int step = 0; step < kSteps; ++step) {
      s.gemm("muon_gram"_node, rows, rows, cols, bf16, false, copies);
      s.gemm("muon_square"_node, rows, rows, rows, bf16, false, copies);
      s.gemm("muon_product"_node, rows, cols, rows, bf16, false, copies);
    }
    s.add("muon"_node, pass_of(s, n, 2 + kFloat, kFloat + copy_bytes(s), 4));
  }
  const double rest = updated.share - of_matrices;
  if (rest >= d(llm.hidden)) adam(s, rest, llm.hidden);
}

}  // namespace

void optimizer(Step& s, const Llm& llm, const Updated& updated) {
  const bool eager = s.workload.training.eager;
  switch (s.workload.training.optimizer) {
    case Optimizer::sgd: return sgd(s, updated.share, llm.hidden);
    case Optimizer::sgd_plain: return sgd_plain(s, updated.share, llm.hidden);
    case Optimizer::adam8bit:
      return eager ? adam_8_bits_by_tensor(s, llm, updated.share) : adam_of_8_bits(s, updated.share);
    case Optimizer::adamw_loop:
      return eager ? adam_by_tensor(s, llm, updated.share) : adam(s, updated.share, llm.hidden);
    case Optimizer::adafactor: return eager ? adafactor_by_tensor(s, llm, updated.share) : adafactor(s, llm, updated);
    case Optimizer::muon:
      if (!eager) return muon(s, llm, updated);
      return adam(s,
                  updated.replicas > 1 ? muon_by_share(s, llm, updated.share) : muon_by_tensor(s, llm, updated.share),
                  llm.hidden);
    default: return adam(s, updated.share, llm.hidden);
  }
}

}  // namespace plumbline::lowering
