// Exact work of each operator. What counts, so that a count by hand or by machine agrees to the unit:
//
// * tensor: the multiplies and adds of matrix products; a multiply-add is 2.
// * fp32: every other add, subtract, multiply, maximum and comparison on floating-point values is 1, whatever their
//   type. Negation, absolute value, selection, conversion, address and integer arithmetic are 0. Constants that follow
//   from the shape (1/cols, 1/sqrt(D)) cost nothing to make. A value used twice is computed once.
// * sfu: one each for exp, reciprocal, rsqrt, sqrt, sin, cos, tanh, erf. Not FLOPs.
// * A reduction of n values is n operations (it starts from the identity), as a dot product of K is 2K.
// * read/write: each element of each tensor once, in its storage type; what the operator itself produced is not read
//   back. Indices, positions and routing ids are int32; scales that belong to a type are in `storage`.
//   Lengths and other scalars ride in the launch arguments and count 0.
// Bytes: reference notes on kernels, sections 3-6 (norm 2 N es, +residual 4 N es; SwiGLU 3 N es; scan 2 N es;
// SpMV nnz (val + 4) + 4 (rows + 1) + out + x; decode 2 B S Hkv D es).
#include "ops/op/work.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace plumbline {
namespace {

constexpr double kIndexBytes = 4;  // int32
constexpr double kFloatBytes = 4;  // fp32 scales, routing weights, optimizer state

double d(std::int64_t n) { return static_cast<double>(n); }
Flops flop(double n) { return n * units::FLOP; }
Bytes byte(double n) { return n * units::B; }

/// Attention over narrow inputs answers in bf16, as the quantized GEMMs do (`parse_precision`).
DType attention_output(DType type) { return bits(type) < 16 ? DType::bf16 : type; }

// --- matrix products -------------------------------------------------------------------------------------------------

/// 2MNK; a bias has one value a column, in the output's type, and costs one add an output.
Work count(const Gemm& s) {
  const double m = d(s.m), n = d(s.n), k = d(s.k), batch = d(s.batch);
  Work w;
  w.math = s.precision.math;
  w.tensor = flop(2 * m * n * k * batch);
  if (s.bias) w.fp32 = flop(m * n * batch);
  w.read = storage(s.precision.input, m * k * batch) + storage(s.precision.weight, n * k * batch);
  if (s.bias) w.read += storage(s.precision.output, n * batch);
  w.write = storage(s.precision.output, m * n * batch);
  return w;
}

/// Every token's row of x is read once however many experts see it; the weights of the experts that uniform routing is
/// expected to touch; one output row for each (token, expert). Skew moves rows between experts, not the totals. The
/// routing ids belong to the permutation.
Work count(const GroupedGemm& s) {
  const double n = d(s.n), k = d(s.k), tokens = d(s.tokens), routed = tokens * d(s.topk);
  Work w;
  w.math = s.precision.math;
  w.tensor = flop(2 * routed * n * k);
  w.read = storage(s.precision.input, tokens * k) +
           storage(s.precision.weight, experts_touched(d(s.experts), d(s.topk), tokens) * n * k);
  w.write = storage(s.precision.output, routed * n);
  return w;
}

/// Useful work is that of the kept half of W: MNK FLOPs (the dense product has 2MNK). W: K/2 values a row and a 2-bit
/// position for each.
Work count(const GemmSparse24& s) {
  const double m = d(s.m), n = d(s.n), k = d(s.k), kept = n * k / 2;
  Work w;
  w.math = s.precision.math;
  w.tensor = flop(2 * m * kept);
  w.read = storage(s.precision.input, m * k) + storage(s.precision.weight, kept) + byte(kept * 2 / 8);
  w.write = storage(s.precision.output, m * n);
  return w;
}

// --- attention -------------------------------------------------------------------------------------------------------

/// `pairs` visible (query, key) pairs and `rows` queries of all heads and sequences. A pair: 2 qk for the score, 2 v
/// for the value; scale, maximum, subtract, exp, sum. A query: one reciprocal, v multiplies by it.
Work attention_math(double pairs, double rows, double qk, double v, DType type) {
  Work w;
  w.math = type;
  w.tensor = flop(2 * pairs * (qk + v));
  w.fp32 = flop(4 * pairs + rows * v);
  w.sfu = pairs + rows;
  return w;
}

/// Rotation of `elements` values of `tokens` tokens: a pair (x, y) becomes (x c - y s, y c + x s), 6 a pair; the D/2
/// angles of a token (position x frequency) and their sines and cosines are computed once for all heads.
void add_rotation(Work& w, double elements, double tokens, double dim) {
  w.fp32 += flop(3 * elements + tokens * dim / 2);
  w.sfu += tokens * dim;
  w.read += byte(kFloatBytes * dim / 2);  // frequencies
}

/// append: Q and the new K, V come unrotated from the QKV projection in `dtype`; K (rotated) and V go to the cache in
/// `kv_dtype`; only the older keys are read from it. append = -1 counts as 0 here.
Work count(const AttentionPrefill& s) {
  const double batch = d(s.batch), q_heads = d(s.q_heads), kv_heads = d(s.kv_heads), qk = d(s.qk_dim), v = d(s.v_dim);
  const double queries = batch * q_heads * d(s.q_len);
  Work w = attention_math(batch * q_heads * visible_pairs(s), queries, qk, v, s.dtype);
  w.read = storage(s.dtype, queries * qk);
  w.write = storage(attention_output(s.dtype), queries * v);
  double cached = visible_keys(s);
  if (s.append == 1) {
    const double tokens = batch * d(s.q_len), fresh = tokens * kv_heads * (qk + v);
    cached = std::max(0.0, cached - d(s.q_len));
    w.read += storage(s.dtype, fresh);
    w.write += storage(s.kv_dtype, fresh);
    add_rotation(w, queries * qk + tokens * kv_heads * qk, tokens, qk);
  }
  w.read += storage(s.kv_dtype, batch * kv_heads * cached * (qk + v));
  return w;
}

/// One page-table entry for each page that holds a visible key.
Work count(const AttentionDecode& s) {
  const double batch = d(s.batch), qk = d(s.qk_dim), v = d(s.v_dim), rows = batch * d(s.q_heads);
  const std::int64_t seen = s.window > 0 ? std::min(s.window, s.context) : s.context;
  Work w = attention_math(rows * d(seen), rows, qk, v, s.dtype);
  w.read = storage(s.dtype, rows * qk) + storage(s.kv_dtype, batch * d(s.kv_heads) * d(seen) * (qk + v));
  if (s.page > 0) {
    const std::int64_t pages = (s.context - 1) / s.page - (s.context - seen) / s.page + 1;
    w.read += byte(kIndexBytes * batch * d(pages));
  }
  w.write = storage(attention_output(s.dtype), rows * v);
  return w;
}

Work count(const MlaDecode& s) {
  const double batch = d(s.batch), rows = batch * d(s.heads), context = d(s.context), latent = d(s.latent);
  const double width = latent + d(s.rope);
  Work w = attention_math(rows * context, rows, width, latent, s.dtype);
  w.read = storage(s.dtype, rows * width) + storage(s.kv_dtype, batch * context * width);
  w.write = storage(attention_output(s.dtype), rows * latent);
  return w;
}

// --- row-wise --------------------------------------------------------------------------------------------------------

/// Per element and per row: FLOPs and SFU evaluations.
struct RowwiseMath {
  double element = 0, row = 0, sfu_element = 0, sfu_row = 0;
};

RowwiseMath rowwise_math(RowwiseKind kind) {
  switch (kind) {
    // sum; d = x - mean, d^2, sum; d rstd gamma + beta | sum/C; sum d^2/C + eps, rsqrt
    case RowwiseKind::layernorm: return {7, 3, 0, 1};
    // x^2, sum; x rstd gamma | sum/C + eps, rsqrt
    case RowwiseKind::rmsnorm: return {4, 2, 0, 1};
    // max; x - max, exp, sum; times 1/sum | reciprocal
    case RowwiseKind::softmax: return {4, 0, 1, 1};
    // x * (1 / (1 + exp(-x)))
    case RowwiseKind::silu: return {2, 0, 2, 0};
    // (x/2) * (1 + erf(x / sqrt 2))
    case RowwiseKind::gelu: return {4, 0, 1, 0};
    case RowwiseKind::add: return {1, 0, 0, 0};
    case RowwiseKind::sum_rows: return {1, 0, 0, 0};
    case RowwiseKind::argmax: return {1, 0, 0, 0};
    // silu(gate) * up
    case RowwiseKind::swiglu: return {3, 0, 2, 0};
    case RowwiseKind::relu: return {1, 0, 0, 0};
    case RowwiseKind::scale: return {1, 0, 0, 0};
    // x + m[col]
    case RowwiseKind::mask: return {1, 0, 0, 0};
    // random < p (the generator is integer), times 1/(1-p)
    case RowwiseKind::dropout: return {2, 0, 0, 0};
    // max |x|; times 1/scale | scale = max/largest, reciprocal
    case RowwiseKind::quantize: return {2, 1, 0, 1};
    // w *= 1 - lr wd (1); m = b1 m + (1-b1) g (3); v = b2 v + (1-b2) g g (4); r = sqrt(v) c + eps (2);
    // w -= lr' m (1/r) (3). Loshchilov and Hutter, "Decoupled weight decay regularization", algorithm 2.
    case RowwiseKind::adamw: return {13, 0, 2, 0};
    // times 1/(1-p); the choice is a selection
    case RowwiseKind::dropout_backward: return {1, 0, 0, 0};
    // dy p, sum; dy - sum, times p
    case RowwiseKind::softmax_backward: return {4, 0, 0, 0};
    // scale 1, mask 1, softmax 4, dropout 2 | max + log(sum), reciprocal
    case RowwiseKind::scale_mask_softmax_dropout: return {8, 1, 1, 2};
    // x a + m - lse, exp; dropout again 2; dp p, sum; dp - sum, times p, times a
    case RowwiseKind::scale_mask_softmax_dropout_backward: return {10, 0, 1, 0};
    case RowwiseKind::copy:
    case RowwiseKind::transpose_copy:
    case RowwiseKind::count_: break;
  }
  return {};
}

/// Inputs beside x: norm parameters, the second operand; and the outputs that are not rows x cols of `output`.
void rowwise_bytes(const Rowwise& s, Work& w) {
  const double rows = d(s.rows), cols = d(s.cols), n = rows * cols;
  w.read = storage(s.input, n);
  w.write = storage(s.output, n);
  switch (s.kind) {
    case RowwiseKind::layernorm: w.read += storage(s.input, 2 * cols); break;  // gamma, beta
    case RowwiseKind::rmsnorm: w.read += storage(s.input, cols); break;        // gamma
    case RowwiseKind::mask: w.read += storage(s.input, cols); break;           // one mask row for all rows
    case RowwiseKind::add:
    case RowwiseKind::swiglu: w.read += storage(s.input, n); break;  // the second operand; the other half
    case RowwiseKind::sum_rows: w.write = storage(s.output, rows); break;
    case RowwiseKind::argmax: w.write = byte(kIndexBytes * rows); break;
    case RowwiseKind::dropout: w.write += byte(n); break;  // one byte an element, for backward
    case RowwiseKind::dropout_backward: w.read += byte(n); break;
    case RowwiseKind::softmax_backward: w.read += storage(s.input, n); break;  // probabilities and their gradient
    case RowwiseKind::scale_mask_softmax_dropout:                              // mask row; log-sum-exp of each row
      w.read += storage(s.input, cols);
      w.write += byte(kFloatBytes * rows);
      break;
    case RowwiseKind::scale_mask_softmax_dropout_backward:  // scores and dy, mask row, log-sum-exp
      w.read += storage(s.input, n + cols) + byte(kFloatBytes * rows);
      break;
    case RowwiseKind::quantize: w.write += byte(kFloatBytes * rows); break;  // a scale a row
    case RowwiseKind::adamw:  // input: gradient; fp32 m, v and master weights; output: the copy that layers read
      w.read += byte(3 * kFloatBytes * n);
      w.write = byte(3 * kFloatBytes * n) + (bits(s.output) < 32 ? storage(s.output, n) : Bytes());
      break;
    default: break;
  }
}

Work count(const Rowwise& s) {
  const double rows = d(s.rows), n = rows * d(s.cols);
  const RowwiseMath math = rowwise_math(s.kind);
  Work w;
  w.math = s.input;
  w.fp32 = flop(math.element * n + math.row * rows);
  w.sfu = math.sfu_element * n + math.sfu_row * rows;
  rowwise_bytes(s, w);
  if (s.residual) {
    w.fp32 += flop(n);
    w.read += storage(s.input, n);
    w.write += storage(s.input, n);
  }
  return w;
}

/// Positions are int32, one a token.
Work count(const Rope& s) {
  const double tokens = d(s.tokens), dim = d(s.head_dim), elements = tokens * d(s.heads) * dim;
  Work w;
  w.math = s.dtype;
  w.read = storage(s.dtype, elements) + byte(kIndexBytes * tokens);
  w.write = storage(s.dtype, elements);
  add_rotation(w, elements, tokens, dim);
  return w;
}

// --- primitives ------------------------------------------------------------------------------------------------------

/// One comparison an element, with the threshold that separates the k largest: what any selection must do at least.
/// The comparisons that find the threshold depend on the algorithm and the data.
Work count(const TopK& s) {
  const double rows = d(s.rows), n = rows * d(s.cols);
  Work w;
  w.math = s.dtype;
  w.fp32 = flop(n);
  w.read = storage(s.dtype, n);
  w.write = storage(s.dtype, rows * d(s.k)) + byte(kIndexBytes * rows * d(s.k));
  return w;
}

/// max; x - max, exp, sum; a comparison with the threshold, an element. A row: a reciprocal, and k products with it.
Work count(const SoftmaxTopK& s) {
  const double rows = d(s.rows), n = rows * d(s.cols), found = rows * d(s.k);
  Work w;
  w.math = s.dtype;
  w.fp32 = flop(4 * n + found);
  w.sfu = n + rows;
  w.read = storage(s.dtype, n);
  w.write = storage(s.dtype, found) + byte(kIndexBytes * found);
  return w;
}

/// Token ids are int32 and all different (a repeated row would be read once).
Work count(const Embedding& s) {
  const double rows = d(s.rows), n = rows * d(s.cols);
  Work w;
  w.math = s.dtype;
  w.read = storage(s.dtype, n) + byte(kIndexBytes * rows);
  w.write = storage(s.dtype, n);
  return w;
}

Work count(const Scan& s) {
  const double n = d(s.n);
  Work w;
  w.math = s.dtype;
  w.fp32 = flop(n);
  w.read = storage(s.dtype, n);
  w.write = storage(s.dtype, s.kind == ScanKind::sum_all ? 1 : n);
  return w;
}

/// x is read once: all of it, or one element a nonzero when there are fewer nonzeros than columns.
Work count(const Spmv& s) {
  const double rows = d(s.rows), nnz = d(s.nnz);
  Work w;
  w.math = s.dtype;
  w.fp32 = flop(2 * nnz);
  w.read = storage(s.dtype, nnz + std::min(d(s.cols), nnz)) + byte(kIndexBytes * (nnz + rows + 1));
  w.write = storage(s.dtype, rows);
  return w;
}

// --- recurrent mixers ------------------------------------------------------------------------------------------------

/// One step of one head, P = head_dim, N = state (per channel and state element for mamba1). Inputs after softplus and
/// normalisation. A and D are fp32. The state is read at the start and written at the end.
///   mamba1: a = exp(dt_p A_pn); h = a h + (dt_p x_p) b_n; y_p = sum h c_n + D_p x_p      (Gu, Dao 2023, alg. 2)
///   mamba2: the same with one dt, A and D a head                                         (Dao, Gu 2024, eq. 1)
///   gated_delta_net: S = e^g S; u = beta (v - S k); S += k u^T; y = S q                  (Yang et al. 2024, eq. 10)
/// For more than one token, mamba2 and the delta rule have a chunked form made of matrix products: their arithmetic on
/// the state counts as tensor work then, and as fp32 otherwise (decode, and mamba1, which has no such form).
Work count(const Recurrence& s) {
  const double steps = d(s.batch) * d(s.seq), heads = d(s.heads), p = d(s.head_dim), n = d(s.state);
  const double head_steps = steps * heads, shared = steps * d(s.groups) * n;  // shared: one of b, c (k, q)
  double state_flops = 5 * p * n, other = 3 * p + 1, sfu = 1, scalars = head_steps, params = 2 * heads;
  if (s.kind == RecurrentKind::mamba1) {
    other = 3 * p + p * n;
    sfu = p * n;
    scalars = head_steps * p;
    params = heads * p * (n + 1);
  } else if (s.kind == RecurrentKind::gated_delta_net) {
    state_flops = 7 * p * n;
    other = 2 * p;
    scalars = 2 * head_steps;  // g, beta
    params = 0;
  }
  const bool matrix_form = s.seq > 1 && s.kind != RecurrentKind::mamba1;
  const Bytes states = storage(s.state_dtype, d(s.batch) * heads * p * n);
  Work w;
  w.math = s.dtype;
  (matrix_form ? w.tensor : w.fp32) = flop(head_steps * state_flops);
  w.fp32 += flop(head_steps * other);
  w.sfu = head_steps * sfu;
  w.read = storage(s.dtype, head_steps * p + scalars + 2 * shared) + byte(kFloatBytes * params) + states;
  w.write = storage(s.dtype, head_steps * p) + states;
  return w;
}

/// Each sequence is preceded by its last width - 1 inputs (the cache), so each output takes `width` multiply-adds; the
/// new last width - 1 inputs are written back.
Work count(const CausalConv& s) {
  const double lanes = d(s.batch) * d(s.channels), seq = d(s.seq), width = d(s.width);
  Work w;
  w.math = s.dtype;
  w.fp32 = flop(2 * width * lanes * seq);
  w.read = storage(s.dtype, lanes * (seq + width - 1) + d(s.channels) * width);
  w.write = storage(s.dtype, lanes * (seq + width - 1));
  return w;
}

// --- movement --------------------------------------------------------------------------------------------------------

/// One int32 position a routed row; combine also reads an fp32 routing weight and multiply-adds with it.
Work count(const MoePermute& s) {
  const double tokens = d(s.tokens), routed = tokens * d(s.topk), cols = d(s.cols);
  Work w;
  w.math = s.dtype;
  const Bytes few = storage(s.dtype, tokens * cols), many = storage(s.dtype, routed * cols);
  w.read = (s.combine ? many + byte(kFloatBytes * routed) : few) + byte(kIndexBytes * routed);
  w.write = s.combine ? few : many;
  if (s.combine) w.fp32 = flop(2 * routed * cols);
  return w;
}

/// Wire lower bounds a rank: all-reduce 2N(n-1)/n; all-gather, reduce-scatter, all-to-all N(n-1)/n with N the larger
/// buffer (modelling notes, section 6). Reductions: (n-1)/n adds an element.
Work count(const Collective& s) {
  const double n = d(s.gpus), bytes = d(s.bytes), others = (n - 1) / n;
  const double adds = bytes * 8 / bits(s.dtype) * others;
  Work w;
  w.math = s.dtype;
  w.read = byte(s.kind == CollectiveKind::all_gather ? bytes / n : bytes);
  w.write = byte(s.kind == CollectiveKind::reduce_scatter ? bytes / n : bytes);
  w.link = byte((s.kind == CollectiveKind::all_reduce ? 2 : 1) * bytes * others);
  if (s.kind == CollectiveKind::all_reduce || s.kind == CollectiveKind::reduce_scatter) w.fp32 = flop(adds);
  return w;
}

/// Device memory only: h2d reads the host's. send_recv: a rank sends one buffer and receives one.
Work count(const Transfer& s) {
  const Bytes bytes = byte(d(s.bytes));
  Work w;
  if (s.kind != TransferKind::h2d) w.read = bytes;
  if (s.kind != TransferKind::d2h) w.write = bytes;
  if (s.kind != TransferKind::d2d) w.link = bytes;
  return w;
}

}  // namespace

Work work(const Op& op) {
  return std::visit([](const auto& shape) { return count(shape); }, op);
}

double visible_pairs(const AttentionPrefill& shape) {
  const double queries = d(shape.q_len), keys = d(shape.kv_len);
  const double window = shape.window > 0 ? std::min(d(shape.window), keys) : keys;
  if (!shape.causal) return queries * window;
  // Query i sees min(first + i, window) keys, first = Skv - S + 1: `growing` queries see fewer than the window.
  const double first = keys - queries + 1;
  const double growing = std::clamp(window - first, 0.0, queries);
  return growing * first + growing * (growing - 1) / 2 + (queries - growing) * window;
}

double visible_keys(const AttentionPrefill& shape) {
  const double keys = d(shape.kv_len);
  if (shape.window == 0) return keys;
  return std::min(keys, shape.causal ? d(shape.q_len) - 1 + d(shape.window) : d(shape.window));
}

double experts_touched(double experts, double topk, double tokens) {
  if (topk >= experts) return tokens > 0 ? experts : 0;
  return -experts * std::expm1(tokens * std::log1p(-topk / experts));
}

}  // namespace plumbline
