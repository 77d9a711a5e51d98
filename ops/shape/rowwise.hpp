// Row-wise operators: one struct for all, and one row of a table for each kind.
//
// A kind is added by its enum value and its row. The row says what counts on an element and a row, which tensors are
// read and written, how kernels go through memory, and what the backward pass consists of; names, text, error bands,
// lowering, fuzzers and random tests read it. A kernel of ours, its reference and its instruction counts are apart.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "ops/shape/shape.hpp"

namespace plumbline {

/// The norms that layers have: `rmsnorm` and `layernorm` of the kinds below.
enum class NormKind { rms, layer };

enum class RowwiseKind {
  layernorm,
  rmsnorm,
  softmax,
  silu,
  gelu,
  add,
  copy,
  sum_rows,
  argmax,
  transpose_copy,
  swiglu,
  relu,
  scale,
  mask,
  dropout,
  quantize,
  adamw,
  dropout_backward,
  softmax_backward,
  scale_mask_softmax_dropout,
  scale_mask_softmax_dropout_backward,
  sigmoid,
  squared_relu,
  rmsnorm_backward,
  layernorm_backward,
  silu_backward,
  gelu_backward,
  relu_backward,
  swiglu_backward,
  sum_columns,
  cross_entropy,
  cross_entropy_backward,
  cross_entropy_fused,
  count_
};
inline constexpr std::size_t kRowwiseKinds = static_cast<std::size_t>(RowwiseKind::count_);

/// One pass over rows x cols of the output (sum_rows, sum_columns, argmax and the losses: of the input). `residual`: a
/// second input is added first and the sum written out too (fused add + norm); backward passes of norms add it to their
/// result, the gradient that passes the norm by.
///
/// Of training, on dy[rows, cols], logits x[rows, cols] and a target column t of each row:
///   silu_backward, gelu_backward, relu_backward dy f'(x) | swiglu_backward: of silu(gate) up, both gradients
///   sum_columns s[c] += sum over rows (fp32), the gradient of a bias
///   cross_entropy lse - x[t] and lse = log(sum(exp(x))) of each row | cross_entropy_backward a (exp(x - lse) - [c = t])
///   cross_entropy_fused: both in turn, the gradient over the logits
///
/// The training attention chain, on scores x[rows, cols] of one mask row m[cols], `keep` in {0, 1} drawn for each
/// element with probability 1 - d of being 1:
///   scale x a | mask x + m | softmax | dropout x keep / (1 - d), keep written as bytes
///   dropout_backward dy keep / (1 - d), keep read | softmax_backward p (dy - sum(dy p)) of dy and p
///   scale_mask_softmax_dropout: the first four at once; writes the result and each row's log-sum-exp (fp32). No keep:
///     its counter-based random numbers are drawn again where they are needed.
///   scale_mask_softmax_dropout_backward: from scores, dy and log-sum-exp to the gradient of the scores. It computes
///     the probabilities again, so that forward need not write them.
struct Rowwise {
  RowwiseKind kind = RowwiseKind::copy;
  std::int64_t rows = 0, cols = 0;
  bool residual = false;
  DType input = DType::bf16, output = DType::bf16;
  bool operator==(const Rowwise&) const = default;
  static const Facts<Rowwise>& facts();
};

/// FLOPs and special-function evaluations, per element and per row.
struct RowwiseMath {
  double element = 0, row = 0, sfu_element = 0, sfu_row = 0;
};

/// Tensors on one side of a pass, by how many of each there are.
struct RowwiseTensors {
  double whole = 0;         ///< rows x cols in the side's type
  double columns = 0;       ///< cols values in the input's type (norm weights, a mask row)
  double rows = 0;          ///< rows values in the side's type
  double bytes = 0;         ///< rows x cols bytes (dropout's choice)
  double floats = 0;        ///< rows x cols in fp32 (optimizer state)
  double row_words = 0;     ///< rows values of 4 bytes (scales, log-sum-exp, indices)
  double column_words = 0;  ///< cols values of 4 bytes (sums)
};

/// The backward pass of a kind, by the bytes it moves.
struct RowwiseGradient {
  enum class Form : std::uint8_t {
    unstated,  ///< no forward pass holds this kind
    none,      ///< adds a constant, or is not differentiable
    same,      ///< the same pass over the gradient
    back,      ///< the same pass with input and output types exchanged
    other,     ///< a pass of `kind`
  };
  Form form = Form::unstated;
  RowwiseKind kind = RowwiseKind::count_;
  bool residual = false;
};
constexpr RowwiseGradient gradient_by(RowwiseKind kind) { return {RowwiseGradient::Form::other, kind, false}; }
constexpr RowwiseGradient gradient_with_residual(RowwiseKind kind) {
  return {RowwiseGradient::Form::other, kind, true};
}
constexpr RowwiseGradient gradient_as(RowwiseGradient::Form form) { return {form, RowwiseKind::count_, false}; }

struct RowwiseRow {
  RowwiseKind kind;
  std::string_view name;
  RowwiseMath math;
  RowwiseTensors read, write;
  Pattern pattern;
  RowwiseGradient gradient;
  bool ours = false;        ///< not in the contract's table
  bool residual = false;    ///< takes `residual`
  bool activation = false;  ///< y = f(x), element by element
  bool statistic = false;   ///< generic kernels are priced with a trip through the row before its first output
};

namespace rowwise_rows {

using K = RowwiseKind;
using Form = RowwiseGradient::Form;

// Activations' gradients read dY and X and write one tensor; those without a kind of their own stand as `add`. SwiGLU's
// reads dY, gate and up and writes two. A norm's reads dY and X and writes one; where the forward pass adds first it also
// reads the gradient that passes the norm by.
inline constexpr std::array kRows = std::to_array<RowwiseRow>({
    // sum; d = x - mean, d^2, sum; d rstd gamma + beta | sum/C; sum d^2/C + eps, rsqrt
    {.kind = K::layernorm,
     .name = "layernorm",
     .math = {7, 3, 0, 1},
     .read = {.whole = 1, .columns = 2},
     .write = {.whole = 1},
     .pattern = Pattern::row_statistics,
     .gradient = gradient_with_residual(K::layernorm_backward),
     .residual = true,
     .statistic = true},
    // x^2, sum; x rstd gamma | sum/C + eps, rsqrt
    {.kind = K::rmsnorm,
     .name = "rmsnorm",
     .math = {4, 2, 0, 1},
     .read = {.whole = 1, .columns = 1},
     .write = {.whole = 1},
     .pattern = Pattern::row_statistics,
     .gradient = gradient_with_residual(K::rmsnorm_backward),
     .residual = true,
     .statistic = true},
    // max; x - max, exp, sum; times 1/sum | reciprocal
    {.kind = K::softmax,
     .name = "softmax",
     .math = {4, 0, 1, 1},
     .read = {.whole = 1},
     .write = {.whole = 1},
     .pattern = Pattern::softmax_like,
     .gradient = gradient_by(K::softmax_backward),
     .statistic = true},
    // x * (1 / (1 + exp(-x)))
    {.kind = K::silu,
     .name = "silu",
     .math = {2, 0, 2, 0},
     .read = {.whole = 1},
     .write = {.whole = 1},
     .pattern = Pattern::stream,
     .gradient = gradient_by(K::silu_backward),
     .activation = true},
    // (x/2) * (1 + erf(x / sqrt 2))
    {.kind = K::gelu,
     .name = "gelu",
     .math = {4, 0, 1, 0},
     .read = {.whole = 1},
     .write = {.whole = 1},
     .pattern = Pattern::stream,
     .gradient = gradient_by(K::gelu_backward),
     .activation = true},
    {.kind = K::add,
     .name = "add",
     .math = {1, 0, 0, 0},
     .read = {.whole = 2},
     .write = {.whole = 1},
     .pattern = Pattern::stream,
     .gradient = gradient_as(Form::same)},
    {.kind = K::copy,
     .name = "copy",
     .math = {},
     .read = {.whole = 1},
     .write = {.whole = 1},
     .pattern = Pattern::stream,
     .gradient = gradient_as(Form::back)},
    {.kind = K::sum_rows,
     .name = "sum_rows",
     .math = {1, 0, 0, 0},
     .read = {.whole = 1},
     .write = {.rows = 1},
     .pattern = Pattern::row_statistics,
     .gradient = gradient_by(K::copy)},
    {.kind = K::argmax,
     .name = "argmax",
     .math = {1, 0, 0, 0},
     .read = {.whole = 1},
     .write = {.row_words = 1},
     .pattern = Pattern::row_statistics,
     .gradient = gradient_as(Form::none),
     .statistic = true},
    {.kind = K::transpose_copy,
     .name = "transpose_copy",
     .math = {},
     .read = {.whole = 1},
     .write = {.whole = 1},
     .pattern = Pattern::stream,
     .gradient = gradient_as(Form::same)},
    // silu(gate) * up
    {.kind = K::swiglu,
     .name = "swiglu",
     .math = {3, 0, 2, 0},
     .read = {.whole = 2},
     .write = {.whole = 1},
     .pattern = Pattern::stream,
     .gradient = gradient_by(K::swiglu_backward)},
    {.kind = K::relu,
     .name = "relu",
     .math = {1, 0, 0, 0},
     .read = {.whole = 1},
     .write = {.whole = 1},
     .pattern = Pattern::stream,
     .gradient = gradient_by(K::relu_backward),
     .ours = true,
     .activation = true},
    {.kind = K::scale,
     .name = "scale",
     .math = {1, 0, 0, 0},
     .read = {.whole = 1},
     .write = {.whole = 1},
     .pattern = Pattern::stream,
     .gradient = gradient_as(Form::same),
     .ours = true},
    // x + m[col]: one mask row for all rows
    {.kind = K::mask,
     .name = "mask",
     .math = {1, 0, 0, 0},
     .read = {.whole = 1, .columns = 1},
     .write = {.whole = 1},
     .pattern = Pattern::stream,
     .gradient = gradient_as(Form::none),
     .ours = true},
    // random < p (the generator is integer), times 1/(1-p); a byte an element is kept for backward
    {.kind = K::dropout,
     .name = "dropout",
     .math = {2, 0, 0, 0},
     .read = {.whole = 1},
     .write = {.whole = 1, .bytes = 1},
     .pattern = Pattern::stream,
     .gradient = gradient_by(K::dropout_backward),
     .ours = true},
    // max |x|; times 1/scale | scale = max/largest, reciprocal; a scale a row. Its gradient is that of the incoming
    // one.
    {.kind = K::quantize,
     .name = "quantize",
     .math = {2, 1, 0, 1},
     .read = {.whole = 1},
     .write = {.whole = 1, .row_words = 1},
     .pattern = Pattern::row_statistics,
     .gradient = gradient_as(Form::same),
     .ours = true},
    // w *= 1 - lr wd (1); m = b1 m + (1-b1) g (3); v = b2 v + (1-b2) g g (4); r = sqrt(v) c + eps (2);
    // w -= lr' m (1/r) (3). Loshchilov and Hutter, "Decoupled weight decay regularization", algorithm 2. Input: the
    // gradient; fp32 m, v and master weights; output: the copy that layers read, none where that is fp32 itself.
    {.kind = K::adamw,
     .name = "adamw",
     .math = {13, 0, 2, 0},
     .read = {.whole = 1, .floats = 3},
     .write = {.whole = 1, .floats = 3},
     .pattern = Pattern::stream,
     .gradient = gradient_as(Form::unstated),
     .ours = true},
    // times 1/(1-p); the choice is a selection
    {.kind = K::dropout_backward,
     .name = "dropout_backward",
     .math = {1, 0, 0, 0},
     .read = {.whole = 1, .bytes = 1},
     .write = {.whole = 1},
     .pattern = Pattern::stream,
     .gradient = gradient_as(Form::unstated),
     .ours = true},
    // dy p, sum; dy - sum, times p. Probabilities and their gradient are read.
    {.kind = K::softmax_backward,
     .name = "softmax_backward",
     .math = {4, 0, 0, 0},
     .read = {.whole = 2},
     .write = {.whole = 1},
     .pattern = Pattern::softmax_like,
     .gradient = gradient_as(Form::unstated),
     .ours = true,
     .statistic = true},
    // scale 1, mask 1, softmax 4, dropout 2 | max + log(sum), reciprocal. Mask row; log-sum-exp of each row
    {.kind = K::scale_mask_softmax_dropout,
     .name = "scale_mask_softmax_dropout",
     .math = {8, 1, 1, 2},
     .read = {.whole = 1, .columns = 1},
     .write = {.whole = 1, .row_words = 1},
     .pattern = Pattern::softmax_like,
     .gradient = gradient_by(K::scale_mask_softmax_dropout_backward),
     .ours = true,
     .statistic = true},
    // x a + m - lse, exp; dropout again 2; dp p, sum; dp - sum, times p, times a. Scores, dy, mask row, log-sum-exp
    {.kind = K::scale_mask_softmax_dropout_backward,
     .name = "scale_mask_softmax_dropout_backward",
     .math = {10, 0, 1, 0},
     .read = {.whole = 2, .columns = 1, .row_words = 1},
     .write = {.whole = 1},
     .pattern = Pattern::softmax_like,
     .gradient = gradient_as(Form::unstated),
     .ours = true,
     .statistic = true},
    // 1 / (1 + exp(-x))
    {.kind = K::sigmoid,
     .name = "sigmoid",
     .math = {1, 0, 2, 0},
     .read = {.whole = 1},
     .write = {.whole = 1},
     .pattern = Pattern::stream,
     .gradient = gradient_by(K::add),
     .ours = true,
     .activation = true},
    // max(x, 0)^2: So et al., "Primer", arXiv 2109.08668
    {.kind = K::squared_relu,
     .name = "squared_relu",
     .math = {2, 0, 0, 0},
     .read = {.whole = 1},
     .write = {.whole = 1},
     .pattern = Pattern::stream,
     .gradient = gradient_by(K::add),
     .ours = true,
     .activation = true},
    // g = dy gamma; x^2, sum; g x, sum; r g - f x | r = rsqrt(sum x^2 / C + eps), f = r r r sum(g x) / C. dy, x and
    // gamma are read. gamma's own gradient is left out, as that of biases is (a column sum, less than 1e-3 of a layer's
    // bytes).
    {.kind = K::rmsnorm_backward,
     .name = "rmsnorm_backward",
     .math = {8, 6, 0, 1},
     .read = {.whole = 2, .columns = 1},
     .write = {.whole = 1},
     .pattern = Pattern::row_statistics,
     .gradient = gradient_as(Form::unstated),
     .ours = true,
     .residual = true,
     .statistic = true},
    // d = x - mean, g = dy gamma; sums of x, d^2, g d, g; r g - f d - h | mean, r = rsqrt(sum d^2 / C + eps),
    // f = r r r sum(g d) / C, h = r sum(g) / C. Gradients of gamma and beta are left out, as rmsnorm's.
    {.kind = K::layernorm_backward,
     .name = "layernorm_backward",
     .math = {12, 9, 0, 1},
     .read = {.whole = 2, .columns = 1},
     .write = {.whole = 1},
     .pattern = Pattern::row_statistics,
     .gradient = gradient_as(Form::unstated),
     .ours = true,
     .residual = true,
     .statistic = true},
    // dy s (1 + x (1 - s)), s = 1 / (1 + exp(-x))
    {.kind = K::silu_backward,
     .name = "silu_backward",
     .math = {6, 0, 2, 0},
     .read = {.whole = 2},
     .write = {.whole = 1},
     .pattern = Pattern::stream,
     .gradient = gradient_as(Form::unstated),
     .ours = true},
    // dy (P + x p), P = (1 + erf(x / sqrt 2)) / 2, p = exp(-x^2 / 2) / sqrt(2 pi)
    {.kind = K::gelu_backward,
     .name = "gelu_backward",
     .math = {9, 0, 2, 0},
     .read = {.whole = 2},
     .write = {.whole = 1},
     .pattern = Pattern::stream,
     .gradient = gradient_as(Form::unstated),
     .ours = true},
    // dy where x > 0: a selection
    {.kind = K::relu_backward,
     .name = "relu_backward",
     .math = {},
     .read = {.whole = 2},
     .write = {.whole = 1},
     .pattern = Pattern::stream,
     .gradient = gradient_as(Form::unstated),
     .ours = true},
    // s = 1 / (1 + exp(-gate)), a = gate s; d_gate = dy up (s + a (1 - s)), d_up = dy a
    {.kind = K::swiglu_backward,
     .name = "swiglu_backward",
     .math = {8, 0, 2, 0},
     .read = {.whole = 3},
     .write = {.whole = 2},
     .pattern = Pattern::stream,
     .gradient = gradient_as(Form::unstated),
     .ours = true},
    // added to the fp32 sums that are there
    {.kind = K::sum_columns,
     .name = "sum_columns",
     .math = {1, 0, 0, 0},
     .read = {.whole = 1, .column_words = 1},
     .write = {.column_words = 1},
     .pattern = Pattern::row_statistics,
     .gradient = gradient_as(Form::unstated),
     .ours = true},
    // max; x - max, exp, sum | log, max + it, less the target's logit. Targets; loss and log-sum-exp
    {.kind = K::cross_entropy,
     .name = "cross_entropy",
     .math = {3, 2, 1, 1},
     .read = {.whole = 1, .row_words = 1},
     .write = {.row_words = 2},
     .pattern = Pattern::softmax_like,
     .gradient = gradient_by(K::cross_entropy_backward),
     .ours = true,
     .statistic = true},
    // x - lse, exp, times a; the target's less 1 before that. Targets and log-sum-exp
    {.kind = K::cross_entropy_backward,
     .name = "cross_entropy_backward",
     .math = {2, 1, 1, 0},
     .read = {.whole = 1, .row_words = 2},
     .write = {.whole = 1},
     .pattern = Pattern::stream,
     .gradient = gradient_as(Form::unstated),
     .ours = true},
    // the one, then the other on the logits while they are there: one reading of them at least. Its gradient is written.
    {.kind = K::cross_entropy_fused,
     .name = "cross_entropy_fused",
     .math = {5, 3, 2, 1},
     .read = {.whole = 1, .row_words = 1},
     .write = {.whole = 1, .row_words = 2},
     .pattern = Pattern::softmax_like,
     .gradient = gradient_as(Form::none),
     .ours = true,
     .statistic = true},
});

constexpr bool in_order() {
  for (std::size_t i = 0; i < kRows.size(); ++i) {
    if (kRows[i].kind != static_cast<RowwiseKind>(i)) return false;
  }
  return kRows.size() == kRowwiseKinds;
}
static_assert(in_order(), "each kind has its row, in the order of RowwiseKind");

}  // namespace rowwise_rows

inline constexpr const auto& kRowwiseRows = rowwise_rows::kRows;
constexpr const RowwiseRow& row_of(RowwiseKind kind) { return rowwise_rows::kRows[static_cast<std::size_t>(kind)]; }
constexpr std::string_view name(RowwiseKind kind) { return row_of(kind).name; }

constexpr bool is_norm_backward(RowwiseKind kind) {
  return kind == RowwiseKind::rmsnorm_backward || kind == RowwiseKind::layernorm_backward;
}

/// Quantize answers in fp8 unless told; the others in the type they read.
constexpr DType usual_output(RowwiseKind kind, DType input) {
  return kind == RowwiseKind::quantize ? DType::fp8 : input;
}

}  // namespace plumbline
